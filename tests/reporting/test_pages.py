"""Test that the page is complete, self-contained, and made from valid files only."""

import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.registry import Registry
from patebench.reporting.figures import FIGURES
from patebench.reporting.findings import NOTHING, findings, most_accurate
from patebench.reporting.pages import MEANINGS, PAPERS, SECTIONS, first_sentences, read_caption, render, section_of
from patebench.reporting.published import PRINTED
from patebench.reporting.tables import TABLES
from patebench.reporting.tables.table import read_csv
from patebench.reporting.wording import in_words
from patebench.stages import report
from patebench.stages.report import title_of

#: Verdicts on the numbers of all papers take seconds.
PUBLISHED = made.PRINTED.of("PATE 2017", "Scalable PATE 2018")
VOID = {"meta", "link", "br", "wbr", "hr"}


#: SVG used in place of every figure.
STAND_IN = '<svg width="800" height="500"><g><title>a point</title></g></svg>'


class _Page(HTMLParser):
    """Parser that collects the references of a page and checks that elements are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.sources, self.links, self.ids, self.alts = [], [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.sources += [found[name] for name in ("src", "srcset", "data", "action") if name in found]
        self.sources += [found["href"]] if tag == "link" else []
        self.links += [found["href"]] if tag == "a" else []
        self.ids += [found["id"]] if "id" in found else []
        self.alts += [found.get("aria-label", "")] if tag == "svg" else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def _write(folder, collected, baselines, figures=FIGURES, tables=TABLES, config=None):
    """Return the page of these records, with the same SVG for all figures."""
    records = made.load_records(collected, baselines)
    texts = {name: TABLES.load(name).csv(TABLES.load(name).build(records, PUBLISHED)) for name in tables}
    return render(
        title=title_of(config or {"name": ""}),
        tables={name: read_csv(text) for name, text in texts.items()},
        figures=dict.fromkeys(figures, STAND_IN),
        manifest=made.write_manifest(folder / "manifest.json", config),
        manifest_link="manifest.json",
        captions=made.CAPTIONS,
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    return _write(folder, *made.files(folder / "records"))


@pytest.mark.slow
def test_loads_nothing_from_anywhere(page):
    found = _Page(page)
    assert len(found.sources) == 1
    assert all(source.startswith("data:") for source in found.sources)
    assert not re.search(r"@import|url\(|<script|javascript:", page)
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)


@pytest.mark.slow
def test_links_lead_to_files_beside_it_or_parts_of_it(page):
    found = _Page(page)
    assert len(found.ids) == len(set(found.ids))
    files = {f"figures/{name}.{form}" for name in FIGURES for form in ("pdf", "png")}
    files |= {f"tables/{name}.{form}" for name in TABLES for form in ("csv", "md", "tex")} | {"manifest.json"}
    assert all(link[1:] in found.ids if link.startswith("#") else link in files for link in found.links)
    assert {"figures/gap.pdf", "tables/bounds.tex"} < set(found.links)


def test_every_figure_has_words_for_who_cannot_see_it(page):
    found = _Page(page)
    assert len(found.alts) == len(FIGURES.names())
    assert all(len(alt) > 60 for alt in found.alts)


def test_navigation_leads_to_every_section_twice_and_needs_no_script(page):
    """Count two navigations: one for wide screens, and a folded one for narrow screens."""
    found = _Page(page)
    wanted = ["found", "papers", "results", "audit", "accounting", "learning", "run"]
    assert [link[1:] for link in found.links if link[1:] in wanted][: 2 * len(wanted)] == wanted * 2


def test_what_was_measured_of_a_paper_is_open_and_the_other_numbers_are_folded(page):
    text = page
    measured, others = (text.split(f'id="pate-2017-verdicts{which}"')[1] for which in ("", "-others"))
    assert "<details" not in measured.partition("</section>")[0]
    assert "reproduced</span>" in measured.partition("</section>")[0]
    assert others.partition("</section>")[0].count("<details") == 1
    assert "patebench reproduce" in others.partition("</section>")[0]
    assert re.search(r'<a href="#pate-2017">PATE 2017</a> · ', text), "each paper is a click away"


def test_a_paper_has_its_verdicts_tables_and_figures_in_one_place(page):
    text = page
    place = text[text.index('id="pate-2017"') : text.index('id="scalable-pate-2018"')]
    assert "printed numbers: " in place
    assert 'id="pate-2017-verdicts"' in place
    assert 'id="figure-noisy-accuracy"' in place
    assert "Scalable PATE 2018" not in place


def test_explains_every_kind_of_epsilon(page):
    assert set(MEANINGS) == set(Kind)
    for kind in Kind:
        assert in_words(kind) in page
    assert "2γ-differentially private" in page
    assert {kind for kind, (answer, _) in MEANINGS.items() if answer == "yes"} == {Kind.WORST_CASE, Kind.SANITISED}


def test_shows_the_run_in_numbers(page):
    text = page
    assert "Ensembles of 10 and 250 teachers trained on MNIST voted on 9,000 public samples." in text
    best = (
        "96.68 % at a worst-case ε of 6.4 (δ = 1e-5), which protects the shard of one of 250 teachers."
        " Setting: GNMax, σ = 40, 1,000 labels, supervised student. A model without privacy reached 99.05 %."
    )
    assert f"On MNIST, the best student reached {best}" in text
    assert "96.10 ± 0.14" in text
    assert "98.00" in text


def _found(*datasets, **student):
    facts = {"dataset": datasets, "may_publish": "no", "delta": 1e-6, "accuracy_mean": 0.9, "queries": 100}
    facts |= {"method": "gan", "strategy": "prototypes", "teachers": 60000}
    facts |= {"baseline_accuracy_mean": float("nan"), "mechanism": "gnmax"}
    facts |= {"data_dependent_epsilon_mean": float("nan"), "data_dependent_accountant": "rdp"}
    return findings({"utility-privacy": pd.DataFrame(facts | student)})[0]


def test_findings_of_other_runs():
    """Use two data sets, no finite ε, and no ε."""
    found = _found("mnist", "svhn", worst_case_epsilon_mean=[0.5, 3.0], baseline_accuracy_mean=[0.99, 0.9])
    one, two = found.split(" On SVHN, ")
    assert one == (
        "On MNIST, the best student reached 90.00 % at a worst-case ε of 0.5 for fresh noise (δ = 1e-6), which protects"
        " the shard of one of 60,000 teachers. Setting: GNMax, 100 prototypes, GAN student."
        " A model without privacy reached 99.00 %."
    )
    assert two.startswith("the best student reached 90.00 % at a worst-case ε of 3.0 ")
    assert "but no finite ε holds for its labels." in _found("mnist", worst_case_epsilon_mean=[float("inf")])
    assert "but no ε is known for its labels." in _found("mnist", worst_case_epsilon_mean=[float("nan")])


@pytest.mark.parametrize("partition", ["owners", "hash-owners"])
def test_an_owner_is_protected_where_shards_are_by_owner(partition):
    found = _found("mnist", worst_case_epsilon_mean=3.0, partition=partition)
    assert "which protects all records of one owner. Setting" in found
    assert "shard" not in found
    other = _found("mnist", worst_case_epsilon_mean=3.0, partition="skew-0.8")
    assert "which protects the shard of one of 60,000 teachers" in other


def test_the_best_student_is_one_at_an_epsilon_that_says_something():
    student = {"accuracy_mean": [0.9, 0.8], "worst_case_epsilon_mean": [11.0, 9.0]}
    found = _found("mnist", "mnist", **student, data_dependent_epsilon_mean=[1.0, 20.0])
    assert "80.00 % at a worst-case ε of 9.0 " in found
    assert "The data-dependent ε of the same labels is 20.0 (weak) by the accountant of its paper" in found
    assert "An ε above 10 is called weak: it gives little or no privacy (Ponomareva" in found


@pytest.mark.parametrize(
    ("mechanism", "accountant", "who"),
    [
        ("gnmax", "rdp", "the accountant of its paper"),
        ("gnmax", "exact-per-teacher", "the tightest accountant"),
        ("exponential", "exact-per-teacher", "the tightest accountant"),
        ("of another package", "rdp", "the tightest accountant"),
    ],
)
def test_a_paper_states_what_its_own_accountant_says(mechanism, accountant, who):
    student = {"mechanism": mechanism, "data_dependent_accountant": accountant, "worst_case_epsilon_mean": [3.0]}
    found = _found("mnist", **student, data_dependent_epsilon_mean=[1.0])
    assert f"The data-dependent ε of the same labels is 1.0 by {who}; it leaks information" in found


_TESTED = "Audits tested 1 proven bound and contradicted none"
_BROKEN = "The code of LNMax does not match its specification, so 1 bound may not hold."


@pytest.mark.parametrize(
    ("verdicts", "finding"),
    [
        (["holds", "vacuous", "vacuous", None], f"{_TESTED}; 2 further bounds are too large to test."),
        (["holds"], f"{_TESTED}."),
        (["vacuous", None], NOTHING),
        (["holds", "disagrees"], f"{_TESTED}. {_BROKEN}"),
        (["disagrees"], _BROKEN),
    ],
)
def test_audits_count_only_bounds_that_they_could_contradict(verdicts, finding):
    mechanisms = ["lnmax" if verdict == "disagrees" else "gnmax" for verdict in verdicts]
    audit = pd.DataFrame({"mechanism": mechanisms, "claim": None, "verdict": pd.Series(verdicts, dtype=object)})
    assert findings({"audit": audit}) == [finding]


def test_the_best_student_has_a_finite_epsilon_if_there_is_one():
    rows = pd.DataFrame({"accuracy_mean": [0.7, 0.8, 0.9], "worst_case_epsilon_mean": [9.0, 11.0, float("inf")]})
    chosen = [most_accurate(rows[start:], "worst_case_epsilon_mean")["accuracy_mean"] for start in range(3)]
    assert chosen == [0.7, 0.8, 0.9]


def test_what_is_the_same_in_all_rows_is_said_once(page):
    text = page
    headline = text[text.index('id="table-utility-privacy"') :].partition("</section>")[0]
    assert "Recipe <b>modern</b>" in headline
    assert headline.count("modern") == 1


def test_words_of_the_user_are_escaped(tmp_path):
    record = made.ensemble_record({**made.ensemble(), "model": "<script>alert(1)</script>"})
    collected = [made.write_collected(tmp_path / "c.json", [record])]
    text = _write(tmp_path, collected, [], ["gap"], ["ensembles"], config={"name": "<b>&", "seeds": [0]})
    assert "<script>alert" not in text
    assert "<b>&<" not in text
    _Page(text)


def test_what_has_nothing_to_show_is_left_out(tmp_path):
    """Use a run without students, although its configuration has some."""
    records = [made.write_collected(tmp_path / "c.json", [])]
    page = _Page(made.write_report(tmp_path, records, figures=["frontier"], tables=["bounds"]))
    assert not {"figure-frontier", "table-bounds"} & set(page.ids)
    assert all((tmp_path / name).exists() for name in ("figures/frontier.png", "tables/bounds.csv"))


@pytest.mark.parametrize(("figures", "tables"), [((), ()), (("gap",), ()), ((), ("bounds",))])
def test_a_page_of_any_part(tmp_path, figures, tables):
    text = _write(tmp_path, [], [], figures, tables)
    assert NOTHING in text
    _Page(text)


@pytest.mark.slow
def test_the_stage_writes_everything_with_the_same_bytes(tmp_path):
    collected, baselines = made.files(tmp_path, teachers=(10,), seeds=(0,))
    written = []
    for order in (1, -1):
        made.write_report(tmp_path, collected[::order], baselines, ["gap"], ["ensembles"])
        names = ["report.html", "rows.json", "figures/gap.png", "figures/gap.pdf"]
        names += [f"tables/ensembles.{form}" for form in ("csv", "md", "tex")]
        written.append([(tmp_path / name).read_bytes() for name in names])
    assert written[0] == written[1]
    page = _Page(written[0][0].decode())
    assert {"figure-gap", "table-ensembles"} < set(page.ids)


@pytest.mark.parametrize(
    ("content", "fault"),
    [("{", "not valid JSON"), ('{"kind": "manifest"}', "lacks"), (None, "is missing")],
)
def test_refuses_a_damaged_manifest_in_one_line(tmp_path, content, fault):
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(ArtefactError) as caught:
        report.run(
            manifest=tmp_path / "manifest.json", published=made.PUBLISHED, captions=made.CAPTIONS, out=tmp_path / "a"
        )
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("shown", [{"figures": ["plot"]}, {"tables": ["plot"]}])
def test_refuses_an_unknown_figure_or_table(tmp_path, shown):
    with pytest.raises(PatebenchError, match="'plot'"):
        made.write_report(tmp_path, **shown)


def test_every_figure_and_table_has_a_caption():
    for folder, names in (("figures", FIGURES), ("tables", TABLES)):
        assert {path.stem for path in (made.CAPTIONS / folder).glob("*.rst")} == set(names)
        for name in names:
            caption = read_caption(made.CAPTIONS / folder / f"{name}.rst")
            assert caption.startswith("<p><strong>")
            assert "*" not in caption


def test_the_headline_figure_stands_first_then_five_findings_then_the_papers(page):
    places = [page.index(f'id="{name}"') for name in ("figure-equal-epsilon", "found", "papers", "results")]
    assert places == sorted(places)
    assert page.count('id="figure-equal-epsilon"') == 1
    found = page[page.index('<ul class="found">') :].partition("</ul>")[0]
    assert 1 <= found.count("<li>") <= 5


def test_captions_are_valid_for_snakemake_too():
    docutils = pytest.importorskip("docutils.core")
    for path in made.CAPTIONS.rglob("*.rst"):
        docutils.publish_parts(path.read_text(encoding="utf-8"), writer="html", settings_overrides={"halt_level": 2})


def test_caption_marks(tmp_path):
    path = tmp_path / "caption.rst"
    path.write_text("**What is it?** An *x* < ``y``,\nwrapped.\n\nMore.\n", encoding="utf-8")
    caption = read_caption(path)
    assert caption == "<p><strong>What is it?</strong> An <em>x</em> &lt; <code>y</code>, wrapped.</p>\n<p>More.</p>"
    assert first_sentences(caption) == "What is it? An x < y, wrapped."
    with pytest.raises(ArtefactError, match="cannot be read"):
        read_caption(tmp_path / "none.rst")


def test_a_table_of_thousands_of_rows_is_linked_not_shown(tmp_path, monkeypatch):
    monkeypatch.setattr("patebench.reporting.pages.MOST_ROWS", 1)
    page = _write(tmp_path, *made.files(tmp_path / "records"), figures=[], tables=["bounds"])
    assert "rows: too many for this page" in page
    assert "tables/bounds.csv" in page


@pytest.mark.parametrize("registry", [FIGURES, TABLES], ids=lambda each: each.kind)
def test_each_has_a_place_that_there_is(registry: Registry) -> None:
    places = {name: registry.fact(name, "section", "further") for name in registry}
    assert set(places.values()) <= {*SECTIONS, *PAPERS}
    assert {name: section_of(registry, name) for name in registry} == places
    other = Registry("figure")
    other.add("lost", "nowhere:draw", section="the attic")
    assert section_of(other, "lost") == "further" == list(SECTIONS)[-1]


def test_the_printed_data_sets_are_those_of_the_file() -> None:
    assert {value.dataset for value in made.PRINTED.values} - {None, "unnamed"} == set(PRINTED)

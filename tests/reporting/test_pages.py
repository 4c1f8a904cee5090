"""Test that the page is complete, self-contained, and made from valid files only."""

import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.core.files import write_json
from patebench.core.registry import Registry
from patebench.reporting.figures import FIGURES
from patebench.reporting.findings import NOTHING, findings
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
def test_page_is_self_contained_and_its_links_exist(page):
    found = _Page(page)
    assert len(found.sources) == 1
    assert all(source.startswith("data:") for source in found.sources)
    assert not re.search(r"@import|url\(|<script|javascript:", page)
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert len(found.ids) == len(set(found.ids))
    files = {f"figures/{name}.{form}" for name in FIGURES for form in ("pdf", "png")}
    files |= {f"tables/{name}.{form}" for name in TABLES for form in ("csv", "md", "tex")} | {"manifest.json"}
    assert all(link[1:] in found.ids if link.startswith("#") else link in files for link in found.links)
    assert {"figures/gap.pdf", "tables/bounds.tex"} < set(found.links)
    assert len(found.alts) == len(FIGURES.names())
    assert all(len(alt) > 60 for alt in found.alts), "each figure has a text alternative"


def test_sections_and_navigation_are_in_order(page):
    wanted = ["found", "papers", "results", "audit", "accounting", "learning", "run"]
    assert [link[1:] for link in _Page(page).links if link[1:] in wanted][: 2 * len(wanted)] == wanted * 2
    places = [page.index(f'id="{name}"') for name in ("figure-equal-epsilon", *wanted[:3])]
    assert places == sorted(places), "the headline figure is first"
    assert page.count('id="figure-equal-epsilon"') == 1
    found = page[page.index('<ul class="found">') :].partition("</ul>")[0]
    assert 1 <= found.count("<li>") <= 5


def test_a_paper_has_one_section_with_verdicts_tables_and_figures(page):
    place = page[page.index('id="pate-2017"') : page.index('id="scalable-pate-2018"')]
    assert "printed numbers: " in place
    assert 'id="figure-noisy-accuracy"' in place
    assert "Scalable PATE 2018" not in place
    measured, others = (
        place.split(f'id="pate-2017-verdicts{which}"')[1].partition("</section>")[0] for which in ("", "-others")
    )
    assert "<details" not in measured
    assert "reproduced</span>" in measured
    assert others.count("<details") == 1
    assert "patebench reproduce" in others
    assert re.search(r'<a href="#pate-2017">PATE 2017</a> · ', page), "the page links to each paper"


def test_explains_every_kind_of_epsilon(page):
    assert set(MEANINGS) == set(Kind)
    assert [kind for kind in Kind if in_words(kind) not in page] == []
    assert "2γ-differentially private" in page
    assert {kind for kind, (answer, _) in MEANINGS.items() if answer == "yes"} == {Kind.WORST_CASE, Kind.SANITISED}


def test_shows_the_run_in_numbers(page):
    assert "Ensembles of 10 and 250 teachers trained on MNIST voted on 9,000 public samples." in page
    assert "On MNIST, the best student reached 96.68 % at a worst-case ε of 6.4 (δ = 1e-5), which protects" in page
    assert "96.10 ± 0.14" in page
    headline = page[page.index('id="table-utility-privacy"') :].partition("</section>")[0]
    assert "Recipe <b>modern</b>" in headline
    assert headline.count("modern") == 1, "a value that is equal in all rows is shown once"


def _found(*datasets, **student):
    facts = {"dataset": datasets, "may_publish": "no", "delta": 1e-6, "accuracy_mean": 0.9, "queries": 100}
    facts |= {"method": "gan", "strategy": "prototypes", "teachers": 60000}
    facts |= {"baseline_accuracy_mean": float("nan"), "mechanism": "gnmax"}
    facts |= {"data_dependent_epsilon_mean": float("nan"), "data_dependent_accountant": "rdp"}
    return findings({"utility-privacy": pd.DataFrame(facts | student)})[0]


@pytest.mark.slow
def test_the_page_states_that_private_labels_selected_the_records(tmp_path, page):
    words = "teachers after a selection by private labels."
    datasets = {"mnist": {"loader": "mnist", "long_tail": [50, 5]}, "svhn": {"loader": "svhn", "long_tail": None}}
    tailed = _write(tmp_path, *made.files(tmp_path), config={"name": "", "datasets": datasets})
    assert (words in tailed, words in page) == (True, False)


@pytest.mark.parametrize("selected", [{"mnist-tail"}, {"mnist"}])
def test_a_finding_on_a_private_model_states_the_selection_of_its_records(selected):
    row = {"dataset": ["mnist-tail"], "accuracy_mean": 0.9, "accuracy_std": 0.1, "seeds": 3, "epsilon_mean": 1.0}
    row |= {"kind": Kind.WORST_CASE, "system": "DP-SGD", "form": "linear", "adjacency": "add_or_remove_record"}
    (line,) = findings({"private-models": pd.DataFrame(row)}, selected)
    assert line.endswith(" after a selection by private labels.") is ("mnist-tail" in selected)


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
    for partition, who in (("owners", "all records of one owner. Setting"), ("skew-0.8", "the shard of one of 60,000")):
        assert f"which protects {who}" in _found("mnist", worst_case_epsilon_mean=3.0, partition=partition)
    own = _found("mnist", worst_case_epsilon_mean=3.0, model="nearest-query", partition="iid")
    assert "which protects one replaced record. Setting" in own


@pytest.mark.parametrize(
    ("accuracies", "epsilons", "best"),
    [([0.9, 0.8], [11.0, 9.0], (80, 9)), ([0.7, 0.8], [math.inf, 11.0], (80, 11)), ([0.7, 0.8], [9, 8], (80, 8))],
)
def test_the_best_student_has_an_epsilon_that_is_not_weak_if_possible(accuracies, epsilons, best):
    student = {"accuracy_mean": accuracies, "worst_case_epsilon_mean": epsilons}
    found = _found("mnist", "mnist", **student, data_dependent_epsilon_mean=[1.0, 20.0])
    assert f"{best[0]}.00 % at a worst-case ε of {best[1]}.0 " in found
    assert "The data-dependent ε of the same labels is 20.0 (weak) by the accountant of its paper" in found
    assert "An ε above 10 is called weak: it gives little or no privacy (Ponomareva" in found


def test_findings_name_the_accountant_of_the_data_dependent_epsilon():
    tightest = (("gnmax", "exact-per-teacher"), ("exponential", "exact-per-teacher"), ("of another package", "rdp"))
    own = {("gnmax", "rdp"): "the accountant of its paper"}
    for (mechanism, accountant), who in (own | dict.fromkeys(tightest, "the tightest accountant")).items():
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
def test_findings_count_audited_bounds(verdicts, finding):
    mechanisms = ["lnmax" if verdict == "disagrees" else "gnmax" for verdict in verdicts]
    audit = pd.DataFrame({"mechanism": mechanisms, "claim": None, "verdict": pd.Series(verdicts, dtype=object)})
    assert findings({"audit": audit}) == [finding]


def test_user_text_is_escaped_and_long_tables_are_linked(tmp_path, monkeypatch):
    record = made.ensemble_record({**made.ensemble(), "model": "<script>alert(1)</script>"})
    collected = made.collected(tmp_path, record)
    text = _write(tmp_path, collected, [], ["gap"], ["ensembles"], config={"name": "<b>&", "seeds": [0]})
    assert "<script>alert" not in text
    assert "<b>&<" not in text
    _Page(text)
    monkeypatch.setattr("patebench.reporting.pages.MOST_ROWS", 0)
    text = _write(tmp_path, collected, [], [], ["ensembles"])
    assert "rows: too many for this page" in text or "row: too many for this page" in text
    assert "tables/ensembles.csv" in text


def test_empty_figures_and_tables_are_left_out(tmp_path):
    """Use a run without students, although its configuration has some."""
    earlier = [tmp_path / "tables" / name for name in ("audit.csv", "audit.tex", "mine.csv")]
    earlier[0].parent.mkdir()
    for path in earlier:
        path.touch()
    page = made.write_report(tmp_path, made.collected(tmp_path), figures=["frontier"], tables=["bounds"])
    assert not {"figure-frontier", "table-bounds"} & set(_Page(page).ids)
    assert NOTHING in page
    assert all((tmp_path / name).exists() for name in ("figures/frontier.png", "tables/bounds.csv"))
    assert all(path.exists() for path in earlier), "no earlier report wrote these files"
    made.write_report(tmp_path, made.collected(tmp_path), figures=["frontier"], tables=["bounds"])
    assert [path.name for path in earlier if path.exists()] == ["mine.csv"]


def test_a_report_does_not_overwrite_its_own_inputs(tmp_path: Path) -> None:
    made.write_report(tmp_path, made.collected(tmp_path), figures=[], tables=["bounds"])
    inside = tmp_path / "tables" / "published.csv"
    inside.write_bytes(made.PUBLISHED.read_bytes())
    with pytest.raises(PatebenchError, match="would be overwritten or deleted by the report"):
        report.run(
            manifest=tmp_path / "manifest.json",
            published=inside,
            captions=made.CAPTIONS,
            out=tmp_path / "report.html",
        )
    assert inside.exists()


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


def test_refuses_a_damaged_manifest_in_one_line(tmp_path):
    write_json(tmp_path / "manifest.json", "manifest", {})
    with pytest.raises(ArtefactError, match="lacks") as caught:
        report.run(
            manifest=tmp_path / "manifest.json", published=made.PUBLISHED, captions=made.CAPTIONS, out=tmp_path / "a"
        )
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "a").exists()


def test_every_figure_and_table_has_a_caption_that_is_valid_for_snakemake_too():
    docutils = pytest.importorskip("docutils.core")
    for folder, names in (("figures", FIGURES), ("tables", TABLES)):
        paths = list((made.CAPTIONS / folder).glob("*.rst"))
        assert {path.stem for path in paths} == set(names)
        for path in paths:
            caption = read_caption(path)
            assert caption.startswith("<p><strong>")
            assert "*" not in caption
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


@pytest.mark.parametrize("registry", [FIGURES, TABLES], ids=lambda each: each.kind)
def test_each_figure_and_table_has_a_section(registry: Registry) -> None:
    places = {name: registry.fact(name, "section", "further") for name in registry}
    assert set(places.values()) <= {*SECTIONS, *PAPERS}
    assert {name: section_of(registry, name) for name in registry} == places
    other = Registry("figure")
    other.add("lost", "nowhere:draw", section="the attic")
    assert section_of(other, "lost") == "further" == list(SECTIONS)[-1]


def test_the_printed_data_sets_are_those_of_the_file() -> None:
    assert {value.dataset for value in made.PRINTED.values} - {None, "unnamed"} == set(PRINTED)

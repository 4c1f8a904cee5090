"""Test rows of papers: each row and its experiments are found, or a reason is given."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.stages.commands import invoke

from patebench.config import Run, load, validate
from patebench.core.errors import PatebenchError
from patebench.reporting.published import ALL_SYSTEMS, DP_SGD, Published, Value, read_published
from patebench.reporting.verdicts import at_epsilon
from patebench.stages import reproduce

ROOT = Path(__file__).parents[2]
PUBLISHED = read_published(ROOT / "config" / "published.csv")
ROW = "PATE 2017, Figure 4, MNIST 100 queries"


def _asked(*words: str) -> str:
    done = invoke("reproduce", *words, "--home", ROOT, catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_rows_are_listed_and_words_of_a_name_in_order_are_enough():
    listed = _asked().splitlines()
    assert any(line.startswith(ROW) and "Student Accuracy" in line for line in listed)
    for part, row in (
        ("nzc mnist 5 teachers", "NZC 2020, Table 1, MNIST NZC (5 teachers only)"),
        (ROW.lower(), ROW),
        ("Table 10, Fashion", "DP reproducibility 2024, Table 10, Fashion MNIST"),
    ):
        assert f"row: {row}" in _asked(part, "--dry")


README = "Private-kNN 2020, first table of the authors' ReadMe.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "file", "experiment"),
    [
        (ROW, "pate-2017", "figure-4"),
        ("DP reproducibility 2024, Table 2, DP-SGD at ε = 1", "equal-epsilon", "records"),
        # A quoted row is run by the configuration that measures most of its values.
        (f"{README}, MNIST LNMAX 1000 queries", "pate-2017", ""),
        (f"{README}, MNIST GNMAX 286 queries", "scalable-pate", ""),
    ],
)
def test_the_experiment_that_measures_a_row(row, file, experiment):
    said = _asked(row, "--dry", "--seeds", "0,1")
    assert f"config/papers/{file}" in said
    assert f"only=[{experiment}" in said
    assert "seeds=[0,1]" in said


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("PATE 2017, Figure 4, MNIST 10 queries", "did you mean"),
        ("PATE 2017, Figure 4", "matches 4 rows: 'PATE 2017, Figure 4, MNIST 100 queries', "),
        ("", "no table of a paper has the row"),
        ("Scalable PATE 2018, Figure 1 (left), Glyph LNMax", "the paper does not say for which queries"),
    ],
)
def test_what_cannot_be_run_says_why(row, fault):
    with pytest.raises(PatebenchError) as caught:
        _run(row, home=ROOT)
    assert fault in str(caught.value)


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    """Return each configuration with all of its experiments."""
    files = (ROOT / "config" / "papers").glob("*.yaml")
    return {path.stem: validate({**load(path), "only": ()}, files=False) for path in files}


@pytest.mark.slow
def test_every_number_is_measured_by_its_experiments_or_says_why_not(runs):
    """Check that no verdict is empty, and that the command of "not run" finds experiments."""
    measurable = [each for each in PUBLISHED.values if not each.not_comparable and not each.not_run]
    assert len(measurable) > 500
    assert [(each.name, each.column) for each in measurable if not _measures(runs, each, PUBLISHED)] == []


def _measures(runs: dict[str, Run], value: Value, published: Published) -> bool:
    """Return True if one experiment matches data set, teachers, and labels or model of the value."""
    run = runs[value.configuration]
    named = [each for each in run.experiments if each.name in value.experiments]
    assert len(named) == len(value.experiments), value.name
    of_data = [each for found in named for each in found.ensembles if each.split.data.name == value.dataset]
    ensembles = {each for each in of_data if value.teachers in (None, each.teachers)}
    if value.mechanism == DP_SGD:
        found = (run.options[path] for path in run.records["models"] if path.endswith("/dpsgd.json"))
        kept = [each for each in found if each["delta"] <= value.delta and each["stream"].startswith(value.dataset)]
        return any(at_epsilon(each["epsilon"], published.spent(value)) for each in kept)
    by_labels = value.quantity not in (
        *("teacher_accuracy", "baseline_accuracy", "ground_truth_student_accuracy", "accuracy_at_epsilon"),
    )
    if value.mechanism in ALL_SYSTEMS or not by_labels:
        return bool(ensembles)
    meant = {
        labels.name
        for each in named
        for labels in each.label_sets
        if labels.ensemble in ensembles
        and value.mechanism in (None, labels.setting.mechanism)
        and value.noise in (None, labels.setting.slug)
    }
    return any(value.queries in (None, *run.options[f"{name}/bounds.json"].get("queries", ())) for name in meant)


def test_a_row_is_measured_by_one_configuration():
    for name in {value.name for value in PUBLISHED.values}:
        assert len({value.configuration for value in PUBLISHED.values if value.name == name}) == 1, name


def test_a_paper_of_one_s_own_is_run_by_the_configuration_that_it_names(tmp_path, capsys):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "papers").symlink_to(ROOT / "config" / "papers")
    line = "My paper,1,Table 1,MNIST,Student,%,98.0,mnist,250,lnmax,gamma=0.05,100,1e-05,student_accuracy"
    line += ",pate-2017,figure-4,\n"
    published = (ROOT / "config" / "published.csv").read_text(encoding="utf-8")
    (tmp_path / "config" / "published.csv").write_text(published + line, encoding="utf-8")
    with pytest.raises(PatebenchError, match="run the command in your copy of the repository"):
        _run("My paper", home=tmp_path / "config")
    _run("My paper", home=tmp_path)
    said = capsys.readouterr().out
    assert "config/papers/pate-2017.yaml" in said
    assert "only=[figure-4]" in said


def _run(row, **more):
    reproduce.run(row=row, **{"seeds": "", "cores": "1", "dry": True} | more)


def test_verdicts_on_the_row_are_shown_after_the_run(monkeypatch, tmp_path, capsys):
    (tmp_path / "config").symlink_to(ROOT / "config")
    table = tmp_path / "results" / "pate-2017" / "tables" / "verdicts.csv"
    lines = ["paper,table,row,what,printed,measured,seeds,how,verdict,why"]
    lines += ["PATE 2017,Figure 4,MNIST 100 queries,epsilon,2.04,1.48,1,small-cnn,better,"]
    lines += ["PATE 2017,Figure 4,MNIST 1000 queries,epsilon,8.03,2.6,1,small-cnn,better,"]

    def finished(command, **more):
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(reproduce.subprocess, "run", finished)
    _run(ROW, home=tmp_path, dry=False)
    said = capsys.readouterr().out
    assert "1.48" in said
    assert "8.03" not in said
    with pytest.raises(PatebenchError, match=r"measured no value of 'PATE 2017, Section 3\.1"):
        _run("PATE 2017, Section 3.1, 1,000 labels", home=tmp_path, dry=False)
    monkeypatch.setattr(reproduce.subprocess, "run", lambda command, **more: SimpleNamespace(returncode=1))
    with pytest.raises(PatebenchError, match="Snakemake failed"):
        _run(ROW, home=tmp_path, dry=False)

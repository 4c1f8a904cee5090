"""What a page showed before a run of a part."""

import pytest

from patebench.config.artefacts import Experiment
from patebench.core.files import write_json
from patebench.stages.manifest import shown_no_more

EXPERIMENTS = {"one": {}, "two": {}}


@pytest.mark.parametrize(
    ("only", "wanted", "dropped"),
    [
        ([], ["one"], "two"),
        ("two", ["one"], "two"),
        (["one"], ["one"], None),
        (["one"], ["one", "two"], None),
        ([], ["three"], "one, two"),
    ],
)
def test_what_a_page_will_not_show_any_more(tmp_path, only, wanted, dropped):
    write_json(tmp_path / "manifest.json", "manifest", {"config": {"only": only, "experiments": EXPERIMENTS}})
    said = shown_no_more(tmp_path, [Experiment(name) for name in wanted])
    assert (said is None) == (dropped is None)
    assert dropped is None or f"shows {dropped} as well" in said


def test_of_a_preset_a_page_shows_its_experiments_alone(tmp_path):
    config = {"only": ["two"], "experiments": EXPERIMENTS, "presets": {"quick": {"only": "one"}}, "preset": "quick"}
    write_json(tmp_path / "manifest.json", "manifest", {"config": config})
    assert shown_no_more(tmp_path, [Experiment("one")]) is None
    assert "shows one as well" in shown_no_more(tmp_path, [Experiment("two")])


def test_without_a_page_nothing_is_said(tmp_path):
    assert shown_no_more(tmp_path, []) is None
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    assert shown_no_more(tmp_path, []) is None

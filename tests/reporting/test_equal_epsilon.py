"""Test tables and figures of accuracy at equal ε against values worked out by hand, and the figure of the README."""

import csv
import math
import re
from pathlib import Path

import pytest
from tests.reporting import made

from patebench.core.bound import Kind
from patebench.reporting.figures.headline import draw_headline, read_tables
from patebench.reporting.figures.utility_figures import draw_table
from patebench.reporting.style import themed
from patebench.reporting.tables import TABLES
from patebench.reporting.tables.utility_tables import join_tables

#: Tables from which the figure of the README is drawn.
KEPT = sorted((Path(__file__).parents[2] / "results" / "reference").glob("equal-epsilon*/tables/equal-epsilon.csv"))


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("records")
    collected, baselines = made.files(tmp_path, teachers=(250,))
    two = [made.private_model(1.5, accuracy, seed=n) for n, accuracy in ((0, 0.9), (1, 0.94))]
    models = made.models(tmp_path, made.private_model(8.0, 0.99), *two)
    return made.table("equal-epsilon", collected, baselines, models=models)


def test_each_target_has_the_setting_with_the_largest_epsilon(frame):
    found = made.one(frame, way="gnmax")  # 2.0 for 100 queries, 6.32 for 1000
    assert math.isnan(found["epsilon_at_1"])
    assert found["epsilon_at_2"] == found["epsilon_at_4"] == pytest.approx(2.0)
    assert found["epsilon_at_8"] == pytest.approx(0.2 * 1000**0.5)
    assert found["accuracy_at_2_mean"] < found["accuracy_at_8_mean"]
    assert found["seeds_at_2"] == 2
    found = made.one(frame, way="lnmax")  # 4.0 and 12.6
    assert (math.isnan(found["epsilon_at_2"]), found["epsilon_at_8"]) == (True, pytest.approx(4.0))
    assert (found["system"], found["learner"], found["adjacency"]) == ("PATE", "supervised", "replace_teacher")
    headings, *_ = TABLES.load("equal-epsilon").rows(frame)
    assert "At ε ≤ 2: accuracy %" in headings
    assert "At ε ≤ 0.1: accuracy %" not in headings, "no setting meets this target"


def test_private_models_and_published_models_are_rows(frame):
    found = made.one(frame, way="scratch")
    assert (found["accuracy_at_2_mean"], found["accuracy_at_8_mean"]) == (pytest.approx(0.92), 0.99)
    assert (found["adjacency"], found["kind"]) == ("add_or_remove_record", "worst_case")
    printed = made.one(frame, learner="DP reproducibility 2024")
    assert [printed[f"accuracy_at_{target}_mean"] for target in ("1", "4", "8")] == [0.968, 0.9827, 0.9851]
    assert printed["kind"] == "claimed"


def test_rows_state_on_which_other_data_their_encoder_was_trained(tmp_path):
    split = {"pool": 9000, "test": None, "encoder": "imagenet"}
    models = [
        {**made.private_model(2.0, form=form), "public_use": use, "split": split}
        for form, use in (("linear", "features"), ("scratch", "scale of samples"))
    ]
    frame = made.table("equal-epsilon", models=made.models(tmp_path, *models))
    measured = frame[frame["kind"] == "worst_case"].to_dict("records")
    found = {row["way"]: row["encoder_data"] for row in measured}
    assert found == {"linear": "ImageNet (1.3 million labelled photographs)", "scratch": "none"}


def test_a_model_with_an_epsilon_for_both_changes_has_a_row_for_each(tmp_path):
    model = made.private_model(2.0, form="mean")
    model["bounds"] = [{**model["bounds"][0], "adjacency": "replace_record", "add_or_remove": 0.9}]
    frame = made.table("equal-epsilon", models=made.models(tmp_path, model))
    found = {each["adjacency"]: each for each in frame[frame["way"] == "mean"].to_dict("records")}
    assert found.keys() == {"replace_record", "add_or_remove_record"}
    assert (found["add_or_remove_record"]["epsilon_at_1"], found["replace_record"]["epsilon_at_2"]) == (0.9, 2.0)
    assert math.isnan(found["replace_record"]["epsilon_at_1"])


def test_conflicting_published_numbers_have_separate_rows(tmp_path):
    """Use two tables of one study that differ on De et al. at the same ε; a number printed twice is one row."""
    frame = of_models(tmp_path, (8.0, 0.95, {"dataset": "cifar10"}))
    known = {"Table 8, De et al.": 0.7779, "Table 11, De et al.": 0.7874, "Order 0": 0.7168}
    for words, accuracy in known.items():
        assert made.one(frame, learner=f"DP reproducibility 2024, {words}")["accuracy_at_8_mean"] == accuracy


def test_models_with_different_settings_are_different_methods(tmp_path):
    """Use models with ε that differ by 1e-13, where one could hide the other."""
    made_up = [made.private_model(2.0)]  # it has no samples
    made_up.append(made.private_model(2.0, 0.5, form="noisy-knowledge") | {"private_model": "all-samples"})
    for samples, epsilon, accuracy in ((100, 1.0, 0.7), (1000, 1.0 - 1e-13, 0.6), (1000, 7.9, 0.98)):
        model = made.private_model(epsilon, accuracy, form="noisy-knowledge")
        model["parameters"] |= {"samples": samples, "noise": 5 / epsilon, "epsilon": epsilon, "compression": None}
        made_up.append({**model, "private_model": f"samples-{samples}_epsilon-{epsilon:.3f}"})
    frame = made.table("equal-epsilon", models=made.models(tmp_path, *made_up))
    few, many = (made.one(frame, learner=f"tanh-cnn, samples: {samples}") for samples in (100, 1000))
    assert [few[f"accuracy_at_{target}_mean"] for target in (1, 8)] == [0.7, 0.7]
    assert [many[f"accuracy_at_{target}_mean"] for target in (1, 8)] == [0.6, 0.98]
    assert made.one(frame, way="noisy-knowledge", learner="tanh-cnn")["accuracy_at_2_mean"] == 0.5


@pytest.mark.parametrize(
    ("students", "found"),
    [
        (
            [("small-cnn", 100, 0.98), ("logistic", 100, 0.60)],
            {"model: logistic": 0.60, "model: small-cnn, recipe: modern, epochs: 50": 0.98},
        ),
        ([("small-cnn", 20, 0.97), ("small-cnn", 100, 0.98)], {"T = 20": 0.97, "T = 100": 0.98}),
    ],
)
def test_students_with_different_settings_are_different_methods(tmp_path, students, found):
    records = []
    for model, queries, accuracy in students:
        facts = made.label_set(made.ensemble() | {"model": model, "ensemble": f"of-{model}"}, "gnmax", 40)
        records += made.costing(facts, queries, accuracy, 1.9, "label")
    frame = made.table("equal-epsilon", made.collected(tmp_path, *records))
    shown = frame[frame["way"] == "gnmax"].set_index("learner")["accuracy_at_2_mean"]
    assert dict(shown) == {f"supervised, {words}": accuracy for words, accuracy in found.items()}


def lines(frame, unit="one added or removed record"):
    """Return the lines by label in the only panel of the figure whose ε protects `unit`."""
    (axis,) = (axis for axis in draw_table(frame).axes if axis.get_title().endswith(f"ε of {unit}"))
    return {words: handle for handle, words in zip(*axis.get_legend_handles_labels(), strict=True)}


def test_the_figure_draws_each_setting_once(frame):
    found = lines(frame, "one teacher’s shard")["GNMax, supervised (n = 250)"].lines[0]
    ours = made.one(frame, way="gnmax")
    heights = [ours["accuracy_at_2_mean"], ours["accuracy_at_8_mean"]]
    assert found.get_xydata().T.tolist() == [pytest.approx([2.0, 0.2 * 1000**0.5]), heights], (
        "one point per setting, not per target"
    )
    assert "DP-SGD, scratch, tanh CNN" in lines(frame)


def test_figure_shows_the_best_published_model_at_each_epsilon(frame, tmp_path):
    """Leave points of different models unjoined."""
    found = lines(frame, "one teacher’s shard")["printed: DPMLBench 2023, PATE, best of 4 networks"]
    networks = frame[(frame["system"] == "PATE") & frame["learner"].str.startswith("DPMLBench")]
    assert len(networks) == 4
    for epsilon, height in found.get_xydata():
        assert height == networks[f"accuracy_at_{epsilon:g}_mean"].max()
    others = lines(of_models(tmp_path / "others", (8.0, 0.6, {"dataset": "cifar10"})))
    (words,) = (words for words in others if "2024" in words)
    assert re.fullmatch(r"printed: DP reproducibility 2024, DP-SGD, best of \d\d models", words)
    joined = {words: line.get_linestyle() != "None" for words, line in others.items() if words.startswith("printed")}
    assert (joined[words], joined["printed: DPMLBench 2023, DP-SGD, best of 4 networks"]) == (False, True)


def of_models(folder, *models):
    """Return the table of private models only, given the ε, accuracy and changes of each."""
    found = [
        made.private_model(epsilon, accuracy) | {"private_model": f"model-{number}"} | changes
        for number, (epsilon, accuracy, changes) in enumerate(models)
    ]
    return made.table("equal-epsilon", models=made.models(folder, *found))


def test_measured_models_in_published_form_are_not_published_values(tmp_path):
    words = lines(of_models(tmp_path, (0.9, 0.7, {"system": "Private-kNN", "form": "published"})))
    assert [name for name in words if "published" in name] == ["Private-kNN, published, tanh CNN"]


def test_a_method_has_one_style_in_all_panels(tmp_path):
    other = {"split": {"pool": 500, "test": None}}
    better, worse = {"model": "small-cnn"}, {"model": "tanh-cnn"}
    models = [(1.0, 0.9, better), (1.0, 0.8, worse), (1.0, 0.7, better | other), (1.0, 0.8, worse | other)]
    axes = draw_table(of_models(tmp_path, *models)).axes
    titles = [f"MNIST · pool {pool} · ε of one added or removed record" for pool in (500, 9000)]
    assert [axis.get_title() for axis in axes] == titles
    looks = []
    for axis in axes:
        handles, words = axis.get_legend_handles_labels()
        looks.append({name: _look(handle) for handle, name in zip(handles, words, strict=True)})
    assert {"printed: DP-SGD 2016, DP-SGD", "printed: DPMLBench 2023, DP-SGD, best of 4 networks"} < set(looks[0])
    assert looks[0] == looks[1]
    assert len(set(looks[0].values())) == len(looks[0]), "all styles differ"


def _look(handle):
    line = getattr(handle, "lines", [handle])[0]
    return line.get_color(), line.get_marker(), line.get_linestyle(), line.get_markersize()


def test_an_accuracy_of_100_percent_is_drawn_below_the_limit(tmp_path):
    accuracies = enumerate((1.0, 0.8, 1.0))
    seeds = [(2.0, accuracy, {"seed": seed, "private_model": "one"}) for seed, accuracy in accuracies]
    found = of_models(tmp_path, *seeds, (2.0, 1.0, {"form": "linear"}))
    (axis,) = draw_table(found).axes
    bars = {name: handle for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    assert bars["DP-SGD, linear, tanh CNN"].lines[0].get_ydata()[0] == 0.999
    (segment,) = bars["DP-SGD, scratch, tanh CNN"].lines[2][0].get_segments()
    assert segment[:, 1].max() == pytest.approx(1.0)


def test_joined_tables_keep_the_setting_with_the_largest_epsilon(tmp_path):
    a, b = of_models(tmp_path / "a", (0.5, 0.9, {})), of_models(tmp_path / "b", (1.0, 0.8, {}), (4.0, 0.7, {}))
    for tables in ([a, b], [b, a], [a, b, a]):
        one = made.one(join_tables(tables), learner="tanh-cnn", way="scratch")
        found = [one[f"accuracy_at_{target:g}_mean"] for target in (0.5, 1, 2, 4, 8)]
        assert found == [0.9, 0.8, 0.8, 0.7, 0.7]
        assert math.isnan(one["accuracy_at_0.2_mean"])


REPLACED, ADDED = {"replace_record": 0.0858}, {"add_or_remove_record": 0.0586}
OF_SHARDS = {"replace_teacher": 0.0858}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "partition", "private_records", "beyond_cap", "name", "stated"),
    [
        ("nearest-query", "iid", 250, 0, "", REPLACED | ADDED),  # a record is a teacher
        ("nearest-query", "iid", 250, 0, "_neighbours-3", REPLACED | ADDED),
        ("nearest-query", "iid", 250, 2, "_neighbours-3", REPLACED),  # which votes count depends on positions
        ("nearest-query", "iid", 500, 0, "", REPLACED),  # a record that is added changes a teacher's votes
        ("feature-votes", "iid", None, None, "", REPLACED),  # records of older runs
        ("feature-votes", "iid", 250, None, "", REPLACED | ADDED),
        ("nearest-query", "iid", 250, None, "_neighbours-3", REPLACED),
        ("feature-votes", "hash", 250, 0, "", REPLACED),
        ("feature-votes", "hash-owners", 250, 0, "", OF_SHARDS),
        ("nearest-query", "skew-0.5", 250, 0, "", OF_SHARDS),
        ("small-cnn", "iid", 250, 0, "", OF_SHARDS),
    ],
)
def test_epsilon_is_stated_for_each_proven_unit(tmp_path, model, partition, private_records, beyond_cap, name, stated):
    ensemble = made.ensemble() | {"model": model, "partition": partition}
    facts = made.label_set(ensemble | {"ensemble": ensemble["ensemble"] + name}, "gnmax", 50)
    bound = made.bound_record(facts, 100, 0.0858, "gdp", Kind.WORST_CASE) | {"add_or_remove": 0.0586}
    student = made.student_record(facts, 100, 0.97) | {"private_records": private_records}
    student |= {"votes_beyond_cap": beyond_cap}
    frame = made.table("equal-epsilon", [made.write_collected(tmp_path / "c.json", [student, bound])])
    found = frame[frame["way"] == "gnmax"].set_index("adjacency")["epsilon_at_0.1"]
    assert found.to_dict() == stated


def test_contradicting_tables_are_refused(tmp_path):
    for name, accuracy in (("a", 0.9), ("b", 0.8)):
        of_models(tmp_path / name, (1.0, accuracy, {})).to_csv(tmp_path / f"{name}.csv", index=False)
    for names, fault in (("ab", "different accuracies of tanh-cnn"), ("c", "No such file")):
        with pytest.raises(SystemExit, match=fault):
            read_tables([tmp_path / f"{name}.csv" for name in names])


def own_lines(axis):
    """Return lines and lone points, without the caps of error bars."""
    return [line for line in axis.lines if line.get_linestyle() != "None"]


def test_readme_figure_shows_cells_of_kept_tables():
    with themed():
        axes = draw_headline(read_tables(KEPT), (1.97, 0.985)).axes
    assert len(axes) == 2
    drawn = [line for axis in axes for line in own_lines(axis)]
    assert 2 < len([line for line in drawn if len(line.get_xdata()) > 1]) <= 6
    for axis in axes:
        words = [text.get_text() for text in axis.texts]
        assert sum("published" in text for text in words) == 1
        assert len(words) == len(own_lines(axis))
    cells = set()
    for path in KEPT:
        with path.open(encoding="utf-8", newline="") as stream:
            for cell in csv.DictReader(stream):
                for name in (name for name in cell if name.startswith("epsilon_at_") and cell[name]):
                    cells.add((float(cell[name]), float(cell[name.replace("epsilon", "accuracy") + "_mean"])))
    points = {(x, y) for line in drawn for x, y in line.get_xydata()} - {(1.97, 0.985)}
    assert len(points) > 20
    assert points <= cells

"""Test the stage `audit`: a checked file or a table, and one-line errors."""

import numpy as np
import pytest
from tests.stages.commands import invoke

from patebench.audit.verdict import EXACT, SAMPLED
from patebench.core.files import read_json


@pytest.mark.slow
def test_the_command_writes_a_checked_file(tmp_path, write_samples):
    samples = write_samples("private", np.zeros((6, 4)), np.arange(6) % 3)
    words = ["audit", "--mechanism", "gnmax", "--parameter", "sigma=2", "--teachers", "9", "--delta", "1e-5"]
    words += ["--queries", "10", "--runs", "1000", "--samples", str(samples), "--seed", "3", "--stream", "x"]
    out = [tmp_path / f"{name}.json" for name in "ab"]
    for path in out:
        done = invoke(*words, "--out", path)
        assert done.exit_code == 0, done.output
    assert out[0].read_bytes() == out[1].read_bytes()
    content = read_json(out[0], "audit")
    assert (content["dataset"], content["classes"], content["noise"]) == ("tiny", 3, "sigma-2")
    assert [finding["queries"] for finding in content["findings"]] == [1, 10]
    for finding in content["findings"]:
        assert {bound["accountant"] for bound in finding["bounds"]} >= {EXACT, SAMPLED, "gdp", "rdp"}
        assert all((bound["verdict"] is None) == (bound["kind"] == "audited_lower") for bound in finding["bounds"])


def test_the_command_shows_a_table():
    words = ["audit", "--mechanism", "gnmax", "--parameter", "sigma=0", "--teachers", "9", "--classes", "3"]
    done = invoke(*words, "--delta", "1e-5", "--runs", "1000")
    assert done.exit_code == 0, done.output
    assert "vacuous" in done.output
    assert "All bounds with a proof are vacuous." in done.output
    assert "Exact: ε = ∞" in done.output


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--delta=1e-5", "--classes=3", "--confidence=1"], "--confidence: 1.0 is too large; give a value below 1"),
        (["--delta=1e-5"], "the number of classes is missing; give one of --votes, --classes and --samples"),
        (["--delta=1e-5", "--classes=3", f"--samples={__file__}"], "is given by both --classes and --samples"),
    ],
)
def test_mistakes_are_one_line(words, fault):
    start = ["audit", "--mechanism", "gnmax", "--parameter", "sigma=2", "--teachers", "9"]
    done = invoke(*start, *words)
    assert done.exit_code != 0
    assert fault in str(done.exception)

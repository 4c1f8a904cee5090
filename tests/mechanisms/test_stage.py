"""The stages: files in, files out, checked on the way."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from patebench.accounting.sanitised_accountant import seeded
from patebench.core import files, formats, seeds
from patebench.core.bound import Bound
from patebench.core.curve import points
from patebench.core.errors import ArtefactError, PatebenchError
from patebench.mechanisms.base import make
from patebench.mechanisms.stage import account, aggregate, read_votes, spaced

CONFIDENT = {"threshold": 15.0, "sigma1": 8.0, "sigma2": 5.0}
STREAM = "toy/seed-0/teachers-30/gnmax/sigma-5"


@pytest.fixture
def votes_path(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        "votes": rng.integers(0, 4, size=(30, 60)).astype(np.uint8),
        "test_votes": rng.integers(0, 4, size=(30, 10)).astype(np.uint8),
    }
    meta = {"partition": "p", "pool": "q", "test": "t", "classes": 4, "chunks": []}
    files.write_arrays(tmp_path / "votes.npz", formats.VOTES, arrays, meta)
    return tmp_path / "votes.npz"


def test_aggregate_writes_the_labels_that_the_mechanism_releases(votes_path, tmp_path):
    out = tmp_path / "labels.npz"
    aggregate(votes_path, "gnmax", {"sigma": 5.0}, 3, STREAM, out)
    labels = files.read_arrays(out, formats.LABELS)
    source, votes = read_votes(votes_path)
    expected = make("gnmax", {"sigma": 5.0}).release(votes, seeds.generator(3, STREAM))
    np.testing.assert_array_equal(labels["labels"], expected)
    assert labels.meta["votes"] == source.digest
    assert labels.meta["pool"] == "q"
    assert (labels.meta["mechanism"], labels.meta["parameters"]) == ("gnmax", {"sigma": 5.0})
    assert labels.meta["mode"] == "seeded"


def test_equal_inputs_give_equal_bytes_and_other_streams_other_labels(votes_path, tmp_path):
    paths = [tmp_path / name for name in ("a.npz", "b.npz", "c.npz")]
    for path, stream in zip(paths, (STREAM, STREAM, "another"), strict=True):
        aggregate(votes_path, "lnmax", {"gamma": 0.1}, 0, stream, path)
    first, again, other = (path.read_bytes() for path in paths)
    assert first == again
    assert first != other


def test_account_writes_the_bounds_of_the_mechanism(votes_path, tmp_path):
    out = tmp_path / "bounds.json"
    account(votes_path, "lnmax", {"gamma": 0.1}, [60, 20], 1e-5, 0, "s", out)
    written = files.read_json(out, "bounds")
    source, votes = read_votes(votes_path)
    expected = make("lnmax", {"gamma": 0.1}).bounds(votes, [20, 60], 1e-5, seeded(0, "s"))
    for record, bound in zip(written["bounds"], expected, strict=True):
        found = Bound.from_json(record)
        assert replace(found, epsilon=0.0, order=None) == replace(bound, epsilon=0.0, order=None)
        assert found.epsilon == pytest.approx(bound.epsilon, rel=1e-6)  # more T, more orders tried
    assert written["votes"] == source.digest
    assert (written["mechanism"], written["parameters"]) == ("lnmax", {"gamma": 0.1})
    assert (written["queries"], written["delta"]) == ([20, 60], 1e-5)


def _epsilons(bounds):
    return {(bound.accountant, bound.kind, bound.conversion, bound.queries): bound.epsilon for bound in bounds}


def test_curves_run_through_the_bounds_and_draw_nothing(votes_path, tmp_path):
    out = tmp_path / "bounds.json"
    account(votes_path, "confident-gnmax", CONFIDENT, [60, 20], 1e-5, 0, "s", out)
    written = files.read_json(out, "bounds")
    stated = _epsilons(Bound.from_json(record) for record in written["bounds"])
    along = _epsilons(bound for curve in written["curves"] for bound in points(curve))
    assert {T for *_, T in along} == {*spaced(60), 20, 60}
    apart = {name for name, *_ in stated} - {name for name, *_ in along}
    assert apart == {"rdp-sanitised", "rdp-sanitised-optimised"}
    assert stated == {key: along.get(key, epsilon) for key, epsilon in stated.items()}
    _, votes = read_votes(votes_path)
    alone = _epsilons(make("confident-gnmax", CONFIDENT).bounds(votes, [spaced(60)[2]], 1e-5))
    assert {key: along[key] for key in alone} == pytest.approx(alone, rel=1e-6)


@pytest.mark.parametrize(("queries", "held"), [(1, 1), (2, 2), (60, 5), (400, 20), (9000, 37)])
def test_spaced_numbers_of_queries_run_from_one_to_all(queries, held):
    found = spaced(queries)
    assert (found[0], found[-1], len(found)) == (1, queries, held)
    assert found == sorted(set(found))


def test_an_infinite_epsilon_survives_strict_json(votes_path, tmp_path):
    out = tmp_path / "bounds.json"
    account(votes_path, "gnmax", {"sigma": 0.0}, [1], 1e-5, 0, "s", out)
    assert {record["epsilon"] for record in json.loads(out.read_text())["bounds"]} == {"inf"}
    account(votes_path, "lnmax", {"gamma": np.inf}, [1], 1e-5, 0, "s", out)
    assert files.read_json(out, "bounds")["parameters"] == {"gamma": "inf"}


@pytest.mark.parametrize("stage", [aggregate, account])
def test_faults_leave_no_file(stage, votes_path, tmp_path):
    out = tmp_path / "out"
    rest = (0, STREAM) if stage is aggregate else ([10], 1e-5, 0, STREAM)
    for path, mechanism, parameters, fault in (
        (votes_path, "gnmx", {"sigma": 1.0}, PatebenchError),
        (votes_path, "gnmax", {"sigma": -1.0}, PatebenchError),
        (tmp_path / "absent.npz", "gnmax", {"sigma": 1.0}, ArtefactError),
    ):
        with pytest.raises(fault):
            stage(path, mechanism, parameters, *rest, out)
    assert not out.exists()


def test_more_queries_than_the_pool_holds_are_refused(votes_path, tmp_path):
    with pytest.raises(PatebenchError, match="61 queries"):
        account(votes_path, "gnmax", {"sigma": 1.0}, [61], 1e-5, 0, "s", tmp_path / "out")


def test_the_stages_stay_light(votes_path, tmp_path):
    script = (
        "import sys; from patebench.mechanisms.stage import account, aggregate;"
        f"aggregate({str(votes_path)!r}, 'gnmax', {{'sigma': 5.0}}, 0, 's', {str(tmp_path / 'l.npz')!r});"
        f"account({str(votes_path)!r}, 'gnmax', {{'sigma': 5.0}}, [60], 1e-5, 0, 's', {str(tmp_path / 'b.json')!r});"
        "heavy = {'torch', 'pandas', 'matplotlib', 'sklearn', 'scipy.stats', 'dp_accounting'} & set(sys.modules);"
        "sys.exit(', '.join(heavy) or None)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

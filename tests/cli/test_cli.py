"""Test the command line: one-line errors, exit status 2, and no files left after an error."""

import io
import json
import logging
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from patebench.cli import COMMANDS, cli, main
from patebench.cli.command import OutputFile
from patebench.core import workers
from patebench.core.files import write_arrays
from patebench.core.formats import VOTES

PATEBENCH = Path(sys.executable).with_name("patebench")


def run(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process, as `patebench WORDS` would, and return its status and output."""
    arguments, logger, status = list(map(str, words)), logging.getLogger("patebench"), 0
    handlers, argv, out, err = list(logger.handlers), sys.argv, io.StringIO(), io.StringIO()
    sys.argv = ["patebench", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as stop:
        status = int(stop.code or 0)
    finally:
        for log in set(logger.handlers) - set(handlers):
            log.close()
        sys.argv, logger.handlers = argv, handlers
        workers.set_processes(1)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def refused(*words: object) -> str:
    """Return the error of a command that must fail with one line."""
    done = run(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("patebench: ")
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("patebench: ")


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    facts = {"partition": "p", "pool": "q", "test": "t", "classes": 3, "model": "m", "recipe": "r", "chunks": []}
    arrays = {name: rng.integers(0, 3, (20, 30)).astype(np.uint8) for name in ("votes", "test_votes")}
    write_arrays(tmp_path / "votes.npz", VOTES, arrays, facts)
    return tmp_path / "votes.npz"


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    np.save(tmp_path / "counts.npy", np.array([[40, 8, 2], [30, 10, 10]]))
    return tmp_path / "counts.npy"


def test_config_check_prints_the_jobs_or_one_line_per_fault(tmp_path: Path) -> None:
    config, wrong = Path(__file__).parents[1] / "workflow" / "tiny.yaml", tmp_path / "wrong.yaml"
    assert "train_teachers 2" in run("config", "check", config).stdout
    wrong.write_text(config.read_text().replace("mlp", "mpl", 1))
    assert "did you mean 'mlp'?" in refused("config", "check", wrong)
    wrong.write_text(
        "{seeds: 0, experiments: {a: {dataset: wine, pool: 70, ensembles: [{teachers: 109, model: small-cnn}],"
        " mechanisms: {gnmax: {sigma: 4}}, accounting: {delta: 1.0e-5}}}}"
    )
    done = run("config", "check", wrong)
    assert done.returncode == 2
    assert sorted(line.split(": ")[1] for line in done.stderr.splitlines()) == [
        "experiments.a.ensembles[0].model",
        "experiments.a.ensembles[0].teachers",
        "experiments.a.pool",
    ]
    assert all(line.startswith("patebench: ") for line in done.stderr.splitlines())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_can_write_a_log(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is cli.get_command(click.Context(cli), name.replace("_", "-")) is not None
    assert command.help
    assert command.name == name
    said = CliRunner().invoke(cli, [name, "--help"])
    assert said.exit_code == 0
    assert f"Usage: cli {name}" in said.output
    for option in command.params:
        help = isinstance(option, click.Argument) or option.help  # type: ignore[attr-defined]
        assert help, f"{name} {option.opts}"
        if option.name == "out" or str(help).startswith("Output file"):
            written = option.type in OutputFile.__metadata__  # type: ignore[attr-defined]
            assert written or str(help).startswith(("Output folder", "New folder"))
    assert name == "config" or "--log" in {word for option in command.params for word in option.opts}


def test_the_group_names_every_command_and_imports_none() -> None:
    script = "from patebench.cli import cli; import sys; cli(['--help'], standalone_mode=False);"
    script += "print(sorted(name for name in sys.modules if name.startswith('patebench.stages')))"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    *page, imported = said.splitlines()
    assert imported == "[]"
    listed = page[page.index("Commands:") + 1 :]
    assert [line.split()[0] for line in listed if line.startswith("  ") and line[2] != " "] == list(COMMANDS)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mechanism", "lnmx", "--parameter", "gamma=1"], "unknown mechanism 'lnmx' (did you mean 'lnmax'?)"),
        (["--mechanism", "lnmax", "--parameter", "sigma=1"], "sigma"),
        (["--mechanism", "lnmax", "--parameter", "gamma=-1"], "gamma"),
        (["--mechanism", "gnmax", "--parameter", "sigma=nan"], "sigma"),
        (["--mechanism", "gnmax", "--parameter", "sigma=2", "--parameter", "sigma=3"], "sigma is given twice"),
    ],
)
def test_a_fault_is_one_line_and_leaves_nothing(votes: Path, words: list[str], message: str) -> None:
    out, log = votes.with_name("labels.npz"), votes.with_name("log")
    given = ("aggregate", "--votes", votes, *words, "--seed", 0, "--stream", "s")
    assert message in refused(*given, "--out", out, "--log", log)
    assert not out.exists()
    assert message in log.read_text(), "the log must contain the error"


@pytest.mark.parametrize(
    ("words", "output", "other"),
    [
        ("aggregate --votes v.npy --seed 0 --stream s --out ./v.npy", "out", "votes"),
        ("account --votes v.npy --labels x --out link.npy", "out", "votes"),
        ("aggregate --votes link.npy --log v.npy --out x", "log", "votes"),
        ("data mine --option loader=npz --option private=v.npy --private v.npy --public x", "private", "option"),
        ("partition --private x --public y --owners v.npy --out v.npy", "out", "owners"),
        ("data digits --private z/x --public z/x", "public", "private"),
        ("secure_share --chunk y --out x --out x", "out", "out"),
        ("init v.npy --out v.npy", "out", "path"),
    ],
)
def test_no_output_overwrites_an_input_or_another_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, output: str, other: str
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("v.npy", np.zeros((20, 4), int))
    Path("link.npy").symlink_to("v.npy")
    content = Path("v.npy").read_bytes()
    assert refused(*words.split()).startswith(f"--{output}: ")
    assert f" is also given as {other if other == 'path' else f'--{other}'} " in refused(*words.split())
    assert {path.name for path in tmp_path.iterdir()} == {"v.npy", "link.npy"}
    assert Path("v.npy").read_bytes() == content


def test_malformed_options_and_a_forbidden_folder_are_named(votes: Path) -> None:
    start = ("aggregate", "--votes", votes, "--mechanism", "lnmax", "--stream", "s")
    for words in (["--parameter", "gamma"], ["--parameter", "gamma=much"], ["--seed", "-1"]):
        line = refused(*start, *words, "--out", "x")
        assert line.startswith(f"invalid value for '{words[0]}': ")
        assert line.endswith("; see patebench aggregate --help\n")
    out = "/proc/nowhere/labels.npz"
    assert out.removesuffix("/labels.npz") in refused(*start, "--parameter", "gamma=1", "--seed", 0, "--out", out)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["audt"], "no such command 'audt' (did you mean 'audit'?); see patebench --help"),
        (["--loud"], "no such option '--loud'; see patebench --help"),
        (["epsilon", "x.npy"], "missing option '--mechanism'; see patebench epsilon --help"),
        (["epsilon", "x.npy", "--mechanism", "gnmax", "--sigma"], "option '--sigma' requires an argument"),
        (["epsilon", "x.npy", "--delta", "1", "--delta=1"], "--delta is given twice; give it once"),
        (["data", "digits", "--download", "--no-download"], "--download is given twice; give it once"),
    ],
)
def test_a_usage_error_is_one_line(words: list[str], line: str) -> None:
    assert refused(*words).startswith(line)


def test_a_parameter_is_accepted_in_either_spelling_but_once(counts: Path, votes: Path) -> None:
    start = ["epsilon", counts, "--mechanism", "gnmax", "--delta", 1e-5]
    either = [["--sigma", 10], ["--sigma=10"], ["--parameter", "sigma=10"], ["--parameter=sigma=10"]]
    said = [run(*start, *words) for words in either]
    assert {(done.returncode, done.stdout) for done in said} == {(0, said[0].stdout)}
    for words in ([*either[0], *either[1]], [*either[0], *either[2]], [*either[2], *either[3]]):
        assert refused(*start, *words).endswith("sigma is given twice; give it once\n")
    assert "the mechanism 'gnmax' has no parameter 'gamma'" in refused(*start, "--gamma", 1)
    out = [votes.with_name(f"labels-{i}.npz") for i in range(2)]
    for words, path in zip((either[0], either[2]), out, strict=True):
        options = ["--votes", votes, "--mechanism", "gnmax", *words, "--seed", 0, "--stream", "s", "--out", path]
        assert run("aggregate", *options).returncode == 0
    assert out[0].read_bytes() == out[1].read_bytes()


def test_a_parameter_whose_name_is_taken_has_a_prefix() -> None:
    """Spell a parameter of the mechanism `--mechanism-epsilon` if `--epsilon` is an option of the command."""
    words = ["calibrate", "--mechanism", "permute-and-flip", "--epsilon", 1, "--delta", 1e-5]
    done = run(*words, "--mechanism-epsilon", 0.1, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["parameters"] == {"epsilon": 0.1}


@pytest.mark.slow
def test_output_survives_a_terminal_without_greek_letters(counts: Path) -> None:
    """Replace missing characters on stdout and stderr, in a separate process with that encoding."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    start = [PATEBENCH, "epsilon", counts, "--mechanism", "gnmax", "--sigma", "10", "--delta"]
    for delta, status in (("1e-5", 0), ("2", 2)):
        done = subprocess.run([*start, delta], capture_output=True, env=environment)
        assert done.returncode == status
        assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_the_exit_status_of_an_audit_reports_violations(tmp_path: Path) -> None:
    """Check also that the workflow, which writes a file, continues after a violation, which the tables show."""
    sizes = ["--teachers", 20, "--classes", 3, "--delta", 1e-5, "--runs", 1000]
    claimed = ["--mechanism", "immutable-lnmax", "--c", 1e100, "--gamma", 1e-10, "--distance", 3]
    for words, status in ((["--mechanism", "gnmax", "--sigma", 5], 0), (claimed, 1)):
        shown, told = run("audit", *words, *sizes), run("audit", *words, *sizes, "--json")
        assert (shown.returncode, told.returncode) == (status, status), shown.stderr + told.stderr
        verdicts = {each["verdict"] for finding in json.loads(told.stdout)["findings"] for each in finding["bounds"]}
        assert ("violated" in verdicts) is bool(status)
        assert ("violated" in shown.stdout) is bool(status)
    done = run("audit", *claimed, *sizes, "--out", tmp_path / "audit.json")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_check_as_json(votes: Path) -> None:
    folder = str(votes.parent)
    for status in (0, 1):
        done = run("check", folder, "--json")
        told = json.loads(done.stdout)
        assert (done.returncode, len(told.pop("faults"))) == (status, status)
        assert told == {"place": folder, "artefacts": 1, "leftovers": []}
        os.truncate(votes, 100)

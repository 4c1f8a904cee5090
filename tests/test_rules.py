"""Rules and stages: one name for both, a log and a time for each job, and GPUs where networks are trained."""

import re
from pathlib import Path

import pytest
import yaml

from patebench.cli import COMMANDS
from tests import rules

ROOT = Path(__file__).parents[1]

#: Commands that no rule runs.
BESIDE = {
    *("epsilon", "calibrate", "choose_clusters", "ledger", "reproduce", "compare"),
    *("crate", "export_votes", "leaderboard", "check_entry", "check", "config", "test_mechanism", "describe", "init"),
}


def test_a_stage_has_one_name() -> None:
    """Check rule, command and module names; the name of a stage's second rule adds when it runs."""
    assert {re.sub("_in_round$|_on_truth$", "", rule) for rule in rules.STAGES} == set(rules.STAGES.values())
    assert all(rule.startswith(stage) for rule, stage in rules.STAGES.items())
    assert set(COMMANDS) == {*rules.STAGES.values()} | BESIDE
    modules = {path.stem for path in (ROOT / "workflow/patebench/stages").glob("*.py")}
    assert set(COMMANDS) <= modules


@pytest.mark.parametrize("rule", rules.STAGES)
def test_a_rule_logs_and_times_its_command(rule: str) -> None:
    body, stage = rules.BODIES[rule], rules.STAGES[rule]
    assert len(set(re.findall(r'"patebench (\w+) ', body))) == 1
    for folder in ("logs", "benchmarks"):
        assert re.findall(rf'"<{folder}>/(\w+)/', body)[-1] == stage, "they are named after the stage"
    assert "--log {log:q}" in body
    assert re.search(r"mem_mb=memory\(\d+\)", body)
    assert "runtime=" in body
    assert ("threads: " in body) == ("--threads {threads}" in body)


def test_rules_that_train_ask_for_a_gpu_which_the_profile_can_take_away() -> None:
    profile = yaml.safe_load((ROOT / "workflow/profiles/slurm/config.yaml").read_text())
    assert profile["set-resources"] == {rule: {"gpu": 0} for rule in rules.ON_GPU}
    assert set(profile["groups"]) <= set(rules.STAGES), "a group names a rule that is gone"
    page = (ROOT / "docs/how-to/gpus.md").read_text()
    assert [rule for rule in rules.ON_GPU if f"`{rule}`" not in page] == []
    assert {rule for rule, stage in rules.STAGES.items() if stage in {rules.STAGES[each] for each in rules.ON_GPU}} == (
        rules.ON_GPU
    ), "all rules of a stage, or none"


def test_jobs_around_a_draw_are_in_no_group_and_are_not_retried_in_a_release() -> None:
    """Snakemake removes all outputs of a failed group and retries it as often as any job; a new draw spends ε again."""
    groups = yaml.safe_load((ROOT / "workflow/profiles/slurm/config.yaml").read_text())["groups"]
    stages = {"join_votes", "aggregate", "account", "secure_share", "secure_sum", "secure_open"}
    drawing = {rule for rule, stage in rules.STAGES.items() if stage in stages}
    assert not drawing & set(groups)
    for rule in drawing:
        assert "retries: DRAW_RETRIES" in rules.BODIES[rule], rule

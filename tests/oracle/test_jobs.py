"""Compare the jobs of the shipped configurations with the lists kept before the restructuring."""

import pytest
from tests.oracle import jobs


@pytest.mark.slow
@pytest.mark.parametrize("name", jobs.CONFIGURATIONS)
def test_jobs_are_the_kept_ones(name: str) -> None:
    planned = {tuple(job["outputs"]): job for job in jobs.planned(jobs.CONFIGURATIONS[name])}
    kept = {tuple(job["outputs"]): job for job in jobs.kept(name)}
    assert planned.keys() == kept.keys()
    assert [(job, planned[outputs]) for outputs, job in kept.items() if planned[outputs] != job] == []

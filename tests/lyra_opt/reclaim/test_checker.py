"""The checker: a case by hand, and what breaks a rule."""

from dataclasses import replace

import pytest

from lyra_opt.reclaim import Solution
from lyra_opt.reclaim.checker import check
from tests.lyra_opt.reclaim.examples import fleet, job_on
from tests.tables import tables

TABLES = tables(__file__)


@pytest.fixture
def mixed():
    """Three servers on loan and one not, with flexible workers, weights and wide workers."""
    elastic = job_on("elastic", {"a": (0, 2), "t": 3}, weight=5, gpus_per_worker=2)
    wide = job_on("wide", {"a": (1, 1), "b": 2}, weight=3)
    return fleet("abc", elastic, wide, job_on("local", {"c": 8}, weight=0), off_loan="t", gpus=8)


@pytest.mark.parametrize(("semantics", "servers", "measures"), TABLES["by_hand"])
def test_by_hand(mixed, semantics, servers, measures):
    """Objective, preempted jobs, collateral GPUs and workers scaled in."""
    instance = replace(mixed, semantics=semantics, reclaim_servers=len(servers))
    report = check(instance, Solution(tuple(servers)))
    assert [report.objective, *report.measures().values()] == measures


@pytest.mark.parametrize(("servers", "violation"), TABLES["violations"])
def test_violations(mixed, servers, violation):
    """Every broken rule is named, and nothing is computed for an invalid choice."""
    report = check(mixed, Solution(servers))
    assert violation in report.violations
    assert report.objective is None
    assert report.measures() == {
        "preempted_jobs": None,
        "collateral_gpus": None,
        "scaled_in_workers": None,
    }

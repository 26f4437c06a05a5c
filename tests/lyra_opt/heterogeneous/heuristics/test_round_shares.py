"""Shares that rounds give: never more than there are, and short where gangs do not fit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.heterogeneous import Objective, check
from lyra_opt.heterogeneous.heuristics.gavel import (
    RoundShares,
    at_attainable_rates,
    shares_of_rounds,
)
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.lyra_opt.heterogeneous.heuristics.cases import instance_of, job


@draws(60)
@given(
    instance=st.sampled_from(RoundShares.variants).flatmap(
        lambda objective: heterogeneous_instances(objective=objective)
    )
)
def test_rounds_give_no_more_than_the_programme_bounds(instance):
    """Whatever rates gangs have on several servers, what rounds give is feasible shares."""
    rng = np.random.default_rng(0)  # on which nothing depends
    report = check(instance, shares_of_rounds(instance, rng, rounds=20))
    assert report.objective is not None, report.violations
    bound = lo.solve(instance, "lp-highs").dual_bound
    assert report.objective <= bound * (1 + 1e-9)


def test_gangs_that_do_not_fit_beside_one_another_lose_a_third():
    """Two gangs of two on three GPUs: promised three quarters of the time each, they take turns."""
    gangs = [job(name, 100, gang=2) for name in ("x", "y")]
    instance = instance_of([{"a": 3}], gangs, objective=Objective.MAX_MIN_SHARE)
    assert lo.solve(instance, "lp-highs").objective == pytest.approx(1.5)
    assert lo.solve(instance, RoundShares).objective == pytest.approx(1.0)


def test_rates_that_a_gang_can_have():
    """Where no server holds a gang its rate is that on several; one that runs nowhere so stays."""
    gang = replace(
        job("a", 100, gang=4, throughput={"fast": 8.0, "slow": 2.0}),
        spread_throughput={"fast": 1.0, "slow": 0.0},
    )
    assert at_attainable_rates(gang, {"fast": 2, "slow": 4}).throughput == {
        "fast": 1.0,
        "slow": 2.0,
    }
    nowhere = replace(gang, spread_throughput={"fast": 0.0, "slow": 0.0})
    assert at_attainable_rates(nowhere, {"fast": 2, "slow": 2}) == nowhere

"""Bounds: on the right side of every solution that the checker lets pass, and tight by hand."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.heterogeneous import InverseJct, TimeShares, check
from lyra_opt.heterogeneous.bounds.dual_bound import dual_bound, simple_bound
from lyra_opt.heterogeneous.bounds.fastest import (
    best_rate_of,
    best_spread_rate,
    earliest_completion,
    most_steps_a_round,
)
from lyra_opt.heterogeneous.bounds.fluid import FluidProgramme
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.lyra_opt.heterogeneous.examples import instance, job

MORE = 1 + 0.99e-6
"""Times this, shares of all GPUs keep the rules of the checker."""


@draws(40)
@given(
    st.sampled_from(sorted(SHARE_OBJECTIVES)).flatmap(
        lambda kind: heterogeneous_instances(objective=kind, max_jobs=4, with_packing=True)
    )
)
def test_no_shares_are_beyond_the_bounds(drawn):
    """Not even the best ones, larger by as much as the checker's tolerance lets pass."""
    best = lo.solve(drawn, "lp-highs").solution
    assume(best is not None)
    larger = check(drawn, TimeShares(times(best.shares, MORE), times(best.packed, MORE)))
    assume(larger.objective is not None)
    sign = 1 if drawn.objective.sense == "max" else -1
    assert sign * dual_bound(drawn) >= sign * larger.objective


def times(shares, factor):
    """Return nested shares times a factor."""
    if isinstance(shares, Mapping):
        return {key: times(value, factor) for key, value in shares.items()}
    return shares * factor


def test_fastest_placements():
    """A gang takes the fastest types; spread, it must be on two servers."""
    rates = {"fast": 4.0, "slow": 1.0}
    assert best_rate_of(2, {"fast": 2, "slow": 1}, rates) == 4.0
    assert best_rate_of(3, {"fast": 2, "slow": 1}, rates) == 1.0
    assert best_rate_of(4, {"fast": 2, "slow": 1}, rates) == 0.0
    # All fast GPUs are on one server: a spread gang has a slow one.
    one = instance(job("a", 2, spread_throughput={"fast": 9.0, "slow": 2.0}))
    assert best_spread_rate(one, one.jobs[0]) == 2.0
    assert most_steps_a_round(one, one.jobs[0]) == 4
    assert earliest_completion(one, one.jobs[0]) == 1
    forks = replace(instance(job("a", 1, 6.0)), forking=True)
    assert most_steps_a_round(forks, forks.jobs[0]) == 5
    assert earliest_completion(instance(job("a", 6)), job("a", 6)) is None


def test_contention_is_seen():
    """Four equal jobs of two rounds on two fast GPUs: alone each has a JCT of 2."""
    jobs = [
        job(name, 1, 8.0, throughput={"fast": 4.0}, utility=InverseJct(scale=1.0))
        for name in "abcd"
    ]
    one = instance(*jobs, objective="mean_jct", horizon_rounds=8)
    assert dual_bound(one) == 2.75  # half a job more could complete after three rounds
    assert dual_bound(replace(one, objective="makespan")) == 4.0
    utility = replace(one, objective="utility")
    assert simple_bound(utility) == 2
    assert 2 / 2 + 2 / 4 <= dual_bound(utility) < 1.9


def test_weak_duality_needs_no_honest_backend(monkeypatch):
    """Whatever multipliers come back, the number is a bound."""
    programme = FluidProgramme()
    x = programme.variable(-2, 5)
    y = programme.variable(-1, 5)
    programme.at_most({x: 1.0, y: 1.0}, 6)
    assert programme.bound() == pytest.approx(-11)
    for multipliers in ([0.0], [0.5], [1.0], [3.0], [-1.0]):
        assert programme._weak_dual(multipliers) <= -11


def test_nothing_to_do():
    """No job that could complete within the horizon is worth anything."""
    assert dual_bound(instance(job(steps=1e6))) == 0.0
    assert dual_bound(instance(job(release_s=50.0))) == 0.0

"""The semidefinite bound never crosses the optimum, whatever its multipliers, and is strong."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.result import Limits
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.instances.family import generate
from lyra_opt.reclaim.bounds import semidefinite
from lyra_opt.reclaim.bounds.dual_bound import rigid_bound
from lyra_opt.reclaim.bounds.semidefinite import semidefinite_bound
from lyra_opt.reclaim.bounds.semidefinite_certificate import (
    Multipliers,
    SemidefiniteCertificate,
    in_integers,
    twice_slack,
    with_sums,
)
from lyra_opt.reclaim.reduction import reduce_instance
from lyra_opt.testing.strategies import reclaim_instances
from tests.lyra_opt.reclaim.reduced import choices, least_cost, wrong_cholesky

RIGID = reclaim_instances(semantics="rigid", max_servers=7, max_jobs=8, max_weight=9)
NO_LIMIT = 10**15


def bound_of(reduced, objective=NO_LIMIT):
    return semidefinite_bound(reduced, objective, np.random.default_rng(0))


def sizes(reduced):
    """Return how many variables there are, and how many entries."""
    return reduced.losses.servers + reduced.losses.jobs, reduced.losses.entries


def of_sums(reduced, each):
    """Return multipliers of 0, but for those of sums."""
    size, entries = sizes(reduced)
    return Multipliers(level=0, sums=np.full(size, each), entries=np.zeros(entries, dtype=np.int64))


def hyp8(servers, reclaim, seed):
    return reduce_instance(generate("reclaim", "hyp8", servers=servers, reclaim=reclaim, seed=seed))


@st.composite
def certificates(draw, most=60):
    """Draw an instance and numbers for it that no search would find."""
    reduced = reduce_instance(draw(RIGID))
    number = st.integers(-most, most)
    size, entries = sizes(reduced)
    return reduced, SemidefiniteCertificate(
        denominator=draw(st.integers(1, 20)),
        multipliers=Multipliers(
            level=draw(number),
            sums=np.array(draw(st.lists(number, min_size=size, max_size=size)), dtype=np.int64),
            entries=np.array(
                draw(st.lists(number, min_size=entries, max_size=entries)), dtype=np.int64
            ),
        ),
        shift=draw(st.sampled_from([0, 1, 10, 100, 1000])),
        unit=draw(st.integers(1, 5)),
    )


def slack_matrix(reduced, denominator, multipliers):
    """Return 2 S in full."""
    cost, weight = reduced.server_cost * denominator, reduced.weight * denominator
    sparse = twice_slack(reduced, cost, weight, multipliers)
    return with_sums(sparse.toarray(), multipliers.sums, len(cost))


@given(certificates())
def test_every_choice_costs_what_level_and_slack_say(drawn):
    """The identity that the bound rests on, in integers."""
    reduced, certificate = drawn
    matrix = slack_matrix(reduced, certificate.denominator, certificate.multipliers)
    for choice in choices(reduced):
        chosen = np.zeros(len(reduced.servers), dtype=np.int64)
        chosen[list(choice)] = 1
        preempted = (reduced.losses.row_sums(chosen) > 0).astype(np.int64)
        z = np.concatenate((chosen, preempted))
        said = 2 * reduced.reclaim_servers * certificate.multipliers.level + z @ matrix @ z
        assert said == 2 * certificate.denominator * reduced.objective(choice)


@given(certificates())
def test_no_multipliers_prove_more_than_the_optimum(drawn):
    reduced, certificate = drawn
    bound = certificate.bound(reduced)
    assert bound is None or bound <= least_cost(reduced)


@given(certificates(most=3))
def test_a_large_shift_always_proves_something(drawn):
    """Else the test before would say little."""
    reduced, certificate = drawn
    if sum(sizes(reduced)):
        assert dataclasses.replace(certificate, shift=10**6).bound(reduced) is not None


@given(certificates(), st.sampled_from([0.0, 0.5, 0.99, 1.01, 2.0]))
def test_a_wrong_factor_proves_no_more(drawn, wrong):
    """What a floating-point factorisation returns is not trusted."""
    reduced, certificate = drawn
    with wrong_cholesky(wrong):
        bound = certificate.bound(reduced)
    assert bound is None or bound <= least_cost(reduced)


def test_numbers_beyond_doubles_are_refused():
    reduced = hyp8(13, 5, 3)
    large, small = (
        SemidefiniteCertificate(denominator=1, multipliers=of_sums(reduced, each), shift=1, unit=1)
        for each in (2**62, 0)
    )
    assert large.bound(reduced) is None
    assert small.bound(reduced) == 0
    assert dataclasses.replace(small, shift=2**60).bound(reduced) is None


@pytest.mark.parametrize(
    "factor",
    [1, pytest.param(1000, marks=pytest.mark.slow), pytest.param(10**9, marks=pytest.mark.slow)],
)
def test_stronger_than_the_linear_relaxation(factor):
    """Weights in other units change nothing else."""
    instance = generate("reclaim", "hyp8", servers=14, reclaim=4, seed=1)
    reduced = reduce_instance(instance)
    least = least_cost(reduced)
    heavy = dataclasses.replace(
        reduced, server_cost=reduced.server_cost * factor, weight=reduced.weight * factor
    )
    bound = bound_of(heavy, least * factor) / factor
    assert rigid_bound(instance).bound + 1 < bound <= least


def test_trivial_numbers_of_servers():
    none, everything = (
        dataclasses.replace(hyp8(14, 4, 1), reclaim_servers=servers) for servers in (0, 14)
    )
    assert bound_of(none) == 0
    assert bound_of(everything) == least_cost(everything)


def test_weights_beyond_64_bits_are_declined():
    reduced = hyp8(13, 5, 3)
    heavy = dataclasses.replace(reduced, weight=reduced.weight.astype(object) * 2**70)
    assert bound_of(heavy) == 0


def test_it_declines_where_limits_leave_no_room(monkeypatch):
    reduced = hyp8(300, 90, 1)
    for limits in (Limits(time_s=1e-4), Limits(memory_mib=1)):
        with limited_to(limits):
            assert bound_of(reduced) == 0
    monkeypatch.setattr(semidefinite, "LARGEST_SIZE", 599)
    assert bound_of(reduced) == 0


def test_multipliers_too_unlike_for_doubles_are_declined():
    reduced = hyp8(13, 5, 3)
    assert in_integers(reduced, of_sums(reduced, 1e12), 0.0, 1) is None
    assert in_integers(reduced, of_sums(reduced, 0.0), 0.0, 1) is not None

"""The bound for jobs on two servers never crosses the optimum, whatever its multipliers."""

import dataclasses
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.instances.family import generate
from lyra_opt.reclaim.bounds.pair_ascent import PairAscent, triangle_values
from lyra_opt.reclaim.bounds.pair_certificate import (
    PairCertificate,
    PairForm,
    PairMultipliers,
    in_integers,
    pair_form,
    twice_slack,
)
from lyra_opt.reclaim.incidence import Incidence
from lyra_opt.reclaim.reduction import ReducedReclaim, reduce_instance
from tests.lyra_opt.reclaim.reduced import choices, least_cost, wrong_cholesky

NO_LIMIT = 10**15


@st.composite
def graphs(draw) -> ReducedReclaim:
    """Draw a reduced instance with 3 to 6 servers, whose jobs are on two servers each."""
    servers = draw(st.integers(3, 6))
    edges = [(one, other) for other in range(servers) for one in range(other)]
    jobs = draw(st.lists(st.sampled_from(edges), min_size=1, max_size=8, unique=True))
    entries = [(job, server, 1) for job, edge in enumerate(jobs) for server in edge]

    def numbers(count: int, least: int) -> np.ndarray:
        values = st.lists(st.integers(least, 9), min_size=count, max_size=count)
        return np.array(draw(values), dtype=np.int64)

    return ReducedReclaim(
        servers=np.arange(servers),
        reclaim_servers=draw(st.integers(1, servers)),
        server_cost=numbers(servers, 0),
        losses=Incidence.of_entries(len(jobs), servers, entries),
        slack=np.zeros(len(jobs), dtype=np.int64),
        weight=numbers(len(jobs), 1),
    )


@st.composite
def certificates(draw, most: int = 60) -> tuple[ReducedReclaim, PairCertificate]:
    """Draw an instance and numbers for it that no search would find."""
    reduced = draw(graphs())
    servers = len(reduced.servers)

    # The two numbers after the servers stand for the constants 0 and 1.
    triangle = st.permutations(range(servers + 2)).map(lambda order: order[:3])
    drawn = draw(st.lists(triangle, max_size=8))
    found = np.array(drawn, dtype=np.int64).reshape(-1, 3).T

    def numbers(count: int, least: int) -> np.ndarray:
        values = st.lists(st.integers(least, most), min_size=count, max_size=count)
        return np.array(draw(values), dtype=np.int64)

    return reduced, PairCertificate(
        denominator=draw(st.integers(1, 20)),
        triangles=found,
        multipliers=PairMultipliers(
            level=draw(st.integers(-most, most)),
            sums=numbers(servers, -most),
            triangles=numbers(found.shape[1], 0),
        ),
        shift=draw(st.sampled_from([0, 1, 10, 100, 1000])),
    )


@given(certificates())
def test_every_choice_costs_what_level_slack_and_cuts_say(drawn):
    """The identity that the bound rests on, in integers; and no choice violates a cut."""
    reduced, certificate = drawn
    form, each = pair_form(reduced), certificate.multipliers
    matrix, constant = twice_slack(form.times(certificate.denominator), certificate.triangles, each)
    for choice in choices(reduced):
        with_constants = np.zeros(len(reduced.servers) + 2)
        with_constants[[*choice, -1]] = 1
        triangles = triangle_values(np.outer(with_constants, with_constants), certificate.triangles)
        assert triangles.min(initial=0) >= 0
        chosen = with_constants[:-2]
        said = 2 * (form.picks * each.level + constant) + chosen @ matrix @ chosen
        said += 2 * each.triangles @ triangles
        assert said == 2 * certificate.denominator * reduced.objective(choice)


@given(certificates())
def test_no_multipliers_prove_more_than_the_optimum(drawn):
    reduced, certificate = drawn
    bound = certificate.bound(pair_form(reduced))
    assert bound is None or bound <= least_cost(reduced)


@given(certificates(most=3))
def test_a_large_shift_always_proves_something(drawn):
    """Else the test before would say little."""
    reduced, certificate = drawn
    assert dataclasses.replace(certificate, shift=10**6).bound(pair_form(reduced)) is not None


@given(certificates(), st.sampled_from([0.0, 0.5, 0.99, 1.01, 2.0]))
def test_a_wrong_factor_proves_no_more(drawn, wrong):
    """The result of a floating-point factorisation is not trusted."""
    reduced, certificate = drawn
    with wrong_cholesky(wrong):
        bound = certificate.bound(pair_form(reduced))
    assert bound is None or bound <= least_cost(reduced)


def test_negative_multipliers_of_cuts_prove_nothing():
    """A cut is an inequality, so only one sign is valid."""
    form = pair_form(reg4(8, 3, 1))
    for value, proves in ((1, True), (-1, False)):
        certificate = PairCertificate(
            denominator=1,
            triangles=np.array([[0], [1], [2]]),
            multipliers=PairMultipliers(0, np.zeros(8, dtype=np.int64), np.array([value])),
            shift=99,
        )
        assert (certificate.bound(form) is not None) is proves


def test_numbers_beyond_doubles_are_refused():
    form = pair_form(reg4(8, 3, 1))
    zeros, cuts = np.zeros(8, dtype=np.int64), np.zeros((3, 0), dtype=np.int64)
    none = PairMultipliers(0, zeros, zeros[:0])
    for multipliers, shift in ((none._replace(sums=zeros + 2**60), 1), (none, 2**60)):
        certificate = PairCertificate(
            denominator=1, triangles=cuts, multipliers=multipliers, shift=shift
        )
        assert certificate.bound(form) is None
    assert in_integers(form, cuts, none._replace(level=1e16), 0.0) is None


def reg4(servers: int, reclaim: int, seed: int) -> ReducedReclaim:
    return reduce_instance(generate("reclaim", "reg4", servers=servers, reclaim=reclaim, seed=seed))


def test_only_jobs_on_two_servers_have_this_form():
    hyp8 = generate("reclaim", "hyp8", servers=14, reclaim=4, seed=1)
    assert pair_form(reduce_instance(hyp8)) is None
    assert pair_form(reg4(14, 4, 1)) is not None


@given(graphs())
def test_the_ascent_stays_below_the_optimum(reduced):
    """Whatever the weights and costs."""
    ascent = PairAscent(pair_form(reduced), NO_LIMIT)
    ascent.run()
    assert 0 <= ascent.proved() <= least_cost(reduced)


@given(graphs(), st.integers(0, 5), st.integers(0, 1))
def test_a_server_is_fixed_in_the_form(reduced, server, value):
    """The form of the other servers gives the same weights, and the point the same bound."""
    form, server = pair_form(reduced), min(server, len(reduced.servers) - 1)
    part, paid = form.fixed(server, value)
    places = np.delete(np.arange(len(reduced.servers)), server)
    for others in combinations(range(len(places)), part.picks):
        chosen = np.zeros(len(places))
        chosen[list(others)] = 1
        weight = part.cost @ chosen - part.shared @ chosen[part.ends].prod(axis=0)
        assert paid + weight == reduced.objective([*places[list(others)], *[server] * value])
    if part.ends.size and 0 < part.picks < len(places):
        whole = PairAscent(form, NO_LIMIT)
        whole.run()
        whole.cuts = whole.best_cuts
        bound, _, _ = whole.negative_part(whole.best_point)
        child = PairAscent(part, NO_LIMIT, whole.start_of_child(server, value))
        child_bound, values, _ = child.negative_part(child.point)
        assert child_bound + paid / child.unit == pytest.approx(bound)
        most = whole.best_shift * (1 + value * len(places) / part.picks)
        assert float(values[0]) >= -most - 1e-6


def test_the_constant_of_a_cut_counts():
    """With (1 - x_0) (1 - x_1) >= 0 and without its constant, 5 would be proved instead of 1."""
    one = np.ones(1, dtype=np.int64)
    certificate = PairCertificate(
        denominator=2000,
        triangles=np.array([[3], [0], [1]]),
        multipliers=PairMultipliers(5000, np.zeros(2, dtype=np.int64), 8000 * one),
        shift=1,
    )
    assert certificate.bound(PairForm(2, np.ones(2), np.array([[0], [1]]), one)) == 1


@pytest.mark.parametrize("factor", [1, pytest.param(10**6, marks=pytest.mark.slow)])
def test_cuts_prove_the_optimum_of_small_graphs(factor, monkeypatch):
    """The cuts add at least 0.4 of a job; weights in other units change nothing else."""
    for seed in range(3):
        reduced = reg4(14, 5, seed)
        form = pair_form(
            dataclasses.replace(
                reduced, server_cost=reduced.server_cost * factor, weight=reduced.weight * factor
            )
        )
        with_cuts, without = PairAscent(form, NO_LIMIT), PairAscent(form, NO_LIMIT)
        with_cuts.run()
        monkeypatch.setattr(without, "exchange_cuts", lambda _: None)
        without.run()
        assert with_cuts.best_value > without.best_value + 0.4
        least = least_cost(reduced)
        assert (least - 1) * factor < with_cuts.proved() <= least * factor

"""The bounds never cross the optimum, and are as strong as the linear relaxation."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

import lyra_opt as lo
from lyra_opt.reclaim.bounds import dual_bound as bounds
from lyra_opt.reclaim.bounds.dual_bound import PriceCertificate, interchangeable_bound, rigid_bound
from lyra_opt.reclaim.heuristics.base import preempted_weight
from lyra_opt.reclaim.heuristics.greedy import LyraGreedy
from lyra_opt.testing.strategies import reclaim_instances
from tests.draws import draws
from tests.lyra_opt.reclaim.examples import fleet, job_on
from tests.optima import optimum

HEAVIEST = 2**53 - 1
"""The largest weight of a job."""
TOLERANCE = 1e-6  # of the floating-point solver that the bounds are compared with


def relaxation_value(instance):
    """Return the value of the linear relaxation, built row by row from the instance's records."""
    names = [server.id for server in instance.servers]
    servers, jobs = len(names), len(instance.jobs)
    rows, limits = [], []
    for j, job in enumerate(instance.jobs):
        rigid = instance.semantics == "rigid"
        on_loan = {server.id for server in instance.servers if server.on_loan}
        losses = {
            group.server: 1 if rigid else group.workers
            for group in job.workers
            if group.server in on_loan and (group.base or not rigid)
        }
        slack = 0 if rigid else job.total_workers - job.min_workers
        capped = {server: min(count, slack + 1) for server, count in losses.items()}
        row = np.zeros(servers + jobs)
        for server, count in capped.items():
            row[names.index(server)] = count
            if count > slack:
                implied = np.zeros(servers + jobs)
                implied[names.index(server)], implied[servers + j] = 1, -1
                rows.append(implied)
                limits.append(0)
        row[servers + j] = -max(0, sum(capped.values()) - slack)
        rows.append(row)
        limits.append(slack)
    free = [float(server.on_loan) for server in instance.servers]
    result = linprog(
        [0.0] * servers + [job.weight for job in instance.jobs],
        A_ub=np.array(rows) if rows else None,
        b_ub=limits or None,
        A_eq=[free + [0.0] * jobs],
        b_eq=[instance.reclaim_servers],
        bounds=[(0, limit) for limit in free] + [(0, 1)] * jobs,
    )
    assert result.status == 0, result.message
    return float(result.fun)


def share_of_segment(instance, bound):
    """Return theta, where on the segment of the envelope N_R lies; 0 for a single point."""
    past = instance.reclaim_servers - len(bound.lower_servers)
    length = len(bound.upper_servers) - len(bound.lower_servers)
    return Fraction(past, length) if length else Fraction(0)


def relaxation(instance):
    """Return L, the exact value of the linear relaxation, read off the segment."""
    bound = rigid_bound(instance)
    theta = share_of_segment(instance, bound)
    return (1 - theta) * bound.lower_weight + theta * bound.upper_weight


def test_rigid_bound_equals_the_linear_relaxation(mode):
    """The parametric minimum cut and an LP solver agree; rounded up, so does the certificate."""

    @given(reclaim_instances(semantics="rigid", min_servers=1, max_servers=9, max_jobs=12))
    def agree(instance):
        value = relaxation_value(instance)
        bound = rigid_bound(instance).bound
        assert math.ceil(value - TOLERANCE) <= bound <= math.ceil(value + TOLERANCE)
        assert abs(float(relaxation(instance)) - value) <= TOLERANCE * max(1, value)

    agree()


@given(reclaim_instances(semantics="rigid", max_servers=9, max_jobs=12))
def test_the_segment_does_not_rest_on_the_guess(instance):
    """Without a pass that brings prices closer, and with many, the cuts end at the same value."""
    found = set()
    for passes in (0, 1, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bounds, "BALANCING_PASSES", passes)
            found.add((rigid_bound(instance).bound, relaxation(instance)))
    assert len(found) == 1


@given(
    reclaim_instances(semantics="rigid", min_servers=1, max_servers=7, max_jobs=6),
    st.lists(st.integers(1, 3), min_size=6, max_size=6),
)
def test_merged_jobs_charge_their_own_weight_each(instance, copies):
    """The flow of a row is split: no job of it charges more than it weighs, together all."""
    jobs = [
        replace(job, id=f"{job.id}-{number}", weight=job.weight * number)
        for job, several in zip(instance.jobs, copies, strict=False)
        for number in range(1, several + 1)
    ]
    servers = tuple(replace(server, gpus=1000) for server in instance.servers)
    # Every other one of the copies comes last, so that equal jobs are not next to one another.
    instance = replace(instance, servers=servers, jobs=(*jobs[::2], *jobs[1::2]))
    segment = rigid_bound(instance)
    index, certificate = instance.index, segment.certificate
    charged = [0] * len(instance.jobs)
    for job, price in zip(
        index.losses.server_jobs.tolist(), certificate.entry_multipliers.tolist(), strict=True
    ):
        assert price >= 0
        charged[job] += price
    for job, paid in zip(instance.jobs, charged, strict=True):
        assert paid <= job.weight * certificate.denominator
    assert segment.bound <= optimum(instance)
    value = relaxation_value(instance)
    assert math.ceil(value - TOLERANCE) <= segment.bound <= math.ceil(value + TOLERANCE)


@given(reclaim_instances(semantics="interchangeable", min_servers=1, max_servers=8))
@draws(60)
def test_interchangeable_bound_equals_the_linear_relaxation(instance):
    """Safe rounding costs nothing that the rounding up to an integer does not give back."""
    value = relaxation_value(instance)
    bound = interchangeable_bound(instance)
    assert math.ceil(value - 1e-4) <= bound <= math.ceil(value + TOLERANCE)


@given(reclaim_instances(max_servers=6, max_jobs=5), st.data())
def test_any_multipliers_give_a_valid_bound(instance, data):
    """The proof does not rest on where the multipliers come from: nonsense is safe too."""
    index = instance.index
    multipliers = st.integers(0, 30)
    row = data.draw(st.lists(multipliers, min_size=index.losses.jobs, max_size=index.losses.jobs))
    size = index.losses.entries
    entry = data.draw(st.lists(multipliers, min_size=size, max_size=size))
    certificate = PriceCertificate(
        denominator=data.draw(st.integers(1, 10)),
        row_multipliers=np.array(row, dtype=np.int64),
        entry_multipliers=np.array(entry, dtype=np.int64),
    )
    assert certificate.bound(index, instance.reclaim_servers) <= optimum(instance)


def test_a_negative_multiplier_proves_nothing(figure_5):
    """Refused, because the weighted rows would point the wrong way."""
    index = figure_5.index
    certificate = PriceCertificate(
        denominator=1,
        row_multipliers=np.zeros(index.losses.jobs, dtype=np.int64),
        entry_multipliers=np.full(index.losses.entries, -1),
    )
    with pytest.raises(ValueError, match="must be at least 0"):
        certificate.bound(index, 2)


@given(reclaim_instances(semantics="rigid", min_servers=1, max_servers=8))
def test_ends_of_the_segment_are_optimal_for_their_size(instance):
    """Breakpoints of the envelope are values of best sets."""
    bound = rigid_bound(instance)
    index = instance.index
    for servers, weight in (
        (bound.lower_servers, bound.lower_weight),
        (bound.upper_servers, bound.upper_weight),
    ):
        assert preempted_weight(index, servers) == weight
        best = min(
            preempted_weight(index, choice)
            for choice in combinations(index.on_loan.tolist(), len(servers))
        )
        assert weight == best
    assert len(bound.lower_servers) <= instance.reclaim_servers <= len(bound.upper_servers)


def test_products_beyond_64_bits():
    """One job of the largest weight on 1,200 servers: capacities of the cut exceed 2^62."""
    servers = [f"s{number}" for number in range(1200)]
    instance = fleet(servers, job_on("j", servers, weight=HEAVIEST), reclaim=600)
    assert rigid_bound(instance).bound == (HEAVIEST + 1) // 2
    assert rigid_bound(replace(instance, reclaim_servers=1200)).bound == HEAVIEST


def test_weights_that_sum_beyond_64_bits():
    """A thousand and more jobs of the largest weight."""
    jobs = [job_on(f"j{n}", "st"[n % 2], weight=HEAVIEST) for n in range(1100)]
    answer = lo.solve(fleet("st", *jobs), LyraGreedy(), certify=True)
    assert (answer.status, answer.objective) == ("optimal", HEAVIEST * 550)


@given(reclaim_instances(semantics="interchangeable", min_servers=1, max_servers=6))
@draws(30)
def test_huge_weights_do_not_overflow_interchangeable(instance):
    """The rounding of multipliers is relative to the weights."""
    factor = 2**45
    bound = interchangeable_bound(_scaled(instance, factor))
    assert bound <= factor * optimum(instance)
    assume(instance.total_weight > 0)
    assert bound >= factor * (relaxation_value(instance) - 1e-3)


def _scaled(instance, factor):
    jobs = tuple(replace(job, weight=factor * job.weight) for job in instance.jobs)
    return replace(instance, jobs=jobs)


def test_a_job_that_no_server_can_preempt_costs_nothing():
    """Off-loan workers alone keep it alive."""
    kept = job_on("j", "ab", min_workers=1)
    assert interchangeable_bound(fleet("a", kept, off_loan="b", semantics="interchangeable")) == 0

"""The integers of the checker of shares against the definitions in fractions, to the last digit."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.heterogeneous import Instance, Objective, TimeShares, check
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES
from lyra_opt.heterogeneous.share_numbers import greatest, least, over_power_of_two
from lyra_opt.heterogeneous.utility import Deadline
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws

TOLERANCE = Fraction(1, 10**6)
SHARE_INSTANCES = st.sampled_from(sorted(SHARE_OBJECTIVES)).flatmap(
    lambda objective: heterogeneous_instances(objective=objective, with_packing=True)
)


def worth(
    instance: Instance,
    shares: dict[str, dict[str, float]],
    packed: dict[tuple[str, str], dict[str, float]],
) -> Fraction | None:
    """Return what shares are worth by the definitions; None if they break a rule."""
    known = {(entry.kind, entry.beside): entry.throughput for entry in instance.packed}
    job_of = {job.id: job for job in instance.jobs}
    there = instance.gpus_of_type
    gpus = sum(there.values())
    exact = {
        job.id: {name: Fraction(share) for name, share in shares.get(job.id, {}).items()}
        for job in instance.jobs
    }
    usable = {
        job.id: [
            name for name in there if job.throughput.get(name, 0) > 0 and job.gang <= there[name]
        ]
        for job in instance.jobs
    }
    for job in instance.jobs:
        if any(share and name not in usable[job.id] for name, share in exact[job.id].items()):
            return None
        beside = [share for pair in packed if job.id in pair for share in packed[pair].values()]
        if sum(exact[job.id].values()) + sum(map(Fraction, beside)) > 1 + TOLERANCE:
            return None
    gained = {job.id: dict.fromkeys(there, Fraction(0)) for job in instance.jobs}
    for pair, of_types in packed.items():
        for name, share in of_types.items():
            for one, other in (pair, pair[::-1]):
                rates = known.get((job_of[one].kind, job_of[other].kind), {})
                if share and (not rates.get(name) or job_of[one].gang > there[name]):
                    return None
                gained[one][name] += Fraction(rates.get(name, 0)) * Fraction(share)
    for name, count in there.items():
        held = sum(job.gang * exact[job.id].get(name, 0) for job in instance.jobs)
        held += sum(
            job_of[one].gang * Fraction(packed[one, two].get(name, 0)) for one, two in packed
        )
        if held > count * (1 + TOLERANCE):
            return None

    def throughput(job_id: str, of_types: dict[str, Fraction]) -> Fraction:
        rates = instance.jobs[instance.job_position[job_id]].throughput
        parts = (Fraction(rates[name]) * share for name, share in of_types.items() if share)
        return sum(parts, Fraction(0))

    had = {
        job.id: throughput(job.id, exact[job.id]) + sum(gained[job.id].values())
        for job in instance.jobs
    }
    if instance.objective is Objective.MAX_MIN_SHARE:
        return min(
            job.gang
            / Fraction(job.weight)
            * had[job.id]
            / throughput(job.id, {name: Fraction(there[name], gpus) for name in usable[job.id]})
            for job in instance.jobs
        )
    if instance.objective is Objective.MAKESPAN_SHARE:
        if not all(had.values()):
            return None
        return max(Fraction(job.steps) / had[job.id] for job in instance.jobs)
    if instance.objective is Objective.FINISH_TIME_FAIRNESS:
        ratios = []
        for job in instance.jobs:
            if not had[job.id]:
                return None
            parts = len(instance.jobs) * job.gang
            scale = max(Fraction(1), Fraction(gpus, parts))
            alone = throughput(
                job.id, {name: Fraction(there[name], parts) / scale for name in usable[job.id]}
            )
            steps = Fraction(job.steps)
            finish_s = Fraction(job.elapsed_s) + steps / had[job.id]
            ratios.append(finish_s / (Fraction(job.isolated_elapsed_s) + steps / alone))
        return max(ratios)
    price = {kind.name: Fraction(1) for kind in instance.gpu_types}
    if instance.objective is Objective.COST:
        price = {kind.name: Fraction(kind.price_per_hour) for kind in instance.gpu_types}
        for job in instance.jobs:
            if isinstance(job.utility, Deadline):
                left_s = Fraction(job.utility.deadline_s) - Fraction(job.elapsed_s)
                if left_s <= 0 or had[job.id] * left_s < Fraction(job.steps) * (1 - TOLERANCE):
                    return None
    return sum(
        (
            Fraction(job.weight)
            * (Fraction(job.throughput.get(name, 0)) * share + gained[job.id][name])
            / price[name]
            for job in instance.jobs
            for name, share in exact[job.id].items()
        ),
        Fraction(0),
    )


@draws(300)
@given(instance=SHARE_INSTANCES, data=st.data())
def test_as_the_definitions_have_it(instance: Instance, data: st.DataObject) -> None:
    """Valid or not, and worth the same float; many shares fill a rule to its tolerance."""
    parts = st.sampled_from([0.0, 1e-300, 0.1, 1 / 3, 0.5, 1.0, 1.000001, 1 + 1.0000001e-6])
    shares = {}
    for job in instance.jobs:
        drawn = {name: data.draw(parts) for name in instance.gpus_of_type}
        cut = data.draw(st.sampled_from([1.0, job.gang, len(instance.jobs) * job.gang]))
        shares[job.id] = {name: share / cut for name, share in drawn.items()}
        for name in shares[job.id]:
            if not job.throughput.get(name) and data.draw(st.booleans()):
                shares[job.id][name] = 0.0
    packed: dict[tuple[str, str], dict[str, float]] = {}
    if instance.packed and data.draw(st.booleans()):
        kind = {job.id: job.kind for job in instance.jobs}
        usable = {(entry.kind, entry.beside) for entry in instance.packed}
        for one, two in permutations(kind, 2):
            is_sound = {(kind[one], kind[two]), (kind[two], kind[one])} <= usable
            if (is_sound or data.draw(st.booleans())) and (two, one) not in packed:
                share = data.draw(parts) / data.draw(st.sampled_from([1, 4, 8]))
                packed[one, two] = {data.draw(st.sampled_from(list(instance.gpus_of_type))): share}
    nested: dict[str, dict[str, dict[str, float]]] = {}
    for (one, two), of_types in packed.items():
        nested.setdefault(one, {})[two] = of_types
    report = check(instance, TimeShares(shares, nested))
    expected = worth(instance, shares, packed)
    assert report.objective == (None if expected is None else float(expected))
    assert bool(report.violations) == (expected is None)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_doubles_over_a_power_of_two_are_exact(values: list[float]) -> None:
    """Also those of other signs and sizes."""
    integers, power = over_power_of_two(values)
    assert [Fraction(number, power) for number in integers] == list(map(Fraction, values))
    assert power.bit_count() == 1


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(1, 99)), min_size=1))
def test_extremes_of_ratios(ratios: list[tuple[int, int]]) -> None:
    """By cross products, as fractions compare."""
    fractions = [Fraction(*ratio) for ratio in ratios]
    assert Fraction(*least(ratios)) == min(fractions)
    assert Fraction(*greatest(ratios)) == max(fractions)


def test_ties_are_kept_in_order() -> None:
    """The first of equal ratios is returned, reduced or not."""
    for first, second in pairwise([(1, 2), (2, 4), (1, 2)]):
        assert least([first, second]) == first
        assert greatest([first, second]) == first


@pytest.mark.parametrize("objective", sorted(SHARE_OBJECTIVES))
def test_no_solution_at_all(objective: str) -> None:
    """Nobody has a share: worth nothing, or not valid."""
    from tests.lyra_opt.heterogeneous.heuristics.cases import instance_of, job

    instance = instance_of([{"a": 1}], [job("x", 9)], objective=objective, horizon_rounds=1)
    report = check(instance, TimeShares({}))
    is_late = objective in (Objective.FINISH_TIME_FAIRNESS, Objective.MAKESPAN_SHARE)
    assert report.objective == (None if is_late else 0.0)

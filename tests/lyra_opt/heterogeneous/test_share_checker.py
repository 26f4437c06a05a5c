"""The integers of the checker of shares against the definitions in fractions, to the last digit."""

from contextlib import suppress
from fractions import Fraction
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.heterogeneous import Objective, TimeShares, check
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES
from lyra_opt.heterogeneous.share_checker import greatest, least, over_power_of_two
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.optima import document_of
from tests.reference.drawing import InvalidChoiceError
from tests.reference.shares import measured

SHARE_INSTANCES = st.sampled_from(sorted(SHARE_OBJECTIVES)).flatmap(
    lambda objective: heterogeneous_instances(objective=objective, with_packing=True)
)


@draws(300)
@given(instance=SHARE_INSTANCES, data=st.data())
def test_as_the_definitions_have_it(instance, data):
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
    packed = {}
    if instance.packed and data.draw(st.booleans()):
        kind = {job.id: job.kind for job in instance.jobs}
        usable = {(entry.kind, entry.beside) for entry in instance.packed}
        for one, two in permutations(kind, 2):
            is_sound = {(kind[one], kind[two]), (kind[two], kind[one])} <= usable
            if (is_sound or data.draw(st.booleans())) and (two, one) not in packed:
                share = data.draw(parts) / data.draw(st.sampled_from([1, 4, 8]))
                packed[one, two] = {data.draw(st.sampled_from(list(instance.gpus_of_type))): share}
    nested = {}
    for (one, two), of_types in packed.items():
        nested.setdefault(one, {})[two] = of_types
    report = check(instance, TimeShares(shares, nested))
    expected = None
    with suppress(InvalidChoiceError):
        expected = float(measured(document_of(instance), shares, packed)["objective"])
    assert report.objective == expected
    assert bool(report.violations) == (expected is None)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_doubles_over_a_power_of_two_are_exact(values):
    """Also those of other signs and sizes."""
    integers, power = over_power_of_two(values)
    assert [Fraction(number, power) for number in integers] == list(map(Fraction, values))
    assert power.bit_count() == 1


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(1, 99)), min_size=1))
def test_extremes_of_ratios(ratios):
    """By cross products, as fractions compare."""
    fractions = [Fraction(*ratio) for ratio in ratios]
    assert Fraction(*least(ratios)) == min(fractions)
    assert Fraction(*greatest(ratios)) == max(fractions)


def test_ties_are_kept_in_order():
    """The first of equal ratios is returned, reduced or not."""
    for first, second in pairwise([(1, 2), (2, 4), (1, 2)]):
        assert least([first, second]) == first
        assert greatest([first, second]) == first


@pytest.mark.parametrize("objective", sorted(SHARE_OBJECTIVES))
def test_no_solution_at_all(objective):
    """Nobody has a share: worth nothing, or not valid."""
    from tests.lyra_opt.heterogeneous.heuristics.cases import instance_of, job

    instance = instance_of([{"a": 1}], [job("x", 9)], objective=objective, horizon_rounds=1)
    report = check(instance, TimeShares({}))
    is_late = objective in (Objective.FINISH_TIME_FAIRNESS, Objective.MAKESPAN_SHARE)
    assert report.objective == (None if is_late else 0.0)

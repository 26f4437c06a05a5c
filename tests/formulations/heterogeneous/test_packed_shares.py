"""Shares of time where two jobs may share GPUs: bounds, water filling, and what is refused."""

from dataclasses import replace

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays
from lyra_opt.heterogeneous.exact.shares.water_filling import fill
from lyra_opt.heterogeneous.instance import PackedRate
from tests.lyra_opt.heterogeneous.heuristics.cases import instance_of, job

RATE = PackedRate(kind="k", beside="k", throughput={"a": 1.5})
ALIKE = job("y0", 12.0, throughput={"a": 2.0}, kind="k")


def packable(gpus=1):
    """Return two jobs alike, at 2 steps a second alone and at three quarters of it when packed."""
    alike = [job(f"j{n}", 12.0, throughput={"a": 2.0}, kind="k") for n in range(2)]
    return instance_of([{"a": gpus}], alike, objective="max_min_share", packed=(RATE,))


def test_water_filling_goes_on_where_the_least_share_stops():
    """Two jobs packed all the time are saturated; a third has a type of its own."""
    two = packable()
    jobs = *two.jobs, job("alone", 1.0, throughput={"b": 2.0})
    instance = instance_of([{"a": 1, "b": 1}], jobs, objective="max_min_share", packed=two.packed)
    # An equal part of the GPUs is half of either type.
    assert fill(ShareArrays.of(instance)).levels == pytest.approx([1.5, 1.5, 2.0], rel=1e-6)


FAULTS = [
    ({"packed": [replace(RATE, beside="nobody")]}, r"packed\[0\].beside"),
    ({"packed": [RATE, RATE]}, r"packed\[1\].beside.*twice"),
    ({"packed": [replace(RATE, throughput={"b": 1.0})]}, r"packed\[0\].throughput"),
    ({"objective": "makespan"}, "packed.*must be empty"),
    ({"packed": [replace(RATE, beside="large")]}, "must be a kind with gang 1"),
    ({"jobs": [ALIKE, replace(ALIKE, id="y", throughput={"a": 1.0})]}, r"jobs\[1\].kind"),
]


@pytest.mark.parametrize(("changes", "message"), FAULTS)
def test_what_packed_rates_may_not_be(changes, message):
    """Each broken rule is refused with field and rule."""
    two = packable(gpus=2)
    larger = job("x", 1.0, gang=2, kind="large")
    with pytest.raises(FieldError, match=message):
        replace(two, **{"jobs": [ALIKE, larger], **changes})

"""Instances: what their derived quantities are, and which ones are refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.heterogeneous import GpuServer, GpuType
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.conftest import assert_field_refused
from tests.lyra_opt.heterogeneous.examples import RATES, SERVERS, TYPES, instance, job


def test_the_slowest_gpu_rules() -> None:
    """The bottleneck, consolidated and spread."""
    spread = job(gang=2, spread_throughput={"fast": 3.0, "slow": 0.5})
    assert spread.rate_of({"s1": {"fast": 2}}) == 4.0
    assert spread.rate_of({"s1": {"fast": 1, "slow": 1}}) == 1.0
    assert spread.rate_of({"s1": {"fast": 1}, "s2": {"slow": 1}}) == 0.5
    assert job(gang=2).rate_of({"s1": {"fast": 1}, "s2": {"slow": 1}}) == 1.0
    assert job(throughput={"fast": 1.0}).rate_of({"s2": {"slow": 1}}) == 0.0
    assert spread.best_rate == 4.0


@pytest.mark.parametrize(
    ("release_s", "round_s", "first"),
    [(0, 1, 0), (1, 1, 1), (1.5, 1, 2), (0.3, 0.1, 3), (1e60, 1e-60, 10**120)],
)
def test_first_round(release_s: float, round_s: float, first: int) -> None:
    """The first that begins no earlier than the release, whatever the magnitudes."""
    one = instance(job(release_s=release_s), round_s=round_s, horizon_rounds=1)
    found = one.first_round(one.jobs[0])
    assert found == pytest.approx(first, rel=1e-12)
    assert found * Fraction(round_s) >= Fraction(release_s) > (found - 1) * Fraction(round_s)


@given(st.data())
def test_drawn_instances_are_valid_and_varied(data: st.DataObject) -> None:
    """The strategy keeps its limits."""
    drawn = data.draw(heterogeneous_instances(max_jobs=2, max_rounds=3, max_servers=2))
    assert len(drawn.jobs) <= 2
    assert drawn.horizon_rounds <= 3
    assert len(drawn.servers) <= 2
    assert sum(drawn.gpus_of_type.values()) > 0


def _current(**gpus: dict[str, int]):
    return {"current": gpus}


DEFECTS = {
    "no_jobs": (lambda: replace(instance(), jobs=()), "jobs"),
    "no_types": (lambda: replace(instance(), gpu_types=()), "gpu_types"),
    "objective": (lambda: instance(objective="fast"), "objective"),
    "round_s": (lambda: instance(round_s=0), "round_s"),
    "round_s_tiny": (lambda: instance(round_s=1e-61), "round_s"),
    "horizon": (lambda: instance(horizon_rounds=100_001), "horizon_rounds"),
    "horizon_true": (lambda: instance(horizon_rounds=True), "horizon_rounds"),
    "one_round": (lambda: instance(objective="round_progress"), "horizon_rounds"),
    "restart": (lambda: instance(restart_s=0.5), "restart_s"),
    "restart_above_round": (
        lambda: instance(objective="round_progress", horizon_rounds=1, restart_s=2),
        "restart_s",
    ),
    "forking_shares": (lambda: instance(objective="cost", forking=True), "forking"),
    "forking_number": (lambda: instance(forking=1), "forking"),
    "same_type": (lambda: instance(gpu_types=TYPES + TYPES[:1]), "gpu_types[2].name"),
    "same_server": (lambda: instance(servers=SERVERS + SERVERS[:1]), "servers[2].id"),
    "same_job": (lambda: instance(job(), job()), "jobs[1].id"),
    "unknown_type": (
        lambda: instance(servers=(GpuServer(id="s1", gpus={"other": 1}),)),
        "servers[0].gpus",
    ),
    "unknown_rate": (lambda: instance(job(throughput={**RATES, "other": 1})), "jobs[0].throughput"),
    "current_server": (lambda: instance(job(**_current(s9={"fast": 1}))), "jobs[0].current.s9"),
    "current_too_many": (
        lambda: instance(job(gang=3, **_current(s1={"fast": 3}))),
        "jobs[0].current.s1.fast",
    ),
    "current_taken": (
        lambda: instance(
            job("a", 2, **_current(s1={"fast": 2})), job("b", 1, **_current(s1={"fast": 1}))
        ),
        "jobs[1].current.s1.fast",
    ),
    "no_share": (
        lambda: instance(job(gang=3, throughput={"fast": 1}), objective="throughput"),
        "jobs[0].throughput",
    ),
    "gang": (lambda: job(gang=0), "gang"),
    "steps": (lambda: job(steps=0), "steps"),
    "steps_infinite": (lambda: job(steps=float("inf")), "steps"),
    "weight": (lambda: job(weight=-1), "weight"),
    "no_rate": (lambda: job(throughput={"fast": 0}), "throughput"),
    "rate": (lambda: job(throughput={"fast": -1}), "throughput.fast"),
    "current_part": (lambda: job(gang=2, **_current(s1={"fast": 1})), "current"),
    "current_none": (lambda: job(**_current(s1={"fast": 0})), "current.s1.fast"),
    "price": (lambda: GpuType(name="x", price_per_hour=0), "price_per_hour"),
    "no_gpus": (lambda: GpuServer(id="x", gpus={"fast": 0}), "gpus"),
    "negative_gpus": (lambda: GpuServer(id="x", gpus={"fast": -1}), "gpus.fast"),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_defects_are_named(defect: str) -> None:
    """The field that breaks its rule."""
    assert_field_refused(*DEFECTS[defect])


def test_what_would_exhaust_the_machine_is_refused() -> None:
    """Gangs and clusters have a largest size, and a server that is named holds something."""
    with pytest.raises(FieldError, match="gang is 1000001: must be at most 1000000"):
        job("wide", 1_000_001)
    with pytest.raises(FieldError, match="all servers up to this one"):
        instance(job("a"), servers=(GpuServer(id="s", gpus={"fast": 1_000_001}),))
    with pytest.raises(FieldError, match=r"current\.s1 is \{\}: must have at least one entry"):
        job("held", current={"s1": {}})
    with pytest.raises(FieldError, match="elapsed_s"):
        job("old", elapsed_s=1e30)

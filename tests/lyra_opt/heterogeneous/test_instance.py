"""Instances: what their derived quantities are, and which ones are refused."""

from fractions import Fraction

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.heterogeneous import GpuServer
from tests.lyra_opt.heterogeneous.examples import instance, job


def test_the_slowest_gpu_rules():
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
def test_first_round(release_s, round_s, first):
    """The first that begins no earlier than the release, whatever the magnitudes."""
    one = instance(job(release_s=release_s), round_s=round_s, horizon_rounds=1)
    found = one.first_round(one.jobs[0])
    assert found == pytest.approx(first, rel=1e-12)
    assert found * Fraction(round_s) >= Fraction(release_s) > (found - 1) * Fraction(round_s)


def test_what_would_exhaust_the_machine_is_refused():
    """Gangs and clusters have a largest size, and a server that is named holds something."""
    with pytest.raises(FieldError, match="gang is 1000001: must be at most 1000000"):
        job("wide", 1_000_001)
    with pytest.raises(FieldError, match="all servers up to this one"):
        instance(job("a"), servers=(GpuServer(id="s", gpus={"fast": 1_000_001}),))
    with pytest.raises(FieldError, match=r"current\.s1 is \{\}: must have at least one entry"):
        job("held", current={"s1": {}})
    with pytest.raises(FieldError, match="elapsed_s"):
        job("old", elapsed_s=1e30)

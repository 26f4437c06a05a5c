"""The time of a job is told by its parts; that they add up is checked in every simulation."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.least_run import time_parts
from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.scheme import simulate
from lyra_opt.simulation.tenure import Leases, Rounds
from lyra_opt.simulation.workload import Workload
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.replays import job_of, replay
from tests.lyra_opt.simulation.steps import Script


def parts_of(simulation: Kernel, job: int = 0) -> dict[str, float]:
    """Return the parts of the JCT of a job that are not 0, and check that they are all of it."""
    require_conserved(simulation)
    found = {name: float(part_s[job]) for name, part_s in time_parts(simulation.runs).items()}
    assert math.fsum(found.values()) == pytest.approx(simulation.runs[job].jct_s)
    return {name: value for name, value in found.items() if abs(value) > 1e-9}


def test_measured_gangs_that_are_spread():
    """Near they are three times as fast as far on one type, and the other type is slower."""
    types = {"a": 3.0, "b": 2.0}
    cluster = in_rounds.cluster_of({"a": 2}, {"b": 2}, {"b": 1})
    gang = in_rounds.gang("x", 12, gang=2, **types)
    spread = dict.fromkeys(types, 1.0)
    job = job_of("x", 0, 12, 2, measured=replace(gang, spread_throughput=spread))
    jobs = Workload(name="one", jobs=(job,))
    found = Kernel(jobs, cluster, Script([[0, "starts", 0, {1: 1, 2: 1}]])).run()
    # 12 s at rate 1: of them 4 are at the best rate 3, and 4 more would be lost near on b.
    assert parts_of(found) == pytest.approx(
        {"least_run_s": 4, "slower_type_s": 4, "slower_placement_s": 4}
    )


def test_copies_that_start_and_merge():
    """In each round of ten seconds two copies of rate 1 lose two at first, and one at its end."""
    cluster = in_rounds.cluster_of({"a": 1}, {"a": 1}, {"a": 1})
    jobs = Workload(
        name="one", jobs=tuple(job_of(name, 0, length) for name, length in (("x", 13), ("y", 9)))
    )
    rounds = Rounds(round_s=10, restart_s=2, merge_s=1)
    found = simulate(jobs, cluster, "hadare", tenure=rounds)
    for job in range(2):
        parts = parts_of(found, job)
        assert parts["least_run_s"] == pytest.approx((13, 9)[job] / 3)
        assert parts["pause_s"] > 0
        assert all(value >= 0 for value in parts.values())


def test_leases_that_are_passed_over():
    """What many leases that are all alike lose is counted for each of them."""
    cluster = on_racks.cluster_of(1, 2, 1)
    jobs = Workload(name="one", jobs=(on_racks.job("x", 1000, gang=2),))
    found = simulate(jobs, cluster, "no-wait", tenure=Leases(lease_s=10, hand_over_s_per_gpu=0.5))
    assert found.runs[0].losses > 100
    # The gang has no better place than two machines, where it computes half of the time.
    parts = parts_of(found)
    assert parts["least_run_s"] == 2000
    assert set(parts) == {"least_run_s", "queue_again_s"}


def test_parts_that_do_not_add_up_are_told():
    """A simulation that loses time by the way is wrong."""
    found = replay([job_of("x", 0, 10)], Cluster.of_servers(1), "fifo")
    found.runs[0].slower_type_s = 1.0
    with pytest.raises(AssertionError, match=r"job x has a completion time of 10.* but its parts"):
        require_conserved(found)
    found.runs[0].slower_type_s = -1.0
    with pytest.raises(AssertionError, match=r"job x: slower_type_s is negative: -1.0 s"):
        require_conserved(found)

"""The time of a job is told by its parts; that they add up is checked in every simulation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lyra_opt.simulation.cluster import Cluster, GpuType, Server
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.least_run import time_parts
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.policy import QueuePolicy
from lyra_opt.simulation.scheme import simulate
from lyra_opt.simulation.tenure import Forever, Leases, Rounds
from lyra_opt.simulation.workload import Workload
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.replays import EVERY_EVENT, borrowing, job_of, lending, replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.view import View


def parts_of(simulation: Kernel, job: int = 0) -> dict[str, float]:
    """Return the parts of the JCT of a job that are not 0, and check that they are all of it."""
    require_conserved(simulation)
    found = {name: float(part_s[job]) for name, part_s in time_parts(simulation.runs).items()}
    assert math.fsum(found.values()) == pytest.approx(simulation.runs[job].jct_s)
    return {name: value for name, value in found.items() if abs(value) > 1e-9}


class Script(QueuePolicy):
    """Does one thing after another, each at its time.

    Parameters
    ----------
    steps
        What is done to the first job, and when.
    """

    def __init__(self, **steps: Callable[[Script, View, JobRun], object]) -> None:
        super().__init__("script")
        self._steps = sorted((float(name.removeprefix("at_")), do) for name, do in steps.items())

    def decide(self, view: View) -> None:
        while self._steps and self._steps[0][0] <= view.now_s:
            _, do = self._steps.pop(0)
            do(self, view, view.runs[0])
        if self._steps:
            self.wake_s = self._steps[0][0]


def starts(**gpus: int) -> Callable[[Script, View, JobRun], object]:
    """Start the job on hosts called ``h0``, ``h1``, ..."""
    held = {int(name.removeprefix("h")): count for name, count in gpus.items()}
    return lambda policy, view, run: policy.start(view, run, view.reserve(run, held))


def test_lost_work_pauses_and_waits() -> None:
    """Ten seconds are lost at a stop, and done again after the wait and a pause."""
    job = job_of("x", 0, 30)
    policy = Script(
        at_5=starts(h0=1), at_15=lambda policy, view, run: view.stop(run), at_22=starts(h0=1)
    )
    kernel = Kernel(
        Workload(name="one", jobs=(job,)),
        Cluster.of_servers(1, gpus_per_server=1),
        policy,
        tenure=Forever(preemption_s=4),
    ).run()
    assert parts_of(kernel) == {
        "least_run_s": 30,
        "queue_first_s": 5,
        "queue_again_s": 7,
        "lost_work_s": 10,
        "pause_s": 4,
    }


def test_lost_work_counts_at_the_best_rate() -> None:
    """What ten seconds of one worker did, three workers do in a third; then it has one again."""
    job = job_of("x", 0, 30, max_workers=3)
    policy = Script(
        at_0=starts(h0=1), at_10=lambda policy, view, run: view.stop(run), at_11=starts(h0=1)
    )
    kernel = Kernel(
        Workload(name="one", jobs=(job,)),
        Cluster.of_servers(1, gpus_per_server=3),
        policy,
        tenure=Forever(preemption_s=0),
    ).run()
    assert parts_of(kernel) == pytest.approx(
        {
            "least_run_s": 10,
            "queue_again_s": 1,
            "lost_work_s": 10 / 3,
            "fewer_workers_s": 40 * 2 / 3,
        }
    )


def test_fewer_workers() -> None:
    """Two of four workers for ten seconds, while another job has the other GPUs."""
    jobs = [job_of("x", 0, 20, 2, max_workers=4), job_of("y", 0, 10, 2)]
    found = replay(jobs, Cluster.of_servers(1, gpus_per_server=4), "afs", options=EVERY_EVENT)
    assert parts_of(found) == {"least_run_s": 10, "fewer_workers_s": 5}
    assert parts_of(found, 1) == {"least_run_s": 10}


@pytest.mark.parametrize(("relative_speed", "best"), [(1.0, 1.0), (0.5, 1.0), (0.4, 1.2)])
def test_own_gpus_may_be_the_slower_ones(relative_speed: float, best: float) -> None:
    """Three borrowed GPUs of 0.4 are faster than an own one, on which the job runs."""
    gpu = GpuType(name="lent", relative_speed=relative_speed)
    job = job_of("x", 0, 12, fungible=True)
    found = replay([job], borrowing(1, 1, 4, gpu), "lyra-loaning", plan=lending(1))
    lost = {"slower_type_s": 12 - 12 / best} if best > 1 else {}
    assert parts_of(found) == pytest.approx({"least_run_s": 12 / best, **lost})


def test_slower_types() -> None:
    """Half of the speed for ten seconds, on the only GPU that is free."""
    types = (GpuType(name="slow", relative_speed=0.5), GpuType(name="fast"))
    servers = tuple(Server(id=each.name, gpus={each.name: 1}) for each in types)
    cluster = Cluster(name="two", gpu_types=types, servers=servers)
    policy = Script(at_0=starts(h0=1))
    jobs = Workload(name="one", jobs=(job_of("x", 0, 10),))
    found = Kernel(jobs, cluster, policy).run()
    assert parts_of(found) == {"least_run_s": 10, "slower_type_s": 10}


def test_slower_placements() -> None:
    """Two GPUs on two machines of a rack compute half of the time."""
    cluster = on_racks.cluster_of(1, 2, 2)
    jobs = Workload(name="one", jobs=(on_racks.job("x", 10, gang=2),))
    policy = Script(at_0=starts(h0=1, h1=1))
    found = Kernel(jobs, cluster, policy, tenure=Forever()).run()
    assert parts_of(found) == {"least_run_s": 10, "slower_placement_s": 10}
    metrics = measure(found)
    assert (metrics.least_run_mean_s, metrics.slower_placement_mean_s) == (10, 10)


def test_measured_gangs_that_are_spread() -> None:
    """Near they are three times as fast as far on one type, and the other type is slower."""
    types = {"a": 3.0, "b": 2.0}
    cluster = in_rounds.cluster_of({"a": 2}, {"b": 2}, {"b": 1})
    gang = in_rounds.gang("x", 12, gang=2, **types)
    spread = dict.fromkeys(types, 1.0)
    job = job_of("x", 0, 12, 2, measured=replace(gang, spread_throughput=spread))
    jobs = Workload(name="one", jobs=(job,))
    found = Kernel(jobs, cluster, Script(at_0=starts(h1=1, h2=1))).run()
    # 12 s at rate 1: of them 4 are at the best rate 3, and 4 more would be lost near on b.
    assert parts_of(found) == pytest.approx(
        {"least_run_s": 4, "slower_type_s": 4, "slower_placement_s": 4}
    )


def test_copies_that_start_and_merge() -> None:
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


def test_leases_that_are_passed_over() -> None:
    """What many leases that are all alike lose is counted for each of them."""
    cluster = on_racks.cluster_of(1, 2, 1)
    jobs = Workload(name="one", jobs=(on_racks.job("x", 1000, gang=2),))
    found = simulate(jobs, cluster, "no-wait", tenure=Leases(lease_s=10, hand_over_s_per_gpu=0.5))
    assert found.runs[0].losses > 100
    # The gang has no better place than two machines, where it computes half of the time.
    parts = parts_of(found)
    assert parts["least_run_s"] == 2000
    assert set(parts) == {"least_run_s", "queue_again_s"}


def test_parts_that_do_not_add_up_are_told() -> None:
    """A simulation that loses time by the way is wrong."""
    found = replay([job_of("x", 0, 10)], Cluster.of_servers(1), "fifo")
    found.runs[0].slower_type_s = 1.0
    with pytest.raises(AssertionError, match=r"job x was there for 10.* but the parts of that are"):
        require_conserved(found)
    found.runs[0].slower_type_s = -1.0
    with pytest.raises(AssertionError, match=r"job x has a slower_type_s of -1.0 s"):
        require_conserved(found)

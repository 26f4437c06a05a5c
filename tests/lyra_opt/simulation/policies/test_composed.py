"""Traces small enough to work out by hand: who runs when, where, and how fast."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.simulation.cluster import INFERENCE_GPU, Cluster, GpuType, LoanPlan, Server
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.policies.composition import LoanRule
from lyra_opt.simulation.scheme import ComposedScheme, Options, find_scheme
from lyra_opt.simulation.series import CaptureObserver
from lyra_opt.simulation.tenure import Forever
from lyra_opt.simulation.workload import Job
from tests.lyra_opt.simulation.replays import (
    EVERY_EVENT,
    borrowing,
    completions,
    gpu_s,
    job_of,
    lending,
    preemptions,
    replay,
    starts,
)

BORROWING_FIFO = ComposedScheme(name="borrowing-fifo", summary="for tests", reclaimer="lyra-greedy")


def elastic(name: str, submit_s: float, least: int, most: int, work: float, **fields) -> Job:  # type: ignore[no-untyped-def]
    return Job(
        id=name,
        submit_s=submit_s,
        work_worker_s=work,
        min_workers=least,
        max_workers=most,
        **fields,
    )


# Elastic scaling.


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("lyra-scaling", [56 + 2 / 3, 40]),  # the knapsack gives 5 and 3
        ("gandiva", [60, 30]),  # equal: 4 and 4
        ("least-loss", [63 + 1 / 3, 20]),  # the smaller first: 2 and 6
        ("sjf", [150, 60]),  # no scaling
    ],
)
def test_rows_of_lyras_first_example(scheme: str, expected: list[float]) -> None:
    """Table 2 of the paper on 8 GPUs: each split ends as the fact sheet's row for it."""
    jobs = [elastic("A", 0, 2, 6, 300), elastic("B", 0, 2, 6, 120)]
    simulation = replay(jobs, Cluster.of_servers(1), scheme, options=EVERY_EVENT)
    assert completions(simulation) == pytest.approx(expected)
    require_conserved(simulation)


def test_mean_of_lyras_examples() -> None:
    """The knapsack loses on the first example (48.33) and is right on the second (62)."""
    for jobs, mean_s in [
        ([elastic("A", 0, 2, 6, 300), elastic("B", 0, 2, 6, 120)], 48 + 1 / 3),
        ([elastic("A", 0, 2, 3, 300), elastic("B", 0, 2, 6, 120)], 62),
    ]:
        simulation = replay(jobs, Cluster.of_servers(1), "lyra-scaling", options=EVERY_EVENT)
        assert measure(simulation).jct_mean_s == pytest.approx(mean_s)


@pytest.mark.parametrize(("interval_s", "end_s"), [(0, 102.5), (60, 105)])
def test_base_demand_displaces_flexible_workers(interval_s: float, end_s: float) -> None:
    """It starts at once; what it leaves is given back at the next resizing, not before."""
    jobs = [elastic("A", 0, 1, 4, 400), job_of("B", 50, 5, 2)]
    options = Options(scaling_interval_s=interval_s)
    simulation = replay(
        jobs, Cluster.of_servers(1, gpus_per_server=4), "lyra-scaling", options=options
    )
    # A: 4 workers until 50, 2 until 55 or 60, then 4 again.
    assert completions(simulation) == pytest.approx([end_s, 55])
    assert simulation.runs[1].queued_s == 0


def test_growth_is_judged_by_what_is_left() -> None:
    """A worker more would save A 50 s at 100 s, not the 150 s of its start, and B 75 s."""
    jobs = [elastic("A", 0, 1, 2, 300), elastic("B", 100, 1, 2, 150)]
    cluster = Cluster.of_servers(1, gpus_per_server=3)
    simulation = replay(jobs, cluster, "lyra-scaling", options=EVERY_EVENT)
    assert completions(simulation) == pytest.approx([187.5, 175])


def test_scaling_loss_slows_added_workers() -> None:
    """4 workers, 3 of them at half speed, do 2.5 workers' work."""
    jobs = [elastic("A", 0, 1, 4, 100, scaling_loss=0.5)]
    simulation = replay(jobs, Cluster.of_servers(1), "lyra-scaling", options=EVERY_EVENT)
    assert completions(simulation) == pytest.approx([40])


def test_nobody_is_scaled_in_for_nothing() -> None:
    """Two flexible workers on two servers do not make room for one worker of two GPUs."""
    jobs = [
        job_of("stays", 0, 200),
        job_of("leaves", 0, 10),
        elastic("A", 0, 1, 3, 740),
        job_of("wide", 70, 1000, gpus_per_worker=2),
    ]
    cluster = Cluster.of_servers(2, gpus_per_server=2)
    simulation = replay(jobs, cluster, "lyra-scaling", options=Options(scaling_interval_s=60))
    # A: 2 workers until 60, 3 until 200 on fragments of both servers, then 2.
    assert completions(simulation) == pytest.approx([200, 10, 300, 1200])
    assert starts(simulation)[3] == 200


def test_who_is_scaled_in_is_judged_as_of_now() -> None:
    """Remaining work is that of the moment, not of the job's last resizing.

    At 0 s a worker less would delay X by 200 s and Y by 190 s; at 150 s by 50 s and 140 s.
    """
    jobs = [elastic("X", 0, 1, 2, 400), elastic("Y", 0, 1, 4, 2280), job_of("Z", 150, 10)]
    cluster = Cluster.of_servers(1, gpus_per_server=6)
    options = Options(scaling_interval_s=1000)
    simulation = replay(jobs, cluster, "lyra-scaling", options=options)
    assert completions(simulation) == pytest.approx([250, 570, 160])


def test_jobs_grow_only_while_none_waits() -> None:
    """Gandiva: C waits for all GPUs from 10 s on, so A does not take those that B leaves."""
    jobs = [elastic("A", 0, 1, 4, 100), job_of("B", 0, 20, 3), job_of("C", 10, 5, 4)]
    simulation = replay(
        jobs, Cluster.of_servers(1, gpus_per_server=4), "gandiva", options=EVERY_EVENT
    )
    assert completions(simulation) == [100, 20, 105]


def test_wrong_estimates_change_the_order_and_not_the_length() -> None:
    """The scheduler believes the long job short; it still takes as long as it takes."""
    jobs = [
        job_of("first", 0, 10),
        job_of("long", 0, 90, estimated_work_worker_s=5.0),
        job_of("short", 0, 50, estimated_work_worker_s=60.0),
    ]
    cluster = Cluster.of_servers(1, gpus_per_server=1)
    simulation = replay(jobs, cluster, "lyra-scaling")
    assert completions(simulation) == [100, 90, 150]
    assert completions(replay(jobs, cluster, "sjf")) == [10, 150, 60]


# Loans.


def lent_server(gpus: int = 1, **fields: int) -> Cluster:
    """Return as many training GPUs, and one inference server whose GPUs are as fast."""
    return Cluster.of_servers(
        1,
        gpus_per_server=gpus,
        inference_servers=1,
        inference_gpus_per_server=fields.get("inference_gpus", gpus),
        inference_gpu=GpuType(name="inference", relative_speed=1 / fields.get("replicas", 1)),
    )


@pytest.mark.parametrize(("checkpoints", "end_s"), [(False, 413), (True, 314)])
def test_preemption(checkpoints: bool, end_s: float) -> None:
    """The server goes back at 100 s and comes again at 200 s; 99 s of 150 s are done by then."""
    jobs = [
        job_of("trains", 0, 500, 2),
        job_of("borrows", 1, 150, 2, fungible=True, checkpoints=checkpoints),
    ]
    plan = lending(1, 0, 1)
    simulation = replay(jobs, lent_server(2), "lyra-loaning", plan=plan)
    run = simulation.runs[1]
    assert (run.start_s, run.completion_s, run.queued_s) == (1, end_s, 100)
    assert (run.preemptions, run.ran_on_loan) == (1, True)
    totals = simulation.totals
    assert (preemptions(simulation), totals.reclaims, totals.loans) == (1, 1, 2)
    assert (totals.returned_servers, totals.vacated_gpus, totals.collateral_gpus) == (1, 2, 0)
    assert gpu_s(simulation, on_loan=True) == pytest.approx(2 * (99 + end_s - 200))
    require_conserved(simulation)


def test_preemption_costs_what_the_options_say() -> None:
    """63 s is a default."""
    jobs = [job_of("trains", 0, 500), job_of("borrows", 1, 150, fungible=True)]
    simulation = replay(
        jobs,
        lent_server(),
        "lyra-loaning",
        plan=lending(1, 0, 1),
        options=Options(forever=Forever(preemption_s=10)),
    )
    assert simulation.runs[1].completion_s == 360


def test_a_second_preemption_before_progress() -> None:
    """A job that is preempted while it still reloads has done nothing, and pays again."""
    jobs = [
        job_of("trains", 0, 500),
        job_of("borrows", 1, 150, fungible=True, checkpoints=True),
    ]
    plan = LoanPlan(interval_s=50, on_loan=(1, 0, 1, 0, 1), busy_share=(0,))
    simulation = replay(jobs, lent_server(), "lyra-loaning", plan=plan)
    run = simulation.runs[1]
    # 49 s done by 50 s; 100 to 150 s within the 63 s; from 263 s on the other 101 s.
    assert (run.preemptions, run.queued_s, run.completion_s) == (2, 100, 364)


def test_completion_comes_before_reclaiming() -> None:
    """A job that ends as its server is called back has ended."""
    jobs = [job_of("trains", 0, 500), job_of("borrows", 0, 100, fungible=True)]
    simulation = replay(jobs, lent_server(), BORROWING_FIFO, plan=lending(1, 0))
    assert completions(simulation) == [500, 100]
    assert preemptions(simulation) == 0


def test_a_loan_is_there_for_those_who_arrive_with_it() -> None:
    """Servers move before arrivals of the same instant."""
    jobs = [job_of("trains", 0, 500), job_of("borrows", 100, 10, fungible=True)]
    simulation = replay(jobs, lent_server(), BORROWING_FIFO, plan=lending(0, 1))
    assert completions(simulation) == [500, 110]


def test_flexible_workers_are_scaled_in_for_free() -> None:
    """They have a server of their own, which goes back first; nobody is preempted.

    Afterwards the free GPU beside the base worker stays free: groups are kept apart.
    """
    cluster = borrowing(1, 2, 2)
    jobs = [elastic("A", 0, 1, 3, 600, fungible=True)]
    simulation = replay(jobs, cluster, "lyra", plan=lending(2, 1), options=EVERY_EVENT)
    assert completions(simulation) == [400]  # 3 workers until 100 s, then 1
    totals = simulation.totals
    assert preemptions(simulation) == 0
    assert (totals.collateral_gpus, totals.vacated_gpus) == (0, 2)
    assert totals.scaling_operations == 2


def test_flexible_workers_leave_the_servers_that_are_called_back() -> None:
    """Two of three leave, though the third is alone on its server."""
    cluster = borrowing(1, 3, 2)
    jobs = [elastic("A", 0, 1, 4, 600, fungible=True)]
    options = Options(scaling_interval_s=1000)
    simulation = replay(jobs, cluster, "lyra", plan=lending(3, 2), options=options)
    assert completions(simulation) == [200]  # 4 workers until 100 s, then 2
    assert simulation.totals.collateral_gpus == 0


def test_a_flexible_worker_leaves_as_a_whole() -> None:
    """Its replicas are on two servers; one is called back, and those on the other go too."""
    cluster = borrowing(1, 4, 2, INFERENCE_GPU)
    jobs = [elastic("A", 0, 1, 2, 500, fungible=True)]
    simulation = replay(jobs, cluster, "lyra", plan=lending(4, 3), options=EVERY_EVENT)
    assert completions(simulation) == [400]  # 2 workers until 100 s, then 1
    assert (simulation.totals.vacated_gpus, simulation.totals.collateral_gpus) == (2, 1)


@pytest.mark.parametrize(
    ("scheme", "checkpoints", "preempted"),
    [("lyra-loaning", False, "old"), ("least-loss", False, "new"), ("least-loss", True, "old")],
)
def test_least_loss_weighs_lost_work(scheme: str, checkpoints: bool, preempted: str) -> None:
    """At 100 s `old` loses 99 s of work, or none if it has checkpoints, and `new` 10 s."""
    jobs = [
        job_of("trains", 0, 500),
        job_of("old", 1, 400, fungible=True, checkpoints=checkpoints),
        job_of("new", 90, 400, fungible=True),
    ]
    cluster = borrowing(1, 2, 1)
    simulation = replay(jobs, cluster, scheme, plan=lending(2, 1))
    assert [run.job.id for run in simulation.runs if run.preemptions] == [preempted]


def test_base_demand_displaces_flexible_workers_on_loan() -> None:
    """Also where the flexible workers have a server of their own, which is emptied for it."""
    cluster = borrowing(2, 2, 2)
    jobs = [
        elastic("A", 0, 1, 3, 600, fungible=True),
        job_of("trains", 1, 1000, 2),
        job_of("B", 100, 50, 2, fungible=True),
    ]
    simulation = replay(jobs, cluster, "lyra", plan=lending(2), options=EVERY_EVENT)
    # A: 3 workers until 100 s, 1 until 150 s, then 3 again.
    assert completions(simulation) == pytest.approx([100 + 50 + 250 / 3, 1001, 150])


def test_inference_gpus_make_up_by_number() -> None:
    """Three replicas a worker, as fast as one worker on a training GPU: 6 of 8 GPUs for 2."""
    jobs = [
        job_of("trains", 0, 500, 2),
        job_of("two", 1, 100, 2, fungible=True),
        job_of("one", 2, 10, fungible=True),
        job_of("elsewhere", 3, 10),
    ]
    cluster = lent_server(2, inference_gpus=8, replicas=3)
    simulation = replay(jobs, cluster, "lyra-loaning", plan=lending(1))
    # Two GPUs are left from 1 s to 101 s, one too few for a worker; only fungible jobs borrow.
    assert starts(simulation) == [0, 1, 101, 500]
    assert gpu_s(simulation, on_loan=True) == 6 * 100 + 3 * 10
    assert gpu_s(simulation, on_loan=False) == 2 * 500 + 10
    assert simulation.totals.there_gpu_s == [2 * 510, 8 * 510]


def test_gpus_of_no_whole_speed_are_as_many_as_are_fast_enough() -> None:
    """Three GPUs of speed 0.4 stand for one and do 1.2 times its work."""
    gpu_type = GpuType(name="T4", relative_speed=0.4)
    assert (gpu_type.replicas, gpu_type.worker_speed) == (3, pytest.approx(1.2))
    cluster = borrowing(2, 1, 6, gpu_type)
    jobs = [job_of("trains", 0, 500, 2), job_of("borrows", 1, 120, 2, fungible=True)]
    simulation = replay(jobs, cluster, "lyra-loaning", plan=lending(1))
    assert completions(simulation) == pytest.approx([500, 101])
    assert gpu_s(simulation, on_loan=True) == pytest.approx(6 * 100)


@pytest.mark.parametrize(
    ("efficiency", "completion_s"),
    [
        (1.0, 100 / 3),  # one worker on training GPUs, two on the loan
        (0.7, 100 / 2.1),
        (0.3, 100),  # three workers would do the work of 0.9: it stays where it is
    ],
)
def test_jobs_on_both_kinds_grow_on_servers_on_loan(efficiency: float, completion_s: float) -> None:
    """The base demand on training GPUs, flexible workers on the loan, if that is faster."""
    cluster = borrowing(1, 1, 2)
    jobs = [elastic("grows", 0, 1, 4, 100, heterogeneous=True)]
    options = Options(scaling_interval_s=0, mixed_efficiency=efficiency)
    simulation = replay(jobs, cluster, "lyra", plan=lending(1), options=options)
    assert completions(simulation) == pytest.approx([completion_s])
    assert simulation.runs[0].ran_on_loan is (efficiency > 0.3)
    require_conserved(simulation)


def test_a_job_that_could_grow_too_little_stays_on_its_kind() -> None:
    """Both servers on loan hold a base worker or half of one: no job is slowed by mixing."""
    cluster = borrowing(4, 2, 3, GpuType(name="T4", relative_speed=0.5))
    jobs = [
        elastic("A", 0, 4, 6, 40_000, heterogeneous=True),
        job_of("B", 1, 5_000, fungible=True),
    ]
    simulation = replay(jobs, cluster, "lyra", plan=lending(2), options=EVERY_EVENT)
    # At 70 % of 6 workers alone; beside B only one fits there, and 70 % of 5 are less than 4.
    left = 40_000 - 4.2 - 4 * 5_000
    assert completions(simulation) == pytest.approx([5_001 + left / 4.2, 5_001])
    require_conserved(simulation)


def test_a_grown_job_gives_servers_back_without_a_preemption() -> None:
    """Two workers on the loan until 20 s, in which it does 60 of 100 worker-seconds; then one."""
    cluster = borrowing(1, 1, 2)
    jobs = [elastic("grows", 0, 1, 4, 100, heterogeneous=True)]
    options = Options(scaling_interval_s=0, mixed_efficiency=1.0)
    plan = lending(1, 0, interval_s=20)
    simulation = replay(jobs, cluster, "lyra", plan=plan, options=options)
    assert completions(simulation) == pytest.approx([60])
    assert (preemptions(simulation), simulation.totals.collateral_gpus) == (0, 0)


def test_jobs_on_both_kinds_grow_last() -> None:
    """What a job could use that stays within its pool is not for one on both kinds."""
    cluster = borrowing(2, 2, 1)
    jobs = [
        elastic("mixes", 0, 1, 4, 1000, heterogeneous=True),
        elastic("borrows", 10, 1, 2, 100, fungible=True),
    ]
    options = Options(scaling_interval_s=0, mixed_efficiency=1.0)
    simulation = replay(jobs, cluster, "lyra", plan=lending(2), options=options)
    # Alone on four GPUs for 10 s; then the other has both on the loan for 50 s.
    assert completions(simulation) == pytest.approx([60 + (1000 - 40 - 100) / 4, 60])


def test_racks_that_a_job_spans_are_noted() -> None:
    """Servers are filled by number, so that the third job is the first to reach a second rack."""
    cluster = Cluster.of_servers(4, gpus_per_server=1, servers_per_rack=2)
    jobs = [job_of("a", 0, 10), job_of("b", 0, 10, 2), job_of("c", 0, 10)]
    simulation = replay(jobs, cluster, "fifo")
    assert [run.most_racks for run in simulation.runs] == [1, 2, 1]


@pytest.mark.parametrize(("elastic_to", "on_loan"), [(1, False), (2, True)])
def test_elastic_jobs_prefer_servers_on_loan(elastic_to: int, on_loan: bool) -> None:
    """And inelastic ones training servers."""
    jobs = [elastic("A", 0, 1, elastic_to, 10, fungible=True)]
    simulation = replay(jobs, lent_server(), "lyra", plan=lending(1))
    assert simulation.runs[0].ran_on_loan is on_loan


@pytest.mark.parametrize("queue", ["first-come", "first-come-overtaking", "shortest-base"])
def test_all_jobs_may_fill_loans_first(queue: str) -> None:
    """An inelastic job too, until they are full; but not who may be on both kinds of GPUs."""
    jobs = [
        job_of("first", 0, 10, fungible=True),
        job_of("mixed", 1, 10, heterogeneous=True),
        job_of("bound", 2, 10),
        job_of("second", 3, 10, 9, fungible=True),
    ]
    on_loan = {}
    for prefers in (False, True):
        scheme = BORROWING_FIFO.with_parameters({"queue": queue, "prefers_loans": prefers})
        simulation = replay(jobs, borrowing(16, 1, 8), scheme, plan=lending(1))
        on_loan[prefers] = [run.ran_on_loan for run in simulation.runs]
    assert on_loan == {False: [False] * 4, True: [True, False, False, False]}


MIXED = (job_of("trains", 0, 400), job_of("mixed", 1, 70, 2, heterogeneous=True))


def test_mixed_gpus_run_at_70_percent() -> None:
    """One worker on a training GPU, three replicas on the loan; 70 s take 100 s."""
    cluster = lent_server(2, inference_gpus=4, replicas=3)
    simulation = replay(MIXED, cluster, "lyra-loaning", plan=lending(1, interval_s=1000))
    assert completions(simulation) == pytest.approx([400, 101])
    assert gpu_s(simulation, on_loan=True) == pytest.approx(3 * 100)
    alone = replay(MIXED[1:], cluster, "lyra-loaning", plan=lending(1))
    assert completions(alone) == [71], "a job on one kind of GPUs is as fast as any"


def test_a_mixed_job_is_collateral_on_training_servers_too() -> None:
    """Its GPU on a server that nobody asked for is vacated as well; it starts anew there."""
    cluster = lent_server(2, inference_gpus=4, replicas=3)
    simulation = replay(MIXED, cluster, "lyra-loaning", plan=lending(1, 0, interval_s=50))
    assert simulation.totals.collateral_gpus == 1
    assert measure(simulation).collateral_share == 1 / 4
    assert completions(simulation) == [400, 400 + 63 + 70]
    require_conserved(simulation)


@pytest.mark.parametrize("scheme", ["lyra-scaling", "least-loss"])
def test_mixed_jobs_get_what_others_leave(scheme: str) -> None:
    """Shortest first, but any other job before them (section 6 of the paper)."""
    jobs = [
        job_of("first", 0, 10),
        job_of("mixed", 1, 5, heterogeneous=True),
        job_of("long", 1, 50),
    ]
    cluster = Cluster.of_servers(1, gpus_per_server=1)
    assert starts(replay(jobs, cluster, scheme)) == [0, 60, 10]


def test_first_come_holds_for_preempted_jobs() -> None:
    """Preempted at 100 s, `old` stands before `young` again and takes the next loan."""
    jobs = [
        job_of("trains", 0, 250),
        job_of("old", 1, 500, fungible=True),
        job_of("young", 2, 10, fungible=True),
        job_of("last", 3, 10),
    ]
    simulation = replay(jobs, lent_server(), BORROWING_FIFO, plan=lending(1, 0, 1))
    assert [run.queued_s for run in simulation.runs] == [0, 100, 248, 257]
    assert completions(simulation) == [250, 200 + 63 + 500, 260, 270]


def confining(gpus: int = 1) -> Cluster:
    """Return ten inference servers of three GPUs: one worker is a tenth of them."""
    return borrowing(gpus, 10, 3, INFERENCE_GPU)


def test_opportunistic_confines_fungible_jobs() -> None:
    """They wait for inference servers beside an idle training cluster; nobody waits for them.

    One that would need more than a tenth of the inference servers is trained like the others,
    and no other job goes there.
    """
    jobs = [
        job_of("fungible", 0, 30, fungible=True),
        job_of("plain", 1, 20),
        job_of("wide", 2, 20, 2, fungible=True),
        job_of("mixed", 3, 20, 2, heterogeneous=True),
    ]
    simulation = replay(jobs, confining(gpus=2), "opportunistic-confined", plan=lending(0, 10))
    assert starts(simulation) == [100, 1, 21, 41]
    assert [run.ran_on_loan for run in simulation.runs] == [True, False, False, False]


def test_confined_jobs_do_not_overtake_one_another() -> None:
    """The inference servers have a queue of their own, first come, first served."""
    jobs = [job_of(f"j{place}", place, 40, fungible=True) for place in range(3)]
    simulation = replay(jobs, confining(), "opportunistic-confined", plan=lending(0, 1))
    assert starts(simulation) == [100, 140, 180]


@pytest.mark.parametrize(
    ("job", "cluster"),
    [
        (job_of("late", 150, 10, fungible=True), confining()),
        (job_of("late", 150, 10, fungible=True, gpus_per_worker=4), confining(gpus=4)),
    ],
)
def test_nobody_waits_for_a_loan_that_never_comes(job: Job, cluster: Cluster) -> None:
    """After the last decision of the plan, or where a worker has more GPUs than a server."""
    jobs = [job_of("early", 0, 10), job]
    simulation = replay(jobs, cluster, "opportunistic-confined", plan=lending(1, 0))
    assert completions(simulation) == [10, 160]


def test_the_last_loan_holds_for_ever() -> None:
    """A plan that is shorter than the run."""
    jobs = [job_of("trains", 0, 5000), job_of("borrows", 1, 3000, fungible=True)]
    simulation = replay(jobs, lent_server(), "lyra", plan=lending(1, interval_s=10))
    assert completions(simulation) == [5000, 3001]
    assert (simulation.totals.loans, simulation.totals.reclaims) == (1, 0)


# Measured jobs.


def measured(name: str, steps: float, rates: dict[str, float], **fields) -> Job:  # type: ignore[no-untyped-def]
    """Return a job of one GPU with these steps a second by type."""
    gang = GangJob(id=name, gang=1, steps=steps, throughput=rates)
    return replace(Job.of_gang(gang), **fields)


@pytest.mark.parametrize(
    ("rates", "on_loan"),
    [({"own": 2.0}, False), ({"own": 2.0, "lent": 0.0}, False), ({"own": 2.0, "lent": 1.0}, True)],
)
@pytest.mark.parametrize("scheme", ["lyra-loaning", "opportunistic", "opportunistic-confined"])
def test_measured_jobs_borrow_what_they_run_on(
    scheme: str, rates: dict[str, float], on_loan: bool
) -> None:
    """A fungible job that has no speed there waits for own GPUs, and for nothing else."""
    cluster = Cluster(
        name="small",
        gpu_types=(GpuType(name="own"),),
        servers=(Server(id="s", gpus={"own": 1}),),
    ).with_lent(1, gpus_per_server=10, gpu_type=GpuType(name="lent"))
    jobs = [
        measured("trains", 100, {"own": 2.0}),
        measured("may-borrow", 60, rates, submit_s=1.0, fungible=True),
    ]
    simulation = replay(jobs, cluster, scheme, plan=lending(1))
    assert simulation.runs[1].ran_on_loan is on_loan
    assert completions(simulation) == [50, 61 if on_loan else 80]


def test_the_fastest_type_comes_first() -> None:
    """For each job its own, until that is full."""
    cluster = Cluster(
        name="small",
        gpu_types=(GpuType(name="a"), GpuType(name="b", relative_speed=0.5)),
        servers=(Server(id="s", gpus={"a": 1, "b": 2}),),
    )
    jobs = [
        measured("likes-b", 30, {"a": 1.0, "b": 3.0}),
        measured("likes-a", 30, {"a": 3.0, "b": 1.0}),
        measured("likes-a-too", 30, {"a": 2.0, "b": 1.0}),
        job_of("unmeasured", 1, 10),
    ]
    simulation = replay(jobs, cluster, "fifo")
    # The last one has `a` to itself from 10 s on.
    assert completions(simulation) == [10, 10, 30, 20]


# What is refused.


def test_a_job_that_never_fits_is_refused() -> None:
    """One line that names it, rather than a run without end."""
    jobs = [job_of("giant", 0, 1, 3, gpus_per_worker=3)]
    with pytest.raises(UserError, match="job giant needs 3 workers of 3, but 2x5 has 10"):
        replay(jobs, Cluster.of_servers(2, gpus_per_server=5), "fifo")


def test_a_plan_that_cannot_be_kept_is_refused() -> None:
    """It is missing, or lends more servers than there are."""
    jobs = [job_of("a", 0, 1)]
    with pytest.raises(UserError, match="scheme lyra borrows servers, but no plan"):
        replay(jobs, lent_server(), "lyra")
    with pytest.raises(UserError, match="lends 2 of the 1 inference"):
        replay(jobs, lent_server(), "lyra", plan=lending(1, 2))
    assert completions(replay(jobs, Cluster.of_servers(1), "lyra")) == [1]


# What is captured.


def test_decisions_can_be_captured_and_solved_again() -> None:
    """Each is an instance that stands alone, named by kind and time."""
    cluster = borrowing(1, 2, 2)
    captured = []
    jobs = (elastic("A", 0, 1, 3, 600, fungible=True),)
    observer = CaptureObserver(
        lambda kind, instance: captured.append((kind, instance)),
        frozenset(("reclaim", "allocation")),
    )
    plan = lending(2, 1)
    replay(jobs, cluster, "lyra", plan=plan, options=EVERY_EVENT, observers=(observer,))
    assert [kind for kind, _ in captured][:2] == ["allocation", "reclaim"]
    reclaim = captured[1][1]
    assert reclaim.name == "reclaim-at-100-s"
    assert reclaim.reclaim_servers == 1
    assert [(group.server, group.base, group.flexible) for group in reclaim.jobs[0].workers] == [
        ("inference-0", 1, 0),
        ("inference-1", 0, 2),
    ]


# Parts that are ours.


@pytest.mark.parametrize(("longer_only", "start_s"), [(False, 50), (True, 60)])
def test_who_has_less_left_keeps_its_workers(longer_only: bool, start_s: float) -> None:
    """At 50 s A has 40 worker-seconds left, and B asks for 400: A is done before it would gain."""
    jobs = [elastic("A", 0, 1, 4, 240), job_of("B", 50, 200, 2)]
    scheme = ComposedScheme(
        name="shrinking",
        summary="for tests",
        queue="shortest-base",
        scaling="knapsack:mckp-core",
        shrinks_longer_only=longer_only,
    )
    simulation = replay(jobs, Cluster.of_servers(1, gpus_per_server=4), scheme, options=EVERY_EVENT)
    assert starts(simulation)[1] == start_s


def test_a_blocked_job_hides_no_shorter_one_of_equal_demand() -> None:
    """P may not scale in A, which has less left than P; Q, behind P in the queue, may."""
    jobs = [
        job_of("F", 0, 1000, 1),
        elastic("A", 0, 1, 3, 900),
        elastic("P", 10, 2, 10, 2000),
        elastic("Q", 10, 2, 3, 700),
    ]
    scheme = ComposedScheme(
        name="shrinking",
        summary="for tests",
        queue="shortest-base",
        scaling="knapsack:mckp-core",
        shrinks_longer_only=True,
    )
    simulation = replay(jobs, Cluster.of_servers(1, gpus_per_server=4), scheme, options=EVERY_EVENT)
    assert starts(simulation)[3] == 10


def test_servers_of_flexible_workers_that_stay_hold_no_base_demand() -> None:
    """On loan each group has servers of its own: B's workers that go make no room beside A's."""
    jobs = [
        elastic("A", 0, 1, 2, 30, fungible=True),
        elastic("B", 0, 1, 2, 4000, fungible=True),
        job_of("own", 0, 1000, 1),
        job_of("C", 5, 500, 1, fungible=True),
    ]
    scheme = ComposedScheme(
        name="shrinking",
        summary="for tests",
        queue="shortest-base",
        reclaimer="lyra-greedy",
        scaling="knapsack:mckp-core",
        shrinks_longer_only=True,
    )
    # Two servers of two GPUs: base workers of A and B on one, their flexible ones on the other.
    simulation = replay(
        jobs, borrowing(1, 2, 2), scheme, plan=lending(2, interval_s=1e5), options=EVERY_EVENT
    )
    assert starts(simulation) == [0, 0, 0, 15]


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"loan_rule": {"longest": 3}}, r"loan_rule\.longest is 3: .*longest_h"),
        ({"run_time_caps": {"percentile": 101}}, r"run_time_caps\.percentile"),
        ({"voluntary_preemption": 3}, "voluntary_preemption is 3: must be true, false or a table"),
        ({"shrinks_longer_only": 1}, "shrinks_longer_only"),
    ],
)
def test_bad_parts_are_refused(parameters: dict[str, object], named: str) -> None:
    """With the key that is wrong."""
    with pytest.raises(FieldError, match=named):
        find_scheme("lyra-reserve").with_parameters(parameters)


def test_a_part_is_a_flag_or_a_table_of_its_figures() -> None:
    """So a scenario switches it off, or says what is other than by default."""
    ours = find_scheme("lyra-reserve")
    changed = ours.with_parameters({"run_time_caps": False, "loan_rule": {"longest_h": 3}})
    assert isinstance(changed, ComposedScheme)
    assert (changed.run_time_caps, changed.loan_rule) == (None, LoanRule(longest_h=3))
    assert changed.with_parameters({"run_time_caps": True, "loan_rule": True}) == ours


def test_all_parts_off_is_lyra_with_least_loss() -> None:
    """What a scheme without them decides is as it was before there were any."""
    off = dict.fromkeys(("run_time_caps", "loan_rule", "voluntary_preemption"), False)
    bare = find_scheme("lyra-reserve").with_parameters(off | {"shrinks_longer_only": False})
    lyra = find_scheme("lyra").with_parameters({"reclaimer": "exact", "weighs_lost_work": True})
    assert replace(bare, name="same", summary="", paper="") == replace(
        lyra, name="same", summary="", paper=""
    )

"""Parts of GPUs: where slices go, what every GPU holds, and which schemes refuse them."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import makespan_bound_s, whole_bound
from lyra_opt.simulation.cluster import Cluster, GpuType, Server
from lyra_opt.simulation.metrics import measure, require_conserved
from lyra_opt.simulation.quotas import Quota, Quotas
from lyra_opt.simulation.scheme import Options, find_scheme, scheme_names, simulate
from lyra_opt.simulation.slice_batches import most_placed, placed_by
from lyra_opt.simulation.slices import PLACEMENTS, SlicePart
from lyra_opt.simulation.tenure import Leases
from lyra_opt.simulation.view import Observer
from lyra_opt.simulation.workload import WHOLE_GPU, Job, Workload
from tests.lyra_opt.simulation.replays import completions, job_of, workload_of
from tests.reference.slices import Replay, Work
from tests.reference.slices import most_placed as by_brute_force

QUEUES = ("first-come", "first-come-overtaking", "shortest")


class EveryGpu(Observer):
    """Adds up what running jobs hold of every GPU, whenever time passes."""

    def __init__(self):
        self.held_gpu_s = 0.0

    def passes(self, view, until_s):
        """No GPU gives more than it has, and what is not held is free."""
        assert view.slices is not None
        of_gpu, whole = Counter[tuple[int, int]](), Counter[int]()
        for run in view.running.values():
            (part,) = run.parts
            if isinstance(part, SlicePart):
                of_gpu[part.host, part.gpu] += part.thousandths
            else:
                whole.update(part.by_host())
        for host, size in enumerate(view.hosts.size):
            taken = {gpu: held for (where, gpu), held in of_gpu.items() if where == host}
            left = {gpu: WHOLE_GPU - held for gpu, held in taken.items()}
            assert view.slices.free[host] == left
            assert all(free >= 0 for free in left.values())
            assert view.hosts.free[host] == size - whole[host] - len(left)
        held = of_gpu.total() / WHOLE_GPU + whole.total()
        self.held_gpu_s += held * (until_s - view.now_s)


def drawn_replay(seed):
    """Return a small replay whose jobs can all run."""
    rng = random.Random(seed)
    sizes = [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]
    parts = rng.sample([100, 200, 250, 330, 470, 500, 501, 650, 810, 999], 3)
    jobs, submit_s = [], 0
    for order in range(rng.randint(4, 16)):
        submit_s += rng.choice([0, 0, 1, 1, 7])
        job = Work(order, submit_s, rng.randint(5, 40))
        if rng.random() < 0.65:
            job.part = rng.choice(parts)
        else:
            job.gpus = rng.randint(1, max(sizes))
            job.workers = rng.randint(1, sum(size // job.gpus for size in sizes))
        jobs.append(job)
    return Replay(sizes, jobs, rng.choice(QUEUES), rng.choice(PLACEMENTS))


def cluster_of(sizes):
    """Return servers with so many GPUs of one type."""
    servers = [Server(id=str(k), gpus={"V100": size}) for k, size in enumerate(sizes)]
    return Cluster(name="drawn", gpu_types=(GpuType(name="V100"),), servers=tuple(servers))


def simulated(drawn, watch):
    """Return what the simulation makes of a drawn replay."""
    jobs = [
        job_of(
            str(job.order),
            job.submit_s,
            job.duration_s,
            job.workers,
            gpus_per_worker=job.gpus,
            gpu_thousandths=job.part,
        )
        for job in drawn.jobs
    ]
    scheme = find_scheme("fifo").with_parameters({"queue": drawn.queue, "placement": drawn.rule})
    observers = [watch] if any(job.part for job in drawn.jobs) else []
    cluster = cluster_of(list(drawn.sizes))
    return simulate(workload_of(*jobs), cluster, scheme, observers=observers)


def check(seed):
    """Hold a replay against the second implementation; return whether a GPU was useless."""
    drawn, watch = drawn_replay(seed), EveryGpu()
    drawn.run()
    simulation = simulated(drawn, watch)
    assert completions(simulation) == [job.completed_s for job in drawn.jobs]
    totals = simulation.totals
    if simulation.slices is not None:
        require_conserved(simulation)
        assert totals.held_gpu_s == [pytest.approx(watch.held_gpu_s)]
        assert totals.useless_gpu_s == drawn.useless_gpu_s
        assert totals.opened_free_gpu_s == pytest.approx(float(drawn.opened_free_gpu_s))
    return totals.useless_gpu_s > 0


@pytest.mark.parametrize(
    "draws", [range(200), pytest.param(range(200, 5200), marks=pytest.mark.slow)]
)
def test_replays_are_those_of_a_second_implementation(draws):
    """Which jobs start when, under each queue and placement rule, and what each GPU holds."""
    assert sum(check(seed) for seed in draws) > len(draws) / 4


def part(name, submit_s, duration_s, thousandths, **fields):
    """Return a job that asks for so many thousandths of a GPU."""
    return job_of(name, submit_s, duration_s, gpu_thousandths=thousandths, **fields)


def placed(rule, *jobs, sizes):
    """Return the host of each job, and for slices the number of its opened GPU, as they start."""
    found = {}

    class Where(Observer):
        def passes(self, view, until_s):
            for order, run in view.running.items():
                (part,) = run.parts
                gpu = part.gpu if isinstance(part, SlicePart) else None
                found[order] = next(iter(part.by_host())), gpu

    scheme = find_scheme("fifo").with_parameters({"placement": rule})
    simulate(workload_of(*jobs), cluster_of(sizes), scheme, observers=[Where()])
    return [found[order] for order in range(len(jobs))]


@pytest.mark.parametrize(
    ("rule", "where"),
    [
        # 500 does not fit beside 600; 300 fits beside either.
        ("best-fit", [(1, 0), (1, 1), (1, 0), (0, None)]),
        ("first-fit", [(0, 0), (0, 1), (0, 0), (0, None)]),
        ("spread", [(0, 0), (0, 1), (0, 2), (0, None)]),
    ],
)
def test_where_rules_place(rule, where):
    """By hand, on hosts of four and two GPUs."""
    jobs = [part("a", 0, 9, 600), part("b", 0, 9, 500), part("c", 0, 9, 300), job_of("d", 0, 9)]
    assert placed(rule, *jobs, sizes=[4, 2]) == where


@pytest.mark.parametrize(("rule", "gpus"), [("best-fit", [0, 0, 1, 1]), ("fgd", [0, 1, 0, 2])])
def test_fragmentation_by_hand(rule, gpus):
    """The room for another half is not spoilt by 300 thousandths, as most jobs need a half."""
    jobs = [part("a", 0, 9, 500), part("b", 0, 9, 300), part("c", 0, 9, 500), part("d", 0, 9, 500)]
    assert placed(rule, *jobs, sizes=[4]) == [(0, gpu) for gpu in gpus]


def test_memory_needs_a_share_of_each_type():
    """The same memory is half of a small GPU, a quarter of a large one, and too much for others."""
    types = [
        GpuType(name="unknown", relative_speed=4),
        GpuType(name="large", relative_speed=2, memory_mib=32_768),
        GpuType(name="small", memory_mib=16_384),
    ]
    servers = [Server(id=each.name, gpus={each.name: 1}) for each in types]
    cluster = Cluster(name="three", gpu_types=tuple(types), servers=tuple(servers))
    jobs = [job_of(str(k), 0, 60, gpu_memory_mib=8192) for k in range(7)]
    simulation = simulate(workload_of(*jobs), cluster, "fifo")
    assert completions(simulation) == [30, 30, 30, 30, 60, 60, 60]
    assert [run.held_gpu_s for run in simulation.runs] == [7.5] * 4 + [30, 30, 7.5]
    with pytest.raises(
        UserError, match=r"job 9 asks for 40,000 MiB .*unknown unknown, large 32768"
    ):
        simulate(workload_of(job_of("9", 0, 60, gpu_memory_mib=40_000)), cluster, "fifo")


def test_measures():
    """Shares of GPUs in usage, cost and the two measures of slices, by hand."""
    gpu = GpuType(name="V100", price_per_hour=3600)
    cluster = Cluster.of_servers(1, gpus_per_server=1, gpu=gpu)
    metrics = measure(
        simulate(workload_of(part("a", 0, 10, 600), part("b", 0, 10, 500)), cluster, "fifo")
    )
    assert (metrics.gpu_usage, metrics.cost) == (pytest.approx(0.55), pytest.approx(11))
    assert metrics.opened_free_share == pytest.approx(0.45)
    assert metrics.useless_gpus_mean == 0.5
    whole = measure(simulate(workload_of(job_of("a", 0, 10)), cluster, "fifo"))
    assert whole.opened_free_share is whole.useless_gpus_mean is None


def test_refused():
    """Every scheme runs slices or says in one clause why not; so do tenures and quotas."""
    jobs = workload_of(part("a", 0, 10, 600))
    cluster = Cluster.of_servers(1, inference_servers=1)
    runs = set()
    for name in scheme_names():
        scheme = find_scheme(name)
        reason = scheme.refusal(jobs, cluster, Options().tenure(scheme.tenure))
        if reason is None:
            runs.add(name)
        else:
            assert reason.startswith("job a asks for part of a GPU, but ")
    assert {"fifo", "sjf", "priority-none"} <= runs
    assert not {"lyra", "lyra-loaning", "priority-kube", "dally", "gavel-las", "pollux"} & runs
    fifo = find_scheme("fifo")
    quotas = Quotas(quotas=(Quota(name="t", gpus=1),))
    told = fifo.refusal(jobs, replace(cluster, tenants=quotas), Options().forever)
    assert "quotas of tenants count whole GPUs only" in str(told)
    assert "with tenure leases" in str(fifo.refusal(jobs, cluster, Leases()))


@pytest.mark.parametrize("rule", PLACEMENTS)
def test_rules_place_whole_gpus_too(rule):
    """Without slices a rule still decides, and best fit is as before."""
    jobs = [job_of(str(k), k, 5 + k % 7, 1 + k % 4) for k in range(40)]
    scheme = find_scheme("sjf").with_parameters({"placement": rule})
    simulation = simulate(Workload(name="whole", jobs=tuple(jobs)), cluster_of([4, 2]), scheme)
    require_conserved(simulation)
    assert simulation.slices is None
    assert simulation.hosts.is_counted == [rule == "best-fit"]


@pytest.mark.parametrize("reading", list(Reading))
def test_bounds_hold(reading):
    """Bounds on mean JCT and makespan price a slice by its share, and nothing beats them."""
    gaps = []
    for seed in range(12):
        drawn = drawn_replay(seed)
        simulation = simulated(drawn, EveryGpu())
        jobs, cluster = simulation.workload, simulation.cluster
        metrics = measure(simulation)
        bound = whole_bound(jobs, cluster, reading=reading, passes=30, queue=False)
        gaps.append(bound.jct_mean_bound_s / metrics.jct_mean_s)
        assert makespan_bound_s(jobs, cluster) <= metrics.makespan_s * (1 + 1e-9)
    assert max(gaps) <= 1 + 1e-9
    assert sum(gaps) / len(gaps) > 0.6
    halves = [part(str(k), 0, 10, 500) for k in range(4)]
    one = Cluster.of_servers(1, gpus_per_server=1)
    assert makespan_bound_s(workload_of(*halves), one) == pytest.approx(20)


def drawn_batch(seed):
    """Return hosts and a batch that may not fit them."""
    rng = random.Random(seed)
    sizes = [rng.randint(1, 3) for _ in range(rng.randint(1, 3))]
    parts = [100, 300, 330, 470, 500, 650, 810]
    jobs = [
        part(str(k), 0, 9, rng.choice(parts))
        if rng.random() < 0.7
        else Job(id=str(k), submit_s=0, work_worker_s=9, gpus_per_worker=rng.randint(1, 3))
        for k in range(rng.randint(1, 6))
    ]
    return sizes, jobs


def test_best_batches_are_those_of_brute_force():
    """The exact optimum of 200 small batches; no rule places more, and each often places less."""
    below = Counter[str]()
    for seed in range(200):
        sizes, jobs = drawn_batch(seed)
        cluster = cluster_of(sizes)
        asked = [
            (0, job.gpu_thousandths) if job.gpu_thousandths else (job.gpus_per_worker, 0)
            for job in jobs
        ]
        best = most_placed(cluster, jobs)
        assert best == by_brute_force([[WHOLE_GPU] * size for size in sizes], asked)
        for rule in PLACEMENTS:
            found = placed_by(rule, cluster, jobs)
            assert found <= best
            below[rule] += found < best
    assert set(below) == set(PLACEMENTS)
    assert max(below.values()) < 150


def test_jobs_that_do_not_take_the_gpu_type_are_not_placed():
    """Neither a whole GPU nor a slice."""
    jobs = [
        Job(id=str(k), submit_s=0, work_worker_s=9, gpu_thousandths=part, gpu_types=("other",))
        for k, part in enumerate((None, 500))
    ]
    assert most_placed(cluster_of([2]), jobs) == 0
    assert {placed_by(rule, cluster_of([2]), jobs) for rule in PLACEMENTS} == {0}


@pytest.mark.parametrize(
    ("jobs", "types", "message"),
    [
        ([job_of("a", 0, 1, 2)], 1, 'jobs is "a": must have one worker each'),
        ([job_of("a", 0, 1)], 2, 'cluster is "two": must have one GPU type'),
    ],
)
def test_batches_refused(jobs, types, message):
    """Gangs of several workers, and several GPU types."""
    kinds = tuple(GpuType(name=str(k)) for k in range(types))
    servers = tuple(Server(id=kind.name, gpus={kind.name: 1}) for kind in kinds)
    with pytest.raises(FieldError, match=message):
        most_placed(Cluster(name="two", gpu_types=kinds, servers=servers), jobs)

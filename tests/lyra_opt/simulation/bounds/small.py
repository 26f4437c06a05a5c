"""Small workloads on small clusters of every kind, drawn from a seed, and prices for them."""

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lyra_opt.pricing.ascent import Pricer
from lyra_opt.simulation.bounds.execution_modes import priced_jobs
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import borders, room_of, safe_value, whole_bound
from lyra_opt.simulation.cluster import Cluster, GpuType, LoanPlan, Server
from lyra_opt.simulation.least_run import least_run_s
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.topology import Rack, Topology
from lyra_opt.simulation.workload import Workload
from tests.lyra_opt.simulation.bounds.optimum import Exact, Problem, rooms_of, states_of
from tests.lyra_opt.simulation.in_rounds import gang
from tests.lyra_opt.simulation.on_racks import slowdowns_of
from tests.lyra_opt.simulation.replays import job_of, workload_of

KINDS = ("loans", "loans", "types", "measured", "racks", "copies")


@dataclass(frozen=True, kw_only=True)
class Small:
    """A workload, and where it runs."""

    seed: int
    workload: Workload
    speed: Speed
    plan: LoanPlan | None
    copy_efficiency: tuple[float, ...] | None
    weight: NDArray[np.float64]

    @property
    def cluster(self):
        return self.speed.cluster

    @property
    def settings(self):
        """What jobs may hold."""
        return {"borrows": self.plan is not None, "copy_efficiency": self.copy_efficiency}

    def bound(self, reading, **given):
        """Return the bound of the product."""
        return whole_bound(
            self.workload,
            self.cluster,
            reading=reading,
            plan=self.plan,
            speed=self.speed,
            copy_efficiency=self.copy_efficiency,
            weight=self.weight,
            **given,
        )

    def problem(self, reading, *, is_queue):
        """Return what is to be solved exactly.

        Jobs that lose their work when they are stopped run in one piece.
        """
        first_s, jobs = self.workload.jobs[0].submit_s, []
        loses_work = reading is Reading.RESTART and self.copy_efficiency is None
        for job, weight in zip(self.workload.jobs, self.weight.tolist(), strict=True):
            is_rigid = job.min_workers == job.max_workers and not job.heterogeneous
            is_one_piece = loses_work and not job.checkpoints and is_rigid
            states = states_of(job, self.speed, **self.settings)
            jobs.append(Exact(job.submit_s - first_s, weight, states, is_one_piece))
        return Problem(jobs, rooms_of(self.cluster, self.plan), is_queue=is_queue)

    def pricer(self, reading, *, is_queue, cell_s=None):
        """Return who prices it."""
        settings = self.settings
        run_s = least_run_s(self.workload, self.speed, **settings)
        border_s = borders(self.workload, self.cluster, run_s, cell_s)
        settings |= {"reading": reading, "weight": self.weight, "border_s": border_s}
        jobs = priced_jobs(self.workload, self.speed, **settings)
        room = room_of(self.cluster, self.plan, border_s)
        return Pricer(jobs, room, is_queue=is_queue)


def draw(seed, reading, *, most_jobs=3):
    """Draw a case that the reading is for; copies are for tenures that lose no work."""
    rng = random.Random(f"{seed} {reading}")
    kind = rng.choice(KINDS if reading is Reading.CONSERVED else KINDS[:-1])
    cluster, plan = _cluster(rng, kind)
    speed = Speed(cluster, mixed_efficiency=rng.choice([0.5, 0.7, 1.0]))
    jobs = []
    submit_s = rng.choice([0.0, 1e5 / 7])
    # Each change of a loan is an event more.
    changes = 0 if plan is None else len(rooms_of(cluster, plan)) - 1
    for number in range(rng.randint(1, most_jobs - (changes > 1))):
        if number and rng.random() < 0.7:
            submit_s += rng.choice([1.0, rng.random() * 3, 1 / 3])
        jobs.append(_job(rng, kind, speed, number, submit_s))
    weight = np.array([rng.choice([0.0, 0.5, 1.0, 1.0, 1.0, 3.0]) for _ in jobs])
    if not weight.any() or rng.random() < 0.5:
        weight = np.ones(len(jobs))
    return Small(
        seed=seed,
        workload=workload_of(*jobs),
        speed=speed,
        plan=plan,
        copy_efficiency=rng.choice([(1.0,), (1.0, 0.9, 0.5)]) if kind == "copies" else None,
        weight=weight,
    )


def _cluster(rng, kind):
    if kind == "loans":
        lent = rng.randint(1, 2)
        cluster = Cluster.of_servers(
            rng.randint(1, 2),
            gpus_per_server=rng.randint(1, 2),
            inference_servers=lent,
            inference_gpus_per_server=rng.randint(1, 3),
            inference_gpu=GpuType(name="T4", relative_speed=rng.choice([1 / 3, 0.4, 1.0, 1.5])),
        )
        steps = [rng.randint(0, lent) for _ in range(rng.randint(1, 3))]
        interval_s = rng.choice([1.0, 0.5 + rng.random() * 2])
        plan = LoanPlan(interval_s=interval_s, on_loan=tuple(steps), busy_share=(0.5,))
        return cluster, plan if rng.random() < 0.9 else None
    if kind == "racks":
        racks = tuple(
            Rack(machines=rng.randint(1, 2), gpus_per_machine=rng.randint(1, 2))
            for _ in range(rng.randint(1, 2))
        )
        slowdowns = [1.0, *sorted(rng.choice([1.0, 1.5, 3.0]) for _ in range(2))]
        topology = Topology(name="racks", racks=racks)
        return Cluster.of_racks(topology, slowdowns_of(slowdowns), network="table"), None
    types = [GpuType(name=name, relative_speed=rng.choice([0.25, 0.5, 1.0, 1.7])) for name in "ab"]
    servers = []
    for number in range(rng.randint(2, 3)):
        there = types if rng.random() < 0.3 else [types[number % 2]]
        gpus = {each.name: rng.randint(1, 2) for each in there}
        servers.append(Server(id=f"s{number}", gpus=gpus))
    return Cluster(name="typed", gpu_types=tuple(types), servers=tuple(servers)), None


def _job(rng, kind, speed, number, submit_s):
    """Draw a job that the cluster can run."""
    while True:
        least = rng.randint(1, 2)
        most = least + rng.choice([0, 0, 1, 2])
        wide = rng.choice([1, 1, 2])
        duration_s = rng.choice([0.5, 1.0, 2.0, 3.0, rng.random() * 4 + 0.1])
        measured = None
        if kind == "measured" and rng.random() < 0.7:
            near = {name: rng.choice([0.0, 1.0, 2.0, 3.0]) for name in "ab"}
            if not any(near.values()):
                continue
            far = {name: rate * rng.choice([0.0, 0.5, 1.0, 1.5]) for name, rate in near.items()}
            spread = rng.choice([None, far])
            size = {"gang": least * wide, "release_s": submit_s}
            measured = gang(f"j{number}", duration_s * 2, spread=spread, **size, **near)
        job = job_of(
            f"j{number}",
            submit_s,
            duration_s,
            least,
            max_workers=most,
            gpus_per_worker=wide,
            scaling_loss=rng.choice([0.0, 0.0, 0.3, 1.0]),
            fungible=rng.random() < 0.6,
            heterogeneous=rng.random() < 0.25,
            checkpoints=rng.random() < 0.3,
            model="m",
            gpu_types=() if rng.random() < 0.8 else (rng.choice(speed.cluster.gpu_types).name,),
            measured=measured,
        )
        if speed.obstacle(job) is None and states_of(job, speed, borrows=False):
            return job


def prices_for(small, pricer):
    """Return prices that nobody would choose: none, huge ones, random ones, those of one cell."""
    rng = np.random.default_rng(small.seed)
    shape = pricer.room.gpu_s.shape
    one = np.zeros(shape)
    one[rng.integers(shape[0]), rng.integers(shape[1])] = 2.0 ** rng.integers(-3, 12)
    until = int(rng.integers(1, shape[1] + 1))
    early = np.zeros(shape)
    early[:, :until] = rng.integers(0, 6) / 4
    return [
        np.zeros(shape),
        np.full(shape, 2.0**30),
        rng.integers(0, 8, shape) / 4 * (rng.random(shape) < rng.random()),
        one,
        early,
    ]


def safe_values(small, reading, *, is_queue):
    """Return what these prices prove of the weighted sum over jobs."""
    total_s = sum(job.work_worker_s / job.min_workers for job in small.workload.jobs)
    cell_s = random.Random(small.seed).choice([None, total_s / 7, total_s])
    pricer = small.pricer(reading, is_queue=is_queue, cell_s=cell_s)
    return [safe_value(pricer, price) for price in prices_for(small, pricer)]

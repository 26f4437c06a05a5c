"""What every scheme does on every kind of cluster, replayed and compared with what was recorded.

Record anew by ``LYRA_OPT_TRACES=... python -m tests.lyra_opt.simulation.golden_cases --record``,
on purpose alone: when behaviour or format changes, and the commit says why.

A case is a scheme in a situation: a workload on a cluster with its options. ``golden_cases.toml``
lists the situations and their schemes; what it names is made by the functions here.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.instances.heterogeneous.clusters import cluster_of, find_cluster
from lyra_opt.instances.heterogeneous.generated_jobs import gavel_like, mix
from lyra_opt.instances.network.jobs import dally_batch, dally_distributed, dally_poisson
from lyra_opt.instances.randomness import IntegerStream
from lyra_opt.instances.workloads.lyra_like import lyra_like
from lyra_opt.instances.workloads.transform import JobAssumptions
from lyra_opt.simulation.class_timers import ClassTimers, TimerClass
from lyra_opt.simulation.cluster import Cluster, GpuType, LoanPlan
from lyra_opt.simulation.scheme import Options, PlacementScheme, find_scheme, simulate
from lyra_opt.simulation.tenure import PREEMPTION_S, Forever, Leases, Rounds
from lyra_opt.simulation.topology import Rack, Topology
from lyra_opt.simulation.workload import Job, Workload
from tests.lyra_opt.simulation import in_rounds
from tests.lyra_opt.simulation.on_racks import cluster_of as racks_of
from tests.lyra_opt.simulation.on_racks import linked
from tests.lyra_opt.simulation.replays import job_of, lending, workload_of
from tests.tables import tables

GOLDENS = Path(__file__).with_name("goldens.npz")
TABLES = tables(__file__)
"""Situations by kind of cluster and name."""
GROUPS: Mapping[str, Sequence[str]] = TABLES.pop("groups")
"""Schemes that are replayed in the same situations, and other groups of them."""

# How a case is replayed.


class Situation(NamedTuple):
    """What is replayed, whatever the scheme; `timers` are those of the scheme ``manual``."""

    workload: Workload
    cluster: Cluster
    plan: LoanPlan | None = None
    options: Options = Options()
    timers: ClassTimers | None = None


class Outcome(NamedTuple):
    """What became of the jobs, by submission.

    Parameters
    ----------
    completion_s, queued_s
        float64, shape (jobs,).
    preemptions
        int64, shape (jobs,).
    extra
        int64, shape (jobs, columns); the columns are those of `EXTRA_COLUMNS`.
    """

    completion_s: np.ndarray
    queued_s: np.ndarray
    preemptions: np.ndarray
    extra: np.ndarray


EXTRA_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "pools": (),
    "rounds": ("restarts",),
    "racks": ("migrations", "losses"),
}
"""What else is counted of a job, by kind of cluster."""


def replay(situation: Situation, scheme: str, kind: str) -> Outcome:
    """Replay a situation under a scheme."""
    found = find_scheme(scheme)
    workload, cluster, plan, options, timers = situation
    if timers is not None:
        assert isinstance(found, PlacementScheme), "timers are those of a placement rule"
        found = replace(found, make=timers.policy)
    runs = simulate(workload, cluster, found, plan=plan, options=options).runs
    extra = [[getattr(run, name) for name in EXTRA_COLUMNS[kind]] for run in runs]
    return Outcome(
        completion_s=np.array([run.completion_s for run in runs], np.float64),
        queued_s=np.array([run.queued_s for run in runs], np.float64),
        preemptions=np.array([run.preemptions for run in runs], np.int64),
        extra=np.array(extra, np.int64),
    )


# Pools: what is replayed.

LENT = (6, 1, 4, 0, 5, 2, 6, 3, 0, 4, 1, 5, 2)
"""Servers on loan in turn; up and down at almost every decision."""


def _frozen(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a table has, with tuples for lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}


def _options(
    *,
    preemption_s: float = PREEMPTION_S,
    leases: Mapping[str, Any] | None = None,
    rounds: Mapping[str, Any] | None = None,
    **options: Any,
) -> Options:
    return Options(
        forever=Forever(preemption_s=preemption_s),
        leases=Leases(**leases or {}),
        rounds=Rounds(**_frozen(rounds or {})),
        **options,
    )


def _loans(interval_s: float, decisions: int = 300) -> LoanPlan:
    on_loan = (LENT * decisions)[:decisions]
    return lending(*on_loan, interval_s=interval_s, busy=0.25)


def _submitted_s(job: Job | GangJob) -> float:
    return job.release_s if isinstance(job, GangJob) else job.submit_s


def _in_order(name: str, drawn: Sequence[Any]) -> Workload:
    """Return jobs or measured gangs by submission, named by their place."""
    by_submission = sorted(drawn, key=_submitted_s)
    named = [replace(each, id=f"j{place}") for place, each in enumerate(by_submission)]
    jobs = [Job.of_gang(each) if isinstance(each, GangJob) else each for each in named]
    return workload_of(*jobs, name=name)


def _generated(jobs: int = 50, seed: int = 1, gpus: int = 32, **assumed: Any) -> Workload:
    assumptions = JobAssumptions(**_frozen(assumed))
    return lyra_like(days=1, jobs=jobs, seed=seed, training_gpus=gpus, assumptions=assumptions)


ASSUMED: Mapping[str, Mapping[str, int]] = {
    "generated": {},
    "mixed": {"elastic_percent": 40, "fungible_percent": 60, "heterogeneous_percent": 30},
    "few": {"jobs": 30, "gpus": 16, "elastic_percent": 60},
}
"""What is assumed of generated jobs unless a case says otherwise."""


def _jobs(of: str, **given: Any) -> Workload:
    """Return the generated jobs that a case names."""
    return _generated(**{**ASSUMED[of], **given})


def _lending(
    jobs: Mapping[str, Any],
    *,
    plan: float = 1800.0,
    speed: float = 1 / 3,
    inference_gpus: int = 8,
    servers_per_rack: int | None = None,
    **options: Any,
) -> Situation:
    """Return four training servers, and six to borrow that move every so often."""
    cluster = Cluster.of_servers(
        4,
        servers_per_rack=servers_per_rack,
        inference_servers=6,
        inference_gpus_per_server=inference_gpus,
        inference_gpu=GpuType(name="lent", relative_speed=speed),
    )
    return Situation(_jobs(**jobs), cluster, _loans(plan), _options(**options))


def _alone(
    jobs: Mapping[str, Any],
    *,
    servers: int = 4,
    servers_per_rack: int | None = None,
    **options: Any,
) -> Situation:
    """Return training servers, and none to borrow."""
    cluster = Cluster.of_servers(servers, servers_per_rack=servers_per_rack)
    return Situation(_jobs(**jobs), cluster, options=_options(**options))


def _tied(seed: int, *, jobs: int = 60) -> Situation:
    """Return jobs with whole seconds, many at one moment, on tiny servers lent for seconds."""
    stream = IntegerStream(workload="golden-ties", seed=seed)
    drawn = []
    for _ in range(jobs):
        least = stream.between(1, 4)
        seconds = float(stream.between(1, 60))
        work_s = seconds * least
        drawn.append(
            job_of(
                "drawn",
                5.0 * stream.below(30),
                seconds,
                least,
                max_workers=least + (0, 0, 1, 4)[stream.below(4)],
                gpus_per_worker=stream.between(1, 2),
                scaling_loss=(0.0, 0.0, 0.2, 1.0)[stream.below(4)],
                fungible=stream.percent(50),
                heterogeneous=stream.percent(33),
                checkpoints=stream.percent(50),
                estimated_work_worker_s=(None, None, 0.5 * work_s, 1.3 * work_s)[stream.below(4)],
            )
        )
    cluster = Cluster.of_servers(
        3,
        gpus_per_server=4,
        inference_servers=6,
        inference_gpus_per_server=(2, 4, 1)[seed % 3],
        inference_gpu=GpuType(name="lent", relative_speed=(1.0, 0.5, 0.4)[seed % 3]),
    )
    options = _options(
        seed=seed,
        preemption_s=(3.0, 0.0, 63.0)[seed % 3],
        scaling_interval_s=(0.0, 10.0, 60.0)[seed % 3],
    )
    plan = _loans((7.0, 20.0, 5.0)[seed % 3], 100)
    return Situation(_in_order(f"ties-{seed}", drawn), cluster, plan, options)


# Rounds: what is replayed.


def _three_types() -> Cluster:
    """Return 18 GPUs, the last server of two types not full."""
    return cluster_of({"v100": 8, "p100": 6, "k80": 4})


PRICES = {"v100": 0.74, "p100": 0.43, "k80": 0.135}


def _two_on_a_server() -> Cluster:
    """Return servers of which most have GPUs of two types."""
    servers = ({"v100": 2, "k80": 2}, {"v100": 1, "p100": 3}, {"p100": 2, "k80": 4}, {"v100": 4})
    types = tuple(GpuType(name=name, price_per_hour=price) for name, price in PRICES.items())
    return replace(in_rounds.cluster_of(*servers), name="two-on-a-server", gpu_types=types)


def _gang(job: Job, submit_s: float, shorter: float) -> Job:
    """Return a measured job so many times shorter, submitted at another time."""
    assert job.measured is not None
    return Job.of_gang(
        replace(job.measured, steps=job.measured.steps / shorter, release_s=submit_s)
    )


def _gangs(
    cluster: Cluster,
    *,
    seed: int,
    jobs: int = 40,
    shorter: float = 20.0,
    gap_s: float = 0.0,
    **given: float,
) -> Workload:
    """Return gangs of Gavel's generator, so many times shorter, with a gap after every tenth."""
    given.setdefault("largest_gang", 4)
    drawn = gavel_like(jobs=jobs, seed=seed, gpu_types=cluster.gpu_types, **given)  # type: ignore[arg-type]
    jobs_of = enumerate(drawn.jobs)
    gangs = (_gang(job, job.submit_s + place // 10 * gap_s, shorter) for place, job in jobs_of)
    return replace(drawn, jobs=tuple(gangs))


TYPED_CLUSTERS: Mapping[str, Callable[[], Cluster]] = {
    "three-types": _three_types,
    "two-on-a-server": _two_on_a_server,
    **{
        name: partial(find_cluster, name)
        for name in ("hadar-60", "gavel-108", "hadare-aws", "hadare-lab")
    },
}


def _in_rounds(
    cluster: str, *, rounds: Mapping[str, Any] | None = None, seed: int = 1, **given: float
) -> Situation:
    typed = TYPED_CLUSTERS[cluster]()
    workload = _gangs(typed, seed=seed, **given)  # type: ignore[arg-type]
    return Situation(workload, typed, options=_options(rounds=rounds))


def _mixes(cluster: str, *, jobs: int, rounds: Mapping[str, Any] | None = None) -> Situation:
    typed = TYPED_CLUSTERS[cluster]()
    workload = mix(jobs, gpu_types=typed.gpu_types)
    return Situation(workload, typed, options=_options(rounds=rounds))


def _tied_gangs() -> Situation:
    """Return gangs of whole steps, slower where they are spread, many alike and at one moment."""
    stream = IntegerStream(workload="golden-round-ties", seed=0)
    drawn = []
    for _ in range(40):
        gang = (1, 1, 2, 3, 6)[stream.below(5)]
        fast, slow = float(2 * gang), float(gang)
        steps, release_s = float(gang * 10 * stream.between(1, 30)), 10.0 * stream.below(20)
        rates = {"a": fast, "b": slow}
        spread = {"a": fast / 2, "b": slow / 2} if gang > 1 else None
        size = {"gang": gang, "release_s": release_s}
        drawn.append(in_rounds.gang("drawn", steps, spread=spread, **size, **rates))
    cluster = in_rounds.cluster_of({"a": 4}, {"a": 2, "b": 2}, {"b": 4}, {"b": 1})
    return Situation(
        _in_order("tied-gangs", drawn),
        replace(cluster, name="tied"),
        options=Options(rounds=Rounds(round_s=10.0, restart_s=2.0, merge_s=0.0)),
    )


# Racks: what is replayed.


UNEVEN = Topology(
    name="uneven",
    racks=tuple(
        Rack(machines=machines, gpus_per_machine=gpus)
        for machines, gpus in ((2, 8), (3, 4), (1, 2))
    ),
)
"""Racks of machines of three sizes."""


def _uniform(racks: int, machines: int, gpus: int) -> Topology:
    return Topology.uniform(racks=racks, machines_per_rack=machines, gpus_per_machine=gpus)


def _across(
    workload: Workload,
    topology: Topology,
    links: str,
    *,
    shorter: float = 20.0,
    timers: Sequence[Mapping[str, float]] = (),
    **options: Mapping[str, float],
) -> Situation:
    """Return the gangs that racks hold, so many times shorter."""
    cluster = linked(topology, links)
    jobs = tuple(
        replace(job, work_worker_s=job.work_worker_s / shorter)
        for job in workload.jobs
        if job.min_gpus <= cluster.gpus
    )
    classes = tuple(TimerClass(**each) for each in timers)  # type: ignore[arg-type]
    return Situation(
        replace(workload, jobs=jobs),
        cluster,
        options=_options(**options),  # type: ignore[arg-type]
        timers=ClassTimers(classes) if classes else None,
    )


GENERATORS: Mapping[str, Callable[..., Workload]] = {
    "dally-poisson": dally_poisson,
    "dally-batch": dally_batch,
    "dally-distributed": dally_distributed,
}


def _on_racks(
    generator: str,
    cluster: Sequence[int] | str,
    *,
    seed: int,
    jobs: int = 40,
    jobs_per_day: float | None = None,
    links: str = "shipped",
    **given: Any,
) -> Situation:
    """Return gangs of a generator, on racks that are uniform or uneven."""
    rate = {} if jobs_per_day is None else {"jobs_per_day": jobs_per_day}
    topology = UNEVEN if isinstance(cluster, str) else _uniform(*cluster)
    return _across(GENERATORS[generator](seed=seed, jobs=jobs, **rate), topology, links, **given)


def _listed(
    name: str,
    jobs: Sequence[tuple[float, int, float, str]],
    cluster: Sequence[int],
    *,
    links: str | None = None,
    **options: Mapping[str, float],
) -> Situation:
    """Return listed gangs on uniform racks, slowed down by 1, 2 and 4 if there are no links."""
    gangs = [
        Job.rigid(id=f"j{place}", submit_s=at_s, gpus=gang, work_gpu_s=work_gpu_s, model=model)
        for place, (at_s, gang, work_gpu_s, model) in enumerate(jobs)
    ]
    tabled = racks_of(*cluster, models={gang.model for gang in gangs})
    racks = linked(_uniform(*cluster), links) if links else tabled
    return Situation(workload_of(*gangs, name=name), racks, options=_options(**options))


# Cases.

SITUATIONS: Mapping[str, Callable[..., Situation]] = {
    "alone": _alone,
    "lending": _lending,
    "ties": _tied,
    "gangs": _in_rounds,
    "mix": _mixes,
    "tied-gangs": _tied_gangs,
    "racks": _on_racks,
    "listed": _listed,
}


@cache
def situation_of(kind: str, name: str) -> Situation:
    """Return a situation."""
    given = {key: value for key, value in TABLES[kind][name].items() if key != "schemes"}
    return SITUATIONS[given.pop("on")](**given)


def schemes_of(given: str | Sequence[str]) -> Iterator[str]:
    """Yield the schemes of a group by name, or of a list of schemes and groups."""
    for name in GROUPS[given] if isinstance(given, str) else given:
        yield from schemes_of(name) if name in GROUPS else (name,)


class Case(NamedTuple):
    """A scheme in a situation."""

    kind: str
    scheme: str
    situation: str

    @property
    def name(self) -> str:
        """Such as ``pools/lyra/loans-elastic``."""
        return "/".join(self)

    @property
    def tolerance(self) -> float:
        """The relative difference of two times that are taken for equal.

        None where events are added up one by one; rounds may be added up in another order, and the
        rates of Pollux are powers, whose last digits are the machine's.
        """
        is_exact = self.kind == "pools" or (
            self.kind == "racks" and self.scheme in GROUPS["leases"]
        )
        return 0.0 if is_exact and self.scheme != "pollux" else 1e-9

    def replay(self) -> Outcome:
        """Run it."""
        return replay(situation_of(self.kind, self.situation), self.scheme, self.kind)


CASES: tuple[Case, ...] = tuple(
    Case(kind, scheme, situation)
    for kind, situations in TABLES.items()
    for situation, table in situations.items()
    for scheme in schemes_of(table["schemes"])
)
"""Those of a situation next to each other."""


# What was recorded.


def save_goldens(outcomes: Mapping[str, Outcome], path: Path = GOLDENS) -> None:
    """Write the outcomes of cases by name, column by column."""
    parts = list(outcomes.values())
    text = "\n".join(outcomes).encode()
    columns: dict[str, Any] = {
        "names": np.frombuffer(text, np.uint8),
        "jobs": np.array([len(part.completion_s) for part in parts], np.int64),
        "completion_s": _planes(np.concatenate([part.completion_s for part in parts])),
        "queued_s": _planes(np.concatenate([part.queued_s for part in parts])),
        "preemptions": np.concatenate([part.preemptions for part in parts]),
        "extra": np.concatenate([part.extra.ravel() for part in parts]),
    }
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".npz", delete=False) as file:
        np.savez_compressed(file, allow_pickle=False, **columns)
    Path(file.name).replace(path)
    path.chmod(0o644)


@cache
def load_goldens(path: Path = GOLDENS) -> Mapping[str, Outcome]:
    """Return the outcomes recorded, by the name of the case."""
    with np.load(path, allow_pickle=False) as file:
        columns = dict(file)
    names = columns["names"].tobytes().decode().split("\n")
    completion_s = np.ascontiguousarray(columns["completion_s"].T).view("<f8").ravel()
    queued_s = np.ascontiguousarray(columns["queued_s"].T).view("<f8").ravel()
    found = {}
    start = extra_start = 0
    for name, jobs in zip(names, columns["jobs"].tolist(), strict=True):
        end = start + jobs
        width = len(EXTRA_COLUMNS[name.partition("/")[0]])
        extra_end = extra_start + jobs * width
        found[name] = Outcome(
            completion_s[start:end],
            queued_s[start:end],
            columns["preemptions"][start:end],
            columns["extra"][extra_start:extra_end].reshape(jobs, width),
        )
        start, extra_start = end, extra_end
    return found


def _planes(numbers: np.ndarray) -> np.ndarray:
    """Return the bytes of float64, all first ones first, which compress better; shape (8, n)."""
    little = np.ascontiguousarray(numbers, "<f8")
    return np.ascontiguousarray(little.view(np.uint8).reshape(-1, 8).T)


def _record() -> None:
    stopwatch = time.perf_counter()
    outcomes = {case.name: case.replay() for case in CASES}
    save_goldens(outcomes)
    size_kib = GOLDENS.stat().st_size / 1024
    elapsed_s = time.perf_counter() - stopwatch
    print(f"{len(outcomes)} cases in {elapsed_s:.1f} s, {size_kib:.0f} KiB: {GOLDENS}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", required=True)
    parser.parse_args()
    _record()

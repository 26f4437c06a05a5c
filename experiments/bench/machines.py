"""The figures of many machines: two workers, and what a thousand ask of scheduler and store."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from lyra_opt.core.temporary import TemporaryFolder
from lyra_opt.experiments.bench.cluster import Cluster
from lyra_opt.experiments.bench.timing import Figure, timed_figure
from lyra_opt.experiments.executor import run_stored
from lyra_opt.experiments.machines.engine import Machines
from lyra_opt.experiments.pool import LocalProcesses
from lyra_opt.experiments.records import (
    ReplayRecord,
    ReplayStatus,
    StudyRecord,
    current_environment,
)
from lyra_opt.experiments.runner import run_study
from lyra_opt.experiments.store import ResultStore, write_beside
from lyra_opt.experiments.study import read_study

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lyra_opt.experiments.pool import Engine

STUDY = Path(__file__).parent / "machines.toml"
REPETITIONS = 3

EMPTY_TASKS = 2000
OVERHEAD_TARGET_S = 0.005

SIMULATED_WORKERS = 1000
SIMULATED_PROCESSES = 4
SIMULATED_TASK_S = 10.0
SIMULATED_TASKS = 5000

ROWS, ROWS_WITH_FILES, FILES_BESIDE = 5000, 500, 2
FIGURES = 40
"""Of a row: about as many as a replay has."""


@dataclass(frozen=True)
class Nap:
    """A task that takes so long, and nothing else."""

    position: int
    takes_s: float

    files = ()
    documents_folder = None

    @property
    def key(self) -> str:
        """What identifies it."""
        return f"nap {self.position}"

    def run(self) -> ReplayRecord:
        """Return its row."""
        time.sleep(self.takes_s)
        figures = {f"figure_{number}": number / 7 for number in range(FIGURES)}
        return self._row(ReplayStatus.FINISHED, figures=figures)

    def failed(self, started_at: datetime, message: str) -> ReplayRecord:  # noqa: ARG002
        """Return the row of a failure."""
        return self._row(ReplayStatus.ERROR, message=message)

    def _row(self, status: ReplayStatus, **outcome: Any) -> ReplayRecord:
        columns: dict[str, Any] = {
            "study": "naps",
            "position": self.position,
            "key": self.key,
            "seed": 0,
            "status": status,
            "scenario": "naps",
            "scheme": "",
            "workload": "",
            "cluster": "",
            "started_at": datetime.now(UTC).isoformat(),
            **asdict(current_environment()),
        }
        return ReplayRecord(**(columns | outcome))


def machine_figures() -> Iterator[Figure]:
    """Measure runs through a scheduler, on this machine."""
    with TemporaryFolder() as folder:
        yield from _store_figures(Path(folder))
        cluster = Cluster(Path(folder))
        try:
            cluster.start(workers=2)
            yield from _two_worker_figures(Path(folder), cluster)
        finally:
            cluster.stop()
        yield from _thousand_worker_figures(Path(folder))


def _two_worker_figures(folder: Path, cluster: Cluster) -> Iterator[Figure]:
    engines: dict[str, Engine] = {"there": Machines(cluster.address), "here": LocalProcesses(2)}
    study = read_study(STUDY)
    studies: dict[str, list[float]] = {name: [] for name in engines}
    for repetition in range(REPETITIONS):
        for name, engine in engines.items():
            started_s = time.perf_counter()
            run_study(study, folder / f"study-{name}-{repetition}", engine=engine)
            studies[name].append(time.perf_counter() - started_s)
    ratios = [there / here for there, here in zip(studies["there"], studies["here"], strict=True)]
    here_s, there_s = (statistics.median(studies[name]) for name in ("here", "there"))
    yield Figure(
        what=f"a study of {len(list(study.runs()))} runs, 2 workers against a pool of 2",
        runs=REPETITIONS,
        statistic="median ratio of times",
        measured=statistics.median(ratios),
        remark=f"{min(ratios):.2f} to {max(ratios):.2f}; {there_s:.1f} s against {here_s:.1f} s",
    )
    for name, engine in engines.items():
        _naps_s(engine, 2, 0.0, folder / f"warm-{name}")
        before_s = _cpu_s(cluster)
        times_s = [
            _naps_s(engine, EMPTY_TASKS, 0.0, folder / f"naps-{name}-{repetition}") / EMPTY_TASKS
            for repetition in range(REPETITIONS)
        ]
        yield timed_figure(
            f"a task that does nothing, {'2 workers' if name == 'there' else 'pool of 2'}",
            times_s,
            remark=f"what it adds to a study, its row stored; medians of {EMPTY_TASKS:,}",
        )
        if name == "there":
            yield Figure(
                what="the same, CPU of scheduler, workers and command, a task",
                runs=REPETITIONS * EMPTY_TASKS,
                statistic="mean",
                measured=1000 * (_cpu_s(cluster) - before_s) / (REPETITIONS * EMPTY_TASKS),
                target=1000 * OVERHEAD_TARGET_S,
                unit="ms",
            )


def _naps_s(engine: Engine, count: int, takes_s: float, folder: Path) -> float:
    """Return how long so many tasks take, rows stored."""
    tasks = [Nap(position, takes_s) for position in range(count)]
    started_s = time.perf_counter()
    if run_stored(_naps(count), tasks, folder, engine=engine):
        raise RuntimeError("a task failed, or it was interrupted")
    return time.perf_counter() - started_s


def _naps(count: int) -> StudyRecord:
    return StudyRecord(
        name="naps", kind=ReplayRecord.kind, text="", meaning_hash=str(count), runs=count
    )


def _store_figures(folder: Path) -> Iterator[Figure]:
    """Measure what the one process stores that writes, alone and with files beside rows."""
    rows = [Nap(position, 0.0).run() for position in range(ROWS)]
    for files, what in ((0, ""), (FILES_BESIDE, f" with {FILES_BESIDE} files of 20 KB beside it")):
        beside = {f"runs/{number}.csv.gz": bytes(20_000) for number in range(files)}
        store_folder = folder / f"rows-{files}"
        with ResultStore.create(store_folder, _naps(ROWS)).start_writing() as store:
            kept = rows if not files else rows[:ROWS_WITH_FILES]
            started_s = time.perf_counter()
            for row in kept:
                write_beside(store_folder, beside)
                store.add(row)
            elapsed_s = time.perf_counter() - started_s
        yield Figure(
            what=f"the store, a transaction a row{what}",
            runs=len(kept),
            statistic="rows a second",
            measured=len(kept) / elapsed_s,
        )


def _thousand_worker_figures(folder: Path) -> Iterator[Figure]:
    """Measure what scheduler and command take for each task of workers that only wait."""
    cluster = Cluster(folder)
    with _simulated_workers(cluster) as scheduler:
        engine = Machines(cluster.address)
        _naps_s(engine, SIMULATED_WORKERS, 0.0, folder / "warm")
        before_s, own_before_s = _cpu_of_family_s(scheduler), time.process_time()
        wall_s = _naps_s(engine, SIMULATED_TASKS, SIMULATED_TASK_S, folder / "simulated")
        scheduler_s = (_cpu_of_family_s(scheduler) - before_s) / SIMULATED_TASKS
        own_s = (time.process_time() - own_before_s) / SIMULATED_TASKS
    least_s = SIMULATED_TASK_S * SIMULATED_TASKS / SIMULATED_WORKERS
    what = f"{SIMULATED_WORKERS:,} simulated workers, {SIMULATED_TASKS:,} tasks of "
    what += f"{SIMULATED_TASK_S:g} s"
    yield Figure(
        what=what,
        runs=SIMULATED_TASKS,
        statistic="tasks a second",
        measured=SIMULATED_TASKS / wall_s,
        remark=f"at most {SIMULATED_TASKS / least_s:.0f} with workers that never wait; scheduler, "
        "command and all workers share this machine",
    )
    for of, cpu_s in {"scheduler": scheduler_s, "command, which stores": own_s}.items():
        yield Figure(
            what=f"the same, CPU of the {of}, a task",
            runs=SIMULATED_TASKS,
            statistic="mean",
            measured=1000 * cpu_s,
            unit="ms",
            remark=f"one core sustains {1 / cpu_s:.0f} tasks a second",
        )


def _cpu_s(cluster: Cluster) -> float:
    """Return the CPU seconds so far of a cluster and of this process."""
    of_cluster = [process for process in (cluster.scheduler, *cluster.workers) if process]
    return time.process_time() + sum(_cpu_of_family_s(each.pid) for each in of_cluster)


def _cpu_of_family_s(process: int) -> float:
    """Return the CPU seconds so far of a process and those that it has started."""
    first = psutil.Process(process)
    taken = [each.cpu_times() for each in (first, *first.children(recursive=True))]
    return float(sum(each.user + each.system for each in taken))


@contextmanager
def _simulated_workers(cluster: Cluster) -> Iterator[int]:
    """Start a scheduler and workers of which many share a process; yield the scheduler's id."""
    each = SIMULATED_WORKERS // SIMULATED_PROCESSES
    command = [sys.executable, "-m", "lyra_opt.experiments.bench.simulated_workers"]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        cluster.start(workers=0)
        assert cluster.scheduler is not None, "it was started"
        processes += [
            subprocess.Popen([*command, cluster.address, str(each)])  # noqa: S603
            for _ in range(SIMULATED_PROCESSES)
        ]
        cluster.wait_for(SIMULATED_WORKERS)
        yield cluster.scheduler.pid
    finally:
        for process in processes:
            process.kill()
            process.wait()
        cluster.stop()

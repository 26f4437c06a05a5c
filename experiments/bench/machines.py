"""Benchmarks of many machines: two Dask workers, and the store."""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from lyra_opt.experiments.bench.cluster import Cluster
from lyra_opt.experiments.bench.timing import sized, timed
from lyra_opt.experiments.executor import run_stored
from lyra_opt.experiments.machines.engine import Machines
from lyra_opt.experiments.pool import Engine, LocalProcesses
from lyra_opt.experiments.records import (
    ReplayRecord,
    ReplayStatus,
    StudyRecord,
    current_environment,
)
from lyra_opt.experiments.runner import run_study
from lyra_opt.experiments.store import ResultStore, write_beside
from lyra_opt.experiments.study import read_study

STUDY = Path(__file__).parent / "machines.toml"
ENGINES = ("2 workers", "pool of 2")
EMPTY_TASKS = sized(2_000, 20)
ROWS_BY_FILES = {0: sized(5_000, 20), 2: sized(500, 4)}
"""Number of rows to store, by number of files of 20 KB written with each row."""


@dataclass(frozen=True)
class Nap:
    """A task that does nothing."""

    position: int

    files = ()
    documents_folder = None
    inputs = None

    @property
    def key(self) -> str:
        """Text that identifies the task."""
        return f"nap {self.position}"

    def run(self) -> ReplayRecord:
        """Return the row at once."""
        figures = {
            f"figure_{number}": number / 7 for number in range(40)
        }  # as many as a replay has
        return self._row(ReplayStatus.FINISHED, figures=figures)

    def failed(self, started_at: datetime, message: str) -> ReplayRecord:  # noqa: ARG002
        """Return the row of a failed run."""
        return self._row(ReplayStatus.ERROR, message=message)

    def _row(self, status: ReplayStatus, **outcome: Any) -> ReplayRecord:
        blank: dict[str, Any] = dict.fromkeys(("scenario", "scheme", "workload", "cluster"), "")
        return ReplayRecord(
            study="naps",
            position=self.position,
            key=self.key,
            seed=0,
            status=status,
            **blank,
            started_at=datetime.now(UTC).isoformat(),
            **asdict(current_environment()),
            **outcome,
        )


def study_of(naps: int) -> StudyRecord:
    """Return a study of `naps` tasks that do nothing."""
    return StudyRecord(name="naps", kind="replay", text="", meaning_hash=str(naps), runs=naps)


def take_naps(engine: Engine, naps: int, folder: Path) -> None:
    """Run `naps` tasks that do nothing on an engine, and store their rows."""
    tasks = [Nap(position) for position in range(naps)]
    if run_stored(study_of(naps), tasks, folder, engine=engine):
        raise RuntimeError("a task failed, or it was interrupted")


def cpu_time_s(*processes: subprocess.Popen[bytes] | None) -> float:
    """Return the CPU seconds of processes and all their children so far."""
    families = [psutil.Process(each.pid) for each in processes if each is not None]
    families += [child for first in families for child in first.children(recursive=True)]
    times = [each.cpu_times() for each in families]
    return float(sum(each.user + each.system for each in times))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Return a Dask cluster that a benchmark starts."""
    made = Cluster(tmp_path / "cluster")
    yield made
    made.stop()


def engine_of(name: str, cluster: Cluster) -> Engine:
    """Return the engine with a name from `ENGINES`, after starting the Dask cluster if needed."""
    if name != ENGINES[0]:
        return LocalProcesses(2)
    cluster.start(workers=2)
    return Machines(cluster.address)


@pytest.mark.parametrize("name", ENGINES)
def test_study(benchmark: BenchmarkFixture, name: str, cluster: Cluster, tmp_path: Path) -> None:
    """Time one study of 300 runs on two Dask workers and in a pool of two processes."""
    study = read_study(STUDY, changes=sized({}, {"seeds": 1, "time_limit_s": 0.1}))
    engine, number = engine_of(name, cluster), count()

    def run() -> None:
        run_study(study, tmp_path / str(next(number)), engine=engine)

    timed(benchmark, run, rounds=3, warms_up=False)


@pytest.mark.parametrize("name", ENGINES)
def test_empty_tasks(
    benchmark: BenchmarkFixture, name: str, cluster: Cluster, tmp_path: Path
) -> None:
    """Measure the wall and CPU time that an empty task adds to a study, with its row stored."""
    engine, number = engine_of(name, cluster), count()
    take_naps(engine, 2, tmp_path / "warm")
    processes = (cluster.scheduler, *cluster.workers)
    before_s = cpu_time_s(*processes) + time.process_time()

    def run() -> None:
        take_naps(engine, EMPTY_TASKS, tmp_path / str(next(number)))

    timed(benchmark, run, rounds=3, warms_up=False)
    taken_s = cpu_time_s(*processes) + time.process_time() - before_s
    benchmark.extra_info |= {
        "task_s": benchmark.stats.stats.median / EMPTY_TASKS,
        "task_cpu_time_s": taken_s / (next(number) * EMPTY_TASKS),
    }


@pytest.mark.parametrize("files", ROWS_BY_FILES)
def test_store(benchmark: BenchmarkFixture, files: int, tmp_path: Path) -> None:
    """Measure how many rows per second one process stores, without files or with files per row."""
    rows = [Nap(position).run() for position in range(ROWS_BY_FILES[files])]
    beside = {f"runs/{number}.csv.gz": bytes(20_000) for number in range(files)}

    def store_rows(store: ResultStore) -> None:
        for row in rows:
            write_beside(tmp_path, beside)
            store.add(row)

    with ResultStore.create(tmp_path, study_of(len(rows))).start_writing() as store:
        timed(benchmark, store_rows, store, warms_up=False)
    benchmark.extra_info["rows_per_s"] = len(rows) / benchmark.stats.stats.median

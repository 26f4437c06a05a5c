"""The figures of the simulated cluster: scenarios replayed, one replay at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.temporary import TemporaryFolder
from lyra_opt.experiments.bench.timing import Figure
from lyra_opt.experiments.executor import run_stored
from lyra_opt.experiments.frames import load_study
from lyra_opt.experiments.pool import IN_THIS_PROCESS, LocalProcesses
from lyra_opt.experiments.simulation.running.tasks import replay_tasks, study_of
from lyra_opt.experiments.simulation.scenario.loading import Change, load_scenario
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.instances.heterogeneous.generated_jobs import PHILLY_TRACE
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES
from lyra_opt.network.links import LINK_SETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pandas as pd

LYRA = "lyra-paper"
"""Lyra's clusters: 3,544 training GPUs and 4,160 inference GPUs."""
LYRA_DAYS = 15
LYRA_TARGET_JOBS_PER_S = 1_000
LYRA_TARGET_MIB = 2_000

GROWTH_TARGET = 2.3
GROWTH_JOBS = (25_000, 50_000, 100_000)
GROWTH_SEEDS = 3
GROWTH_LOAD = 0.77
"""Of the generator on average; a draw alone may be at 72 or 82 %, with longer or shorter queues."""
JOBS_A_DAY = 50_390 / 15

FIFO: Mapping[str, Any] = {"cluster.servers": 443, "jobs.trace": PHILLY_TRACE}
FIFO_TARGET_JOBS_PER_S = 10_000

OWN_SCENARIO, OWN_TARGET = "philly-one-cluster", 2.0
OWN_SCHEME = """
from lyra_opt.simulation.policy import QueuePolicy


class SmallGangs(QueuePolicy):
    def decide(self, view):
        for run in sorted(self.waiting.values(), key=lambda run: (run.job.min_gpus, run.order)):
            if parts := view.fit(run):
                self.start(view, run, parts)
"""
"""The obvious loop over all waiting jobs, as a user writes it."""

ROUNDS, ROUNDS_TARGET_S = "hadar-60", 60.0
LEASES, LEASES_TARGET_S = "dally-batch", 30.0


def replayed(
    scenario: str,
    schemes: Sequence[str],
    changes: Mapping[str, Any] | None = None,
    *,
    processes: int = IN_THIS_PROCESS,
) -> pd.DataFrame:
    """Return the replays of a scenario, jobs that are too large left out.

    Parameters
    ----------
    changes
        Keys that are other than in its file.
    processes
        1 for a process of their own.

    Raises
    ------
    UserError
        If the scenario is wrong, or asks for a trace that is not there.
    RuntimeError
        If a replay fails.
    """
    asked = {"jobs.oversized": "drop"} | dict(changes or {})
    found = load_scenario(scenario, [Change(path, value) for path, value in asked.items()])
    tasks = replay_tasks(found, schemes)
    tasks[0].setup()  # what is not there is an error now, and no failed run
    with TemporaryFolder() as folder:
        if run_stored(
            study_of(found, tasks), tasks, Path(folder), engine=LocalProcesses(processes)
        ):
            raise RuntimeError(f"a replay of {scenario} failed or was interrupted")
        return load_study(folder)


def simulation_figures() -> Iterator[Figure]:
    """Measure the simulated cluster's speed, after a short run that loads everything."""
    days = {"jobs.parameters.days": LYRA_DAYS}
    replayed(LYRA, ["lyra"], {"jobs.parameters.days": 1})
    yield from if_there("fifo, all Philly jobs", _fifo_figures)
    yield from if_there("a scheme in the user's own file", _own_scheme_figures)
    (lyra,) = replayed(LYRA, ["lyra"], days).itertuples()
    yield _speed(f"lyra, {LYRA}, {LYRA_DAYS} days", lyra, LYRA_TARGET_JOBS_PER_S)
    yield Figure(
        what="the same, as a process of its own",
        runs=1,
        statistic="peak memory",
        measured=replayed(LYRA, ["lyra"], days, processes=1).peak_memory_mib[0],
        target=LYRA_TARGET_MIB,
        unit="MiB",
    )
    times_s = {}
    for count in GROWTH_JOBS:
        jobs = {"days": max(1, round(count / JOBS_A_DAY)), "jobs": count}
        changes = {"jobs.parameters": jobs, "jobs.load": GROWTH_LOAD, "seeds": GROWTH_SEEDS}
        times_s[count] = replayed(LYRA, ["lyra"], changes).cpu_time_s.sum()
    yield Figure(
        what=f"lyra, {GROWTH_JOBS[0]:,} to {GROWTH_JOBS[-1]:,} jobs at equal load",
        runs=GROWTH_SEEDS * len(GROWTH_JOBS),
        statistic=f"largest ratio of CPU times for twice the jobs, {GROWTH_SEEDS} seeds in all",
        measured=max(later / earlier for earlier, later in pairwise(times_s.values())),
        target=GROWTH_TARGET,
        remark=", ".join(f"{count:,} jobs: {time_s:.1f} s" for count, time_s in times_s.items()),
    )


def _fifo_figures() -> Iterator[Figure]:
    (fifo,) = replayed("plain", ["fifo"], FIFO).itertuples()
    yield _speed("fifo, all Philly jobs, 3,544 GPUs", fifo, FIFO_TARGET_JOBS_PER_S)


def _own_scheme_figures() -> Iterator[Figure]:
    """Compare a scheme in a user's file with a built-in one, both as whole commands."""
    load_scenario(OWN_SCENARIO).path_to_read(PHILLY_TRACE)
    with TemporaryFolder() as folder:
        file = Path(folder, "own_scheme.py")
        file.write_text(OWN_SCHEME)
        own_s, built_in_s = (
            min(_command_cpu_s(scheme) for _ in range(2))
            for scheme in (f"{file}:SmallGangs", "sjf")
        )
    yield Figure(
        what=f"a scheme in the user's own file beside sjf, {OWN_SCENARIO}",
        runs=2,
        statistic="ratio of CPU times of whole commands",
        measured=own_s / built_in_s,
        target=OWN_TARGET,
        remark=f"{own_s:.1f} s and {built_in_s:.1f} s",
    )


def _command_cpu_s(scheme: str) -> float:
    """Return the CPU time of a process that simulates a scheme."""
    before = os.times()
    command = ["-m", "lyra_opt", "simulate", OWN_SCENARIO, "--scheme", scheme]
    subprocess.run([sys.executable, *command], check=True, capture_output=True)  # noqa: S603
    after = os.times()
    return (
        after.children_user
        + after.children_system
        - (before.children_user + before.children_system)
    )


def _speed(what: str, run: Any, target: float) -> Figure:
    return Figure(
        what=what,
        runs=1,
        statistic="jobs per CPU second",
        measured=run.jobs_per_cpu_s,
        target=target,
        at_least=True,
        remark=f"{run.jobs:,} jobs in {run.cpu_time_s:.2f} s of CPU",
    )


def round_figures() -> Iterator[Figure]:
    """Measure how long each scheme takes for 480 jobs on 20 V100, 20 P100 and 20 K80.

    A scheme that runs no gangs, or none on several servers, gets the jobs that it can run.
    """
    for scheme in ROUND_POLICIES:
        yield from if_there(
            f"{scheme}, {ROUNDS}", lambda scheme=scheme: _wall_times(ROUNDS, [scheme])
        )


def lease_figures() -> Iterator[Figure]:
    """Measure how long each rule takes for 500 jobs at once, on each set of links."""
    for links in LINK_SETS:
        yield from _wall_times(
            LEASES, list(PLACEMENT_POLICIES), {"cluster.network.links": links}, f", {links}"
        )


def _wall_times(
    scenario: str,
    schemes: Sequence[str],
    changes: Mapping[str, Any] | None = None,
    remark: str = "",
) -> Iterator[Figure]:
    """Yield the wall time of each replay, held to the target of its scenario."""
    for run in replayed(scenario, schemes, changes).itertuples():
        yield Figure(
            what=f"{run.scheme}, {scenario}{remark}",
            runs=1,
            statistic="wall time",
            measured=run.wall_time_s,
            target=ROUNDS_TARGET_S if scenario == ROUNDS else LEASES_TARGET_S,
            unit="s",
            remark=f"{run.jobs} jobs, decisions {1000 * run.decision_mean_s:.2f} ms on average, "
            f"{1000 * run.decision_max_s:.1f} ms at most",
        )


def if_there(what: str, figures: Any) -> Iterator[Figure]:
    """Yield figures, or that there are none where the trace that they need is not there."""
    try:
        yield from figures()
    except UserError as error:
        yield Figure(what=what, runs=0, remark=f"not measured: {error}")

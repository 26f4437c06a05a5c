"""The figures of the bound on whole replays: how good it is, what it costs, and how that grows."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lyra_opt.experiments.bench.replays import GROWTH_LOAD, GROWTH_TARGET, JOBS_A_DAY, if_there
from lyra_opt.experiments.bench.timing import Figure
from lyra_opt.experiments.simulation.measuring.proving import prove
from lyra_opt.experiments.simulation.scenario.loading import Change, load_scenario
from lyra_opt.instances.heterogeneous.generated_jobs import PHILLY_TRACE
from lyra_opt.simulation.bounds.scope import Reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.experiments.simulation.measuring.proving import Proved

ITP_TRACE = "microsoft_itp2021_jobs.csv.gz"
TRACES: Mapping[str, tuple[str, int, float]] = {
    "all Philly jobs": (PHILLY_TRACE, 60, 7.0),
    "all ITP jobs": (ITP_TRACE, 150, 1.5),
}
"""Trace, servers of eight GPUs, and the gap in percent that is meant to be reached."""

BOUND_TARGET_S = 60.0

LYRA: Mapping[str, Any] = {"jobs.parameters.days": 15}
LYRA_TARGET_MIB = 1024
PROBE = (
    "import resource, sys; from lyra_opt.__main__ import main; code = main(sys.argv[1:]); "
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr); "
    "sys.exit(code)"
)
"""Runs the command line, and tells the peak memory in MiB as the last word on stderr."""

GROWTH_JOBS = (12_500, 25_000, 50_000, 100_000)


def proved(
    scenario: str,
    changes: Mapping[str, Any],
    readings: Sequence[Reading] = tuple(Reading),
    *,
    searches: bool = False,
) -> list[Proved]:
    """Return what is proved of a scenario; `UserError` if it asks for a trace that is not there."""
    asked = {"jobs.oversized": "drop", **changes}
    found = load_scenario(scenario, [Change(path, value) for path, value in asked.items()])
    return list(prove(found, readings, searches=searches))


def cluster_bound_figures() -> Iterator[Figure]:
    """Measure the bound, after a small one that loads everything."""
    small = {"cluster.servers": 4, "jobs.parameters.days": 1}
    proved("lyra-paper", small)
    for what, (trace, servers, target) in TRACES.items():
        yield from if_there(
            f"{what}, {8 * servers:,} GPUs",
            lambda what=what, trace=trace, servers=servers, target=target: _of_trace(
                what, trace, servers, target
            ),
        )
    yield from _of_lyra()
    yield _growth()


def _of_trace(what: str, trace: str, servers: int, target: float) -> Iterator[Figure]:
    changes = {"jobs.trace": trace, "cluster.servers": servers}
    (found,) = proved("plain", changes, [Reading.RESTART], searches=True)
    assert found.schedule is not None, "it was asked for"
    assert found.gap is not None, "there is a schedule"
    bound, schedule = found.bound, found.schedule
    name = f"{what}, {8 * servers:,} GPUs"
    yield Figure(
        what=name,
        runs=1,
        statistic="certified gap",
        measured=100 * found.gap,
        target=target,
        unit="%",
        remark=f"{bound.jobs:,} jobs; mean JCT at least {bound.jct_mean_bound_s:,.0f} s, found "
        f"{schedule.jct_mean_s:,.0f} s in {schedule.cpu_s:.1f} s of CPU time",
    )
    yield Figure(
        what=f"{name}: bounds on mean JCT and queuing",
        runs=1,
        statistic="CPU time",
        measured=bound.cpu_s,
        target=BOUND_TARGET_S,
        unit="s",
        remark=bound.reading.value,
    )


def _of_lyra() -> Iterator[Figure]:
    """Measure both readings of Lyra's clusters with loans, as a process of its own."""
    options = [f"--set={path}={value}" for path, value in LYRA.items()]
    arguments = [sys.executable, "-c", PROBE, "bound", "lyra-paper", "--json", *options]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)  # noqa: S603
    found = json.loads(done.stdout)
    what = f"lyra-paper, {found[0]['jobs']:,} jobs, with loans"
    yield Figure(
        what=f"{what}: bounds on mean JCT and queuing",
        runs=1,
        statistic="CPU time of both readings",
        measured=sum(each["cpu_s"] for each in found),
        target=BOUND_TARGET_S,
        unit="s",
        remark="; ".join(f"{each['reading']}: {each['cpu_s']:.1f} s" for each in found),
    )
    yield Figure(
        what=f"{what}, as a process of its own",
        runs=1,
        statistic="peak memory",
        measured=float(done.stderr.split()[-1]),
        target=LYRA_TARGET_MIB,
        unit="MiB",
    )


def _growth() -> Figure:
    times_s = {}
    for count in GROWTH_JOBS:
        jobs = {"days": max(1, round(count / JOBS_A_DAY)), "jobs": count}
        found = proved("lyra-paper", {"jobs.parameters": jobs, "jobs.load": GROWTH_LOAD})
        times_s[count] = sum(each.bound.cpu_s for each in found)
    return Figure(
        what=f"lyra-paper, {GROWTH_JOBS[0]:,} to {GROWTH_JOBS[-1]:,} jobs at equal load",
        runs=len(GROWTH_JOBS),
        statistic="largest ratio of CPU times for twice the jobs",
        measured=max(later / earlier for earlier, later in pairwise(times_s.values())),
        target=GROWTH_TARGET,
        remark=", ".join(f"{count:,} jobs: {time_s:.1f} s" for count, time_s in times_s.items()),
    )

"""Functions for Lyra's tables and figures: worked examples, and notes with numbers from replays.

Lyra: Li et al., EuroSys 2023. Some notes use a property of strict first come, first served: a few
jobs cannot wait far longer than all others. If no job overtakes another and none is preempted, jobs
start in the order of submission. From one job to the next, the wait falls by at most the time
between their submissions. A job that waits e seconds longer than T is therefore followed by jobs
that wait longer than T, during at least e seconds of submissions. Consider k jobs that wait longer
than T and are followed by one that does not, with submissions at most `gap` apart. Then the m-th
last of them waits at most ``T + m * gap``.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.allocation.instance import Schedule, SchedulePiece
from lyra_opt.allocation.knapsack.of_instance import AllocationKnapsack
from lyra_opt.core.numbers import DAY_S, HOUR_S
from lyra_opt.core.problem import find_problem
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.experiments.tuning.tuning_file import frozen_result
from lyra_opt.instances.library import load_library_instance
from lyra_opt.instances.workloads.lyra_like import (
    PUBLISHED_DAYS,
    PUBLISHED_JOBS,
    STEPS_PER_HOUR,
    inference_demand,
)
from lyra_opt.paper_figures.comparison import MISSING, Computed, Entry, FurtherTable
from lyra_opt.paper_figures.document import LESS, Measure, by_name
from lyra_opt.paper_figures.results import not_none
from lyra_opt.reclaim.heuristics.greedy import LyraGreedy, server_preemption_costs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lyra_opt.allocation.instance import Instance as AllocationInstance
    from lyra_opt.paper_figures.document import PublicationTable
    from lyra_opt.paper_figures.results import Part
    from lyra_opt.reclaim import Instance as ReclaimInstance


def most_mean_of_slowest_s(above_s: float, *, jobs: int, gap_s: float) -> float:
    """Return the largest mean wait, in seconds, of jobs that wait over `above_s` in a FIFO queue.

    Parameters
    ----------
    above_s
        The largest wait of all other jobs.
    jobs
        The number of jobs that wait longer, at least 1; the last job submitted is not one of them.
    gap_s
        The largest time between consecutive submissions.

    Notes
    -----
    Source: this project. The mean is largest if these jobs are submitted one after the other: in
    runs of m jobs the sum exceeds `above_s` by ``m * (m + 1) / 2 * gap_s``, which is convex in m.
    """
    return above_s + (jobs + 1) / 2 * gap_s


def longest_gap_s(above_s: float, mean_s: float, *, jobs: int) -> float:
    """Return the gap between submissions, in seconds, that a given mean wait requires.

    This is the inverse of `most_mean_of_slowest_s`, whose gap is replaced by `mean_s`.
    """
    return (mean_s - above_s) * 2 / (jobs + 1)


def least_mean_of_slowest_s(mean_s: float, percentiles_s: Mapping[float, float]) -> float:
    """Return the least mean wait, in seconds, of the slowest jobs, from statistics of all waits.

    All other jobs are assumed to wait as long as the next percentile allows.

    Parameters
    ----------
    mean_s
        The mean wait of all jobs.
    percentiles_s
        Percentiles by rank in %, increasing; the slowest jobs are those above the last rank.
    """
    ranks = [0.0, *percentiles_s]
    shares = [(high - low) / 100 for low, high in pairwise(ranks)]
    others_s = math.fsum(
        share * value for share, value in zip(shares, percentiles_s.values(), strict=True)
    )
    return (mean_s - others_s) / (1 - ranks[-1] / 100)


CALIBRATION = "lyra-2"
DAYS_OF_WEEK = 7
ELASTIC_SHARE, ELASTIC_RUN_S = 0.05, 14.2 * HOUR_S
RANKS = (50.0, 75.0, 95.0, 99.0)
"""The ranks of the percentiles in Table 8."""
MEANS = {"mean queue": Measure(of="queue_mean_s"), "mean JCT": Measure(of="jct_mean_s")}


def _grid(part: Part, values: Mapping[str, Iterable[float]]) -> Computed:
    """Convert lists of computed values, by row and in column order, to a table's values."""
    columns = [column.name for column in part.publication.columns]
    return Computed(
        values={
            (row, column): (float(value), None)
            for row, of_row in values.items()
            for column, value in zip(columns, of_row, strict=True)
        }
    )


# Table 5.


def beside_table_5(
    part: Part,
    *,
    readings: Sequence[Mapping[str, str]],
    rigid: Sequence[str],
    elastic: Sequence[str],
) -> Computed:
    """Return tables shown with Table 5: calibration, other assumptions, run times and usage.

    Parameters
    ----------
    readings
        Assumptions where the paper is silent: each with a ``row`` of the table, a ``run``, and the
        ``reading`` in words.
    rigid, elastic
        The rows in which no job, and only jobs of the elastic kind, can have more workers than
        their base demand.
    """
    tables = [
        _calibrated(),
        _other_readings(part, readings),
        _run_times(part, rigid, elastic),
        _usage_by_window(part),
    ]
    return Computed(tables=tables)


def _calibrated() -> FurtherTable:
    """Return a table that compares the calibrated jobs with the paper's Baseline."""
    record = frozen_result(CALIBRATION)
    rows = []
    for target in record["targets"]:
        entry = Entry(
            row="Baseline", column=target["measure"], paper=f"{target['value']:g}", ours=None
        )
        cells = [
            f"{entry.shown(statistics.fmean(values))} "
            f"({entry.shown(min(values))} to {entry.shown(max(values))})"
            for values in (target["calibrated"], target["judged"])
        ]
        ratio = target["judged_mean"] / target["value"]
        rows.append([target["measure"], entry.paper, *cells, f"{ratio:.3f}"])
    return FurtherTable(
        title="Calibration of the jobs on the Baseline, at the paper's size",
        header=[
            "",
            "paper",
            f"calibration seeds: {_listed(record['seeds'])}",
            f"other seeds: {_listed(record['judged_seeds'])}",
            "other seeds / paper",
        ],
        rows=rows,
    )


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def least_mean_run_s(base_s: float, *, elastic: bool) -> float:
    """Return the least possible mean time between start and end of the jobs, in seconds.

    Parameters
    ----------
    base_s
        The mean run time if every job has its base demand.
    elastic
        Whether jobs of the elastic kind may have up to twice their base demand.

    Notes
    -----
    Source: this project, from sections 2 and 7.1 of Lyra's paper: 5 % of the jobs are elastic, and
    run for 14.2 hours on average. If they do so with all workers, they run for at most 28.4 hours
    with their base demand; if they do so with their base demand, they save even less.
    """
    return base_s - ELASTIC_SHARE * ELASTIC_RUN_S if elastic else base_s


def _run_times(part: Part, rigid: Sequence[str], elastic: Sequence[str]) -> FurtherTable:
    """Return a table of mean JCT minus mean queuing time, and what the Baseline allows."""
    columns = [column.name for column in part.publication.columns]
    paper_s = {}
    for row in part.publication.rows:
        printed = dict(zip(columns, row.paper, strict=True))
        paper_s[row.name] = float(printed["JCT mean (s)"]) - float(printed["queue mean (s)"])
    runs = {row.name: str(row.run) for row in part.publication.rows}
    rows = []
    for name in (*rigid, *elastic):
        least_s = least_mean_run_s(paper_s["Baseline"], elastic=name in elastic)
        queue_s, jct_s = (part.mean(measure, runs[name])[0] for measure in MEANS.values())
        ours_s = MISSING if queue_s is None or jct_s is None else f"{jct_s - queue_s:,.0f}"
        verdict = "contradicts the Baseline" if paper_s[name] < least_s else "possible"
        rows.append([name, f"{paper_s[name]:,.0f}", f"{least_s:,.0f}", ours_s, verdict])
    return FurtherTable(
        title="Mean JCT minus mean queuing time, which is at least the mean run time",
        header=["row", "paper (s)", "least after the Baseline (s)", "ours (s)", "in the paper"],
        rows=rows,
    )


def _usage_by_window(part: Part) -> FurtherTable:
    """Return a table of GPU usage over the makespan and while jobs are submitted."""
    names = [
        f"{what}_usage{window}"
        for what in ("training", "overall", "loan")
        for window in ("", "_while_submitting")
    ]
    rows = []
    for row in part.publication.rows:
        means = [
            part.mean(Measure(of=name, where_none=math.nan), str(row.run))[0] for name in names
        ]
        cells = [MISSING if not mean or math.isnan(mean) else f"{mean:.3f}" for mean in means]
        rows.append([row.name, *cells])
    heads = [
        f"{what}, {window}"
        for what in ("training", "overall", "servers on loan")
        for window in ("makespan", "submissions")
    ]
    return FurtherTable(
        title="Usage over the makespan and while jobs are submitted", header=["", *heads], rows=rows
    )


def _other_readings(part: Part, readings: Sequence[Mapping[str, str]]) -> FurtherTable:
    """Return a table of rows simulated under other assumptions, where the paper is silent."""
    columns = part.publication.columns
    papers = {row.name: row.paper for row in part.publication.rows}
    rows = []
    for each in readings:
        entries = [
            Entry(
                row=each["row"],
                column=column.name,
                paper=paper,
                ours=part.mean(column.measure, each["run"])[0],
            )
            for column, paper in zip(columns, papers[each["row"]], strict=True)
            if column.measure is not None
        ]
        cells = [f"{entry.paper} / {entry.shown(entry.ours)}" for entry in entries]
        rows.append([each["row"], each["reading"], *cells])
    return FurtherTable(
        title="Rows under other assumptions, paper / ours (not counted among the entries)",
        header=["row", "assumption", *(column.name for column in columns)],
        rows=rows,
        words=2,
    )


# Worked examples.


def server_prices(part: Part) -> Computed:
    """Return the preemption cost of each server of Figure 5, by three definitions."""
    instance: ReclaimInstance = load_library_instance("lyra-figure-5").instance
    jobs = dict.fromkeys((server.id for server in instance.servers), 0)
    fractions = dict.fromkeys(jobs, Fraction(0))
    for job in instance.jobs:
        for group in job.workers:
            jobs[group.server] += 1
            fractions[group.server] += Fraction(group.workers, job.total_workers)
    costs = dict(zip(jobs, server_preemption_costs(instance), strict=True))
    return _grid(
        part,
        {server: (jobs[server], float(fractions[server]), float(costs[server])) for server in jobs},
    )


def two_jobs(part: Part) -> Computed:
    """Return the two jobs of the worked example in Table 2."""
    return _grid(
        part,
        {
            job.id: (job.min_workers, job.max_workers, job.work_worker_s / job.max_workers)
            for job in _example("lyra-table-2").jobs
        },
    )


def jcts_of_starts(part: Part, *, example: str) -> Computed:
    """Return the JCTs and their mean for each initial allocation, and the optimal mean.

    The best of the paper's means is the value that the paper calls the optimum.
    """
    instance = _example(example)
    values: dict[str, Sequence[float]] = {}
    for row in part.publication.rows:
        if row.name != "optimum":
            start = [int(part.split()[1]) for part in row.name.split(", ")]
            values[row.name] = _jcts_s(instance, start)
    answer = solve_and_check(
        find_problem("allocation"), instance, find_solver("allocation", "exact")
    )
    if answer.objective is None:
        raise RuntimeError(f"the example {instance.name} was not solved: {answer.message}")
    values["optimum"] = (np.nan, np.nan, float(answer.objective))
    return _grid(part, values)


def phase_2_on_example(part: Part) -> str:  # noqa: ARG001
    """Return, in words, the result of Lyra's phase 2 on the example of Table 2."""
    rule = solve_and_check(
        find_problem("allocation"), _example("lyra-table-2"), find_solver("allocation", "lyra")
    )
    if rule.objective is None:
        raise RuntimeError(f"Lyra's rule did not solve Table 2: {rule.message}")
    return (
        "The paper does not run its own phase 2 on this example: the knapsack starts A with 5 "
        f"workers and B with 3, and the mean JCT is {rule.objective:.2f} s."
    )


def preemptions_by_servers(part: Part) -> Computed:
    """Return the preemptions of Lyra's greedy and of the optimum by number of servers."""
    problem = find_problem("reclaim")
    example: ReclaimInstance = load_library_instance("lyra-figure-5").instance
    values = {}
    for row in part.publication.rows:
        instance = replace(example, reclaim_servers=int(row.name.rpartition(" ")[2]))
        found = []
        for solver in (LyraGreedy(), find_solver("reclaim", "brute-force")):
            answer = solve_and_check(problem, instance, solver)
            if answer.objective is None:
                raise RuntimeError(f"{solver.name} did not solve Figure 5: {answer.message}")
            found.append(float(answer.objective))
        values[row.name] = found
    return _grid(part, values)


def items_of_phase_2(part: Part) -> Computed:
    """Return the weight and value of each knapsack item of Lyra's phase 2 in Figure 6."""
    instance = load_library_instance("lyra-figure-6").instance
    task = AllocationKnapsack.of(instance)
    knapsack = task.knapsack
    values = {}
    for row in part.publication.rows:
        job, _, extra = row.name.partition(", ")
        item = int(knapsack.start[instance.job_position[job]]) + int(extra.split()[0]) - 1
        values[row.name] = (float(knapsack.weight[item]), float(knapsack.value[item]))
    return _grid(part, values)


def inference_demand_of_a_week(part: Part) -> Computed:
    """Return statistics of the generated hourly inference demand of a week."""
    demand = inference_demand(days=DAYS_OF_WEEK, seed=0)
    hourly = np.reshape(demand.busy_share, (24 * DAYS_OF_WEEK, STEPS_PER_HOUR)).mean(axis=1)
    changes = np.diff(hourly)
    (row,) = part.publication.rows
    found = (hourly.mean(), hourly.min(), hourly.max(), changes.max(), -changes.min())
    return _grid(part, {row.name: found})


def _example(name: str) -> AllocationInstance:
    instance: AllocationInstance = load_library_instance(name).instance
    return instance


def _jcts_s(instance: AllocationInstance, start: Sequence[int]) -> tuple[float, ...]:
    """Return JCTs and their mean if the remaining job grows when the other job completes."""
    jobs = instance.jobs
    alone_s = [job.work_worker_s / workers for job, workers in zip(jobs, start, strict=True)]
    first_s = min(alone_s)
    pieces, jcts_s = [], []
    for job, workers, end_s in zip(jobs, start, alone_s, strict=True):
        pieces.append(SchedulePiece(job=job.id, start_s=0.0, end_s=first_s, workers=workers))
        if end_s > first_s:
            left_worker_s = job.work_worker_s - workers * first_s
            most = min(job.max_workers, instance.gpus)
            end_s = first_s + left_worker_s / most
            pieces.append(SchedulePiece(job=job.id, start_s=first_s, end_s=end_s, workers=most))
        jcts_s.append(end_s)
    pieces.sort(key=lambda piece: (piece.start_s, piece.job))
    report = find_problem("allocation").check(instance, Schedule(tuple(pieces)))
    if report.objective is None:
        raise RuntimeError(f"the schedule from {start} is not valid: {report.violations}")
    return *jcts_s, float(report.objective)


# Notes.


def what_a_strict_queue_cannot(part: Part, *, words: str) -> str:
    """Return the reason why the paper's Baseline cannot be a strict queue, with a bound.

    Parameters
    ----------
    words
        The sentences; names in braces stand for the numbers of jobs, waits and gaps.
    """
    tables = {each.number: each for each in part.results.paper.publications if each.kind == "table"}
    mean_s = _printed(tables[5], "Baseline", "queue mean (s)")
    percentiles_s = {
        rank: _printed(tables[8], "Baseline", f"queue {rank:g} % (s)") for rank in RANKS
    }
    above_s = percentiles_s[RANKS[-1]]
    slowest = round(PUBLISHED_JOBS * (1 - RANKS[-1] / 100))
    gap_s = PUBLISHED_DAYS * DAY_S / PUBLISHED_JOBS
    least_s = least_mean_of_slowest_s(mean_s, percentiles_s)
    return words.format(
        slowest=slowest,
        jobs=PUBLISHED_JOBS,
        days=PUBLISHED_DAYS,
        gap_s=gap_s,
        least_s=least_s,
        most_s=most_mean_of_slowest_s(above_s, jobs=slowest, gap_s=gap_s),
        slower=longest_gap_s(above_s, least_s, jobs=slowest) / gap_s,
        pause_h=(least_s - above_s) / HOUR_S,
    )


def _printed(publication: PublicationTable, row: str, column: str) -> float:
    """Return the paper's number in a given row and column of a published table."""
    place = [each.name for each in publication.columns].index(column)
    (printed,) = (each.paper[place] for each in publication.rows if each.name == row)
    return float(printed)


def times_of_table_5(part: Part) -> str:
    """Return a sentence on the CPU time of the simulations for Table 5."""
    spent_s = {
        str(row.run): sum(
            outcome.record.cpu_time_s or 0.0 for outcome in not_none(part.outcomes(str(row.run)))
        )
        for row in part.publication.rows
    }
    own_s = spent_s["pollux"] + spent_s["tuned"]
    return (
        f"The simulations took {sum(spent_s.values()) - own_s:,.0f} s of CPU time, and those of "
        f"Pollux and Lyra+TunedJobs another {own_s:,.0f} s, summed over all processes."
    )


def jobs_on_loan_in_words(part: Part) -> str:
    """Return a sentence on the number of jobs that ran on servers on loan."""
    (outcome,) = part.outcomes("loaning")
    if outcome is None:
        return "Scenario Basic, loaning without scaling."
    ran = outcome.jobs["ran_on_loan"]
    return (
        f"Scenario Basic, loaning without scaling: {int(ran.sum()):,} of {len(ran):,} jobs ran on "
        "servers on loan at some time."
    )


def gains_without_errors(part: Part) -> str:
    """Return a sentence on the gains with exact estimates of run times."""
    known = ", ".join(f"{gain} in {mean}" for mean, gain in _gains(part, "scaling").items())
    return (
        "Scenario Basic, scaling without loans. A wrong estimate is off by up to 25 %. Our gains "
        f"with exact estimates: {known}."
    )


def gains_with_linear_scaling(part: Part) -> str:
    """Return a sentence on the gains with linear scaling of elastic jobs."""
    linear = ", ".join(
        f"{gain} in {mean} ({row.name})"
        for row in part.publication.rows
        for mean, gain in _gains(part, str(row.run)).items()
    )
    return f"Our gains with linear scaling: {linear}."


def _gains(part: Part, run: str) -> dict[str, str]:
    """Return the gains of a run over the Baseline in mean queuing time and mean JCT."""
    return {
        mean: ", ".join(f"{gain:.2f}" for gain in part.gains(measure, "baseline", run, better=LESS))
        for mean, measure in MEANS.items()
    }


FUNCTIONS: Mapping[str, Callable[..., Computed | str | list[str]]] = by_name(
    beside_table_5,
    server_prices,
    two_jobs,
    jcts_of_starts,
    phase_2_on_example,
    preemptions_by_servers,
    items_of_phase_2,
    inference_demand_of_a_week,
    what_a_strict_queue_cannot,
    times_of_table_5,
    jobs_on_loan_in_words,
    gains_without_errors,
    gains_with_linear_scaling,
)

"""Functions for the tables and figures on Hadar: tables and notes computed from replays.

Hadar and HadarE: Sultana et al., IPDPS 2024 and arXiv 2503.10918.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from lyra_opt.core.numbers import HOUR_S
from lyra_opt.core.stopwatch import Stopwatch
from lyra_opt.heterogeneous.heuristics.policy import ActiveJob, RoundState
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.instances.heterogeneous.clusters import find_cluster
from lyra_opt.instances.heterogeneous.generated_jobs import MIX_SIZES, PHILLY_TRACE, gavel_like, mix
from lyra_opt.instances.traces import locate
from lyra_opt.paper_figures.comparison import MISSING, Computed, FurtherTable
from lyra_opt.paper_figures.document import GEOMETRIC, MORE, Measure, by_name
from lyra_opt.paper_figures.results import Outcome, Part, gains_of, mean_and_spread, not_none, short
from lyra_opt.paper_figures.setting import PaperRun, frozen
from lyra_opt.paper_figures.verdicts import is_forbidden
from lyra_opt.simulation.tenure import RESTART_S
from lyra_opt.simulation.workload import Workload

CURVE_POINTS = 101
ROUND_S = 360
REPEATS = 3
TTD, CRU = Measure(of="makespan_s"), Measure(of="cru")
TTD_BOUND = Measure(of="makespan_bound_s")

MEASURES = (
    ("TTD (h)", "makespan_s", 3600.0),
    ("JCT mean (h)", "jct_mean_s", 3600.0),
    ("JCT median (h)", "jct_p50_s", 3600.0),
    ("queue mean (h)", "queue_mean_s", 3600.0),
    ("GPU usage (%)", "gpu_usage", 0.01),
    ("finish-time fairness, mean", "fairness_mean", 1.0),
    ("restarts per job", "restarts", None),
)

BOUNDS = {
    "makespan_s": "makespan_bound_s",
    "jct_mean_s": "jct_mean_bound_s",
    "queue_mean_s": "queue_mean_bound_s",
}
"""The figure of a replay that holds the proved lower bound on another figure, for any scheme."""


# Jobs of a trace.


def measured(part: Part, *, curves: bool = False) -> Computed:
    """Return the figures of each scheme and, for a plot, the JCT distribution for one seed."""
    rows, series = [], {}
    for name in part.publication.also:
        found = not_none(part.outcomes(name))
        if not found:
            continue
        row = [_called(part, name)]
        for _, key, unit in MEASURES:
            values = [
                outcome.figures[key] / (outcome.figures["jobs"] if unit is None else unit)
                for outcome in found
            ]
            row.append(short(statistics.fmean(values)))
        rows.append(row)
        if curves:
            series[_called(part, name)] = _cumulative(found[0])
    proved = not_none(part.outcomes(part.publication.also[0]))
    if proved:
        rows.append(
            [
                "bound for any scheduler",
                *(
                    short(statistics.fmean(outcome.figures[key] for outcome in proved) / HOUR_S)
                    if key is not None
                    else ""
                    for key in (BOUNDS.get(measure) for _, measure, _ in MEASURES)
                ),
            ]
        )
    return Computed(
        tables=[
            FurtherTable(
                title="Measured figures, means over seeds",
                header=["scheme", *(name for name, _, _ in MEASURES)],
                rows=rows,
            )
        ],
        series=series,
    )


def _cumulative(outcome: Outcome) -> list[tuple[float, float]]:
    """Return the distribution of JCTs as pairs of hours and % of completed jobs."""
    shares = np.linspace(0, 1, CURVE_POINTS)
    hours = np.quantile(outcome.jobs["jct_s"], shares) / HOUR_S
    return [(float(hour), 100 * float(share)) for hour, share in zip(hours, shares, strict=True)]


def jobs_in_words(part: Part) -> str:  # noqa: ARG001
    """Return a sentence on the source of the jobs: the Philly trace or generated jobs."""
    if locate(PHILLY_TRACE).is_file():
        return "Jobs are drawn by seed from the Philly trace, as in the paper."
    return (
        "The Philly trace is missing from the folder that LYRA_OPT_TRACES names, so jobs are drawn "
        "by seed from generated ones; the paper draws its jobs from the trace."
    )


def why_ttd_differs(part: Part, *, words: str) -> list[str]:
    """Return why computed total time durations (TTD) differ from the paper's, with numbers.

    Parameters
    ----------
    words
        The sentences; ``{tails}`` stands for the times of the last tenth of the jobs, and
        ``{usage}`` for the usage of the fastest and the slowest GPUs, by scheme.
    """
    schemes = {"Hadar": "hadar", "Tiresias": "tiresias", "YARN-CS": "yarn"}
    named = {name: not_none(part.outcomes(run)) for name, run in schemes.items()}
    if not all(named.values()):
        return []
    tails, usage = (
        ", ".join(f"{name} {shown(runs)}" for name, runs in named.items())
        for shown in (_last_tenth, _usage_by_type)
    )
    return [words.format(tails=tails, usage=usage)]


def by_restart_cost(part: Part, *, table: int, row: str) -> Computed:
    """Return makespans (TTD) by restart cost, and the cost from which Hadar's claimed gain holds.

    Parameters
    ----------
    table, row
        The position of the claim.
    """
    (claimed,) = (
        each.paper[0]
        for publication in part.results.paper.publications
        if (publication.kind, publication.number) == ("table", table)
        for each in publication.rows
        if each.name == row
    )
    hadar, *others = part.publication.products[0].schemes
    called = part.results.paper.called
    rows, gained, attainable = [], {}, {}
    for product in part.publication.products:
        restart_s = float(product.changes.get("tenure.rounds.restart_s", RESTART_S))
        runs = {
            scheme: PaperRun(scenario="trace", scheme=scheme, changes=frozen(product.changes))
            for scheme in product.schemes
        }
        bounds_s = part.values(TTD_BOUND, runs[hadar])
        found = [f"{restart_s:g}", *(_mean_h(part.values(TTD, run)) for run in runs.values())]
        found.append(_mean_h(bounds_s))
        for scheme in others:
            gains, _ = mean_and_spread(
                part.gains(TTD, runs[hadar], runs[scheme], better=MORE), GEOMETRIC
            )
            most, _ = mean_and_spread(
                gains_of(bounds_s, part.values(TTD, runs[scheme]), better=MORE), GEOMETRIC
            )
            if scheme == others[0] and gains is not None and most is not None:
                gained[restart_s], attainable[restart_s] = gains, most
            found += [MISSING if each is None else f"{each:.3f}" for each in (gains, most)]
        rows.append(found)
    header = ["restart (s)", *(f"{called[scheme]} (h)" for scheme in (hadar, *others))]
    header.append("bound for any scheduler (h)")
    for scheme in others:
        header += [f"{called[scheme]} / Hadar", f"{called[scheme]} / bound"]
    return Computed(
        findings=_where_attained(claimed, called[others[0]], gained, attainable),
        tables=[
            FurtherTable(
                title="TTD, means over seeds; ratios are geometric means", header=header, rows=rows
            )
        ],
    )


def _where_attained(
    claimed: str, against: str, gained: Mapping[float, float], attainable: Mapping[float, float]
) -> list[str]:
    """Return sentences on whether, and from which restart cost, Hadar reaches the claimed gain."""
    if not gained:
        return []
    possible = [
        cost for cost, most in attainable.items() if not is_forbidden(claimed, most, is_most=True)
    ]
    there_from = [cost for cost, found in gained.items() if found >= float(claimed)]
    usual = min(gained)
    sentences = [
        f"With restarts of {usual:g} s, Hadar's gain over {against} is {gained[usual]:.2f}, and no "
        f"scheduler can gain more than {attainable[usual]:.2f}; the paper says {claimed}"
        + (", which no scheduler can reach in this setting." if usual not in possible else ".")
    ]
    if there_from:
        sentences.append(
            f"Hadar's gain reaches {claimed} if a restart costs at least {min(there_from):g} s "
            f"(gain {gained[min(there_from)]:.2f})."
        )
    else:
        most_s = max(gained, key=lambda cost: gained[cost])
        sentences.append(
            f"Hadar's gain reaches {claimed} for none of the restart costs; the largest gain is "
            f"{gained[most_s]:.2f}, at {most_s:g} s."
        )
    return sentences


def _mean_h(values_s: Sequence[float | None]) -> str:
    known = not_none(values_s)
    return _hours(statistics.fmean(known)) if known else MISSING


def _last_tenth(outcomes: Sequence[Outcome]) -> str:
    """Return the mean time in which the last tenth of the jobs completes, in words."""
    times_s = []
    for outcome in outcomes:
        completed_s = outcome.jobs["completion_s"] - outcome.jobs["submit_s"].iloc[0]
        times_s.append(float(outcome.figures["makespan_s"]) - float(np.quantile(completed_s, 0.9)))
    return f"{_hours(statistics.fmean(times_s))} h"


def _usage_by_type(outcomes: Sequence[Outcome]) -> str:
    """Return the mean usage of the fastest and the slowest GPUs, in words."""
    by_type = [outcome.figures["gpu_usage_by_type"] for outcome in outcomes]
    shares = [
        f"{100 * statistics.fmean(usage[name] for usage in by_type):.0f} % of the {name.upper()}"
        for name in ("v100", "k80")
    ]
    return " and ".join(shares)


# Mixes on testbeds.


def mixes(part: Part) -> Computed:
    """Return makespans (TTD) and utilisation (CRU) by job mix, and HadarE's gains over Hadar."""
    (product,) = part.publication.products
    tables, series = [], {}
    for testbed in product.scenarios:
        place = _place(part, testbed)
        runs = {scheme: PaperRun(scenario=testbed, scheme=scheme) for scheme in product.schemes}
        of_scheme = {scheme: part.outcomes(run) for scheme, run in runs.items()}
        rows = []
        for at, jobs in enumerate(MIX_SIZES):
            row = [f"M-{jobs}"]
            for outcomes in of_scheme.values():
                outcome = outcomes[at]
                if outcome is None:
                    row += ["", ""]
                else:
                    row.append(_hours(outcome.figures["makespan_s"]))
                    row.append(f"{100 * outcome.figures['cru']:.0f}")
            bounds_s = (part.values(TTD_BOUND, runs[scheme])[at] for scheme in ("hadar", "hadare"))
            row += [_mean_h([bound_s]) for bound_s in bounds_s]
            rows.append(row)
        header = ["mix"]
        for scheme in product.schemes:
            header += [f"{part.results.paper.called[scheme]}: TTD (h)", "CRU (%)"]
        header += ["bound (h)", "bound with copies (h)"]
        tables.append(FurtherTable(title=f"Every mix, {place}", header=header, rows=rows))
        for called, measure in (("TTD", TTD), ("CRU", CRU)):
            gains = part.gains(measure, runs["hadar"], runs["hadare"], better=MORE)
            series[f"{called}, {place}"] = list(zip(MIX_SIZES, gains, strict=False))
    return Computed(tables=tables, series=series)


def testbeds_in_words(part: Part) -> list[str]:
    """Return the assumptions about the testbeds and the mixes, each sentence once."""
    clusters = [find_cluster(name) for name in _clusters(part).values()]
    sentences = [sentence for cluster in clusters for sentence in cluster.assumptions]
    for cluster in clusters:
        sentences += mix(MIX_SIZES[-1], gpu_types=cluster.gpu_types).assumptions
    return list(dict.fromkeys(sentences))


def most_that_forking_gives(part: Part, *, words: str) -> str:
    """Return, in words, how much sooner a job can end on all nodes than on the fastest node.

    Parameters
    ----------
    words
        The sentences; ``{shares}`` stands for the shares of the time.
    """
    parts = []
    for testbed, name in _clusters(part).items():
        cluster = find_cluster(name)
        (job,) = _gangs_of(mix(1, gpu_types=cluster.gpu_types))
        rates = [job.rate(server.gpus, is_spread=False) for server in cluster.servers]
        share = 1 - max(rates) / sum(rates)
        parts.append(f"{100 * share:.0f} % ({_place(part, testbed)})")
    return words.format(shares=" and ".join(parts))


def best_slots(part: Part, *, small_mixes: int) -> Computed:
    """Return the round length with the least makespan (TTD), over all job mixes and small ones."""
    slots_s = {
        int(product.changes.get("tenure.rounds.round_s", ROUND_S)): frozen(product.changes)
        for product in part.publication.products
    }
    first = part.publication.products[0]
    values, rows, series = {}, [], {}
    for scheme in first.schemes:
        for what, most in (("all mixes", len(MIX_SIZES)), ("M-1 to M-4", small_mixes)):
            means = {}
            for slot_s, changes in slots_s.items():
                found = []
                for testbed in first.scenarios:
                    usual = PaperRun(scenario=testbed, scheme=scheme)
                    run = PaperRun(scenario=testbed, scheme=scheme, changes=changes)
                    pairs = zip(part.values(TTD, run), part.values(TTD, usual), strict=True)
                    found += [a / b for a, b in list(pairs)[:most] if a is not None and b]
                means[slot_s], _ = mean_and_spread(found, GEOMETRIC)
            known = {slot_s: mean for slot_s, mean in means.items() if mean is not None}
            best = min(known, key=lambda slot_s: (known[slot_s], slot_s)) if known else None
            row = f"{part.results.paper.called[scheme]}, {what}"
            values[row, "slot of least TTD (s)"] = (None if best is None else float(best), None)
            series[row] = list(known.items())
            rows.append([row, *("" if m is None else f"{m:.3f}" for m in means.values())])
    return Computed(
        values=values,
        tables=[
            FurtherTable(
                title=f"TTD relative to slots of {ROUND_S} s, geometric mean over mixes "
                "and both testbeds",
                header=["", *(f"{slot_s} s" for slot_s in slots_s)],
                rows=rows,
            )
        ],
        series=series,
    )


def _place(part: Part, testbed: str) -> str:
    return part.results.paper.scenarios[testbed].called


def _clusters(part: Part) -> dict[str, str]:
    """Return the name of the cluster of each testbed."""
    (product,) = part.publication.products
    return {name: part.results.paper.scenarios[name].like for name in product.scenarios}


# Decisions.


def decision_times(part: Part, *, jobs: Sequence[int]) -> Computed:
    """Return the wall time of a scheme's first decision for each number of jobs, on 60 GPUs."""
    schemes = ("hadar", "gavel-las", "gavel-makespan", "priced-progress")
    called = part.results.paper.called
    time_s = {scheme: [_decision_s(scheme, count) for count in jobs] for scheme in schemes}
    (column,) = part.publication.columns
    return Computed(
        values={
            (f"Hadar over {called[scheme]}", column.name): (
                time_s["hadar"][-1] / time_s[scheme][-1],
                None,
            )
            for scheme in ("gavel-las", "gavel-makespan")
        },
        tables=[
            FurtherTable(
                title="Time per decision (ms) by number of active jobs, 60 GPUs",
                header=["scheme", *(f"{count:,}" for count in jobs)],
                rows=[
                    [called[scheme], *(f"{1e3 * each_s:.3g}" for each_s in times_s)]
                    for scheme, times_s in time_s.items()
                ],
            )
        ],
        series={
            called[scheme]: [
                (count, 1e3 * each_s) for count, each_s in zip(jobs, times_s, strict=True)
            ]
            for scheme, times_s in time_s.items()
        },
    )


def _decision_s(scheme: str, count: int) -> float:
    """Return the median wall time of a decision, without the first run (loading, compiling)."""
    cluster = find_cluster("hadar-60")
    jobs = _gangs_of(gavel_like(jobs=count, seed=0, gpu_types=cluster.gpu_types))
    times_s = []
    for _ in range(REPEATS + 1):
        policy = ROUND_POLICIES[scheme]()
        state = RoundState(
            gpu_types=cluster.problem_types,
            servers=cluster.problem_servers(),
            now_s=0.0,
            round_s=float(ROUND_S),
        )
        policy.prepare(state, np.random.default_rng(0))
        state.jobs = [
            ActiveJob(
                job=job, order=order, steps_left=job.steps, submitted_s=0.0, waiting_since_s=0.0
            )
            for order, job in enumerate(jobs)
        ]
        stopwatch = Stopwatch()
        policy.decide(state)
        times_s.append(stopwatch.elapsed_s)
    return statistics.median(times_s[1:])


def _gangs_of(workload: Workload) -> tuple[GangJob, ...]:
    """Return the measured jobs of a workload, in the form of standalone instances."""
    gangs = tuple(job.measured for job in workload.jobs if job.measured is not None)
    assert len(gangs) == len(workload.jobs), "every job of the workload has measured rates"
    return gangs


def _called(part: Part, run: str) -> str:
    return part.results.paper.called[part.run(run).scheme]


def _hours(seconds: float) -> str:
    return f"{seconds / HOUR_S:.1f}"


FUNCTIONS: Mapping[str, Callable[..., Computed | str | list[str]]] = by_name(
    measured,
    jobs_in_words,
    why_ttd_differs,
    by_restart_cost,
    mixes,
    testbeds_in_words,
    most_that_forking_gives,
    best_slots,
    decision_times,
)

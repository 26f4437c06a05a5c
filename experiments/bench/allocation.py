"""The figures of elastic allocation: knapsacks, a long schedule, proofs and certified gaps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from statistics import fmean, geometric_mean, median
from typing import TYPE_CHECKING, Any

from experiments.bench.timing import Figure, timed_figure
from experiments.progress import progress
from instances.family import generate
from lyra_opt.problem import find_problem
from lyra_opt.result import Limits, Status, relative_gap, same_value
from lyra_opt.solver import find_solver
from lyra_opt.solving import refute_bounds, solve_and_check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.allocation.instance import AllocationInstance
    from lyra_opt.solving import Answer

    AnswersBySolver = Mapping[str, Sequence[Answer]]


@dataclass(frozen=True, slots=True)
class Case:
    """Instances that differ in their seed alone.

    Parameters
    ----------
    label
        What figures call them.
    family
        Such as ``load``.
    parameters
        The family's own, beside the jobs.
    """

    label: str
    family: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def instances(self, jobs: int, seeds: int) -> list[AllocationInstance]:
        """Return those with the seeds 0 to `seeds` - 1."""
        return [
            generate("allocation", self.family, seed=seed, jobs=jobs, **self.parameters)
            for seed in range(seeds)
        ]


def _load(load_percent: int, release_percent: int = 0, *, is_mixed: bool = False) -> Case:
    label = f"load {load_percent} %"
    parameters: dict[str, Any] = {"load_percent": load_percent}
    if release_percent:
        label += f", releases over {release_percent} %"
        parameters["release_percent"] = release_percent
    if is_mixed:
        label += ", 1 to 8 GPUs a worker, scaling loss 20 %"
        parameters |= {"gpus_per_worker": "mixed", "scaling_loss_percent": 20}
    return Case(label, "load", parameters)


def _knapsacks(jobs: int, gpus: int, extra_workers: int | None) -> Case:
    """Return one-shot instances with 1, 2, 4 or 8 GPUs a worker, where the greedy can fail."""
    parameters = {
        "objective": "jct_reduction",
        "gpus": gpus,
        "extra_workers": extra_workers,
        "gpus_per_worker": "mixed",
    }
    return Case(f"{jobs} jobs, {gpus} GPUs", "load", parameters)


OWN_KNAPSACK_SOLVERS = ("mckp-dp", "mckp-core")
GENERAL_SOLVERS = tuple(
    name + suffix
    for name in ("pulp-highs", "mathopt-highs", "mathopt-gscip", "cpsat", "pulp-cbc")
    for suffix in ("", "-strengthened")
)
"""Plain and strengthened: the best of them on each instance is the rival."""

# The largest knapsack that Lyra (EuroSys 2023) times has 354 items and 245 GPUs and takes 20 ms.
# How its items fall to jobs is not said: few extra workers a job, and more.
PAPER_SHAPES = ((118, 3), (59, 6))
PAPER_GPUS = 245
PAPER_RUNS = 11
PAPER_TARGET_S = 1e-3

MIDDLE_JOBS, MIDDLE_EXTRA_WORKERS, MIDDLE_GPUS = 300, 8, 4_000
MIDDLE_RUNS = 3
MIDDLE_TARGET_S = 5e-3
MIDDLE_RATIO_TARGET = 5.0
GENERAL_LIMIT_S = 10.0

LARGE_JOBS, LARGE_GPUS = 10_000, 50_000
LARGE_RUNS = 3
LARGE_TARGET_S = 0.5
LARGE_WITNESS = "mathopt-gscip-strengthened"
"""A general solver that is quick at that size: it proves the first instance once more."""

SCHEDULED_JOBS = 10_000
SCHEDULED_CASES = (_load(100, 100), _load(400, 50), _load(400, 50, is_mixed=True))
MOST_SCHEDULED_SEEDS = 2  # checking a schedule takes several times as long as making it
SCHEDULED_TARGET_S = 5.0

FITTING_JOBS = 8
LIGHT = Case("light", "light")
FITTING_CASES = (
    LIGHT,
    _load(60),
    _load(100),
    _load(100, 50),
    _load(100, 50, is_mixed=True),
)
"""All base demands fit together; in `LIGHT` all jobs run from time 0."""
OVERBOOKED_JOBS = 5
OVERBOOKED_CASES = (_load(200, 50), _load(200, 100), _load(400, 50), _load(400, 100))
"""Base demands do not fit together, and jobs are released over time."""
PROOF_CASES = (*OVERBOOKED_CASES, _load(400), _load(200, 50, is_mixed=True))
COMPARED_CASES = (LIGHT, *OVERBOOKED_CASES)
"""Whose optima say how much of a certified gap is the bound's."""
PROOF_TARGET_S = 60.0

GAP_JOBS = 50
POLICIES = ("best-fill", "rollout")
CERTIFICATE_RUNS = 3
CERTIFICATE_LIMIT_S = 1.0
LIGHT_GAP_TARGET_PERCENT = 3.0
OVERBOOKED_GAP_TARGET_PERCENT = 15.0

LISTED = 5
"""Instances that a remark names."""


def allocation_figures(seeds: int) -> Iterator[Figure]:
    """Measure all figures of elastic allocation, one at a time."""
    yield from paper_figures(seeds)
    yield from middle_figures(seeds)
    yield from large_figures(seeds)
    yield from schedule_figures(min(seeds, MOST_SCHEDULED_SEEDS))
    yield from proof_figures(2 * seeds)
    yield from gap_figures(seeds)


def paper_figures(seeds: int) -> Iterator[Figure]:
    """Time the knapsack at the largest size of Lyra's paper."""
    instances = [
        instance
        for jobs, extra_workers in PAPER_SHAPES
        for instance in _knapsacks(jobs, PAPER_GPUS, extra_workers).instances(jobs, seeds)
    ]
    answers = interleaved(
        "knapsacks of the paper", OWN_KNAPSACK_SOLVERS, instances, runs=PAPER_RUNS
    )
    size = f"{_items(instances[0])} items, {PAPER_GPUS} GPUs"
    for name in OWN_KNAPSACK_SOLVERS:
        yield timed_figure(
            f"{name}, {size}",
            [time_s for of in answers for time_s in _times_s(of[name])],
            remark=f"slowest instance's median {1000 * max(_medians_s(name, answers)):.2f} ms",
        )
    best_s = [
        min(median(proof_times_s(of[name])) for name in OWN_KNAPSACK_SOLVERS) for of in answers
    ]
    yield _slowest(
        f"the better of the two on each instance, {size}",
        best_s,
        PAPER_TARGET_S,
        "jobs times extra workers: "
        + ", ".join(f"{jobs} x {extra}" for jobs, extra in PAPER_SHAPES)
        + "; 1, 2, 4 or 8 GPUs a worker; 20 ms in Lyra's paper, on another machine",
    )


def middle_figures(seeds: int) -> Iterator[Figure]:
    """Compare our knapsack solvers with the general ones at a few hundred jobs."""
    case = _knapsacks(MIDDLE_JOBS, MIDDLE_GPUS, MIDDLE_EXTRA_WORKERS)
    instances = case.instances(MIDDLE_JOBS, seeds)
    names = (*OWN_KNAPSACK_SOLVERS, *GENERAL_SOLVERS)
    answers = interleaved(
        "knapsacks of a few hundred jobs",
        names,
        instances,
        runs=MIDDLE_RUNS,
        limits=Limits(time_s=GENERAL_LIMIT_S),
    )
    size = f"{case.label}, {MIDDLE_EXTRA_WORKERS} items a job"
    yield timed_figure(f"mckp-dp, {size}", [s for of in answers for s in _times_s(of["mckp-dp"])])
    core_s = [median(proof_times_s(of["mckp-core"])) for of in answers]
    yield _slowest(
        f"mckp-core, {size}", core_s, MIDDLE_TARGET_S, "beside the items a job may take none"
    )
    rival_s = [min(median(proof_times_s(of[name])) for name in GENERAL_SOLVERS) for of in answers]
    ratios = [rival / own for rival, own in zip(rival_s, core_s, strict=True)]
    medians_ms = {
        name: 1000 * median(median(proof_times_s(of[name])) for of in answers)
        for name in GENERAL_SOLVERS
    }
    yield replace(
        timed_figure(f"best general solver of each instance against mckp-core, {size}", rival_s),
        statistic="geometric mean of the ratios of times to proof",
        measured=geometric_mean(ratios),
        target=MIDDLE_RATIO_TARGET,
        at_least=True,
        remark=f"ratios {min(ratios):.3g} to {max(ratios):.3g}; median ms: "
        + ", ".join(f"{name} {medians_ms[name]:.0f}" for name in GENERAL_SOLVERS),
    )


def large_figures(seeds: int) -> Iterator[Figure]:
    """Time the proof of a knapsack as large as a data centre."""
    case = _knapsacks(LARGE_JOBS, LARGE_GPUS, None)
    instances = case.instances(LARGE_JOBS, seeds)
    answers = interleaved("large knapsacks", ("mckp-core",), instances, runs=LARGE_RUNS)
    (of_first,) = interleaved(
        "large knapsack, witness",
        ("mckp-core", LARGE_WITNESS),
        instances[:1],
        runs=1,
        limits=Limits(time_s=GENERAL_LIMIT_S),
        warms_up=False,
    )
    (witness,) = of_first[LARGE_WITNESS]
    asked = sum(job.max_gpus - job.min_gpus for job in instances[0].jobs)
    figure = proved_within(
        f"mckp-core, {case.label}",
        [answer for of in answers for answer in of["mckp-core"]],
        LARGE_TARGET_S,
    )
    remark = (
        f"instances: {len(instances)}; the first has {_items(instances[0])} items, which ask for "
        f"{asked} GPUs; {LARGE_WITNESS} on it: {witness.status} in {_time_s(witness):.3g} s"
    )
    yield replace(figure, remark=_joined(figure.remark, remark))


def schedule_figures(seeds: int) -> Iterator[Figure]:
    """Time a schedule of many jobs that are released over time."""
    instances = [
        instance for case in SCHEDULED_CASES for instance in case.instances(SCHEDULED_JOBS, seeds)
    ]
    answers = interleaved("long schedules", ("srw",), instances, runs=1)
    yield _slowest(
        f"srw, schedule of {SCHEDULED_JOBS} jobs with releases",
        [_median_s(of["srw"]) for of in answers],
        SCHEDULED_TARGET_S,
        "; ".join(case.label for case in SCHEDULED_CASES),
    )


def proof_figures(seeds: int) -> Iterator[Figure]:
    """Measure proofs of `exact`, and how far bound and policies are from its optima."""
    yield from _proofs("base demands fit", FITTING_JOBS, FITTING_CASES, seeds)
    yield from _proofs("base demands do not fit", OVERBOOKED_JOBS, PROOF_CASES, seeds)


def _proofs(rule: str, jobs: int, cases: Sequence[Case], seeds: int) -> Iterator[Figure]:
    answers = {
        case.label: interleaved(
            f"exact, {jobs} jobs, {case.label}",
            ("exact", *POLICIES),
            case.instances(jobs, seeds),
            runs=1,
            limits=Limits(time_s=PROOF_TARGET_S),
            certifies=True,
            warms_up=case is cases[0],
        )
        for case in cases
    }
    figure = proved_within(
        f"exact, {jobs} jobs whose {rule}",
        [of["exact"][0] for of_case in answers.values() for of in of_case],
        PROOF_TARGET_S,
    )
    yield replace(figure, remark=_joined(figure.remark, f"{seeds} each of: {'; '.join(answers)}"))
    for case in cases:
        if case in COMPARED_CASES:
            yield from loss_figures(f"{jobs} jobs, {case.label}", answers[case.label])


def loss_figures(what: str, answers: Sequence[AnswersBySolver]) -> Iterator[Figure]:
    """Yield how far the bound lies below the proved optima and the policies lie above them.

    Parameters
    ----------
    what
        The instances.
    answers
        Of each instance those of `exact` and of `POLICIES`, certified; instances that `exact`
        has not proved are left out.
    """
    proved = [of for of in answers if of["exact"][0].status is Status.OPTIMAL]
    if not proved:
        return
    optima = [_objective(of["exact"][0]) for of in proved]
    bounds = [of[POLICIES[0]][0].dual_bound for of in proved]
    gaps = [
        _percent(relative_gap(optimum, bound))
        for optimum, bound in zip(optima, bounds, strict=True)
    ]
    yield Figure(
        what=f"gap of the bound to the optimum, {what}",
        runs=len(proved),
        statistic="mean",
        measured=fmean(gaps),
        unit="%",
        remark=f"largest {max(gaps):.2f} %",
    )
    excess = {
        name: [
            _excess_percent(_objective(of[name][0]), optimum)
            for of, optimum in zip(proved, optima, strict=True)
        ]
        for name in POLICIES
    }
    better = [min(of_instance) for of_instance in zip(*excess.values(), strict=True)]
    yield Figure(
        what=f"excess of the better policy over the optimum, {what}",
        runs=len(proved),
        statistic="mean",
        measured=fmean(better),
        unit="%",
        remark=f"largest {max(better):.2f} %; "
        + "; ".join(
            f"{name} mean {fmean(of_policy):.2f}, largest {max(of_policy):.2f} %"
            for name, of_policy in excess.items()
        ),
    )


def gap_figures(seeds: int) -> Iterator[Figure]:
    """Measure the certified gap of the policies where no optimum is known."""
    for case in COMPARED_CASES:
        is_light = case is LIGHT
        what = f"certified gap, {GAP_JOBS} jobs, {case.label}"
        answers = interleaved(
            what,
            POLICIES,
            case.instances(GAP_JOBS, seeds),
            runs=CERTIFICATE_RUNS if is_light else 1,
            certifies=True,
            warms_up=is_light,
        )
        if is_light:
            yield certified(what, answers, LIGHT_GAP_TARGET_PERCENT, CERTIFICATE_LIMIT_S)
        else:
            yield certified(what, answers, OVERBOOKED_GAP_TARGET_PERCENT)


def certified(
    what: str,
    answers: Sequence[AnswersBySolver],
    target_percent: float,
    limit_s: float | None = None,
) -> Figure:
    """Return the certified gaps of instances, the largest of which is held to the target.

    Parameters
    ----------
    what
        The instances.
    answers
        Of each instance those of the policies, certified.
    target_percent, limit_s
        What a gap is meant to stay within, and what its certificate may take.
    """
    gaps, times_s = zip(*(certificate(of, limit_s) for of in answers), strict=True)
    policies = [_policy_in_words(name, answers) for name in answers[0]]
    bound_s = median(map(_bound_s, answers))
    return replace(
        timed_figure(what, times_s),
        statistic="largest" if limit_s is None else f"largest within {limit_s:g} s",
        measured=max(gaps),
        target=target_percent,
        unit="%",
        remark=f"mean {fmean(gaps):.2f} %; the best of the policies, the time is that of them all "
        f"and the bound; mean, largest and median time of each: {', '.join(policies)}; bound "
        f"{1000 * bound_s:.0f} ms",
    )


def _policy_in_words(name: str, answers: Sequence[AnswersBySolver]) -> str:
    gaps = [_percent(of[name][0].gap) for of in answers]
    median_ms = 1000 * median(_medians_s(name, answers))
    return f"{name} {fmean(gaps):.2f} and {max(gaps):.2f} % in {median_ms:.0f} ms"


def certificate(answers: AnswersBySolver, limit_s: float | None = None) -> tuple[float, float]:
    """Return the least certified gap of one instance in percent, and the seconds that it takes.

    The bound and then the policies in order are counted as long as they fit within the limit
    together. If not even the first one does, nothing is certified: 100 %.

    Parameters
    ----------
    answers
        Certified ones by policy; times are medians.
    limit_s
        What the bound and the policies may take.
    """
    gap_percent = 100.0
    counted_s = spent_s = _bound_s(answers)
    for of_policy in answers.values():
        spent_s += _median_s(of_policy)
        if limit_s is not None and spent_s > limit_s:
            break
        counted_s = spent_s
        gap_percent = min(gap_percent, _percent(of_policy[0].gap))
    return gap_percent, counted_s


def interleaved(
    what: str,
    names: Sequence[str],
    instances: Sequence[Any],
    *,
    runs: int,
    limits: Limits | None = None,
    certifies: bool = False,
    warms_up: bool = True,
    problem: str = "allocation",
) -> list[dict[str, list[Answer]]]:
    """Return checked answers by solver for each instance, of solvers that take turns.

    Parameters
    ----------
    what
        Shown while it runs.
    names
        The solvers; each goes first in its turn.
    instances
        What they solve.
    runs
        How often each solver solves each instance.
    limits
        Of a run.
    certifies
        Whether the problem's own bound is computed beside each answer.
    warms_up
        Whether each solver first solves the first instance without being counted.
    problem
        The name of the problem.

    Raises
    ------
    RuntimeError
        If an answer is an error, or contradicts another: see `require_agreement`.
    """
    found_problem = find_problem(problem)
    solvers = [find_solver(problem, name) for name in names]

    def solve(instance: Any, solver: Any) -> Answer:
        return solve_and_check(found_problem, instance, solver, limits=limits, certify=certifies)

    if warms_up:
        require_agreement([solve(instances[0], solver) for solver in solvers])
    found = []
    with progress(what, len(instances) * runs * len(solvers)) as advance:
        for instance in instances:
            answers: dict[str, list[Answer]] = {name: [] for name in names}
            for run in range(runs):
                first = run % len(solvers)
                for solver in (*solvers[first:], *solvers[:first]):
                    answers[solver.name].append(solve(instance, solver))
                    advance()
            require_agreement([answer for of in answers.values() for answer in of])
            found.append(answers)
    return found


def require_agreement(answers: Sequence[Answer]) -> None:
    """Refuse answers to one instance that cannot all be true.

    Raises
    ------
    RuntimeError
        If one is an error or a skip, if a bound lies beyond another's valid solution, or if two
        proved objectives differ by more than the proof gap.
    """
    for answer in refute_bounds(answers):
        if answer.objective is None:
            raise RuntimeError(
                f"{answer.solver} on {answer.instance.name}: {answer.status}, {answer.message}"
            )
    proved = [answer for answer in answers if answer.status is Status.OPTIMAL]
    for answer in proved[1:]:
        proof_gap = answer.problem.proof_gap_of(answer.problem.variant(answer.instance))
        if not same_value(_objective(answer), _objective(proved[0]), tolerance=proof_gap):
            raise RuntimeError(
                f"{answer.instance.name}: {answer.solver} proves {answer.objective}, "
                f"{proved[0].solver} proves {proved[0].objective}"
            )


def proved_within(what: str, answers: Sequence[Answer], target_s: float) -> Figure:
    """Return how many answers are proved in time; all are meant to."""
    late = [
        answer
        for answer in answers
        if answer.status is not Status.OPTIMAL or _time_s(answer) > target_s
    ]
    named = [
        f"{answer.instance.name}, {answer.status}, objective {answer.objective}, bound "
        f"{answer.dual_bound}, {_time_s(answer):.3g} s"
        for answer in late[:LISTED]
    ]
    if len(late) > LISTED:
        named.append(f"and {len(late) - LISTED} more")
    return replace(
        timed_figure(what, _times_s(answers)),
        statistic=f"proved within {target_s:g} s:",
        measured=len(answers) - len(late),
        target=len(answers),
        at_least=True,
        remark=("not: " if late else "") + "; ".join(named),
    )


def proof_times_s(answers: Sequence[Answer]) -> list[float]:
    """Return the times to proof; a run without one counts as the limit, or longer if it was."""
    return [
        _time_s(answer)
        if answer.status is Status.OPTIMAL
        else max(GENERAL_LIMIT_S, _time_s(answer))
        for answer in answers
    ]


def _slowest(what: str, medians_s: Sequence[float], target_s: float, remark: str) -> Figure:
    """Return a figure whose slowest instance is held to the target."""
    return replace(
        timed_figure(what, medians_s),
        statistic="slowest instance",
        measured=1000 * max(medians_s),
        target=1000 * target_s,
        unit="ms",
        remark=remark,
    )


def _items(instance: AllocationInstance) -> int:
    return sum(job.max_workers - job.min_workers for job in instance.jobs)


def _time_s(answer: Answer) -> float:
    return inf if answer.wall_time_s is None else answer.wall_time_s


def _bound_s(answers: AnswersBySolver) -> float:
    return median(answer.certify_time_s or 0.0 for of in answers.values() for answer in of)


def _times_s(answers: Sequence[Answer]) -> list[float]:
    return [_time_s(answer) for answer in answers]


def _median_s(answers: Sequence[Answer]) -> float:
    return median(_times_s(answers))


def _medians_s(name: str, answers: Sequence[AnswersBySolver]) -> list[float]:
    return [_median_s(of[name]) for of in answers]


def _objective(answer: Answer) -> float:
    assert answer.objective is not None, "answers without one are refused"
    return answer.objective


def _excess_percent(objective: float, optimum: float) -> float:
    return 0.0 if same_value(objective, optimum) else 100 * (objective / optimum - 1)


def _percent(gap: float | None) -> float:
    return 100.0 if gap is None else 100 * gap


def _joined(*remarks: str) -> str:
    return "; ".join(filter(None, remarks))

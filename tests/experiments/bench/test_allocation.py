"""The figures of elastic allocation: what they measure, and that nothing untrue passes."""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from lyra_opt.allocation.instance import WorkerAllocation
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import Unsupported, find_solver
from lyra_opt.core.solving import OWN_BOUND, Answer, Witness
from lyra_opt.experiments.bench import __main__ as bench
from lyra_opt.experiments.bench import allocation, trials
from lyra_opt.experiments.bench.allocation import Case, certificate, certified, loss_figures
from lyra_opt.experiments.bench.trials import (
    frame_of,
    interleaved,
    proved_within,
    require_agreement,
)
from lyra_opt.instances.family import generate

if TYPE_CHECKING:
    from pathlib import Path

PROBLEM = find_problem("allocation")
SCHEDULE = generate("allocation", "light", jobs=3, seed=1)
KNAPSACK = generate("allocation", "light", jobs=3, seed=1, objective="jct_reduction")

OPTIMAL, FEASIBLE = Status.OPTIMAL, Status.FEASIBLE


def answer(
    solver: str,
    status: Status,
    objective: float | None,
    dual_bound: float | None,
    *,
    wall_time_s: float = 0.1,
    **more: Any,
) -> Answer:
    return Answer(
        problem=PROBLEM,
        instance=SCHEDULE,
        solver=solver,
        seed=0,
        status=status,
        objective=objective,
        dual_bound=dual_bound,
        wall_time_s=wall_time_s,
        **more,
    )


BOUND = Witness(method=OWN_BOUND, dual_bound=90.0, proves=False, wall_time_s=0.5)


def policies(
    best_fill: tuple[float, float], rollout: tuple[float, float], *more: Answer, place: int = 0
) -> pd.DataFrame:
    """Return runs of the policies from objective and time; the bound is 90 and takes 0.5 s."""
    answers = [
        answer(name, FEASIBLE, objective, 90.0, wall_time_s=time_s, witness=BOUND)
        for name, (objective, time_s) in {"best-fill": best_fill, "rollout": rollout}.items()
    ]
    return frame_of([*answers, *more], place)


class Lying:
    """Takes no extra worker and calls that optimal, which the checker alone cannot refute."""

    name = "mckp-dp"

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    def availability(self) -> None:
        return None

    def supports(self, _: Any) -> None:
        return None

    def solve(self, instance: Any, **_: Any) -> SolveResult[WorkerAllocation]:
        self.asked.append(self.name)
        return SolveResult(
            status=OPTIMAL,
            solution=WorkerAllocation(tuple(job.min_workers for job in instance.jobs)),
            objective=0.0,
            dual_bound=0.0,
        )


class Telling(Lying):
    """Says who is asked, then passes on to the real solver."""

    def __init__(self, name: str, asked: list[str]) -> None:
        super().__init__(asked)
        self.name = name

    def solve(self, instance: Any, **options: Any) -> SolveResult[Any]:
        self.asked.append(self.name)
        return find_solver("allocation", self.name).solve(instance, **options)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every instance small, and leave two of the general solvers."""
    for name, value in {
        "PAPER_SHAPES": ((6, 3), (3, 6)),
        "PAPER_RUNS": 3,
        "MIDDLE_JOBS": 10,
        "MIDDLE_GPUS": 40,
        "GENERAL_SOLVERS": ("pulp-highs", "cpsat-strengthened"),
        "LARGE_JOBS": 30,
        "LARGE_GPUS": 60,
        "SCHEDULED_JOBS": 30,
        "FITTING_JOBS": 4,
        "OVERBOOKED_JOBS": 3,
        "GAP_JOBS": 6,
    }.items():
        monkeypatch.setattr(allocation, name, value)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_all_figures_from_end_to_end(tmp_path: Path) -> None:
    # Whether a time meets its target is not what is tested: 1 says that one was missed.
    assert bench.main(["--only", "allocation", "--seeds", "1", "--out", str(tmp_path)]) in (0, 1)
    with (tmp_path / "figures.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    targets = [(row["statistic"], float(row["target"])) for row in rows if row["target"]]
    assert targets == [
        ("slowest instance", 1.0),
        ("slowest instance", 5.0),
        ("geometric mean of the ratios of times to proof", 5.0),
        ("proved within 0.5 s:", 3),
        ("slowest instance", 5000.0),
        ("proved within 60 s:", 10),
        ("proved within 60 s:", 12),
        ("largest within 1 s", 3.0),
        *[("largest", 15.0)] * 4,
    ]
    whats = [row["what"] for row in rows]
    assert whats[:3] == [
        "mckp-dp, 18 items, 245 GPUs",
        "mckp-core, 18 items, 245 GPUs",
        "the better of the two on each instance, 18 items, 245 GPUs",
    ]
    for what in ("gap of the bound to the optimum", "excess of the better policy"):
        assert sum(found.startswith(what) for found in whats) == 5
    for row in rows:
        if row["unit"] == "%":
            assert 0 <= float(row["measured"]) <= 100


def test_sizes_are_those_that_are_promised() -> None:
    assert {jobs * extra for jobs, extra in allocation.PAPER_SHAPES} == {354}
    assert allocation.PAPER_GPUS == 245
    assert (allocation.MIDDLE_JOBS, allocation.MIDDLE_GPUS) == (300, 4_000)
    assert (allocation.LARGE_JOBS, allocation.LARGE_GPUS) == (10_000, 50_000)


@pytest.mark.parametrize("case", allocation.FITTING_CASES, ids=lambda case: case.label)
def test_base_demands_fit(case: Case) -> None:
    for instance in case.instances(allocation.FITTING_JOBS, 10):
        assert sum(job.min_gpus for job in instance.jobs) <= instance.gpus


@pytest.mark.parametrize("case", allocation.PROOF_CASES, ids=lambda case: case.label)
def test_base_demands_do_not_fit(case: Case) -> None:
    for instance in case.instances(allocation.OVERBOOKED_JOBS, 10):
        assert sum(job.min_gpus for job in instance.jobs) > instance.gpus


@pytest.mark.parametrize("case", allocation.SCHEDULED_CASES, ids=lambda case: case.label)
def test_long_schedules_have_releases(case: Case) -> None:
    (instance,) = case.instances(100, 1)
    assert any(job.release_s > 0 for job in instance.jobs)


def test_solvers_take_turns_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(trials, "find_solver", lambda _, name: Telling(name, asked))
    found = interleaved("", "allocation", ("mckp-dp", "mckp-core"), [KNAPSACK], runs=2)
    assert asked == ["mckp-dp", "mckp-core", "mckp-dp", "mckp-core", "mckp-core", "mckp-dp"]
    assert list(found.solver) == asked[2:]
    assert set(found.status) == {OPTIMAL}
    asked.clear()
    interleaved("", "allocation", ("mckp-core",), [KNAPSACK], warms_up=False)
    assert asked == ["mckp-core"]


def test_a_lying_solver_stops_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(problem: str, name: str) -> Any:
        return Lying([]) if name == "mckp-dp" else find_solver(problem, name)

    monkeypatch.setattr(trials, "find_solver", find)
    with pytest.raises(RuntimeError, match=r"mckp-dp on light.*mckp-dp .* has dual bound 0\.0"):
        interleaved("", "allocation", ("mckp-dp", "mckp-core"), [KNAPSACK])


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([answer("exact", Status.ERROR, None, None, message="died")], "exact on .*error, died"),
        (
            [answer("cpsat", Status.UNSUPPORTED, None, None, message="too large")],
            "cpsat on .*unsupported, too large",
        ),
        (
            [answer("exact", OPTIMAL, 10.0, 10.0), answer("rollout", FEASIBLE, 9.0, 8.0)],
            r"rollout found objective 9.0, but exact \(optimal\) has dual bound 10.0",
        ),
        (
            [answer("exact", OPTIMAL, 10.0, 9.0), answer("rollout", OPTIMAL, 9.0, 9.0)],
            "rollout proves 9.0, exact proves 10.0",
        ),
    ],
)
def test_answers_that_cannot_be_true_are_refused(answers: list[Answer], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        require_agreement(answers)


def test_answers_within_the_tolerance_agree() -> None:
    require_agreement(
        [
            answer("exact", OPTIMAL, 10.0, 10.0),
            answer("rollout", OPTIMAL, 10.0 * (1 + 1e-12), 10.0),
            answer("best-fill", FEASIBLE, 12.0, 9.0),
        ]
    )


def test_a_skip_stops_the_bench() -> None:
    """`exact` takes no knapsack; a skip must not pass for an instance that is not proved."""
    assert isinstance(find_solver("allocation", "exact").supports(KNAPSACK), Unsupported)
    with pytest.raises(RuntimeError, match="unsupported"):
        interleaved("", "allocation", ("exact",), [KNAPSACK])


def test_a_proof_counts_when_it_is_one_and_in_time() -> None:
    figure = proved_within(
        "exact",
        frame_of(
            [
                answer("exact", OPTIMAL, 3.0, 3.0, wall_time_s=1.0),
                answer("exact", OPTIMAL, 3.0, 3.0, wall_time_s=61.0),
                answer("exact", FEASIBLE, 3.0, 2.0, wall_time_s=2.0),
            ]
        ),
        60.0,
        "three",
    )
    assert (figure.measured, figure.target, figure.verdict) == (1, 3, "MISSED")
    assert figure.remark.startswith(f"not: {SCHEDULE.name}, optimal")
    assert "feasible, objective 3, bound 2, 2 s; three" in figure.remark
    in_time = proved_within("exact", frame_of([answer("exact", OPTIMAL, 3.0, 3.0)]), 60.0)
    assert (in_time.verdict, in_time.remark) == ("reached", "")


def test_a_run_without_a_proof_counts_as_the_limit() -> None:
    answers = [
        answer("cpsat", OPTIMAL, 3.0, 3.0, wall_time_s=2.0),
        answer("cpsat", FEASIBLE, 3.0, 2.0, wall_time_s=2.0),
        answer("cpsat", FEASIBLE, 3.0, 2.0, wall_time_s=10.5),
    ]
    assert list(frame_of(answers, limit_s=10.0).proof_s) == [2.0, 10.0, 10.5]


@pytest.mark.parametrize(
    ("limit_s", "gap_percent", "time_s"),
    [
        (None, 5.0, 8.6),  # all of them
        (9.0, 5.0, 8.6),
        (1.0, 100 / 9, 0.6),  # rollout takes too long
        (0.55, math.inf, 0.5),  # not even the first policy fits beside the bound
    ],
)
def test_a_certificate_takes_the_bound_and_the_policies_in_turn(
    limit_s: float | None, gap_percent: float, time_s: float
) -> None:
    runs = policies((100.0, 0.1), (90.0 * 1.05, 8.0))
    assert certificate(runs, limit_s) == pytest.approx((gap_percent, time_s))


def test_the_largest_gap_is_held_to_the_target() -> None:
    runs = pd.concat(
        [policies((99.0, 0.1), (95.0, 0.2)), policies((117.0, 0.1), (108.0, 0.2), place=1)]
    )
    figure = certified("queues", runs, 20.0, 1.0)
    assert (figure.measured, figure.verdict) == (pytest.approx(20.0), "reached")
    assert figure.maximum_s == pytest.approx(0.8)
    assert certified("queues", runs, 19.0, 1.0).verdict == "MISSED"
    late = certified("queues", runs, 20.0, 0.5)
    assert (late.measured, late.verdict) == (math.inf, "MISSED")
    assert "best-fill 20.00 and 30.00 % in 100 ms" in late.remark


def test_losses_are_measured_from_proved_optima_alone() -> None:
    optimal = answer("exact", OPTIMAL, 100.0, 100.0)
    proved = policies((110.0, 0.1), (100.0, 0.2), optimal)
    also = policies((100.0, 0.1), (105.0, 0.2), optimal, place=2)
    open_one = policies((500.0, 0.1), (500.0, 0.2), answer("exact", FEASIBLE, 400.0, 90.0), place=1)
    of_bound, of_policies = loss_figures("queues", pd.concat([proved, open_one, also]))
    assert (of_bound.runs, of_bound.measured) == (2, pytest.approx(10.0))
    assert (of_policies.runs, of_policies.measured) == (2, 0.0)
    assert "best-fill mean 5.00, largest 10.00 %" in of_policies.remark
    assert "rollout mean 2.50, largest 5.00 %" in of_policies.remark
    assert list(loss_figures("queues", open_one)) == []

"""The bench: verdicts of its figures, and the comparison from end to end."""

from __future__ import annotations

import csv
import math
import sqlite3
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.result import Status
from lyra_opt.experiments.analysis import Analysis
from lyra_opt.experiments.bench import __main__ as bench
from lyra_opt.experiments.bench.studies import comparison_figures, exact_figures
from lyra_opt.experiments.bench.timing import (
    Figure,
    figures_table,
    percentile,
    time_function,
    timed_figure,
)
from lyra_opt.experiments.store import STORE_FILE, ResultStore
from lyra_opt.experiments.study import read_study
from tests.experiments.records import make_run

if TYPE_CHECKING:
    from pathlib import Path

    from lyra_opt.experiments.records import SolverRecord

OPTIMAL, FEASIBLE = Status.OPTIMAL, Status.FEASIBLE

COMPARISON = """\
format = "lyra-opt/study"
version = 2
name = "tiny"
problem = "reclaim"
seeds = 1
time_limit_s = 5.0

[[instances]]
group = "realistic"
families = ["rnd-trace"]
servers = [10]
reclaim_percent = [10, 30]

[[solvers]]
names = ["lyra-greedy"]
certify = true

[[solvers]]
names = ["exact", "fast"]
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a tiny study in place of the comparison; return the folder of results."""
    path = tmp_path / "tiny.toml"
    path.write_text(COMPARISON)
    monkeypatch.setattr(bench, "COMPARISON", path)
    return tmp_path / "out"


def run_comparison(folder: Path, *more: str) -> int:
    # The ratio of such small instances means nothing: 1 says that a target was missed.
    return bench.main(["--only", "comparison", "--out", str(folder), *more])


@pytest.mark.slow
def test_comparison_from_end_to_end(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench.COMPARISON.write_text(COMPARISON.replace('"fast"', '"cpsat", "pulp-highs"'))
    assert run_comparison(tiny, "--seeds", "2", "--time-limit", "4") in (0, 1)
    with ResultStore.open(tiny / "comparison") as store:
        assert "# run with seeds = 2 in place" in store.study.text
        runs = store.runs()
    assert len(runs) == 2 * 2 * 4
    assert {run.time_limit_s for run in runs} == {4.0}
    assert {run.status for run in runs if run.configuration != "lyra-greedy"} == {OPTIMAL}
    written = {path.name for path in (tiny / "comparison").iterdir()}
    tables = {f"speed_by_{key}.csv" for key in ("group", "size", "family_and_size")}
    assert tables | {"report.html", STORE_FILE} <= written
    assert (tiny / "comparison" / "plots" / "cactus.svg").is_file()
    page = (tiny / "bench.md").read_text()
    assert "| realistic (all families) | 10 | exact | 4 of 4 |" in page
    assert "at most 4 s each" in page
    with (tiny / "figures.csv").open() as stream:
        figures = list(csv.DictReader(stream))
    assert [figure["target"] for figure in figures] == ["10.0", "0"]
    assert "CONTRADICTION" not in capsys.readouterr().err


def test_solvers_take_turns_at_going_first(tiny: Path) -> None:
    run_comparison(tiny)
    with sqlite3.connect(tiny / "comparison" / STORE_FILE) as connection:
        order = connection.execute("SELECT cell, configuration FROM run ORDER BY rowid").fetchall()
    assert [solver for _, solver in order] == [
        *("lyra-greedy", "exact", "fast"),
        *("exact", "fast", "lyra-greedy"),
    ]
    assert len({cell for cell, _ in order[:3]}) == len({cell for cell, _ in order[3:]}) == 1


@pytest.mark.slow
def test_resume_keeps_what_is_measured_and_a_new_run_replaces_it(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def started() -> list[str]:
        with ResultStore.open(tiny / "comparison") as store:
            return [run.started_at for run in store.runs()]

    run_comparison(tiny)
    first = started()
    run_comparison(tiny, "--resume")
    assert started() == first
    with pytest.raises(SystemExit) as refused:
        run_comparison(tiny, "--resume", "--seeds", "2")
    assert refused.value.code == 2
    assert "holds the results of another study" in capsys.readouterr().err
    run_comparison(tiny)
    assert not set(started()) & set(first)


@pytest.mark.slow
def test_contradicting_solvers_fail_the_bench(
    tiny: Path, plugin: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`boasting` calls the first servers of the file optimal, which no checker can refute."""
    path = bench.COMPARISON
    path.write_text(COMPARISON.replace('"fast"', '"boasting"'))
    assert run_comparison(tiny) == 1
    assert "CONTRADICTION" in capsys.readouterr().err
    assert "contradictions between results" in (tiny / "bench.md").read_text()


@pytest.mark.parametrize("path", [bench.COMPARISON, bench.EXACT])
def test_studies_of_the_bench_are_studies(path: Path) -> None:
    study = read_study(path, changes={"seeds": 1})
    assert {"realistic", "adversarial"} <= {cell.group for cell in study.cells}
    assert "exact" in {configuration.solver for configuration in study.configurations}


def comparison_runs() -> list[SolverRecord]:
    """Return two realistic instances and an adversarial one, which only a rival proves."""
    times: dict[str, dict[str, float | None]] = {
        "exact": {"c1": 0.01, "c2": 0.1, "hard": None},
        "cpsat": {"c1": 0.9, "c2": None, "hard": 1.0},
        "pulp-highs": {"c1": 0.4, "c2": None, "hard": None},
        "mathopt-gscip": {"c1": 0.001, "c2": 0.001, "hard": 0.001},
    }
    return [
        make_run(
            cell,
            solver,
            FEASIBLE if time_s is None else OPTIMAL,
            wall_time_s=10.0 if time_s is None else time_s,
            time_limit_s=10.0,
            objective=3,
            dual_bound=2,
            family_group="adversarial" if cell == "hard" else "realistic",
        )
        for solver, by_cell in times.items()
        for cell, time_s in by_cell.items()
    ]


def test_exact_is_compared_with_the_best_rival_of_each_instance() -> None:
    ratio, unanswered = comparison_figures(Analysis(comparison_runs()).frame)
    assert ratio.measured == pytest.approx(math.sqrt(0.4 / 0.01 * 10 / 0.1))
    assert (ratio.runs, ratio.verdict) == (2, "reached")
    assert (unanswered.measured, unanswered.verdict) == (1, "MISSED")
    assert "hard, feasible, objective 3, bound 2, 10 s" in unanswered.remark


def test_exact_is_held_to_a_proof_in_time_on_every_instance() -> None:
    runs = [
        make_run(cell, "exact", status, wall_time_s=time_s, size=servers, **more)
        for cell, status, time_s, servers, more in (
            ("fast", OPTIMAL, 0.1, 200, {"family_group": "realistic"}),
            ("late", OPTIMAL, 0.6, 200, {"family_group": "realistic"}),
            ("open", FEASIBLE, 0.2, 100, {"family_group": "realistic"}),
            ("large", OPTIMAL, 0.002, 520, {"family_group": "realistic"}),
            ("loose", OPTIMAL, 50.0, 520, {"family_group": "realistic", "family": "messy-dist"}),
            ("died", Status.ERROR, None, 50, {"family_group": "adversarial"}),
        )
    ]
    figures = list(exact_figures(Analysis(runs).frame))
    shown = [(figure.runs, figure.measured, figure.target, figure.verdict) for figure in figures]
    assert shown == [
        (2, pytest.approx(25_001.0), 3.0, "MISSED"),  # the median at 520 servers, ms
        (3, 1, 3, "MISSED"),
        (1, 1, 1, "reached"),
        (1, 1, 1, "reached"),
        (1, 0, 1, "MISSED"),
    ]
    assert figures[1].remark.startswith("not: late, optimal")
    assert "open, feasible" in figures[1].remark
    assert figures[4].maximum_s == math.inf


def test_verdict_of_a_figure() -> None:
    most = {"statistic": "gap", "unit": "%", "target": 2.0}
    assert Figure(what="", runs=1, measured=2.0, **most).verdict == "reached"
    assert Figure(what="", runs=1, measured=2.1, **most).verdict == "MISSED"
    least = {"statistic": "proved:", "target": 2.0, "at_least": True}
    assert Figure(what="", runs=1, measured=2.0, **least).verdict == "reached"
    assert Figure(what="", runs=1, measured=1.0, **least).verdict == "MISSED"
    assert Figure(what="", runs=1).verdict == ""


def test_figure_in_words() -> None:
    timed = timed_figure("what", [0.001, 0.003, 0.002], target_s=0.005, remark="small")
    assert figures_table([timed]).rows() == [
        ("what", "3", "2.00", "3.00", "median 2 ms", "at most 5 ms", "reached", "small")
    ]
    assert figures_table([Figure(what="gap", runs=2)]).rows() == [
        ("gap", "2", "–", "–", "", "", "", "")
    ]


def test_first_call_is_not_timed() -> None:
    calls = []
    assert time_function("what", lambda: calls.append(1), runs=4).runs == 4
    assert len(calls) == 5


@pytest.mark.parametrize(("percent", "value"), [(1, 1), (95, 95), (100, 100)])
def test_percentile(percent: int, value: int) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == value

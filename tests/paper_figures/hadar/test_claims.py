"""The paper's numbers as data, and what the pages say of where they are from."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from paper_figures.comparison import Source, Verdict
from paper_figures.hadar import catalogue, figure_1, figure_2, table_1, table_2, table_3
from paper_figures.hadar.cases import MixCase, Results, Run, Setting, TraceCase

if TYPE_CHECKING:
    from paper_figures.comparison import Comparison

SETTING = Setting(scale=0.4, seeds=2)

METRICS = {
    "jct_mean_s": 3600.0,
    "jct_p50_s": 3600.0,
    "queue_mean_s": 1800.0,
    "gpu_usage": 0.5,
    "gpu_usage_by_type": {"v100": 0.6, "p100": 0.5, "k80": 0.4},
    "fairness_mean": 1.0,
    "restarts": 4,
    "jobs": 2,
    "cru": 0.5,
}


def run(ttd_s: float, **changes: Any) -> Run:
    """Return a run with such figures."""
    metrics: Any = SimpleNamespace(**METRICS | {"makespan_s": ttd_s} | changes)
    return Run(metrics=metrics, jct_s=np.array([1.0, 2.0]), completed_s=np.array([1.0, ttd_s]))


def by_row(comparison: Comparison) -> dict[tuple[str, str], Any]:
    """Return entries by row and column."""
    return {(entry.row, entry.column): entry for entry in comparison.entries}


def test_every_number_says_where_it_is_from() -> None:
    """None is from the text of the paper, which was not at hand."""
    for publication in catalogue.ALL:
        comparison = publication.module.compare(Results(SETTING))
        assert comparison.entries
        assert all(entry.source is not Source.TEXT for entry in comparison.entries)
        assert "paper's number is from" in comparison.header()


def test_tables_that_rest_on_memory_say_so_before_the_numbers() -> None:
    """Also how many of the numbers do; the others do not."""
    pages = {
        name: module.compare(Results(SETTING)).as_markdown()
        for name, module in (("1", table_1), ("2", table_2), ("slot", figure_1), ("time", figure_2))
    }
    assert "2 of the paper's 4 numbers here are from memory" in pages["1"]
    assert pages["1"].index("from memory") < pages["1"].index("| row |")
    assert "All of the paper's numbers here are from memory" in pages["slot"]
    assert "All of the paper's numbers here are from memory" in pages["time"]
    assert "numbers here" not in pages["2"]
    for name, what in (("1", "classes of jobs"), ("2", "classes of jobs"), ("slot", "the mixes")):
        assert re.search(rf"What is run here is partly from memory: .*{what}", pages[name])
    for line in pages["1"].splitlines():
        if line.startswith(("| Tiresias |", "| YARN-CS |")) and "TTD over" in line:
            assert "| memory |" in line


def test_without_runs_nothing_is_claimed() -> None:
    """Every verdict is that it was not run, and pages are made all the same."""
    for publication in catalogue.ALL:
        comparison = publication.module.compare(Results(SETTING))
        assert set(comparison.verdicts) == {"not run"}
        assert comparison.as_markdown().startswith("# Hadar")


def test_ttd_over_hadars_is_the_geometric_mean_over_seeds() -> None:
    """With the least and the greatest beside it, and a verdict by the rule."""
    found: dict[Any, Any] = {
        TraceCase(scheme=scheme, seed=seed): run(ttd_s)
        for scheme, of_seeds in (("hadar", (100, 100)), ("gavel-las", (110, 140)))
        for seed, ttd_s in enumerate(of_seeds)
    }
    entries = by_row(table_1.compare(Results(SETTING, found)))
    gavel = entries["Gavel (max-min)", "TTD over Hadar's"]
    assert gavel.ours == pytest.approx((1.1 * 1.4) ** 0.5)
    assert gavel.spread == pytest.approx((1.1, 1.4))
    assert gavel.verdict is Verdict.REPRODUCED
    assert entries["YARN-CS", "TTD over Hadar's"].verdict is Verdict.NOT_RUN


def test_queuing_and_fairness_are_hadars_over_gavels() -> None:
    """A share below 1 is a gain there; the JCT is the other way round."""
    found: dict[Any, Any] = {}
    for seed in range(SETTING.seeds):
        found[TraceCase(scheme="hadar", seed=seed)] = run(1.0, queue_mean_s=900.0)
        found[TraceCase(scheme="gavel-las", seed=seed)] = run(1.0, jct_mean_s=9000.0)
    entries = by_row(table_2.compare(Results(SETTING, found)))
    assert entries["Gavel (max-min)", "mean JCT over Hadar's"].verdict is Verdict.REPRODUCED
    queue = entries["Gavel (max-min)", "Hadar's mean queuing time over it"]
    assert queue.ours == pytest.approx(0.5)
    assert queue.verdict is Verdict.SAME_DIRECTION
    fairness = entries["Gavel (max-min)", "Hadar's mean finish-time fairness over it"]
    assert fairness.verdict is Verdict.DIFFERS  # 1.0 is no change, 0.985 is one


def test_forking_is_a_mean_over_mixes() -> None:
    """Of HadarE's over that of the others, TTD and CRU alike."""
    found: dict[Any, Any] = {}
    for testbed in ("hadare-aws", "hadare-lab"):
        for jobs in (1, 3, 4, 5, 8, 10, 12):
            found[MixCase(scheme="hadar", testbed=testbed, jobs=jobs)] = run(100.0)
            found[MixCase(scheme="hadare", testbed=testbed, jobs=jobs)] = run(50.0, cru=0.725)
    entries = by_row(table_3.compare(Results(SETTING, found)))
    assert entries["AWS, HadarE over Hadar", "TTD"].verdict is Verdict.REPRODUCED
    assert entries["laboratory, HadarE over Hadar", "TTD"].verdict is Verdict.SAME_DIRECTION
    assert entries["AWS, HadarE over Hadar", "CRU"].verdict is Verdict.REPRODUCED
    assert entries["AWS, HadarE over Gavel (max-min)", "CRU"].verdict is Verdict.NOT_RUN


def test_slot_of_least_ttd() -> None:
    """It is reproduced if it is the one remembered; ties go to the shorter slot."""
    found: dict[Any, Any] = {
        case: run({90.0: 1.2, 180.0: 1.1, 360.0: 1.0, 720.0: 1.0}[case.round_s])
        for case in figure_1.cases(SETTING)
    }
    entries = by_row(figure_1.compare(Results(SETTING, found)))
    column = "slot of least TTD (s)"
    assert entries["HadarE, all mixes", column].verdict is Verdict.REPRODUCED
    assert entries["HadarE, M-1 to M-4", column].ours == 360
    assert entries["HadarE, M-1 to M-4", column].verdict is Verdict.DIFFERS


@pytest.mark.parametrize(
    ("scale", "jobs", "gpus"), [(1, 480, 60), (0.4, 192, 24), (0.01, 5, 24), (0.001, 1, 24)]
)
def test_scale(scale: float, jobs: int, gpus: int) -> None:
    """Jobs and servers shrink alike, but two servers of each type stay for gangs of 8."""
    setting = Setting(scale=scale, seeds=1)
    assert (setting.jobs, setting.cluster.gpus) == (jobs, gpus)
    assert f"{jobs} jobs on {gpus} GPUs" in setting.in_words()
    assert ("as in the paper" in setting.in_words()) == (scale >= 0.4)


def test_missing_trace_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no trace reads that jobs were generated."""
    monkeypatch.setattr("paper_figures.hadar.cases.has_trace", lambda: False)
    assert "The Philly trace is not here" in table_1.compare(Results(SETTING)).as_markdown()
    monkeypatch.setattr("paper_figures.hadar.cases.has_trace", lambda: True)
    assert "drawn by seed from the Philly trace" in table_1.compare(Results(SETTING)).as_markdown()

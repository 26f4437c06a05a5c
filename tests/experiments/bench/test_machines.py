"""The figures of many machines: what they measure, with few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lyra_opt.experiments.bench import machines

if TYPE_CHECKING:
    from pathlib import Path

STUDY = """
format = "lyra-opt/study"
version = 2
name = "small"
problem = "reclaim"
seeds = 2

[[instances]]
families = ["bf-dist"]
servers = 20
reclaim_percent = 20

[[solvers]]
names = ["lyra-greedy", "exact"]
"""


@pytest.mark.slow
def test_a_figure_for_each_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing fails on the way, each figure is one, and only the way of a task has a target."""
    study = tmp_path / "small.toml"
    study.write_text(STUDY)
    small = {
        "STUDY": study,
        "REPETITIONS": 1,
        "EMPTY_TASKS": 20,
        "ROWS": 20,
        "ROWS_WITH_FILES": 4,
        "SIMULATED_WORKERS": 8,
        "SIMULATED_PROCESSES": 2,
        "SIMULATED_TASKS": 16,
        "SIMULATED_TASK_S": 0.1,
    }
    for name, value in small.items():
        monkeypatch.setattr(machines, name, value)
    figures = list(machines.machine_figures())
    assert [figure.runs for figure in figures] == [20, 4, 1, 1, 20, 1, 16, 16, 16]
    assert all(figure.measured or figure.median_s for figure in figures)
    assert [figure.what for figure in figures if figure.target is not None] == [
        "the same, CPU of scheduler, workers and command, a task"
    ]
    tasks_a_second = figures[6].measured
    assert tasks_a_second is not None
    assert tasks_a_second <= 80, "no worker does two tasks at once"

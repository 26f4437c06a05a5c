"""The command line on allocation instances: what is printed, written and refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import lyra_opt as lo
from lyra_opt.allocation.problem import PROBLEM
from lyra_opt.core.loading import save_solution
from lyra_opt.core.solving import COMMON_ANSWER_KEYS
from tests.lyra_opt.allocation.examples import LONG, example, example_schedule

if TYPE_CHECKING:
    from pathlib import Path

ALLOCATION_KEYS = {
    *("workers", "schedule", "started", "used_gpus", "makespan_s", "mean_queuing_s"),
}


@pytest.fixture
def joint_file(tmp_path: Path) -> Path:
    """Lyra's first example, all at once."""
    lo.save(example(objective="joint"), tmp_path / "joint.json")
    return tmp_path / "joint.json"


@pytest.fixture
def schedule_files(tmp_path: Path) -> tuple[Path, Path]:
    """Lyra's first example over time, and its best schedule."""
    instance, path = tmp_path / "instance.json", tmp_path / "schedule.json"
    lo.save(example(), instance)
    save_solution(path, PROBLEM, example(), example_schedule(LONG, 2, 6), 125 / 3)
    return instance, path


def test_json_of_workers(run, joint_file):
    """An object from id to workers; what belongs to schedules is null."""
    exit_code, out, _ = run(
        "solve", joint_file, "--solver", "brute-force", "--certify", "--format=json"
    )
    (answer,) = json.loads(out)
    assert exit_code == 0
    assert set(answer) == {*COMMON_ANSWER_KEYS} | ALLOCATION_KEYS
    assert (answer["status"], answer["objective"], answer["gap"]) == ("optimal", 100.0, 0.0)
    assert answer["workers"] == {"A": 5, "B": 3}
    assert (answer["started"], answer["used_gpus"]) == (["A", "B"], 8)
    assert (answer["schedule"], answer["makespan_s"], answer["mean_queuing_s"]) == (None,) * 3


def test_table_shows_workers_and_no_empty_column(run, joint_file):
    """For people: how many jobs have an entry, and below the table which."""
    exit_code, out, _ = run("solve", joint_file, "--solver", "brute-force")
    assert exit_code == 0
    assert "brute-force: workers A 5, B 3; started A, B" in out
    assert "used GPUs" in out
    assert "makespan" not in out


def test_schedule_is_verified(run, schedule_files):
    """As text and as JSON; a schedule that breaks a rule is invalid, not bad input."""
    instance, schedule = schedule_files
    exit_code, out, _ = run("verify", instance, schedule)
    assert (exit_code, out) == (
        0,
        "valid\nobjective: 41.66666667\nmakespan (s): 63.33333333\nmean queuing (s): 0\n",
    )
    schedule.write_text(schedule.read_text().replace('"workers": 6', '"workers": 7'))
    exit_code, out, _ = run("verify", instance, schedule, "--format=json")
    assert exit_code == 1
    assert json.loads(out)["objective"] is None
    assert "its range is 2 to 6" in json.loads(out)["violations"][0]

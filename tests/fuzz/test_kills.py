"""A study that is killed at random moments, over and over, loses no row and repeats none."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.frames import load_study
from tests.fuzz.brute_force.drawing import Draw

if TYPE_CHECKING:
    from pathlib import Path

KILLS = 12
RUNS = 160
SLOWLY = """
import time
from lyra_opt.reclaim.heuristics.lyra_greedy import LyraGreedy

class Slowly(LyraGreedy):
    name = "slowly"

    def apply(self, instance, rng):
        time.sleep(0.05)
        return super().apply(instance, rng)
"""
STUDY = f"""
format = "lyra-opt/study"
version = 2
name = "killed"
problem = "reclaim"
seeds = {RUNS // 4}

[[instances]]
group = "all"
families = ["rnd-trace"]
servers = [10, 20]
reclaim_percent = [30]

[[solvers]]
names = ["slowly.py:Slowly", "scf"]
"""


def rows_of(folder: Path) -> dict[tuple[str, str], Any]:
    """Return when each stored run began; a store that is whole can be read at any time."""
    try:
        runs = load_study(folder)
    except UserError as error:  # not a row yet
        if not re.search("holds no run yet|holds no store", str(error)):
            raise
        return {}
    found = runs.set_index(["cell", "configuration"])["started_at"].to_dict()
    assert len(found) == len(runs), "a run is stored twice"
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_outlive_every_kill(seed: int, tmp_path: Path) -> None:
    """The study's process alone is killed, or one of its workers with it."""
    draw = Draw(f"{seed} kills")
    (tmp_path / "slowly.py").write_text(SLOWLY)
    (tmp_path / "killed.toml").write_text(STUDY)
    folder = tmp_path / "out"
    command = [sys.executable, "-m", "lyra_opt", "study", str(tmp_path / "killed.toml")]
    command += ["--out", str(folder), "--resume", "--processes", str(draw.pick(1, 2))]
    kept: dict[tuple[str, str], Any] = {}
    killed = 0
    for _ in range(KILLS):
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True) as study:
            time.sleep(draw.uniform(0.5, 3.5))
            is_running = study.poll() is None
            killed += is_running
            if is_running and draw.sometimes(0.5):
                os.killpg(study.pid, signal.SIGKILL)
            study.kill()
        rows = rows_of(folder)
        assert {run: rows.get(run) for run in kept} == kept, "a row is lost or was run again"
        kept = rows
    assert killed
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    rows = rows_of(folder)
    assert len(rows) == RUNS
    assert {run: rows[run] for run in kept} == kept

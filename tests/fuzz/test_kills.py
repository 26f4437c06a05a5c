"""What is ended at random moments loses nothing: rows of a study, answers of a solver."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import lyra_opt as lo
from lyra_opt.experiments.frames import load_study
from tests.reference.drawing import Draw
from tests.signals import hear_signals
from tests.tables import tables

KILLS = 12
SLEEP_S = 86531
RUNS = 160
TABLES = tables(__file__)
STUDY = TABLES["study"]


def rows_of(folder):
    """Return when each stored run began; a store that is whole can be read at any time."""
    try:
        runs = load_study(folder)
    except lo.UserError as error:  # not a row yet
        if not re.search("has no runs yet|has no store", str(error)):
            raise
        return {}
    found = runs.set_index(["cell", "configuration"])["started_at"].to_dict()
    assert len(found) == len(runs), "a run is stored twice"
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_outlive_every_kill(seed, tmp_path):
    """The study's process alone is killed or asked to end, or its workers are killed with it."""
    draw = Draw(f"{seed} kills")
    (tmp_path / "slowly.py").write_text(TABLES["slowly"])
    (tmp_path / "killed.toml").write_text(STUDY)
    folder = tmp_path / "out"
    command = [sys.executable, "-m", "lyra_opt", "study", str(tmp_path / "killed.toml")]
    command += ["--out", str(folder), "--resume", "--processes", str(draw.pick(1, 2))]
    kept = {}
    killed = 0
    for _ in range(KILLS):
        with subprocess.Popen(
            command, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=hear_signals
        ) as study:
            time.sleep(draw.uniform(0.5, 3.5))
            is_running = study.poll() is None
            killed += is_running
            if is_running and draw.sometimes(0.5):
                os.killpg(study.pid, signal.SIGKILL)
            study.send_signal(draw.pick(signal.SIGKILL, signal.SIGHUP, signal.SIGTERM))
            if study.wait(60) not in (-signal.SIGKILL, 0, 130):  # it may hear no signal yet
                assert study.returncode < 0
        rows = rows_of(folder)
        assert {run: rows.get(run) for run in kept} == kept, "a row is lost or was run again"
        kept = rows
    assert killed
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    rows = rows_of(folder)
    assert len(rows) == RUNS
    assert {run: rows[run] for run in kept} == kept


@pytest.mark.slow
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL],
    ids=lambda each: each.name,
)
def test_answers_outlive_every_end(number, tmp_path):
    """What a solver told is printed and written, and what it started is gone, session or not."""
    (tmp_path / "tells.py").write_text(TABLES["tells"])
    fleet = lo.generate("reclaim", "messy-dist", servers=20)
    lo.save(fleet, tmp_path / "fleet.json")
    command = [sys.executable, "-m", "lyra_opt", "solve", "fleet.json", "--solver", "scf"]
    command += ["--solver", "tells.py:Tells", "--format=json", "--out", "solution.json"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, preexec_fn=hear_signals
    ) as solving:
        until_s = time.monotonic() + 300
        while not sleeping():
            assert time.monotonic() < until_s
            time.sleep(0.05)
        time.sleep(Draw(number.name).uniform(0.1, 2.0))
        solving.send_signal(number)
        output, _ = solving.communicate(timeout=60)
    while sleeping():
        assert time.monotonic() < until_s, "a process of the solver lives on"
        time.sleep(0.05)
    if number is not signal.SIGKILL:
        assert solving.returncode == 130
        answers = json.loads(output)
        assert [answer["stopped_by"] for answer in answers] == [None, "interrupt"]
        assert answers[1]["objective"] is not None
        assert lo.verify(fleet, tmp_path / "solution.json")


def sleeping():
    """Return the processes that solvers have started."""
    run = subprocess.run(["pgrep", "-f", f"^sleep {SLEEP_S}"], capture_output=True, text=True)
    return run.stdout.split()

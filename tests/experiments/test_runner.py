"""The runner: failures are rows, a kill loses nothing, a resume does nothing twice."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from lyra_opt.commands.messages import Loudness, as_loud_as
from lyra_opt.core.result import Status
from lyra_opt.experiments.pool import LocalProcesses
from lyra_opt.experiments.runner import run_study
from lyra_opt.experiments.store import STORE_FILE, ResultStore
from lyra_opt.experiments.study import read_study
from tests.experiments.conftest import REPOSITORY
from tests.experiments.plugin import GATE
from tests.signals import hear_signals

SMALL = (("[10, 20]", "[10]"), ("[10, 30]", "[30]"))


def runs_of(folder):
    with ResultStore.open(folder) as store:
        return store.runs()


def test_rows_stand_alone(write_study, tmp_path):
    study = read_study(write_study(*SMALL))
    assert run_study(study, tmp_path / "out", engine=LocalProcesses(1)) == 0
    runs = runs_of(tmp_path / "out")
    assert [(run.cell, run.configuration) for run in runs] == [
        (f"rnd-trace servers=10 reclaim_percent=30 seed={seed}", solver)
        for seed in (0, 1)
        for solver in ("lyra-greedy", "scf")
    ]
    for run in runs:
        assert run.status in (Status.OPTIMAL, Status.FEASIBLE)
        assert run.dual_bound <= run.objective
        assert run.family_parameters == {"servers": 10, "reclaim_percent": 30}
        assert (run.axes, run.size) == (run.family_parameters, 10)
        assert (run.family_group, run.variant, run.time_limit_s) == ("realistic", "rigid", 5.0)
        assert len(run.content_sha256 or "") == 64
        assert run.versions["python"] == ".".join(map(str, sys.version_info[:3]))
        assert run.cores == os.cpu_count()
        assert run.wall_time_s
        assert run.certify_time_s
        assert run.cpu_time_s
        assert run.peak_memory_mib
        assert run.started_at.endswith("+00:00")
    assert len({run.content_sha256 for run in runs}) == 2
    assert len({run.solver_seed for run in runs}) == 4


def test_failures_are_rows_and_the_study_goes_on(plugin, write_study, tmp_path, capfd):
    solvers = '"lyra-greedy", "raising", "leaving", "dying", "first-servers"'
    changes = (('"rnd-trace"', '"breaking"'), ('"lyra-greedy", "scf"', solvers))
    study = read_study(write_study(*SMALL, *changes))
    with as_loud_as(Loudness.DEBUG):
        assert run_study(study, tmp_path / "out", engine=LocalProcesses(2)) == 1
    found = {(run.seed, run.solver): run for run in runs_of(tmp_path / "out")}
    assert len(found) == 10
    told = {
        (0, "leaving"): "it exited (plugin.py, line ",
        (0, "raising"): "ZeroDivisionError: this solver always fails",
        (0, "dying"): "its process was ended by signal 9",
    }
    told |= {key: "LookupError: no instance for an odd seed" for key in found if key[0] == 1}
    for key, message in told.items():
        assert found[key].status is Status.ERROR
        assert message in (found[key].message or "")
    for solver in ("lyra-greedy", "first-servers"):
        assert found[0, solver].status in (Status.OPTIMAL, Status.FEASIBLE)
    assert found[0, "raising"].content_sha256
    err = capfd.readouterr().err
    assert "10 runs stored, 8 failed" in err
    assert ", in fail\n" in err  # where it was raised, for whoever mends the solver


def test_contradiction_between_solvers_is_an_error(plugin, write_study, tmp_path, capfd):
    study = read_study(
        write_study(("[10, 20]", "[20]"), ("[10, 30]", "[30]"), ('"scf"]', '"boasting"]'))
    )
    assert run_study(study, tmp_path / "out", engine=LocalProcesses(1)) == 1
    error = capfd.readouterr().err
    assert (
        "CONTRADICTION: rnd-trace servers=20 reclaim_percent=30 seed=0: lyra-greedy found" in error
    )
    assert "but boasting (optimal) has dual bound" in error


def _children(pid):
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # gone meanwhile
            parent = status.read_text().rpartition(")")[2].split()[1]
            if int(parent) == pid:
                found.append(int(status.parent.name))
    return found


def _is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # dead, but its new parent has not noticed


@pytest.mark.parametrize(
    "ended_by",
    [
        signal.SIGINT,
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
        ),
    ],
)
def test_interrupted_study_resumes_with_every_run_exactly_once(
    ended_by, plugin, write_study, tmp_path
):
    study = write_study(*SMALL, ("seeds = 2", "seeds = 12"), ('"scf"]', '"waiting"]'))
    gate = tmp_path / "gate"
    gate.touch()  # so that the study cannot be done before it is ended
    folder = tmp_path / "out"
    command = [sys.executable, "-m", "lyra_opt", "study", str(study), "--out", str(folder)]
    environment = os.environ | {"PYTHONPATH": f"{plugin}{os.pathsep}{REPOSITORY}", GATE: str(gate)}
    with subprocess.Popen(
        [*command, "--processes", "1"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_signals,
    ) as process:
        deadline = time.monotonic() + 300  # far longer than on a machine with other work
        while not (folder / STORE_FILE).exists() or len(runs_of(folder)) < 4:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        workers = _children(process.pid)
        assert workers
        process.send_signal(ended_by)
        _, error = process.communicate(timeout=600)
    while any(_is_alive(worker) for worker in workers):
        assert time.monotonic() < deadline, "workers outlive the study"
        time.sleep(0.05)
    stored = runs_of(folder)
    assert 4 <= len(stored) < 24
    if ended_by is not signal.SIGKILL:
        assert process.returncode == 130
        assert f"interrupted: {len(stored)} of 24 runs are stored" in error
        assert "Traceback" not in error
    gate.unlink()
    resumed = subprocess.run(
        [*command, "--processes", "2", "--resume"],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert resumed.returncode == 0, resumed.stderr
    assert f"{24 - len(stored)} runs to do, {len(stored)} already stored" in resumed.stderr
    runs = runs_of(folder)
    assert set(Counter((run.cell, run.configuration) for run in runs).values()) == {1}
    assert [run.position for run in runs] == list(range(24))
    kept = {run.position: run.started_at for run in stored}
    assert all(run.started_at == kept.get(run.position, run.started_at) for run in runs)

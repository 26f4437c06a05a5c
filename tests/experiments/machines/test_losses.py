"""Machines that go, schedulers that go, and what is left of a study then: all of it."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from distributed import Client
from distributed.core import PooledRPCCall

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.bench.cluster import kill
from lyra_opt.experiments.executor import EXIT_INTERRUPTED, run_stored
from lyra_opt.experiments.machines import engine
from lyra_opt.experiments.machines.engine import Machines
from lyra_opt.experiments.pool import WORKER_DIED, Engine, LocalProcesses
from lyra_opt.experiments.runner import run_study
from lyra_opt.experiments.store import STORE_FILE
from lyra_opt.experiments.study import read_study
from tests.experiments.machines.test_machines import rows_of
from tests.experiments.test_executor import STUDY, Replay
from tests.fuzz.test_kills import TABLES as KILLS
from tests.tables import beside

pytestmark = pytest.mark.slow

SLOWLY = KILLS["slowly"].replace("0.05", "0.3")
STUDY_TEXT = beside(__file__, "slow.toml")


@dataclass(frozen=True)
class After:
    """An engine to which something happens after so many rows."""

    engine: Engine
    rows: int
    happens: Callable[[], object]

    def start(self, tasks, folder, shares):
        for number, record in enumerate(self.engine.start(tasks, folder, shares), start=1):
            yield record
            if number == self.rows:
                self.happens()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a working folder with a study of some seconds."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "slow.py").write_text(SLOWLY)
    (home / "study.toml").write_text(STUDY_TEXT)
    monkeypatch.chdir(home)
    return home


def require_as_at_home(folder):
    """Check that a folder holds what one machine comes to, but for what is measured."""
    assert run_study(read_study("study.toml"), Path("here"), engine=LocalProcesses(2)) == 0
    assert rows_of(Path(folder)) == rows_of(Path("here"))


def test_a_machine_that_goes_costs_nothing(home, frail_machines):
    """One of two, with its nanny, in mid-study: its running task is done by the other one."""
    first, _ = frail_machines.workers
    frail = After(Machines(frail_machines.address), 5, lambda: kill(first))
    assert run_study(read_study("study.toml"), Path("there"), engine=frail) == 0
    require_as_at_home("there")


def test_a_scheduler_that_is_restarted_costs_nothing(home, frail_machines, capsys):
    """It knows nothing of the study then, and its workers are others."""

    def restart():
        frail_machines.stop()
        frail_machines.start(workers=2)

    frail = After(Machines(frail_machines.address), 5, restart)
    assert run_study(read_study("study.toml"), Path("there"), engine=frail) == 0
    assert "lost; incomplete tasks are sent again" in capsys.readouterr().err
    require_as_at_home("there")


def test_a_scheduler_that_stays_away_ends_with_one_line(home, frail_machines, monkeypatch):
    """What is stored stays, and goes on anywhere."""
    monkeypatch.setattr(engine, "LONGEST_ABSENCE_S", 1.0)
    study = read_study("study.toml")

    def stop_for_good():
        frail_machines.stop()
        monkeypatch.setattr(engine, "FIRST_ANSWER_S", 1.0)

    frail = After(Machines(frail_machines.address), 5, stop_for_good)
    with pytest.raises(UserError, match=r"has been unreachable .* of 24 runs are stored; continue"):
        run_study(study, Path("there"), engine=frail)
    assert len(rows_of(Path("there"))) >= 5
    assert run_study(study, Path("there"), engine=LocalProcesses(2), resume=True) == 0
    require_as_at_home("there")


def test_a_question_that_gets_no_answer_ends(home, frail_machines, monkeypatch):
    """A connection may break while the client waits for the number of threads."""
    monkeypatch.setattr(engine, "LONGEST_ABSENCE_S", 1.0)
    monkeypatch.setattr(engine, "SECONDS_BETWEEN_COUNTS", 0.0)
    asked = PooledRPCCall.__getattr__

    async def never(**_):
        await asyncio.sleep(3600)

    def silent(call, name):
        return never if name == "ncores" else asked(call, name)

    def stop_and_be_silent():
        frail_machines.stop()
        monkeypatch.setattr(PooledRPCCall, "__getattr__", silent)
        monkeypatch.setattr(engine, "FIRST_ANSWER_S", 1.0)

    frail = After(Machines(frail_machines.address), 5, stop_and_be_silent)
    with pytest.raises(UserError, match="has been unreachable"):
        run_study(read_study("study.toml"), Path("there"), engine=frail)


def test_a_message_that_is_lost_loses_no_task(tmp_path, frail_machines, monkeypatch):
    """A connection may break at any moment, also while tasks are handed out."""
    real, calls = Client.map, count(1)

    def unreliable(client, *given, **named):
        if next(calls) == 2:
            raise OSError("broken")
        return real(client, *given, **named)

    monkeypatch.setattr(Client, "map", unreliable)
    monkeypatch.setattr(engine, "MOST_AT_ONCE", 3)
    tasks = [Replay(str(place), place) for place in range(20)]
    assert run_stored(STUDY, tasks, tmp_path, engine=Machines(frail_machines.address)) == 0
    assert [row["key"] for row in rows_of(tmp_path)] == [task.key for task in tasks]


def test_workers_may_come_late(tmp_path, frail_machines, capsys):
    """As they do where they are queued: the command says that it waits."""
    for worker in frail_machines.workers:
        kill(worker)
    with Client(frail_machines.address, set_as_default=False) as client:
        while client.nthreads():
            time.sleep(0.05)
    records = Machines(frail_machines.address).start([Replay("a")], tmp_path, {})
    threading.Timer(1.0, frail_machines.add, [1]).start()
    assert [record.status for record in records] == ["finished"]
    assert "has no workers; waiting for a worker" in capsys.readouterr().err


@dataclass(frozen=True)
class WorkerKiller(Replay):
    """Kills not its own process but that of the worker."""

    def run(self):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)


def test_what_kills_workers_is_a_row(tmp_path, frail_machines):
    """Else it would go through all machines of a cluster, one after the other."""
    tasks = [Replay("a", 0), WorkerKiller("b", 1), Replay("c", 2)]
    assert run_stored(STUDY, tasks, tmp_path, engine=Machines(frail_machines.address)) == 1
    rows = rows_of(tmp_path)
    assert [row["status"] for row in rows] == ["finished", "error", "finished"]
    assert rows[1]["message"] == WORKER_DIED


def test_sigterm_leaves_what_resume_goes_on_with(home, frail_machines):
    """As batch systems end a command; the workers are free at once."""
    command = [sys.executable, "-m", "lyra_opt", "study", "study.toml", "--out", "there"]
    with subprocess.Popen([*command, "--scheduler", frail_machines.address]) as process:
        while not Path("there", STORE_FILE).exists() or len(rows_of(Path("there"))) < 4:
            time.sleep(0.1)
        process.terminate()
        assert process.wait() == EXIT_INTERRUPTED
    there = Machines(frail_machines.address)
    assert run_study(read_study("study.toml"), Path("there"), engine=there, resume=True) == 0
    require_as_at_home("there")

"""The executor takes any kind of run: failures are rows, tables lie beside, nothing runs twice."""

import os
import signal
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lyra_opt.core.errors import DiskFullError, UserError
from lyra_opt.core.run_progress import within_run
from lyra_opt.experiments.executor import EXIT_INTERRUPTED, run_stored
from lyra_opt.experiments.pool import IN_THIS_PROCESS, LocalProcesses, _Children, run_tasks
from lyra_opt.experiments.records import ReplayStatus, StudyRecord, current_environment
from lyra_opt.experiments.store import files_beside, table_path, write_beside
from tests.experiments.records import make_replay
from tests.experiments.test_runner import runs_of

STUDY = StudyRecord(name="replays", kind="replay", text="by hand", meaning_hash="1", runs=3)


@dataclass(frozen=True)
class Replay:
    """A task whose outcome is known."""

    key: str
    seed: int = 0
    fails: type[BaseException] | None = None
    dies: bool = False
    calls: Path | None = None
    waits_until: Path | None = None

    files = ()
    documents_folder = None
    inputs: str | None = None

    def record(self, started_at, **columns):
        environment = asdict(current_environment())
        known = {"study": STUDY.name, "key": self.key, "started_at": started_at.isoformat()}
        return make_replay(self.seed, **(environment | known | columns))

    def run(self):
        if self.calls is not None:
            with self.calls.open("a") as stream:
                stream.write(f"{self.key}\n")
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fails is not None:
            raise self.fails("as asked")
        if self.waits_until is not None:
            within_run(0.5)
            while not self.waits_until.exists():
                time.sleep(0.01)
        draws = np.random.default_rng(self.seed).random(5)
        return self.record(
            datetime.now(UTC),
            status=ReplayStatus.FINISHED,
            figures={"jct_mean_s": float(draws.mean())},
            assumptions=["One."],
            tables={"jobs": pd.DataFrame({"job": list("abcde"), "jct_s": draws})},
        )

    def failed(self, started_at, message):
        return self.record(started_at, status=ReplayStatus.ERROR, message=message)


def exit_code_of(tasks, folder, processes=IN_THIS_PROCESS, *, study=STUDY, **options):
    """Run the tasks into a store, by so many processes."""
    return run_stored(study, tasks, folder, engine=LocalProcesses(processes), **options)


@pytest.mark.parametrize("processes", [IN_THIS_PROCESS, 2])
def test_rows_and_tables_of_any_kind_come_back(processes, tmp_path):
    """With workers or without: the same rows, and floats of tables to the last digit."""
    tasks = [Replay("a/b, seed=0", 0), Replay("é" * 100, 1), Replay("..", 2, fails=SystemExit)]
    assert exit_code_of(tasks, tmp_path, processes) == 1
    runs = runs_of(tmp_path)
    assert [run.key for run in runs] == [task.key for task in tasks]
    assert [run.status for run in runs] == ["finished", "finished", "error"]
    assert runs[2].message == "SystemExit: as asked"
    assert runs[2].figures is None
    for task, run in zip(tasks[:2], runs, strict=False):
        jobs = pd.read_csv(table_path(tmp_path, run.key, "jobs"))
        pd.testing.assert_frame_equal(jobs, task.run().tables["jobs"], check_exact=True)
        assert run.figures == {"jct_mean_s": jobs.jct_s.mean()}
        assert run.axes == {"load": 0.5}
    assert len(list((tmp_path / "runs").glob("*/*"))) == 2, "a failed run leaves no table"


@pytest.mark.parametrize("processes", [IN_THIS_PROCESS, 2])
def test_long_runs_show_how_far_they_are(processes, tmp_path):
    """What a run tells is seen outside its worker while it runs, and gone when it is done."""
    seen = tmp_path / "seen"
    shares = {}

    def look():
        while sum(shares.copy().values()) < 0.5 * max(1, processes):
            time.sleep(0.01)
        seen.write_text("")

    threading.Thread(target=look, daemon=True).start()
    count = max(1, processes)
    tasks = [Replay(str(place), place, waits_until=seen) for place in range(count)]
    assert len(list(run_tasks(tasks, processes, tmp_path, shares))) == count
    assert shares == {}


@pytest.mark.parametrize(("idle", "expected"), [("ours", "b3"), ("new", "c2")])
def test_a_process_keeps_to_the_inputs_that_it_has(idle, expected, tmp_path):
    """The bound of a variant and seed takes longer than most of its replays."""
    children = _Children(tmp_path, {})
    children._inputs = {"ours": "b", "other": "a"}
    children._idle = [idle]
    waiting = deque(
        Replay(f"{inputs}{place}", inputs=inputs) for place, inputs in enumerate("aacb")
    )
    assert children.next_of(waiting).key == expected
    assert len(waiting) == 3


def test_tasks_without_inputs_start_in_order(tmp_path):
    children = _Children(tmp_path, {})
    waiting = deque(Replay(name) for name in "ab")
    assert [children.next_of(waiting).key for _ in "ab"] == ["a", "b"]


def test_a_worker_that_dies_costs_one_row(tmp_path):
    tasks = [Replay("a", 0), Replay("b", 1, dies=True), Replay("c", 2)]
    assert exit_code_of(tasks, tmp_path, 2) == 1
    assert [run.status for run in runs_of(tmp_path)] == ["finished", "error", "finished"]


def test_resume_runs_only_what_failed(tmp_path):
    calls = tmp_path / "calls"
    tasks = [Replay("a", 0, calls=calls), Replay("b", 1, fails=ValueError, calls=calls)]
    folder = tmp_path / "out"
    assert exit_code_of(tasks, folder) == 1
    mended = [tasks[0], replace(tasks[1], fails=None)]
    assert exit_code_of(mended, folder, resume=True) == 0
    assert calls.read_text().split() == ["a", "b", "b"]
    other = replace(STUDY, meaning_hash="2")
    with pytest.raises(UserError, match="another study"):
        exit_code_of(mended, folder, study=other, resume=True)


def test_interrupt_in_this_process_keeps_what_is_done(tmp_path, capsys):
    tasks = [Replay("a", 0), Replay("b", 1, fails=KeyboardInterrupt), Replay("c", 2)]
    code = exit_code_of(tasks, tmp_path)
    assert code == EXIT_INTERRUPTED
    assert [run.key for run in runs_of(tmp_path)] == ["a"]
    assert "interrupted: 1 of 3 runs are stored" in capsys.readouterr().err


def test_folders_of_runs_are_inside_and_apart(tmp_path):
    """Protects other files from keys that look like paths, and runs from one another's tables."""
    keys = ["..", ".", "a/../../b", "a b", "a%20b", "é" * 300, "é" * 299, "", "x" * 5000]
    paths = [table_path(tmp_path, key, "jobs") for key in keys]
    assert len(set(paths)) == len(keys)
    for path in paths:
        assert path.resolve().parent.parent == tmp_path.resolve() / "runs"
        assert len(os.fsencode(path.parent.name)) < 255


def test_a_table_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "runs").write_text("no folder")
    with pytest.raises(UserError, match="cannot be written"):
        write_beside(tmp_path, files_beside(Replay("a").run()))


@pytest.mark.parametrize("processes", [IN_THIS_PROCESS, 1])
def test_a_full_disk_ends_a_study_that_can_go_on(processes, tmp_path):
    """It is called full, what is stored is counted, and no run after it is a failed one."""
    tasks = [Replay("a", 0), Replay("b", 1, fails=DiskFullError), Replay("c", 2)]
    with pytest.raises(DiskFullError, match="as asked; 1 of 3 runs are stored; continue"):
        exit_code_of(tasks, tmp_path, processes)
    assert [run.key for run in runs_of(tmp_path)] == ["a"]
    there_is_room = [replace(task, fails=None) for task in tasks]
    assert exit_code_of(there_is_room, tmp_path, processes, resume=True) == 0


@pytest.mark.parametrize("processes", [1, 2])
def test_tasks_that_follow_from_rows_run_by_the_same_workers(processes, tmp_path):
    """A search knows its next task once it has a row; also after a worker has died."""
    engine = LocalProcesses(processes, spares_one=True)
    waiting = deque([Replay("first")])
    records = engine.start(waiting, tmp_path, {})
    statuses = [next(records).status]
    for key, dies in (("second", processes > 1), ("third", False)):
        waiting.append(Replay(key, dies=dies))
        statuses.append(next(records).status)
    records.close()
    lost = ReplayStatus.ERROR if processes > 1 else ReplayStatus.FINISHED
    assert statuses == [ReplayStatus.FINISHED, lost, ReplayStatus.FINISHED]

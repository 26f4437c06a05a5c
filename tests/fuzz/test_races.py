"""Commands that start at the same moment with one folder: one runs, the others say why not."""

import threading

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.executor import run_stored
from lyra_opt.experiments.pool import IN_THIS_PROCESS, LocalProcesses
from lyra_opt.experiments.store import STORE_FILE
from tests.experiments.test_executor import STUDY, Replay, runs_of

RACES = 15
COMMANDS = 3


def start(folder, barrier, said, resume):
    """Run a command that waits for the others to start; note its exit code or its error."""
    barrier.wait()
    try:
        engine = LocalProcesses(IN_THIS_PROCESS)
        said.append(run_stored(STUDY, [Replay("a")], folder, engine=engine, resume=resume))
    except UserError as refused:
        said.append(str(refused))


@pytest.mark.parametrize("resume", [False, True])
def test_one_of_several_commands_wins(resume, tmp_path):
    """Locks and SQLite connections belong to a thread as they belong to a process."""
    for number in range(RACES):
        folder, barrier, said = tmp_path / str(number), threading.Barrier(COMMANDS), []
        given = (folder, barrier, said, resume)
        threads = [threading.Thread(target=start, args=given) for _ in range(COMMANDS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        errors = [each for each in said if each != 0]
        assert len(said) == COMMANDS
        assert len(errors) < COMMANDS if resume else len(errors) == COMMANDS - 1
        assert all(str(error).startswith(str(folder / STORE_FILE)) for error in errors), errors
        assert [run.status for run in runs_of(folder)] == ["finished"]
        # SQLite's own files stay where another command still read when the last writer closed.
        of_sqlite = {f"{STORE_FILE}-shm", f"{STORE_FILE}-wal"}
        assert {path.name for path in folder.iterdir()} - of_sqlite == {STORE_FILE, "runs"}

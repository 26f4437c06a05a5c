"""Workers and schedulers of a stranger: the machine that asks runs no code of theirs.

Scheduler and worker are real, and live in a thread of this process. A hostile pickle notes the name
of the thread in which it is made into an object: it may be theirs, but none of the asking machine.
"""

import asyncio
import json
import pickle
import threading
from contextlib import contextmanager

import pytest
from distributed import Scheduler, Worker, get_worker
from distributed.comm import listen
from distributed.protocol.serialize import ToPickle

from lyra_opt.experiments.executor import run_stored
from lyra_opt.experiments.machines import engine, worker
from lyra_opt.experiments.machines.answers import answer_of
from lyra_opt.experiments.machines.connection import DataClient
from lyra_opt.experiments.machines.engine import Machines
from lyra_opt.experiments.store import ResultStore
from tests.experiments.test_executor import STUDY, Replay

THEIRS = "theirs"
ran_in = set()
"""Names of the threads in which hostile code ran."""


def note():
    ran_in.add(threading.current_thread().name)
    return Exception("hostile")


class Hostile(Exception):  # noqa: N818
    """Runs code wherever it is unpickled."""

    def __reduce__(self):
        return note, ()


def answered(change):
    document = json.loads(answer_of(Replay("a").run(), {}))
    change(document)
    return json.dumps(document).encode()


def with_file(name):
    return answered(lambda document: document["beside"].update({name: "aGVsbG8="}))


def with_column(**columns):
    return answered(lambda document: document["row"].update(columns))


def raises():
    raise Hostile


def warns():
    get_worker().log_event("warn", {"message": pickle.dumps(Hostile())})
    get_worker().log_event("print", {"args": ("said by a stranger",)})
    return b"{"


ANSWERS = {
    "a hostile result": Hostile,
    "a hostile part of a result": lambda: {"row": Hostile()},
    "a hostile exception": raises,
    "a hostile warning": warns,
    "a pickle as bytes": lambda: pickle.dumps(Hostile()),
    "another type": lambda: "text",
    "no object": lambda: b"[]",
    "deep nesting": lambda: b"[" * 100_000,
    "the row of another task": lambda: with_column(key="b"),
    "a wrong type": lambda: with_column(seed="x", wall_time_s=[]),
    "a status of another kind": lambda: with_column(status="optimal"),
    "a file above the store": lambda: with_file("runs/a/../../../evil.csv.gz"),
    "a file of another run": lambda: with_file("runs/b/jobs.csv.gz"),
    "the store itself": lambda: with_file("results.sqlite"),
    "an absolute file": lambda: with_file("/tmp/evil.json"),
}


@contextmanager
def serving(serve):
    """Run a server in a thread of its own meanwhile."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve(stop)), name=THEIRS)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def rogues(tmp_path_factory):
    """Return the address of a scheduler with one worker."""
    address = []
    is_there = threading.Event()

    async def serve(stop):
        folder = str(tmp_path_factory.mktemp("rogue"))
        at = {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"}
        async with Scheduler(**at, dashboard=False) as scheduler:
            given = {"nthreads": 1, "memory_limit": 0, "local_directory": folder}
            async with Worker(scheduler.address, name=THEIRS, dashboard=False, **given):
                address.append(scheduler.address)
                is_there.set()
                await stop.wait()

    with serving(serve):
        assert is_there.wait(60), "the server did not start"
        yield address[0]


@pytest.mark.parametrize("name", ANSWERS)
def test_a_rogue_worker_spoils_its_row_alone(name, rogues, tmp_path, monkeypatch, capsys):
    """Whatever it answers is one failed row: no code runs, and no other file is written."""
    monkeypatch.setattr(engine, "FIRST_ANSWER_S", 600.0)
    monkeypatch.setattr(worker, "carry_out", lambda *_: ANSWERS[name]())
    ran_in.clear()
    out = tmp_path / "out"
    assert run_stored(STUDY, [Replay("a")], out, engine=Machines(rogues)) == 1
    assert not {each for each in ran_in if each in ("MainThread", "IO loop", "Dask-Offload_0")}
    with ResultStore.open(out) as store:
        (run,) = store.runs()
    assert (run.status, run.message.split(":")[0]) == ("error", "no result arrived")
    assert sorted(path.name for path in out.iterdir()) == ["results.sqlite"]
    assert "stranger" not in capsys.readouterr().out


@pytest.mark.parametrize("sent", [ToPickle(Hostile()), [{"op": ToPickle(Hostile())}]])
def test_a_rogue_scheduler_runs_no_code(sent):
    """Dask's protocol unpickles parts of messages whatever a client asks for."""
    ran_in.clear()
    address = []
    is_there = threading.Event()

    async def answer(connection):
        await connection.read()
        await connection.write(sent)
        await connection.close()

    async def serve(stop):
        async with listen("tcp://127.0.0.1:0", answer) as listener:
            address.append(listener.contact_address)
            is_there.set()
            await stop.wait()

    with serving(serve):
        assert is_there.wait(60), "the server did not start"
        with pytest.raises(pickle.UnpicklingError, match="a pickle from another machine"):
            DataClient(address[0], 600.0)
    assert not ran_in

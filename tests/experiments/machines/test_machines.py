"""Tasks on other machines: the same rows as at home, with nothing of home's disk."""

import os
import signal
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.executor import run_stored
from lyra_opt.experiments.machines import engine
from lyra_opt.experiments.machines.engine import Machines
from lyra_opt.experiments.pool import WORKER_DIED, LocalProcesses
from lyra_opt.experiments.runner import run_study
from lyra_opt.experiments.store import ResultStore, table_path
from lyra_opt.experiments.study import read_study
from lyra_opt.simulation.policy import QueuePolicy
from tests.experiments.test_executor import STUDY, Replay
from tests.tables import beside, tables

LIBRARY = Path(__file__).parents[3] / "instances" / "library"

MEASURED = {"wall_time_s", "cpu_time_s", "certify_time_s", "peak_memory_mib", "started_at"}
"""Columns in which two runs of the same differ."""

FILES = tables(__file__)
"""A solver of one's own and what it imports, by name."""

STUDY_TEXT = beside(__file__, "travels.toml")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a working folder with a study, its instances and a solver of one's own."""
    home = tmp_path / "home"
    (home / "of_mine").mkdir(parents=True)
    (home / "instances").mkdir()
    name = "lyra-figure-5.json"
    (home / "instances" / name).write_bytes((LIBRARY / name).read_bytes())
    for name, text in {**FILES, "study.toml": STUDY_TEXT}.items():
        (home / name).write_text(text)
    monkeypatch.chdir(home)
    return home


def rows_of(folder):
    """Return all that is stored but for what is measured."""
    with ResultStore.open(folder) as store:
        return [
            {name: value for name, value in asdict(run).items() if name not in MEASURED}
            for run in store.runs()
        ]


def test_a_study_comes_out_as_at_home(home, machines):
    """Instances, a solver and what it imports travel, and rows are the same in all columns."""
    study = read_study("study.toml")
    assert run_study(study, Path("there"), engine=Machines(machines.address)) == 0
    assert run_study(study, Path("here"), engine=LocalProcesses(1)) == 0
    assert rows_of(Path("there")) == rows_of(Path("here"))
    assert len(rows_of(Path("there"))) == 9


@pytest.mark.slow
def test_only_files_of_one_call_are_read(home, machines):
    """A module beside the solver that has changed is the new one, though workers live on."""
    study = read_study("study.toml")
    assert run_study(study, Path("before"), engine=Machines(machines.address)) == 0
    text = FILES["of_mine/order.py"].replace("on_loan]", "on_loan][::-1]")
    (home / "of_mine" / "order.py").write_text(text)
    assert run_study(study, Path("after"), engine=Machines(machines.address)) == 0
    solutions = [
        [row["solution"] for row in rows_of(Path(folder)) if row["solver"] == "mine"]
        for folder in ("before", "after")
    ]
    assert all(one != other for one, other in zip(*solutions, strict=True))


@pytest.mark.slow
def test_a_fault_costs_one_row(tmp_path, machines):
    """As with processes at home: what raises, exits or kills its process; tables come back."""
    tasks = [
        Replay("a/b, seed=0", 0),
        Replay("b", 1, fails=ValueError),
        Replay("c", 2, dies=True),
        Replay("d", 3, fails=SystemExit),
        Replay("e", 4),
    ]
    assert run_stored(STUDY, tasks, tmp_path / "there", engine=Machines(machines.address)) == 1
    assert run_stored(STUDY, tasks, tmp_path / "here", engine=LocalProcesses(2)) == 1
    assert rows_of(tmp_path / "there") == rows_of(tmp_path / "here")
    with ResultStore.open(tmp_path / "there") as store:
        runs = store.runs()
    assert [run.status for run in runs] == ["finished", "error", "error", "error", "finished"]
    assert [runs[place].message for place in (1, 2)] == ["ValueError: as asked", WORKER_DIED]
    for key in ("a/b, seed=0", "e"):
        there, here = (table_path(tmp_path / each, key, "jobs") for each in ("there", "here"))
        assert there.read_bytes() == here.read_bytes()


@pytest.mark.slow
def test_other_versions_are_one_line(tmp_path, machines, monkeypatch):
    """Rows of two versions of the program must not be mixed, nor a study end in tracebacks."""
    errand = engine.new_errand()
    other = replace(errand, versions=errand.versions | {"lyra-opt": "0.0.1"})
    monkeypatch.setattr(engine, "new_errand", lambda: other)
    with pytest.raises(UserError, match=r"has lyra-opt .*; this machine has 0.0.1"):
        run_stored(STUDY, [Replay("a")], tmp_path, engine=Machines(machines.address))


@pytest.mark.slow
def test_what_cannot_be_sent_is_one_line(tmp_path, machines):
    task = replace(Replay("a"), calls=threading.Lock())
    with pytest.raises(UserError, match="a: cannot be sent to other machines: TypeError"):
        run_stored(STUDY, [task], tmp_path / "out", engine=Machines(machines.address))


def test_nobody_there_is_one_line(tmp_path, monkeypatch):
    """Before anything is written, so that the same command can be tried again."""
    monkeypatch.setattr(engine, "FIRST_ANSWER_S", 0.2)
    with pytest.raises(UserError, match=r"scheduler tcp://127.0.0.1:1: cannot be reached: "):
        Machines("tcp://127.0.0.1:1")


class ByArrival(QueuePolicy):
    """A policy of this module, which no worker can import."""

    def decide(self, view):
        """Start whoever waits."""
        for run in list(self.waiting.values()):
            if parts := view.fit(run):
                self.start(view, run, parts)


@pytest.mark.slow
def test_objects_and_captured_decisions_travel(home, machines):
    """A policy that only this process knows, jobs as an object, and instance files of a run."""
    import lyra_opt as lo
    from lyra_opt.experiments.simulation.running.replays import run_scenario
    from lyra_opt.experiments.simulation.scenario.loading import Change, load_scenario

    changes = {"cluster.servers": 2, "jobs.parameters.days": 1}
    given = {"changes": changes, "schemes": ["fifo", ByArrival]}
    there = lo.simulate("lyra-paper", scheduler=machines.address, **given)
    here = lo.simulate("lyra-paper", **given)
    assert there.jobs.equals(here.jobs)
    assert list(there.frame.jct_mean_s) == list(here.frame.jct_mean_s)

    scenario = load_scenario("lyra-paper", [Change(path, value) for path, value in changes.items()])
    engines = {"there": Machines(machines.address), "here": LocalProcesses(1)}
    for name, each in engines.items():
        run_scenario(scenario, ["lyra"], engine=each, capture=Path(name))
    files = {path.name: path.read_bytes() for path in Path("here").iterdir()}
    assert files
    assert {path.name: path.read_bytes() for path in Path("there").iterdir()} == files


TRACE = """job_id,submit_time_s,duration_s,gpus
a,0,600,4
b,60,1200,8
c,120,300,1
"""


@pytest.mark.slow
def test_traces_travel(home, machines, monkeypatch):
    """One beside the command and one of the folder of traces, which no worker has."""
    import lyra_opt as lo

    traces = home.parent / "traces"
    traces.mkdir()
    monkeypatch.setenv("LYRA_OPT_TRACES", str(traces))
    for folder, name in ((home, "beside.csv"), (traces, "elsewhere.csv")):
        (folder / name).write_text(TRACE)
        given = {"jobs": name, "changes": {"cluster.servers": 1}, "schemes": ["fifo"]}
        there = lo.simulate("plain", scheduler=machines.address, **given)
        assert there.jobs.equals(lo.simulate("plain", **given).jobs)
        assert list(there.jobs.job_id) == ["a", "b", "c"]


@pytest.mark.slow
@pytest.mark.usefixtures("heard")
def test_an_end_ends_what_runs(tmp_path, machines):
    """After Ctrl-C no worker goes on with what nobody waits for: the next study begins at once."""
    never, calls = tmp_path / "never", tmp_path / "calls"
    tasks = [Replay(str(place), place, waits_until=never, calls=calls) for place in range(2)]
    records = Machines(machines.address).start(tasks, tmp_path, {})

    def interrupt():
        while not calls.exists() or len(calls.read_text().split()) < len(tasks):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        list(records)
    records.close()
    assert run_stored(STUDY, [Replay("a")], tmp_path / "a", engine=Machines(machines.address)) == 0


@pytest.mark.slow
def test_a_search_makes_the_same_choices_anywhere(run, machines, tmp_path):
    """Batch by batch, as its result says, and in the order of its trials."""
    changes = 'changes={axes={}, "jobs.parameters.jobs"=6}'
    given = ("tuner-regret", "--set", changes, "--set", "seeds=2", "--set", "judged=[2]")
    few = ("--set", "trials=8", "--set", "random=1", "--set", "clairvoyant=0", "--set", "batch=2")
    for name, where in (("here", ("--processes", 1)), ("there", ("--scheduler", machines.address))):
        code, _, err = run("tune", *given, *few, *where, "--out", tmp_path / name)
        assert code == 0, err
    here, there = (tmp_path / name / "tuning.json" for name in ("here", "there"))
    assert here.read_text() == there.read_text()

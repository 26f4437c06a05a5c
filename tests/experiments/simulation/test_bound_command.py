"""``lyra-opt bound`` and ``lo.bound`` prove the same bounds of jobs and of classes of jobs."""

from contextlib import contextmanager

import pandas as pd
import pytest

import lyra_opt as lo
from lyra_opt.__main__ import main
from lyra_opt.core.run_progress import listening
from lyra_opt.simulation.workload import Job, Workload
from tests.experiments.simulation.conftest import figures

SMALL = ("--set", "cluster.servers=4", "--set", "jobs.parameters.days=1")
CHANGES = {"cluster.servers": 4, "jobs.parameters.days": 1}


def test_the_mean_of_a_class_of_jobs_is_bounded_beside_all_others():
    """By hand: of two jobs that cannot run at once, the bounded one may always run first."""
    jobs = (
        Job(id="rigid", submit_s=0.0, work_worker_s=8 * 3600.0, min_workers=8, max_workers=8),
        Job(id="elastic", submit_s=0.0, work_worker_s=8 * 1800.0, min_workers=4, max_workers=8),
    )
    found = lo.bound(
        "plain",
        readings="restart",
        of=["rigid", "elastic", "all"],
        jobs=Workload(name="two", jobs=jobs),
        changes={"cluster.servers": 1},
    ).set_index("job_class")["jct_mean_bound_s"]
    assert found["rigid"] == pytest.approx(3600)
    assert found["elastic"] == pytest.approx(1800)
    assert (3600 + 1800) / 2 + 1 < found["all"] <= (1800 + 5400) / 2


def test_python_and_the_command_line_prove_the_same(run):
    """Both give the bound with which a run is compared."""
    (told,) = figures(run("bound", "lyra-paper", *SMALL, "--reading", "restart", "--format=json"))
    told.pop("cpu_s")
    runs = lo.simulate("lyra-paper", schemes=["lyra"], changes={**CHANGES, "bounds": True})
    for found in (
        lo.bound(runs, readings="restart"),
        lo.bound("lyra-paper", readings=["restart"], changes=CHANGES),
    ):
        assert isinstance(found, pd.DataFrame)
        (row,) = found.drop(columns="cpu_s").to_dict("records")
        assert row == told
    (measured,) = runs.frame.to_dict("records")
    assert measured["jct_mean_bound_s"] == told["jct_mean_bound_s"]
    assert measured["jct_mean_s"] >= told["jct_mean_bound_s"]


def test_progress_covers_all_bounds(monkeypatch):
    """Progress rises over all seeds, classes and readings and ends at 1."""
    shown = []

    @contextmanager
    def progress(*_words, begun):
        yield
        shown.append(begun())

    monkeypatch.setattr("lyra_opt.commands.progress.progress", progress)
    assert main(["bound", "lyra-paper", *SMALL]) == 0
    assert shown == [100.0]
    told = []
    with listening(told.append):
        lo.bound("lyra-paper", changes={**CHANGES, "seeds": 2}, of=["all", "rigid"])
    assert told == sorted(told)
    assert told[-1] == 1
    assert len(set(told)) > 8 * 2  # eight bounds, each of two ascents of many passes


def test_runs_have_jobs_of_their_own():
    """Bounds of finished runs accept no changes of the scenario."""
    runs = lo.simulate("lyra-paper", schemes=["fifo"], changes=CHANGES)
    with pytest.raises(lo.UserError, match="changes .* must be left out"):
        lo.bound(runs, changes={"cluster.servers": 5})
    with pytest.raises(lo.UserError, match="readings strict: must be of|readings is"):
        lo.bound(runs, readings=["strict"])

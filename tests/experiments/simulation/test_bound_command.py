"""``lyra-opt bound`` and ``lo.bound`` prove the same bounds, and report bad input in one line."""

import json
from contextlib import contextmanager

import pandas as pd
import pytest

import lyra_opt as lo
from lyra_opt.__main__ import main
from lyra_opt.core.run_progress import listening
from lyra_opt.simulation.workload import Job, Workload
from tests.conftest import assert_one_line_error
from tests.experiments.simulation.conftest import figures
from tests.tables import tables

TABLES = tables(__file__)

SMALL = ("--set", "cluster.servers=4", "--set", "jobs.parameters.days=1")
CHANGES = {"cluster.servers": 4, "jobs.parameters.days": 1}


TRACE = TABLES["trace"]


@pytest.fixture
def of_trace(tmp_path):
    """Return the arguments that bound the three jobs on one server."""
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    return ("bound", "plain", "--jobs", trace, "--set", "cluster.servers=1")


def test_a_trace_is_bounded_by_both_readings(of_trace, run):
    """The JSON has all keys; by hand, the second job waits for the first on one server."""
    found = figures(run(*of_trace, "--format=json"))
    assert [each["reading"] for each in found] == ["restart", "conserved"]
    for each in found:
        keys = ("jct_mean_bound_s", "excess_mean_bound_s", "queue_mean_bound_s", "cpu_s", "cell_s")
        assert all(each[key] >= 0 for key in keys)
        assert each["jobs"] == 3
        assert each["least_run_mean_s"] == pytest.approx(1600)
        excess_s = each["jct_mean_bound_s"] - each["least_run_mean_s"]
        assert each["excess_mean_bound_s"] == pytest.approx(excess_s, abs=1e-6)
    restart, conserved = (each["jct_mean_bound_s"] for each in found)
    # The best of both readings: the long one first or last, or interrupted for both others.
    first_s = (3600 + (4200 - 60) + (4800 - 120)) / 3
    last_s = (660 + 4860 + 660 + 600 - 60 - 120) / 3
    assert restart <= min(first_s, last_s)
    assert conserved <= (600 + 600 + 600 - 60 + 4800) / 3
    assert conserved <= restart * (1 + 1e-9)
    assert conserved > 1600


def test_a_schedule_says_how_good_the_bound_is(of_trace, run):
    """The schedule found is the best order by hand of three jobs on one server."""
    asked = (*of_trace, "--schedule")
    (found,) = figures(run(*asked, "--reading", "restart", "--format=json"))
    # The long one waits for both others: 600, 1,140 and 4,860 s. In turn: 3,600, 4,140, 4,680 s.
    best_s, in_turn_s = (600 + 1140 + 4860) / 3, (3600 + 4140 + 4680) / 3
    assert best_s * (1 - 1e-9) <= found["jct_mean_found_s"] < in_turn_s
    assert found["jct_mean_bound_s"] <= best_s
    share = found["jct_mean_found_s"] / found["jct_mean_bound_s"] - 1
    assert found["found_above_bound_share"] == pytest.approx(share)
    exit_code, out, _ = run(*asked)
    assert (exit_code, "mean JCT found (s)" in out) == (0, True)


def test_saved_prices_can_be_checked_and_lies_are_told(tmp_path, run):
    """The exit code is 1 if the prices prove less than the file claims."""
    folder = tmp_path / "proofs"
    asked = ("bound", "lyra-paper", *SMALL)
    assert run(*asked, "--save", folder)[0] == 0
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [
        f"seed0-{reading}-{objective}_mean.json"
        for reading in ("conserved", "restart")
        for objective in ("jct", "queue")
    ]
    checks = [part for file in files for part in ("--check", file)]
    assert all(each["holds"] for each in figures(run(*asked, *checks, "--format=json")))
    lie = json.loads(files[0].read_text())
    lie["value_s"] *= 1.01
    files[0].write_text(json.dumps(lie))
    exit_code, out, _ = run(*asked, "--check", files[0])
    assert (exit_code, "LESS than the file claims" in out) == (1, True)
    several = run(*asked, "--set", "seeds=2", *checks)
    assert_one_line_error(several, "several variants or seeds")
    other = tmp_path / "other.json"
    other.write_text('{"format": "lyra-opt/fleet", "version": 1}')
    refused = run(*asked, "--check", other)
    assert_one_line_error(refused, 'must be "lyra-opt/cluster-bound"')


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


def test_prices_of_a_class_are_checked_for_that_class(tmp_path, run):
    """A proof for one class of jobs proves nothing for another class."""
    asked = ("bound", "lyra-paper", *SMALL, "--set", "jobs.assumptions.elastic_percent=50")
    of_rigid = ("--of", "rigid", "--reading", "restart", "--save", tmp_path / "proofs")
    file = tmp_path / "proofs" / "seed0-rigid-restart-jct_mean.json"
    for more, told in ((of_rigid, "rigid"), (("--check", file), "of rigid jobs")):
        exit_code, out, _ = run(*asked, *more)
        assert (exit_code, told in out) == (0, True)
    changed = json.loads(file.read_text()) | {"job_class": "elastic"}
    file.write_text(json.dumps(changed))
    (checked,) = json.loads(run(*asked, "--check", file, "--format=json")[1])
    assert checked["proved_mean_s"] != changed["value_s"]


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
    shown: list[float] = []

    @contextmanager
    def progress(*_words, begun):
        yield
        shown.append(begun())

    monkeypatch.setattr("lyra_opt.commands.progress.progress", progress)
    assert main(["bound", "lyra-paper", *SMALL]) == 0
    assert shown == [100.0]
    told: list[float] = []
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

"""``lyra-opt bound`` and ``lo.bound`` prove the same bounds, and report bad input in one line."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pandas as pd
import pytest

import lyra_opt as lo
from lyra_opt.__main__ import main
from lyra_opt.core.run_progress import listening
from lyra_opt.simulation.workload import Job, Workload
from tests.tables import tables

TABLES = tables(__file__)

SMALL = ("--set", "cluster.servers=4", "--set", "jobs.parameters.days=1")
CHANGES = {"cluster.servers": 4, "jobs.parameters.days": 1}


TRACE = """\
job_id,submit_time_s,gpus,duration_s
first,0,8,3600
second,60,8,600
third,120,4,600
"""


def test_a_trace_is_bounded_by_both_readings(tmp_path, capsys):
    """The JSON has all keys; by hand, the second job waits for the first on one server."""
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    code = main(["bound", "plain", "--jobs", str(trace), "--set", "cluster.servers=1", "--json"])
    assert code == 0
    found = json.loads(capsys.readouterr().out)
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


def test_a_schedule_says_how_good_the_bound_is(tmp_path, capsys):
    """The schedule found is the best order by hand of three jobs on one server."""
    trace = tmp_path / "trace.csv"
    trace.write_text(TRACE)
    asked = ["bound", "plain", "--jobs", str(trace), "--set", "cluster.servers=1", "--schedule"]
    assert main([*asked, "--reading", "restart", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    # The long one waits for both others: 600, 1,140 and 4,860 s. In turn: 3,600, 4,140, 4,680 s.
    best_s, in_turn_s = (600 + 1140 + 4860) / 3, (3600 + 4140 + 4680) / 3
    assert best_s * (1 - 1e-9) <= found["jct_mean_found_s"] < in_turn_s
    assert found["jct_mean_bound_s"] <= best_s
    share = found["jct_mean_found_s"] / found["jct_mean_bound_s"] - 1
    assert found["found_above_bound_share"] == pytest.approx(share)
    assert main(asked) == 0
    assert "mean JCT found (s)" in capsys.readouterr().out


def test_saved_prices_can_be_checked_and_lies_are_told(tmp_path, capsys):
    """The exit code is 1 if the prices prove less than the file claims."""
    folder = tmp_path / "proofs"
    assert main(["bound", "lyra-paper", *SMALL, "--save", str(folder)]) == 0
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [
        f"seed0-{reading}-{objective}_mean.json"
        for reading in ("conserved", "restart")
        for objective in ("jct", "queue")
    ]
    checks = [part for file in files for part in ("--check", str(file))]
    capsys.readouterr()
    assert main(["bound", "lyra-paper", *SMALL, *checks, "--json"]) == 0
    assert all(each["holds"] for each in json.loads(capsys.readouterr().out))
    lie = json.loads(files[0].read_text())
    lie["value_s"] *= 1.01
    files[0].write_text(json.dumps(lie))
    assert main(["bound", "lyra-paper", *SMALL, "--check", str(files[0])]) == 1
    assert "LESS than the file claims" in capsys.readouterr().out
    assert main(["bound", "lyra-paper", *SMALL, "--set", "seeds=2", *checks]) == 2
    assert "several variants or seeds" in capsys.readouterr().err
    other = tmp_path / "other.json"
    other.write_text('{"format": "lyra-opt/fleet", "version": 1}')
    assert main(["bound", "lyra-paper", *SMALL, "--check", str(other)]) == 2
    assert 'must be "lyra-opt/cluster-bound"' in capsys.readouterr().err


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


def test_prices_of_a_class_are_checked_for_that_class(tmp_path, capsys):
    """A proof for one class of jobs proves nothing for another class."""
    asked = ["bound", "lyra-paper", *SMALL, "--set", "jobs.assumptions.elastic_percent=50"]
    of_rigid = [*asked, "--of", "rigid", "--reading", "restart"]
    assert main([*of_rigid, "--save", str(tmp_path / "proofs")]) == 0
    assert "rigid" in capsys.readouterr().out
    file = tmp_path / "proofs" / "seed0-rigid-restart-jct_mean.json"
    assert main([*asked, "--check", str(file)]) == 0
    assert "of rigid jobs" in capsys.readouterr().out
    changed = json.loads(file.read_text()) | {"job_class": "elastic"}
    file.write_text(json.dumps(changed))
    main([*asked, "--check", str(file), "--json"])
    (checked,) = json.loads(capsys.readouterr().out)
    assert checked["proved_mean_s"] != changed["value_s"]


def test_python_and_the_command_line_prove_the_same(capsys):
    """Both give the bound with which a run is compared."""
    assert main(["bound", "lyra-paper", *SMALL, "--reading", "restart", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    runs = lo.simulate("lyra-paper", schemes=["lyra"], changes={**CHANGES, "bounds": True})
    for found in (
        lo.bound(runs, readings="restart"),
        lo.bound("lyra-paper", readings=["restart"], changes=CHANGES),
    ):
        assert isinstance(found, pd.DataFrame)
        (row,) = found.to_dict("records")
        assert {key: row[key] for key in row if key != "cpu_s"} == {
            key: told[key] for key in told if key != "cpu_s"
        }
    (measured,) = runs.summary.to_dict("records")
    assert measured["jct_mean_bound_s"] == told["jct_mean_bound_s"]
    assert measured["jct_mean_s"] >= told["jct_mean_bound_s"]


def test_people_get_a_table(capsys):
    """The printed table is followed by the conditions of the bound."""
    assert main(["bound", "lyra-paper", *SMALL, "--seed", "0", "--seed", "1"]) == 0
    captured = capsys.readouterr()
    assert captured.out.count("restart") == captured.out.count("conserved") == 2
    assert "whatever it knows" in captured.out
    assert "proved in" in captured.err


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


@pytest.mark.parametrize(("arguments", "told"), TABLES["bad_input"])
def test_bad_input_is_told_in_one_line(arguments, told, capsys):
    """The exit code is 2."""
    try:
        code = main(arguments.replace("SMALL", " ".join(SMALL)).split())
    except SystemExit as error:
        code = int(error.code or 0)
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert told in captured.err
    assert captured.err.count("\n") == 1


def test_runs_have_jobs_of_their_own():
    """Bounds of finished runs accept no changes of the scenario."""
    runs = lo.simulate("lyra-paper", schemes=["fifo"], changes=CHANGES)
    with pytest.raises(lo.UserError, match="changes .* must be left out"):
        lo.bound(runs, changes={"cluster.servers": 5})
    with pytest.raises(lo.UserError, match="readings strict: must be of|readings is"):
        lo.bound(runs, readings=["strict"])

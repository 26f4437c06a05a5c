"""Frames of runs: a row a run of any kind, axes and figures as columns, no number rounded."""

import math

import pytest

from lyra_opt.core.result import Status
from lyra_opt.experiments.frames import frame_of, load_study
from lyra_opt.experiments.store import ResultStore
from tests.experiments.records import make_replay, make_run, make_runs, make_study
from tests.tables import tables

TABLES = tables(__file__)


def test_stored_runs_are_rows(tmp_path):
    with ResultStore.create(tmp_path, make_study(2)) as store:
        store.add(make_run("c", "t", Status.ERROR, position=1, message="no"))
        store.add(make_run("c", "s", Status.OPTIMAL, objective=3, counters={"nodes": 7}))
    runs = load_study(str(tmp_path))
    assert list(runs.configuration) == ["s", "t"]
    assert list(runs.status) == ["optimal", "error"]
    assert list(runs.servers) == [10, 10]
    assert runs.objective[0] == 3
    assert math.isnan(runs.objective[1])
    assert runs.wall_time_s.dtype == float
    assert runs.started_at.dt.year.eq(2024).all()
    assert runs.nodes[0] == 7
    assert runs.versions[0] == {"python": "3.11.0"}
    assert not {"axes", "counters", "tables"} & set(runs)


def test_what_runs_prove_together(tmp_path):
    """A reader of gaps needs the optimum beside each run, and a bound where there is none."""
    with ResultStore.create(tmp_path, make_study(5)) as store:
        for run in make_runs(TABLES["runs"]):
            store.add(run)
    frame = load_study(tmp_path)
    for column, values in TABLES["proved"].items():
        assert list(frame[column]) == pytest.approx(values, nan_ok=True), column


def test_names_that_clash_are_prefixed():
    """An axis of the same name as a column must not hide it."""
    run = make_replay(
        0, axes={"seed": 9, "load": 0.5}, figures={"load": 1.0, "jobs": 2, "usage": {"K80": 0.25}}
    )
    runs = frame_of([run])
    assert (runs.seed[0], runs.axis_seed[0]) == (0, 9)
    assert (runs.load[0], runs.figure_load[0]) == (0.5, 1.0)
    assert (runs.jobs[0], runs["usage.K80"][0]) == (2, 0.25)
    assert runs.attrs["axes"] == ["axis_seed", "load"]
    assert {"figure_load", "usage.K80", "wall_time_s"} <= set(runs.attrs["measures"])


def test_what_is_said_twice_is_one_column():
    runs = frame_of(
        [make_replay(seed, axes={"scheme": "fifo"}, figures={"seed": seed}) for seed in (3, 4)]
    )
    assert runs.attrs["axes"] == ["scheme"]
    assert not {"axis_scheme", "figure_seed"} & set(runs)
    assert "seed" not in runs.attrs["measures"]


@pytest.mark.parametrize("value", [2**53 + 1, 2**80, -(2**63)])
def test_large_integers_are_not_rounded(value):
    rows = [("c", "s", "feasible", {"objective": value}), ("c", "t", "unknown")]
    runs = frame_of(make_runs(rows))
    assert runs.objective[0] == value
    assert runs.objective[1] is None

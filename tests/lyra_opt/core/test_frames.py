"""Instances to and from data frames."""

import doctest
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.core import problem as problem_module
from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import keys_of
from lyra_opt.core.problem import find_problem, problems
from lyra_opt.testing import strategies
from tests.tables import tables

TABLES = tables(__file__)
EVERY_PROBLEM = pytest.mark.parametrize("name", problems())


def others_of(instance):
    """Return the fields that have no frame, by name."""
    found = {each.name: getattr(instance, each.name) for each in keys_of(type(instance))}
    frames = instance.to_frames()
    return {name: value for name, value in found.items() if name not in frames}


@EVERY_PROBLEM
@given(data=st.data())
@settings(suppress_health_check=list(HealthCheck))
def test_frames_make_the_same_instance(name, data):
    """All fields of it, whatever they are; columns in any order."""
    instance = data.draw(getattr(strategies, f"{name}_instances")())
    frames = instance.to_frames()
    others = others_of(instance)
    made = find_problem(name).instance_class.from_frames(**frames, **others)
    assert made == instance
    shuffled = {
        key: frame[data.draw(st.permutations(list(frame.columns)))] for key, frame in frames.items()
    }
    assert type(instance).from_frames(**shuffled, **others) == instance
    for key, frame in frames.items():
        if hasattr(instance, key):
            assert len(frame) == len(getattr(instance, key))


@given(instance=strategies.reclaim_instances())
def test_frames_go_through_csv(instance):
    """As any table does; workers have one of their own."""
    read = {
        key: pd.read_csv(
            io.StringIO(frame.to_csv(index=False)),
            dtype={"id": str, "job": str, "server": str},
            keep_default_na=False,
        )
        for key, frame in instance.to_frames().items()
    }
    assert list(read) == ["servers", "jobs", "workers"]
    assert lo.reclaim.Instance.from_frames(**read, **others_of(instance)) == instance


def frames():
    """Return three frames of a fleet."""
    return {
        "servers": pd.DataFrame({"id": ["a", "b", "c"], "gpus": [8, 8, 4]}),
        "jobs": pd.DataFrame({"id": ["x", "y"], "weight": [3, 4]}),
        "workers": pd.DataFrame(
            {"job": ["y", "x", "y"], "server": ["a", "b", "c"], "base": [1, 2, 1]}
        ),
    }


def test_missing_cells_are_defaults():
    """NaN, None and NA; whole floats are the integers that pandas has made floats of."""
    given_as = frames()
    given_as["servers"] = given_as["servers"].assign(on_loan=[True, None, pd.NA])
    given_as["jobs"] = given_as["jobs"].assign(weight=[np.nan, 4.0], min_workers=[2, pd.NA])
    fleet = lo.reclaim.Instance.from_frames(**given_as, reclaim_servers=1)
    assert [server.on_loan for server in fleet.servers] == [True] * 3
    assert [(job.weight, job.min_workers) for job in fleet.jobs] == [(1, 2), (4, 2)]
    assert [type(job.weight) for job in fleet.jobs] == [int, int]
    assert [group.server for group in fleet.jobs[1].workers] == ["a", "c"]


def test_names_of_rows_may_be_the_index():
    """As `set_index` makes it."""
    indexed = {key: frame.set_index(frame.columns[0]) for key, frame in frames().items()}
    fleet = lo.reclaim.Instance.from_frames(**indexed, reclaim_servers=1)
    assert fleet == lo.reclaim.Instance.from_frames(**frames(), reclaim_servers=1)


def test_constructors_take_frames_and_columns_hold_lists():
    """A frame is a list of its rows wherever one is asked for."""
    workers = [[{"server": "a", "base": 1}], [lo.reclaim.WorkerGroup(server="b", base=2)]]
    fleet = lo.reclaim.Instance(
        servers=frames()["servers"],
        jobs=frames()["jobs"].assign(workers=workers),
        reclaim_servers=1,
    )
    assert [job.workers[0].server for job in fleet.jobs] == ["a", "b"]


def test_entries_of_mappings_may_be_columns():
    """One column a GPU type; what is missing has no entry."""
    servers = pd.DataFrame({"id": ["a", "b"], "gpus.V100": [4, None], "gpus.K80": [None, 8]})
    jobs = pd.DataFrame({"id": ["j"], "gang": [1], "steps": [10.0], "throughput.V100": [2]})
    cluster = lo.heterogeneous.Instance.from_frames(
        gpu_types=[{"name": "V100"}, {"name": "K80"}], servers=servers, jobs=jobs
    )
    assert [server.gpus for server in cluster.servers] == [{"V100": 4}, {"K80": 8}]
    assert cluster.jobs[0].throughput == {"V100": 2.0}


@pytest.mark.parametrize(("frame", "row", "column", "value", "message"), TABLES["wrong_cells"])
def test_errors_name_frame_row_and_column(frame, row, column, value, message):
    """Of the frame in which the fault is."""
    given_as = frames()
    changed = given_as[frame].astype(object)
    changed.loc[row, column] = None if value == "null" else value
    with pytest.raises(FieldError, match=f"^{re.escape(message)}"):
        lo.reclaim.Instance.from_frames(**given_as | {frame: changed}, reclaim_servers=1)


def test_two_columns_of_one_name_are_refused():
    """Nobody knows which is meant."""
    twice = {"servers": frames()["servers"][["id", "gpus", "gpus"]]}
    with pytest.raises(FieldError, match='^gpus is "gpus": two columns have this name'):
        lo.reclaim.Instance.from_frames(**frames() | twice, reclaim_servers=1)


def test_null_that_is_no_default_is_infinite():
    """Dally's timers are 0 where nobody says, and null for ever."""
    columns = {"id": ["j"], "gang": [1], "efficiency": [{"machine": 1.0}]}
    machines = [{"id": "m", "rack": "r", "gpus": 1, "free_gpus": 1}]
    jobs = pd.DataFrame({**columns, "rack_timer_s": [np.inf], "network_timer_s": [np.nan]})
    made = lo.network.Instance.from_frames(machines=machines, jobs=jobs)
    assert (made.jobs[0].rack_timer_s, made.jobs[0].network_timer_s) == (None, 0.0)
    assert made.to_frames()["jobs"].rack_timer_s[0] == np.inf


def test_examples_are_what_happens(capsys):
    """Those of the page of formats and of the docstring."""
    page = (Path(__file__).parents[3] / "docs/formats/python.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    exec(compile(example, "python.md", "exec"), {})
    assert capsys.readouterr().out.strip() == example.splitlines()[-1].removeprefix("# ")
    examples = doctest.testmod(problem_module)
    assert examples.attempted > 0 == examples.failed

"""The README's files and schema: the ones are valid, the other is the one that is shipped."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import formulations.network
from instances.schemas import load_schema
from lyra_opt.core.errors import FieldError
from lyra_opt.core.result import Status
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.network.links import LINK_SETS
from lyra_opt.network.problem import PROBLEM
from lyra_opt.simulation.network.class_timers import read_timers
from lyra_opt.simulation.network.communication import read_slowdowns
from lyra_opt.simulation.network.topology import read_topology
from lyra_opt.testing.strategies import network_instances, network_solutions_of

README = (Path(formulations.network.__path__[0]) / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


EXAMPLE, SOLVED, SCHEMA = (json.loads(block) for block in blocks("json"))
INSTANCE = Draft202012Validator(SCHEMA)
SOLUTION = Draft202012Validator(load_schema("network-placement-solution"))


def test_the_schema_is_the_one_that_is_shipped() -> None:
    """Two copies, one content; both are schemas."""
    assert load_schema("network-placement") == SCHEMA
    Draft202012Validator.check_schema(SCHEMA)
    Draft202012Validator.check_schema(load_schema("network-placement-solution"))


def test_the_example_is_solved() -> None:
    """It parses, and the solution that is shown is as good as any."""
    INSTANCE.validate(EXAMPLE)
    SOLUTION.validate(SOLVED)
    instance = PROBLEM.parse_instance(EXAMPLE)
    answer = solve_and_check(PROBLEM, instance, find_solver("network", "cpsat"))
    assert answer.status is Status.OPTIMAL
    shown, claims = PROBLEM.parse_solution(SOLVED)
    assert claims == {"instance": instance.name}
    assert PROBLEM.check(instance, shown).objective == answer.objective
    SOLUTION.validate(PROBLEM.solution_document(instance, answer.solution, answer.objective))


def test_the_other_files_are_read(tmp_path: Path) -> None:
    """The topology, the timers and the slowdowns."""
    toml, timers = blocks("toml")
    table, _ = blocks("csv")
    (tmp_path / "topology.toml").write_text(toml)
    (tmp_path / "slowdowns.csv").write_text(table)
    topology, links = read_topology(tmp_path / "topology.toml")
    assert (len(topology.racks), topology.gpus) == (4, 3 * 64 + 16)
    (tmp_path / "timers.toml").write_text(timers)
    assert [each.rack_leases for each in read_timers(tmp_path / "timers.toml").classes] == [6, 0]
    assert links.rack == LINK_SETS["congested-2"].rack
    assert links.network.bandwidth_gb_per_s == 25.0
    assert list(read_slowdowns(tmp_path / "slowdowns.csv").models()) == ["mine"]


def test_the_trace_runs_with_the_slowdowns(run: Any, tmp_path: Path) -> None:
    """Models of one's own reach a simulation: named by a job, and drawn where none is."""
    for name, text in zip(("slowdowns.csv", "trace.csv"), blocks("csv"), strict=True):
        (tmp_path / name).write_text(text)
    (tmp_path / "topology.toml").write_text(blocks("toml")[0])
    network = [
        part
        for key, name in (("topology", "topology.toml"), ("slowdowns", "slowdowns.csv"))
        for part in ("--set", f"cluster.network.{key}={tmp_path / name}")
    ]
    given = ("simulate", "plain", *network, "--jobs", tmp_path / "trace.csv", "--processes", 1)
    code, _, err = run(*given, "--scheme", "dally", "--out", tmp_path / "out")
    assert code == 0, err
    jobs = pd.read_csv(tmp_path / "out" / "runs" / "dally seed=0" / "jobs.csv.gz")
    assert [*jobs.model] == ["mine"] * 3


@given(network_instances())
@settings(max_examples=40)
def test_drawn_instances_pass(instance: Any) -> None:
    """What the parser writes, the schema takes."""
    INSTANCE.validate(json.loads(json.dumps(PROBLEM.instance_document(instance))))


@given(st.data())
@settings(max_examples=40)
def test_drawn_solutions_pass(data: st.DataObject) -> None:
    """Solutions too."""
    instance = data.draw(network_instances())
    solution = data.draw(network_solutions_of(instance))
    SOLUTION.validate(PROBLEM.solution_document(instance, solution, 0.0))


DEFECTS: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "other_format": (("format",), "lyra-opt/reclaim"),
    "other_version": (("version",), 2),
    "empty_name": (("name",), ""),
    "unknown_objective": (("objective",), "speed"),
    "unknown_key": (("racks",), 2),
    "waiting_weight": (("waiting_weight_per_s",), 1.5),
    "no_machines": (("machines",), []),
    "machines": (("machines",), {}),
    "machine_key": (("machines", 0, "cpus"), 1),
    "machine_gpus": (("machines", 0, "gpus"), 0),
    "machine_gpus_huge": (("machines", 0, "gpus"), 1_000_001),
    "machine_free": (("machines", 0, "free_gpus"), -1),
    "machine_rack": (("machines", 0, "rack"), 0),
    "affinity": (("machines", 1, "affinity"), 0),
    "no_jobs": (("jobs",), []),
    "job_key": (("jobs", 0, "gpus"), 1),
    "gang": (("jobs", 0, "gang"), 0),
    "gang_huge": (("jobs", 0, "gang"), 1_000_001),
    "no_tier": (("jobs", 0, "efficiency"), {}),
    "efficiency_list": (("jobs", 0, "efficiency"), [1]),
    "unknown_tier": (("jobs", 0, "efficiency", "pod"), 1),
    "efficiency_0": (("jobs", 0, "efficiency", "rack"), 0),
    "efficiency_above_1": (("jobs", 0, "efficiency", "rack"), 1.5),
    "score": (("jobs", 0, "score"), -0.5),
    "waiting": (("jobs", 0, "waiting_s"), 1e13),
    "timer": (("jobs", 0, "rack_timer_s"), -1),
    "timer_text": (("jobs", 0, "network_timer_s"), "never"),
    "weight": (("jobs", 0, "weight"), 0),
    "remaining": (("jobs", 0, "remaining_s"), 0),
    "attained": (("jobs", 0, "attained_gpu_s"), None),
    "consolidation": (("jobs", 0, "needs_consolidation"), 1),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_defects_are_refused_by_schema_and_parser(defect: str) -> None:
    """Both, so that neither promises what the other does not keep."""
    path, value = DEFECTS[defect]
    changed = copy.deepcopy(EXAMPLE)
    target = changed
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    assert not INSTANCE.is_valid(changed)
    with pytest.raises(FieldError):
        PROBLEM.parse_instance(changed)

"""The README's files are valid, and its instance is solved."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd

import lyra_opt.formulations.network
from lyra_opt.core.result import Status
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.network.links import LINK_SETS
from lyra_opt.network.problem import PROBLEM
from lyra_opt.simulation.class_timers import read_timers
from lyra_opt.simulation.communication import read_slowdowns
from lyra_opt.simulation.topology import read_topology

README = (Path(lyra_opt.formulations.network.__path__[0]) / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


EXAMPLE, SOLVED = (json.loads(block) for block in blocks("json"))


def test_the_example_is_solved():
    """It parses, and the solution that is shown is as good as any."""
    instance = PROBLEM.parse_instance(EXAMPLE)
    answer = solve_and_check(PROBLEM, instance, find_solver("network", "cpsat"))
    assert answer.status is Status.OPTIMAL
    shown, claims = PROBLEM.parse_solution(SOLVED)
    assert claims == {"instance": instance.name}
    assert PROBLEM.check(instance, shown).objective == answer.objective


def test_the_other_files_are_read(tmp_path):
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


def test_the_trace_runs_with_the_slowdowns(run, tmp_path):
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

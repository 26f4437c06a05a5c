"""The files that READMEs show are valid, and their instances are solved."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

import lyra_opt as lo
import lyra_opt.formulations
from lyra_opt.core.problem import find_problem
from lyra_opt.network.links import LINK_SETS
from lyra_opt.simulation.class_timers import read_timers
from lyra_opt.simulation.communication import read_slowdowns
from lyra_opt.simulation.topology import read_topology

FOLDER = Path(lyra_opt.formulations.__path__[0])


def blocks(problem, language):
    """Return the fenced blocks of one language in the README of a problem."""
    text = (FOLDER / problem / "README.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("name", ["heterogeneous", "network"])
def test_the_example_is_solved(name):
    """It parses, and a solution that is shown is as good as any."""
    problem, (example, *solved) = find_problem(name), map(json.loads, blocks(name, "json"))
    instance = problem.parse_instance(example)
    answer = lo.solve(instance, "cpsat")
    assert answer.status is lo.Status.OPTIMAL
    assert len(solved) == (name == "network")
    for each in solved:
        shown, claims = problem.parse_solution(each)
        assert claims == {"instance": instance.name}
        assert problem.check(instance, shown).objective == answer.objective


@pytest.fixture
def files(tmp_path):
    """Return a folder with the files that the README of the network problem shows."""
    names = "topology.toml", "timers.toml", "slowdowns.csv", "trace.csv"
    texts = blocks("network", "toml") + blocks("network", "csv")
    for name, text in zip(names, texts, strict=True):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_other_files_are_read(files):
    """The topology, the timers and the slowdowns."""
    topology, links = read_topology(files / "topology.toml")
    assert (len(topology.racks), topology.gpus) == (4, 3 * 64 + 16)
    assert [each.rack_leases for each in read_timers(files / "timers.toml").classes] == [6, 0]
    assert links.rack == LINK_SETS["congested-2"].rack
    assert links.network.bandwidth_gb_per_s == 25.0
    assert list(read_slowdowns(files / "slowdowns.csv").models()) == ["mine"]


def test_the_trace_runs_with_the_slowdowns(run, files):
    """Models of one's own reach a simulation: named by a job, and drawn where none is."""
    network = [
        part
        for key in ("topology.toml", "slowdowns.csv")
        for part in ("--set", f"cluster.network.{key.partition('.')[0]}={files / key}")
    ]
    given = ("simulate", "plain", *network, "--jobs", files / "trace.csv", "--processes", 1)
    code, _, err = run(*given, "--scheme", "dally", "--out", files / "out")
    assert code == 0, err
    jobs = pd.read_csv(files / "out" / "runs" / "dally seed=0" / "jobs.csv.gz")
    assert [*jobs.model] == ["mine"] * 3

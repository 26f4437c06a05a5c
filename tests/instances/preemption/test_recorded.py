"""Recorded decisions are valid, and the imitations agree with them as often as the table states."""

import json
import os
from dataclasses import replace

import pytest

from lyra_opt.core.errors import InputError, UserError
from lyra_opt.core.loading import instance_text
from lyra_opt.core.result import Status
from lyra_opt.front_door.solving import solve
from lyra_opt.instances.family import generate
from lyra_opt.instances.preemption.recorded import (
    RECORDINGS,
    agreement,
    read_decisions,
    recorded_decisions,
)
from lyra_opt.instances.preemption.recorded.__main__ import RULES, main
from lyra_opt.instances.preemption.recorded.real_program import RealProgram
from lyra_opt.instances.preemption.recording import cases, kubernetes, slurm
from lyra_opt.preemption import PROBLEM, check
from tests.tables import tables

STATED = tables(__file__)
SEEDS = range(STATED.pop("seeds"))
LEAST_SHARE = 0.8


@pytest.mark.parametrize("recording", RECORDINGS)
def test_recorded_victims_and_places_are_valid(recording):
    decisions = recorded_decisions(recording)
    assert len(decisions) == STATED[recording]["cases"]
    for decision in decisions:
        assert decision.solver == STATED[recording]["solver"]
        report = check(decision.instance, decision.solution)
        assert not report.violations
        assert report.unplaced_pods == 0
        assert report.objective == report.lost_resources["gpu"] > 0


@pytest.mark.parametrize("recording", RECORDINGS)
def test_imitations_agree_as_often_as_stated(recording):
    stated = STATED[recording]
    found = agreement(RULES[stated["solver"]], recorded_decisions(recording), SEEDS)
    assert found.runs == len(SEEDS) * stated["cases"]
    assert (found.same_victims, found.same_cost) == (stated["same_victims"], stated["same_cost"])
    assert found.same_cost >= LEAST_SHARE * found.runs


def test_another_rule_does_not_agree():
    # or else the comparison would show nothing
    found = agreement(RULES["kube-gang"], recorded_decisions("kube-pods"), range(1))
    assert found.same_cost < 0.6 * found.runs
    assert sum(found.different.values()) == found.runs - found.same_cost


@pytest.mark.parametrize("recording", RECORDINGS)
def test_studies_have_the_recorded_clusters_and_decisions(recording):
    """A study of family ``recorded`` gets the victims of the program on exactly its clusters."""
    decisions = recorded_decisions(recording)
    for seed in (0, len(decisions) - 1):
        instance = generate("preemption", "recorded", recording=recording, seed=seed)
        assert instance == decisions[seed].instance
        assert solve(instance, RealProgram).solution == decisions[seed].solution
    with pytest.raises(UserError, match=f"has {len(decisions)} decisions, with seeds from 0 to"):
        generate("preemption", "recorded", recording=recording, seed=len(decisions))


def test_other_clusters_have_no_recorded_decision():
    instance = recorded_decisions("slurm")[0].instance
    for other in (replace(instance, name="new"), replace(instance, gangs=instance.gangs[1:])):
        assert solve(other, RealProgram).status is Status.UNSUPPORTED


def line_of(decision, **changes):
    document = json.loads(instance_text(PROBLEM, decision.instance))
    decided = {"solver": "slurm", "lost": {}, "on": [], "started": True}
    return json.dumps({"instance": document, "decision": decided | changes})


def test_files_of_decisions_are_read(tmp_path, capsys):
    decision = recorded_decisions("slurm")[0]
    (gang,) = decision.solution.lost_gangs
    path, lines = tmp_path / "own.jsonl", ['{"program": "slurm-wlm"}']
    lines += [line_of(decision, started=False), line_of(decision, lost={gang: [0]}, on=["n007"])]
    path.write_text("\n".join(lines))
    (found,) = read_decisions(path)
    assert found.solution == decision.solution
    main([str(path)])
    assert "slurm: 1 cases, 20 comparisons: same victims in 100.0%" in capsys.readouterr().out


@pytest.mark.parametrize(("line", "message"), STATED["bad_lines"])
def test_lines_that_are_no_decisions_are_refused(write, line, message):
    path = write(line, "bad.jsonl")
    with pytest.raises(InputError, match=message):
        read_decisions(path)


def test_a_missing_program_is_named(monkeypatch):
    monkeypatch.setenv(slurm.FOLDERS, "/nowhere")
    with pytest.raises(UserError, match="LYRA_OPT_SLURM is '/nowhere', where slurmctld is missing"):
        cases.environment_with(slurm.FOLDERS, slurm.PROGRAMS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "recording", "options"),
    [(slurm, "slurm", []), (kubernetes, "kube-gang", ["--gangs"]), (kubernetes, "kube-pods", [])],
)
def test_real_programs_decide_again_as_recorded(monkeypatch, tmp_path, script, recording, options):
    if script.FOLDERS not in os.environ:
        pytest.skip(f"{script.FOLDERS} does not name the folders of {script.PROGRAMS}")
    decisions = recorded_decisions(recording)[:2]
    for position, decision in enumerate(decisions):
        (tmp_path / f"{position}.json").write_text(instance_text(PROBLEM, decision.instance))
    files = [str(tmp_path / name) for name in ("out.jsonl.gz", "0.json", "1.json")]
    monkeypatch.setattr("sys.argv", ["record", *files, *options])
    cases.main(script.record)
    found = read_decisions(tmp_path / "out.jsonl.gz")
    assert [each.solver for each in found] == [recording] * 2
    for again, decision in zip(found, decisions, strict=True):
        assert again.solution.lost_gangs == decision.solution.lost_gangs

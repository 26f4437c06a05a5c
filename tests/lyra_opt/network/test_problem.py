"""Files of the problem: what they hold comes back, and what is wrong in one is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.__main__ import main
from lyra_opt.core.documents import format_document
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.loading import content_hash, load_instance, load_solution
from lyra_opt.core.problem import find_problem
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.network.instance import COUNTING_OBJECTIVES, Machine, NetworkInstance, Objective
from lyra_opt.network.problem import PROBLEM
from lyra_opt.testing.strategies import network_instances, network_solutions_of
from tests.lyra_opt.network.examples import MACHINES, instance, job, placement, solution

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def document(objective: str = "epoch") -> dict[str, Any]:
    """Return a document with everything in it."""
    full = instance(
        job(
            "a",
            4,
            score=0.25,
            waiting_s=60.0,
            rack_timer_s=30.0,
            network_timer_s=None,
            weight=2.0,
            remaining_s=100.0,
            attained_gpu_s=5.0,
            needs_consolidation=False,
        ),
        job("b", 1),
        objective=objective,
        machines=(*MACHINES, Machine(id="kept", rack="r2", gpus=8, free_gpus=8, affinity=4)),
        waiting_weight_per_s=1e-5,
    )
    return json.loads(format_document(PROBLEM.instance_document(full)))


def test_it_is_registered_with_a_default_solver() -> None:
    """Under the name that the command line knows, for every objective."""
    assert find_problem("network") is PROBLEM
    for objective in Objective:
        name = PROBLEM.default_solver_of(str(objective))
        assert ("network", name) in solver_names()
        assert str(objective) in find_solver("network", name).variants


def test_every_objective_is_maximised() -> None:
    """Those that count are proved exactly."""
    for objective in Objective:
        assert objective.sense == "max"
        assert (objective.proof_gap < 1e-6) == (objective in COUNTING_OBJECTIVES)


@given(network_instances())
def test_instance_comes_back_from_its_file(drawn: NetworkInstance) -> None:
    """Through JSON text, every field."""
    text = format_document(PROBLEM.instance_document(drawn))
    assert PROBLEM.parse_instance(json.loads(text)) == drawn


@given(st.data())
def test_solution_comes_back_from_its_file(data: st.DataObject) -> None:
    """With its claim, jobs in file order."""
    drawn = data.draw(network_instances())
    found = data.draw(network_solutions_of(drawn))
    text = format_document(PROBLEM.solution_document(drawn, found, 1.5))
    parsed, claims = PROBLEM.parse_solution(json.loads(text))
    assert claims == {"instance": "drawn", "objective": 1.5}
    assert PROBLEM.check(drawn, parsed) == PROBLEM.check(drawn, found)
    assert {entry.job: entry for entry in parsed.placements} == {
        entry.job: entry for entry in found.placements
    }
    positions = [drawn.job_position[entry.job] for entry in parsed.placements]
    assert positions == sorted(positions)


def test_defaults_and_integers_are_the_same_content() -> None:
    """1 and 1.0 are one instance, and so are defaults that are written out."""
    plain = {**document(), "jobs": [{"id": "a", "gang": 2, "efficiency": {"machine": 1}}]}
    written = {
        **plain,
        "jobs": [
            {
                **plain["jobs"][0],
                "efficiency": {"machine": 1.0},
                "score": 0,
                "rack_timer_s": 0,
                "weight": 1,
                "needs_consolidation": True,
            }
        ],
    }
    first, second = PROBLEM.parse_instance(plain), PROBLEM.parse_instance(written)
    assert content_hash(PROBLEM, first) == content_hash(PROBLEM, second)


def test_order_of_an_answer() -> None:
    """Jobs and machines as in the file."""
    one = instance(job("a"), job("b"))
    mixed = solution(placement("b", "rack", r0m1=1, r0m0=1), placement("a", "machine", r1m0=2))
    shown = PROBLEM.answer(one, mixed)["placements"]
    assert [entry["job"] for entry in shown] == ["a", "b"]
    assert list(shown[1]["gpus"]) == ["r0m0", "r0m1"]


def _put(*path: str | int, value: Any) -> Callable[[Any], None]:
    def change(target: Any) -> None:
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value

    return change


def _drop(*path: str | int) -> Callable[[Any], None]:
    def change(target: Any) -> None:
        for step in path[:-1]:
            target = target[step]
        del target[path[-1]]

    return change


JOB, MACHINE = ("jobs", 0), ("machines", 0)
DEFECTS: dict[str, tuple[Callable[[Any], None], str]] = {
    "version": (_put("version", value=2), "version is 2: must be 1"),
    "objective": (_put("objective", value="speed"), 'objective is "speed": must be one of: epoch'),
    "objective_number": (_put("objective", value=1), "objective is 1: must be one of"),
    "unknown_key": (_put("gpus", value=1), "gpus is 1: unknown key"),
    "name_missing": (_drop("name"), "name is missing"),
    "waiting_weight": (
        _put("waiting_weight_per_s", value="x"),
        'waiting_weight_per_s is "x": must be a finite number of at least 0',
    ),
    "no_machines": (_put("machines", value=[]), "machines is []: must have at least one entry"),
    "machines_object": (_put("machines", value={}), "machines is {}: must be a list"),
    "machine_text": (_put(*MACHINE, value="m"), 'machines[0] is "m": must be an object'),
    "machine_key": (_put(*MACHINE, "cpus", value=1), "machines[0].cpus is 1: unknown key"),
    "machine_rack_missing": (_drop(*MACHINE, "rack"), "machines[0].rack is missing"),
    "machine_rack_number": (_put(*MACHINE, "rack", value=0), "machines[0].rack is 0: must be a st"),
    "machine_twice": (_put("machines", 1, "id", value="r0m0"), 'machines[1].id is "r0m0": must be'),
    "machine_gpus_decimal": (
        _put(*MACHINE, "gpus", value=4.0),
        "machines[0].gpus is 4.0: must be an integer of at least 1",
    ),
    "machine_free_missing": (_drop(*MACHINE, "free_gpus"), "machines[0].free_gpus is missing"),
    "machine_free_above": (
        _put(*MACHINE, "free_gpus", value=5),
        "machines[0].free_gpus is 5: must be at most the machine's gpus, 4",
    ),
    "machine_affinity": (
        _put(*MACHINE, "affinity", value=0),
        "machines[0].affinity is 0: must be an integer of at least 1",
    ),
    "machines_too_large": (
        _put("machines", 1, "gpus", value=10**6),
        "machines[1].gpus is 1000000: all machines up to this one must have at most 1000000 GPUs",
    ),
    "jobs_null": (_put("jobs", value=None), "jobs is null: must be a list"),
    "job_null": (_put(*JOB, value=None), "jobs[0] is null: must be an object"),
    "job_key": (_put(*JOB, "gpus", value=1), "jobs[0].gpus is 1: unknown key"),
    "job_twice": (_put("jobs", 1, "id", value="a"), 'jobs[1].id is "a": must be unique'),
    "gang_missing": (_drop(*JOB, "gang"), "jobs[0].gang is missing"),
    "gang_true": (_put(*JOB, "gang", value=True), "jobs[0].gang is true: must be an integer"),
    "gang_huge": (_put(*JOB, "gang", value=10**7), "jobs[0].gang is 10000000: must be at most"),
    "efficiency_missing": (_drop(*JOB, "efficiency"), "jobs[0].efficiency is missing"),
    "efficiency_list": (
        _put(*JOB, "efficiency", value=[1]),
        "jobs[0].efficiency is a list of 1: must be an object",
    ),
    "efficiency_empty": (
        _put(*JOB, "efficiency", value={}),
        "jobs[0].efficiency is {}: must have at least one tier",
    ),
    "efficiency_tier": (
        _put(*JOB, "efficiency", "pod", value=1),
        "jobs[0].efficiency.pod is 1: unknown key; the known keys are machine, rack, network",
    ),
    "efficiency_text": (
        _put(*JOB, "efficiency", "rack", value="1"),
        'jobs[0].efficiency.rack is "1": must be a finite number above 0',
    ),
    "efficiency_above_1": (
        _put(*JOB, "efficiency", "rack", value=1.5),
        "jobs[0].efficiency.rack is 1.5: must be at most 1",
    ),
    "efficiency_of_one_gpu": (
        _put("jobs", 1, "efficiency", value={"network": 1}),
        "jobs[1].efficiency.network is 1: must not be there: a gang of 1 spans nothing",
    ),
    "score_nan": (_put(*JOB, "score", value=float("nan")), "jobs[0].score is NaN: must be a fin"),
    "score_above_1": (_put(*JOB, "score", value=2), "jobs[0].score is 2: must be at most 1"),
    "waiting": (_put(*JOB, "waiting_s", value=-1), "jobs[0].waiting_s is -1: must be a finite"),
    "waiting_huge": (_put(*JOB, "waiting_s", value=1e300), "jobs[0].waiting_s is 1e+300: must be"),
    "timer_text": (
        _put(*JOB, "rack_timer_s", value="never"),
        'jobs[0].rack_timer_s is "never": must be a finite number of at least 0',
    ),
    "timer_infinite": (
        _put(*JOB, "network_timer_s", value=float("inf")),
        "jobs[0].network_timer_s is Infinity: must be a finite number",
    ),
    "weight": (_put(*JOB, "weight", value=0), "jobs[0].weight is 0: must be a finite number above"),
    "remaining": (_put(*JOB, "remaining_s", value=0), "jobs[0].remaining_s is 0: must be a finite"),
    "consolidation": (
        _put(*JOB, "needs_consolidation", value=1),
        "jobs[0].needs_consolidation is 1: must be true or false",
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_defect_in_an_instance_is_named(
    defect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On one line with file, field, value and rule, and exit code 2."""
    change, expected = DEFECTS[defect]
    changed = document()
    change(changed)
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(changed))
    with pytest.raises(InputError, match=r"bad\.json: ") as refusal:
        load_instance(path)
    assert expected in str(refusal.value)
    assert main(["solve", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert expected in printed.err


ENTRY = {"job": "a", "tier": "machine", "gpus": {"r0m0": 4}}


@pytest.mark.parametrize(
    ("placements", "field"),
    [
        (None, "placements"),
        ({}, "placements"),
        ([1], "placements[0]"),
        ([{**ENTRY, "rack": 1}], "placements[0].rack"),
        ([{"job": "a", "tier": "rack"}], "placements[0].gpus"),
        ([{**ENTRY, "job": ""}], "placements[0].job"),
        ([{**ENTRY, "job": 1}], "placements[0].job"),
        ([{**ENTRY, "tier": "pod"}], "placements[0].tier"),
        ([{**ENTRY, "tier": 1}], "placements[0].tier"),
        ([{**ENTRY, "gpus": []}], "placements[0].gpus"),
        ([{**ENTRY, "gpus": {}}], "placements[0].gpus"),
        ([{**ENTRY, "gpus": {"r0m0": 0}}], "placements[0].gpus.r0m0"),
        ([{**ENTRY, "gpus": {"r0m0": 1.0}}], "placements[0].gpus.r0m0"),
        ([{**ENTRY, "gpus": {"": 1}}], "placements[0].gpus"),
    ],
)
def test_defect_in_a_solution_is_named(placements: object, field: str) -> None:
    """The field that breaks its rule."""
    given_document = {
        "format": "lyra-opt/network-placement-solution",
        "version": 1,
        "instance": "example",
        "placements": placements,
    }
    with pytest.raises(FieldError) as refusal:
        PROBLEM.parse_solution(given_document)
    assert refusal.value.field == field


def test_claims_are_read_strictly() -> None:
    """A number where a number belongs, and a name."""
    for changed in ({"objective": "1"}, {"objective": float("nan")}, {"instance": ""}):
        with pytest.raises(FieldError) as refusal:
            PROBLEM.parse_solution({"instance": "example", "placements": [], **changed})
        assert refusal.value.field in changed


def test_command_line_solves_and_verifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `solve --json` writes, `verify` accepts; a wrong claim it does not."""
    path, answer = tmp_path / "instance.json", tmp_path / "answer.json"
    path.write_text(json.dumps(document()))
    assert main(["solve", str(path), "--solver", "cpsat", "--json"]) == 0
    printed = capsys.readouterr().out
    answer.write_text(printed)
    (found,) = json.loads(printed)
    assert found["status"] == "optimal"
    assert (found["placed_gpus"], found["machine_gangs"]) == (5, 2)
    assert main(["verify", str(path), str(answer)]) == 0
    read, claims = load_solution(answer, PROBLEM)
    assert claims["objective"] == found["objective"]
    assert PROBLEM.check(load_instance(path).instance, read).objective == found["objective"]
    found["objective"] += 1
    answer.write_text(json.dumps(found))
    assert main(["verify", str(path), str(answer)]) == 1

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
from lyra_opt.core.solver import solver_names
from lyra_opt.heterogeneous import Deadline, HeterogeneousInstance, Objective, TimeShares
from lyra_opt.heterogeneous.problem import DEFAULT_SOLVERS, PROBLEM
from lyra_opt.testing.strategies import heterogeneous_instances, round_schedules_of
from tests.lyra_opt.heterogeneous.examples import entry, instance, job, schedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def document(objective: str = "utility") -> dict[str, Any]:
    """Return a document with everything in it."""
    full = instance(
        job(
            "a",
            2,
            spread_throughput={"fast": 3.0, "slow": 1.0},
            release_s=1.0,
            weight=2.0,
            utility=Deadline(deadline_s=4.0, value=2.0, late_value=1.0),
            current={"s1": {"fast": 2}},
        ),
        job("b"),
        objective=objective,
    )
    return json.loads(format_document(PROBLEM.instance_document(full)))


def test_it_is_registered_with_solvers_that_exist() -> None:
    """Under the name that the command line knows; every objective has a default solver."""
    assert find_problem("heterogeneous") is PROBLEM
    assert set(DEFAULT_SOLVERS) == set(Objective)
    assert {("heterogeneous", name) for name in DEFAULT_SOLVERS.values()} <= set(solver_names())


@given(heterogeneous_instances())
def test_instance_comes_back_from_its_file(drawn: HeterogeneousInstance) -> None:
    """Through JSON text, every field."""
    text = format_document(PROBLEM.instance_document(drawn))
    assert PROBLEM.parse_instance(json.loads(text)) == drawn


@given(st.data())
def test_schedule_comes_back_from_its_file(data: st.DataObject) -> None:
    """In order of rounds, then of the file."""
    drawn = data.draw(heterogeneous_instances(objective="utility"))
    solution = data.draw(round_schedules_of(drawn))
    text = format_document(PROBLEM.solution_document(drawn, solution, 1.5))
    parsed, claims = PROBLEM.parse_solution(json.loads(text))
    assert claims == {"instance": "drawn", "objective": 1.5}
    assert PROBLEM.check(drawn, parsed) == PROBLEM.check(drawn, solution)
    assert PROBLEM.answer(drawn, parsed) == PROBLEM.answer(drawn, solution)
    assert (
        sorted(map(repr, parsed.entries)) == sorted(map(repr, solution.entries))
        or (PROBLEM.answer(drawn, parsed)["allocation"])
    )


def test_shares_come_back_from_their_file() -> None:
    """Shares of 0 and jobs without any are left out."""
    one = instance(job("a"), job("b"), objective="throughput")
    solution = TimeShares({"b": {}, "a": {"slow": 0.0, "fast": 0.25}})
    answer = PROBLEM.answer(one, solution)
    assert answer == {"allocation": {"a": {"fast": 0.25}}}
    parsed, _ = PROBLEM.parse_solution({"instance": "example", **answer})
    assert PROBLEM.check(one, parsed) == PROBLEM.check(one, solution)


def test_defaults_and_integers_are_the_same_content() -> None:
    """8 and 8.0 are one instance, and so are defaults that are written out."""
    plain = {**document(), "jobs": [{"id": "b", "gang": 1, "steps": 8, "throughput": {"fast": 4}}]}
    written = {
        **plain,
        "restart_s": 0,
        "forking": False,
        "jobs": [{**plain["jobs"][0], "weight": 1, "utility": {"kind": "inverse_jct", "scale": 1}}],
    }
    first, second = PROBLEM.parse_instance(plain), PROBLEM.parse_instance(written)
    assert content_hash(PROBLEM, first) == content_hash(PROBLEM, second)


def test_senses() -> None:
    """Times and ratios of times are minimised."""
    minimised = {str(kind) for kind in Objective if kind.sense == "min"}
    assert minimised == {"makespan", "mean_jct", "finish_time_fairness"}


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


JOB = ("jobs", 0)
DEFECTS: dict[str, tuple[Callable[[Any], None], str]] = {
    "version": (_put("version", value=2), "version is 2: must be 1"),
    "objective": (_put("objective", value="speed"), 'objective is "speed": must be one of: cost'),
    "objective_number": (_put("objective", value=1), "objective is 1: must be one of"),
    "unknown_key": (_put("gpus", value=1), "gpus is 1: unknown key"),
    "no_servers": (_put("servers", value=[]), "servers is []: must have at least one entry"),
    "servers_object": (_put("servers", value={}), "servers is {}: must be a list"),
    "gpus_list": (_put("servers", 0, "gpus", value=[1]), "servers[0].gpus is a list of 1: must be"),
    "gpus_decimal": (
        _put("servers", 0, "gpus", "fast", value=1.5),
        "servers[0].gpus.fast is 1.5: must be an integer of at least 0",
    ),
    "gpus_type": (
        _put("servers", 0, "gpus", "old", value=1),
        'servers[0].gpus is "old": must be one of the gpu_types: fast, slow',
    ),
    "type_text": (_put("gpu_types", 0, value="fast"), 'gpu_types[0] is "fast": must be an object'),
    "type_price": (
        _put("gpu_types", 0, "price_per_hour", value=-1),
        "gpu_types[0].price_per_hour is -1: must be a finite number above 0",
    ),
    "job_null": (_put(*JOB, value=None), "jobs[0] is null: must be an object"),
    "job_key": (_put(*JOB, "gpus", value=1), "jobs[0].gpus is 1: unknown key"),
    "gang_missing": (_drop(*JOB, "gang"), "jobs[0].gang is missing"),
    "gang_true": (_put(*JOB, "gang", value=True), "jobs[0].gang is true: must be an integer"),
    "steps_nan": (
        _put(*JOB, "steps", value=float("nan")),
        "jobs[0].steps is NaN: must be a finite",
    ),
    "steps_huge": (
        _put(*JOB, "steps", value=1e300),
        "jobs[0].steps is 1e+300: must be from 1e-60 to 1e+60",
    ),
    "rates_list": (_put(*JOB, "throughput", value=[]), "jobs[0].throughput is []: must be an obj"),
    "rate_text": (
        _put(*JOB, "throughput", "fast", value="4"),
        'jobs[0].throughput.fast is "4": must be a finite number',
    ),
    "rate_type": (
        _put(*JOB, "throughput", "old", value=1),
        'jobs[0].throughput is "old": must be one of the gpu_types',
    ),
    "spread_text": (
        _put(*JOB, "spread_throughput", value="x"),
        'jobs[0].spread_throughput is "x": must be an object',
    ),
    "utility_text": (_put(*JOB, "utility", value="x"), 'jobs[0].utility is "x": must be an obj'),
    "utility_kind": (
        _put(*JOB, "utility", "kind", value="other"),
        'jobs[0].utility.kind is "other": must be one of: deadline, inverse_jct, table',
    ),
    "utility_no_kind": (_drop(*JOB, "utility", "kind"), "jobs[0].utility.kind is missing"),
    "utility_no_deadline": (
        _drop(*JOB, "utility", "deadline_s"),
        "jobs[0].utility.deadline_s is missing",
    ),
    "utility_other_key": (
        _put(*JOB, "utility", "scale", value=1),
        "jobs[0].utility.scale is 1: unknown key; the known keys are kind, deadline_s",
    ),
    "utility_late": (
        _put(*JOB, "utility", "late_value", value=9),
        "jobs[0].utility.late_value is 9.0: must be at most value, 2",
    ),
    "table_object": (
        _put(*JOB, "utility", value={"kind": "table", "entries": {}}),
        "jobs[0].utility.entries is {}: must be a list",
    ),
    "table_entry": (
        _put(*JOB, "utility", value={"kind": "table", "entries": [1]}),
        "jobs[0].utility.entries[0] is 1: must be a pair",
    ),
    "current_list": (_put(*JOB, "current", value=[]), "jobs[0].current is []: must be an object"),
    "current_number": (
        _put(*JOB, "current", "s1", value=2),
        "jobs[0].current.s1 is 2: must be an object",
    ),
    "current_elsewhere": (
        _put(*JOB, "current", value={"s2": {"fast": 2}}),
        "jobs[0].current.s2.fast is 2: must be at most the 0 GPUs",
    ),
    "horizon": (_put("horizon_rounds", value=0), "horizon_rounds is 0: must be an integer of at"),
    "restart": (_put("restart_s", value=1), "restart_s is 1.0: must be 0 for the objective util"),
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
    with pytest.raises(InputError, match="bad.json: ") as refusal:
        load_instance(path)
    assert expected in str(refusal.value)
    assert main(["solve", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert expected in printed.err


ENTRY = {"job": "a", "round": 0, "gpus": {"s1": {"fast": 2}}}


@pytest.mark.parametrize(
    ("allocation", "field"),
    [
        (None, "allocation"),
        ("x", "allocation"),
        ([1], "allocation[0]"),
        ([{**ENTRY, "steps": 1}], "allocation[0].steps"),
        ([{"job": "a", "round": 0}], "allocation[0].gpus"),
        ([{**ENTRY, "job": ""}], "allocation[0].job"),
        ([{**ENTRY, "round": -1}], "allocation[0].round"),
        ([{**ENTRY, "round": 1.0}], "allocation[0].round"),
        ([{**ENTRY, "gpus": []}], "allocation[0].gpus"),
        ([{**ENTRY, "gpus": {}}], "allocation[0].gpus"),
        ([{**ENTRY, "gpus": {"s1": 2}}], "allocation[0].gpus.s1"),
        ([{**ENTRY, "gpus": {"s1": {}}}], "allocation[0].gpus.s1"),
        ([{**ENTRY, "gpus": {"s1": {"fast": 0}}}], "allocation[0].gpus.s1.fast"),
        ({"a": 1}, "allocation.a"),
        ({"a": {"fast": -1}}, "allocation.a.fast"),
        ({"a": {"fast": "1"}}, "allocation.a.fast"),
        ({"": {"fast": 1}}, "allocation."),
    ],
)
def test_defect_in_a_solution_is_named(allocation: object, field: str) -> None:
    """The field that breaks its rule."""
    solution = {
        "format": "lyra-opt/heterogeneous-solution",
        "version": 1,
        "instance": "example",
        "allocation": allocation,
    }
    with pytest.raises(FieldError) as refusal:
        PROBLEM.parse_solution(solution)
    assert refusal.value.field.rstrip(".") == field.rstrip(".")


def test_claims_are_read_strictly() -> None:
    """Numbers where numbers belong."""
    for key, value in [("objective", "1"), ("makespan_s", -1), ("completed", 1), ("gpu_s", None)]:
        with pytest.raises(FieldError) as refusal:
            PROBLEM.parse_solution({"instance": "example", "allocation": [], key: value})
        assert refusal.value.field.startswith(key)


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
    assert found["allocation"]
    assert main(["verify", str(path), str(answer)]) == 0
    solution, claims = load_solution(answer, PROBLEM)
    assert claims["objective"] == found["objective"]
    assert PROBLEM.check(load_instance(path).instance, solution).objective == found["objective"]
    found["objective"] += 1
    answer.write_text(json.dumps(found))
    assert main(["verify", str(path), str(answer)]) == 1


def test_order_of_an_answer() -> None:
    """Rounds, then jobs, servers and types as in the file."""
    one = instance(job("a", 2), job("b"))
    mixed = schedule(
        entry("b", 1, s1={"fast": 1}),
        entry("b", 0, s1={"fast": 1}),
        entry("a", 0, s2={"slow": 1}, s1={"slow": 1}),
    )
    shown = PROBLEM.answer(one, mixed)["allocation"]
    assert [(e["job"], e["round"]) for e in shown] == [("a", 0), ("b", 0), ("b", 1)]
    assert list(shown[0]["gpus"]) == ["s1", "s2"]

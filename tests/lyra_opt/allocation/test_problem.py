"""Files of the problem: what they hold comes back, and what is wrong in one is named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.allocation import (
    AllocationInstance,
    ElasticJob,
    NamedWorkers,
    Objective,
    Schedule,
    WorkerAllocation,
)
from lyra_opt.allocation.problem import DEFAULT_SOLVERS, JOB_DEFAULTS, PROBLEM
from lyra_opt.core.documents import format_document
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.loading import content_hash, load_instance, load_solution
from lyra_opt.core.problem import find_problem
from lyra_opt.core.verifying import verify
from lyra_opt.testing.strategies import allocation_instances, worker_allocations_of
from tests.lyra_opt.allocation.reference import LONG, example, example_schedule

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EXAMPLE = {
    "format": "lyra-opt/allocation",
    "version": 1,
    "name": "lyra-table-2",
    "objective": "mean_jct",
    "gpus": 8,
    "jobs": [
        {"id": "A", "min_workers": 2, "max_workers": 6, "work_worker_s": 300.0, **JOB_DEFAULTS},
        {"id": "B", "min_workers": 2, "max_workers": 6, "work_worker_s": 120},
    ],
}


def test_it_is_registered() -> None:
    """Under the name that the command line knows."""
    assert find_problem("allocation") is PROBLEM


@given(allocation_instances())
def test_instance_comes_back_from_its_file(instance: AllocationInstance) -> None:
    """Through JSON text, every field."""
    text = format_document(PROBLEM.instance_document(instance))
    assert PROBLEM.parse_instance(json.loads(text)) == instance


def test_defaults_and_integers_are_the_same_content() -> None:
    """300 and 300.0 are one instance, and so are defaults that are written out."""
    instance = PROBLEM.parse_instance(EXAMPLE)
    assert instance.jobs == example().jobs
    jobs = [{**JOB_DEFAULTS, **job, "release_s": 0} for job in EXAMPLE["jobs"]]
    same = PROBLEM.parse_instance({**EXAMPLE, "jobs": jobs})
    assert content_hash(PROBLEM, same) == content_hash(PROBLEM, instance)
    whole = replace(instance, jobs=(replace(LONG, work_worker_s=300), instance.jobs[1]))
    assert content_hash(PROBLEM, whole) == content_hash(PROBLEM, instance)


@given(st.data())
def test_workers_come_back_from_their_file(data: st.DataObject) -> None:
    """By id, and in file order again."""
    instance = data.draw(allocation_instances(objective="joint"))
    solution = data.draw(worker_allocations_of(instance))
    document = json.loads(format_document(PROBLEM.solution_document(instance, solution, 1.5)))
    parsed, claims = PROBLEM.parse_solution(document)
    assert isinstance(parsed, NamedWorkers)
    assert parsed.in_file_order(instance) == solution
    assert PROBLEM.answer(instance, parsed) == PROBLEM.answer(instance, solution)
    assert claims == {"instance": "drawn", "objective": 1.5}


def test_schedule_comes_back_from_its_file_in_order() -> None:
    """By start, then by job in file order, whatever order a solver leaves its pieces in."""
    instance = example()
    schedule = example_schedule(LONG, 2, 6)
    backwards = Schedule(schedule.pieces[::-1])
    document = json.loads(format_document(PROBLEM.solution_document(instance, backwards, 1)))
    assert [(piece["job"], piece["start_s"]) for piece in document["schedule"]] == [
        ("A", 0),
        ("B", 0),
        ("A", 20),
    ]
    parsed, _ = PROBLEM.parse_solution(document)
    assert isinstance(parsed, Schedule)
    assert PROBLEM.check(instance, parsed) == PROBLEM.check(instance, schedule)


def test_sense_and_default_solver_depend_on_the_objective() -> None:
    """Only the reduction is maximised."""
    senses = {str(objective): objective.sense for objective in Objective}
    assert [kind for kind, sense in senses.items() if sense == "max"] == ["jct_reduction"]
    assert set(DEFAULT_SOLVERS) == set(Objective)
    assert PROBLEM.default_solver_of("mean_jct") == "srw"
    assert PROBLEM.default_solver_of("joint") == "mckp-core"


def test_claims_are_compared_within_rounding() -> None:
    """Floats that differ in the last digit are the same claim; other digits are not."""
    instance, schedule = example(), example_schedule(LONG, 2, 6)

    def verified(objective: float, **claims: Any) -> bool:
        claims = {"instance": "example", "objective": objective, **claims}
        return verify(PROBLEM, instance, schedule, claims).valid

    assert verified(125 / 3)
    assert verified(41.6666666666666)
    assert not verified(41.67)
    assert verified(125 / 3, makespan_s=190 / 3)
    assert not verified(125 / 3, makespan_s=63)


def test_bounds_of_a_maximised_objective_lie_above() -> None:
    """A proof whose bound is below its objective refutes itself, for the reduction only."""
    for objective, bound, valid in [
        ("jct_reduction", 200.0, True),
        ("jct_reduction", 100.0, False),
    ]:
        instance = example(objective=objective, gpus=4)
        claims = {"instance": "example", "objective": 110.0, "dual_bound": bound}
        verification = verify(PROBLEM, instance, WorkerAllocation((5, 3)), claims)
        assert verification.valid is valid, verification.violations


def _put(*path: str | int, value: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    return change


def _drop(*path: str | int) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        del document[path[-1]]

    return change


JOB = ("jobs", 0)

# Name of the defect: how to make it, and what the error must say of field, value and rule.
DEFECTS: dict[str, tuple[Any, str]] = {
    "version_of_the_future": (_put("version", value=2), "version is 2: must be 1"),
    "name_empty": (_put("name", value=""), 'name is "": must be a string that is not empty'),
    "objective_missing": (_drop("objective"), "objective is missing"),
    "objective_unknown": (
        _put("objective", value="makespan"),
        'objective is "makespan": must be one of: jct_reduction, joint, mean_jct, two_phase',
    ),
    "objective_a_list": (_put("objective", value=[]), "objective is []: must be one of"),
    "gpus_negative": (_put("gpus", value=-1), "gpus is -1: must be an integer of at least 0"),
    "gpus_decimal": (_put("gpus", value=8.0), "gpus is 8.0: must be an integer"),
    "gpus_zero_for_joint": (
        lambda document: document.update(objective="joint", gpus=0),
        "gpus is 0: must be at least 1 for the objective joint",
    ),
    "jobs_empty": (_put("jobs", value=[]), "jobs is []: must have at least one entry"),
    "jobs_not_a_list": (_put("jobs", value={}), "jobs is {}: must be a list"),
    "job_not_an_object": (_put(*JOB, value=1), "jobs[0] is 1: must be an object"),
    "job_key_unknown": (
        _put(*JOB, "weight", value=1),
        "jobs[0].weight is 1: unknown key; the known keys are id, min_workers, max_workers, work",
    ),
    "job_id_missing": (_drop(*JOB, "id"), "jobs[0].id is missing"),
    "job_id_duplicate": (_put("jobs", 1, "id", value="A"), 'jobs[1].id is "A": must be unique'),
    "min_workers_zero": (
        _put(*JOB, "min_workers", value=0),
        "jobs[0].min_workers is 0: must be an integer of at least 1",
    ),
    "min_workers_missing": (_drop(*JOB, "min_workers"), "jobs[0].min_workers is missing"),
    "min_workers_true": (
        _put(*JOB, "min_workers", value=True),
        "jobs[0].min_workers is true: must be an integer",
    ),
    "max_workers_below_min_workers": (
        _put(*JOB, "max_workers", value=1),
        "jobs[0].max_workers is 1: must be at least the job's min_workers, 2",
    ),
    "gpus_per_worker_zero": (
        _put(*JOB, "gpus_per_worker", value=0),
        "jobs[0].gpus_per_worker is 0: must be an integer of at least 1",
    ),
    "work_missing": (_drop(*JOB, "work_worker_s"), "jobs[0].work_worker_s is missing"),
    "work_zero": (
        _put(*JOB, "work_worker_s", value=0),
        "jobs[0].work_worker_s is 0: must be a finite number above 0",
    ),
    "work_nan": (
        _put(*JOB, "work_worker_s", value=float("nan")),
        "jobs[0].work_worker_s is NaN: must be a finite number above 0",
    ),
    "work_infinite": (
        _put(*JOB, "work_worker_s", value=float("inf")),
        "jobs[0].work_worker_s is Infinity: must be a finite number above 0",
    ),
    "work_text": (_put(*JOB, "work_worker_s", value="1"), 'jobs[0].work_worker_s is "1": must be'),
    "work_beyond_floats": (
        _put(*JOB, "work_worker_s", value=10**400),
        "must be a finite number above 0",
    ),
    "work_beyond_sums": (
        _put(*JOB, "work_worker_s", value=1e300),
        "jobs[0].work_worker_s is 1e+300: must be at most 9007199254740991",
    ),
    "release_negative": (
        _put(*JOB, "release_s", value=-0.5),
        "jobs[0].release_s is -0.5: must be a finite number of at least 0",
    ),
    "release_null": (_put(*JOB, "release_s", value=None), "jobs[0].release_s is null: must be"),
    "running_number": (
        _put(*JOB, "running", value=1),
        "jobs[0].running is 1: must be true or false",
    ),
    "running_and_released_later": (
        lambda document: document["jobs"][0].update(running=True, release_s=3),
        "jobs[0].release_s is 3.0: must be 0 for a running job",
    ),
    "scaling_loss_above_one": (
        _put(*JOB, "scaling_loss", value=1.5),
        "jobs[0].scaling_loss is 1.5: must be at most 1",
    ),
    "scaling_loss_negative": (
        _put(*JOB, "scaling_loss", value=-0.1),
        "jobs[0].scaling_loss is -0.1: must be a finite number of at least 0",
    ),
    "base_demand_above_the_cluster": (
        _put(*JOB, "gpus_per_worker", value=5),
        "jobs[0].min_workers is 2: the job's base demand of 10 GPUs must be at most the 8 of the",
    ),
    "running_base_demands_above_the_cluster": (
        lambda document: (
            [job.update(running=True) for job in document["jobs"]] + [document.update(gpus=3)]
        ),
        "jobs[1].running is true: the base demands of the running jobs up to this one, 4 GPUs,",
    ),
    "gpus_together_beyond_exact_json": (
        lambda document: [job.update(max_workers=2**52) for job in document["jobs"]],
        "jobs[1].max_workers is 4503599627370496: all jobs up to this one must be able to use at",
    ),
    "key_unknown": (_put("comment", value="x"), 'comment is "x": unknown key'),
}


def _assert_refused(path: Path, expected: str) -> None:
    with pytest.raises(InputError) as refusal:
        load_instance(path)
    message = str(refusal.value)
    assert message.startswith(f"{path}: ")
    assert expected in message
    assert "\n" not in message


@pytest.mark.parametrize("defect", DEFECTS)
def test_defect_in_an_instance_is_named(defect: str, tmp_path: Path) -> None:
    """One line with file, field, value and rule."""
    change, expected = DEFECTS[defect]
    document = json.loads(json.dumps(EXAMPLE))
    change(document)
    path = tmp_path / f"{defect}.json"
    path.write_text(json.dumps(document))
    _assert_refused(path, expected)


@pytest.mark.parametrize("objective", ["jct_reduction", "two_phase", "joint"])
def test_jobs_that_do_not_fit_are_no_defect_elsewhere(objective: str) -> None:
    """Only a schedule must run every job."""
    document = {**EXAMPLE, "objective": objective, "gpus": 1}
    assert PROBLEM.parse_instance(document).gpus == 1


WORKERS = {
    "format": "lyra-opt/allocation-solution",
    "version": 1,
    "instance": "lyra-table-2",
    "workers": {"A": 2, "B": 6},
    "objective": 41.5,
}
PIECE = {"job": "A", "start_s": 0, "end_s": 1.5, "workers": 2}
SCHEDULE = {key: value for key, value in WORKERS.items() if key != "workers"} | {
    "schedule": [PIECE]
}

SOLUTION_DEFECTS: dict[str, tuple[dict[str, Any], str]] = {
    "other_format": ({**WORKERS, "format": "lyra-opt/allocation"}, "format is"),
    "no_instance": (
        {key: value for key, value in WORKERS.items() if key != "instance"},
        "instance is missing",
    ),
    "neither": (
        {key: value for key, value in WORKERS.items() if key != "workers"},
        "workers (or, for the objective mean_jct, schedule) is missing",
    ),
    "both": ({**WORKERS, "schedule": [PIECE]}, "schedule is a list of 1: must not be given beside"),
    "workers_a_list": ({**WORKERS, "workers": [2]}, "workers is a list of 1: must be an object"),
    "workers_negative": ({**WORKERS, "workers": {"A": -1}}, "workers.A is -1: must be an integer"),
    "workers_decimal": ({**WORKERS, "workers": {"A": 2.0}}, "workers.A is 2.0: must be an int"),
    "objective_text": ({**WORKERS, "objective": "1"}, 'objective is "1": must be a finite number'),
    "objective_nan": ({**WORKERS, "objective": float("nan")}, "objective is NaN: must be a finite"),
    "key_unknown": ({**WORKERS, "started": []}, "started is []: unknown key"),
    "schedule_an_object": ({**SCHEDULE, "schedule": {}}, "schedule is {}: must be a list"),
    "piece_without_end": (
        {**SCHEDULE, "schedule": [{"job": "A", "start_s": 0, "workers": 2}]},
        "schedule[0].end_s is missing",
    ),
    "piece_ends_before_it_starts": (
        {**SCHEDULE, "schedule": [{**PIECE, "start_s": 2}]},
        "schedule[0].end_s is 1.5: must be above start_s, 2",
    ),
    "piece_without_workers": (
        {**SCHEDULE, "schedule": [{**PIECE, "workers": 0}]},
        "schedule[0].workers is 0: must be a finite number above 0",
    ),
    "piece_before_time": (
        {**SCHEDULE, "schedule": [{**PIECE, "start_s": -1}]},
        "schedule[0].start_s is -1: must be a finite number of at least 0",
    ),
    "piece_of_infinite_length": (
        {**SCHEDULE, "schedule": [{**PIECE, "end_s": float("inf")}]},
        "schedule[0].end_s is Infinity: must be a finite number",
    ),
    "piece_of_a_number": (
        {**SCHEDULE, "schedule": [{**PIECE, "job": 1}]},
        "schedule[0].job is 1: must be a string",
    ),
}


@pytest.mark.parametrize("defect", SOLUTION_DEFECTS)
def test_defect_in_a_solution_is_named(defect: str, tmp_path: Path) -> None:
    """One line with file, field, value and rule."""
    document, expected = SOLUTION_DEFECTS[defect]
    path = tmp_path / "solution.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError) as refusal:
        load_solution(path, PROBLEM)
    assert str(refusal.value).startswith(f"{path}: ")
    assert expected in str(refusal.value)


def test_instance_of_python_numbers_that_are_none() -> None:
    """The dataclasses hold what the files hold, and refuse the rest by field too."""
    with pytest.raises(FieldError, match="work_worker_s"):
        ElasticJob(id="a", min_workers=1, max_workers=1, work_worker_s=True)
    with pytest.raises(FieldError, match=r"workers\[1\]"):
        WorkerAllocation((1, -1))

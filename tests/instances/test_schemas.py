"""The JSON Schemas accept what the parser accepts, and refuse what a schema can tell is wrong."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator

from instances.family import find_family, generate
from instances.library import library_instances, library_solutions
from instances.schemas import load_schema
from lyra_opt.core.errors import FieldError
from lyra_opt.core.problem import find_problem
from lyra_opt.testing.strategies import allocation_instances, reclaim_instances

PROBLEM = find_problem("reclaim")
INSTANCE = Draft202012Validator(load_schema("reclaim"))
SOLUTION = Draft202012Validator(load_schema("reclaim-solution"))
ALLOCATION = find_problem("allocation")
ALLOCATION_INSTANCE = Draft202012Validator(load_schema("allocation"))
ALLOCATION_SOLUTION = Draft202012Validator(load_schema("allocation-solution"))
SCHEMAS = ("reclaim", "reclaim-solution", "allocation", "allocation-solution")


def schema_of(document):
    """Return the validator of the format that a document names."""
    return Draft202012Validator(load_schema(document["format"].removeprefix("lyra-opt/")))


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_one(name):
    Draft202012Validator.check_schema(load_schema(name))


def test_unknown_schema():
    with pytest.raises(FileNotFoundError):
        load_schema("nope")


@pytest.mark.parametrize("name", library_instances())
def test_library_instances(name):
    document = json.loads(library_instances()[name].read_text())
    schema_of(document).validate(document)


@pytest.mark.parametrize("name", library_solutions())
def test_library_solutions(name):
    document = json.loads(library_solutions()[name].read_text())
    schema_of(document).validate(document)


@pytest.mark.parametrize("family", ["messy-trace", "span", "grid"])
def test_generated_instances(family):
    instance = generate(
        "reclaim",
        family,
        servers=20,
        reclaim=3,
        semantics="interchangeable",
        min_workers_percent=0,
        off_loan_percent=20,
    )
    INSTANCE.validate(PROBLEM.instance_document(instance))


def test_generated_solution():
    parameters = {"reclaim": 6}
    instance = generate("reclaim", "net", **parameters)
    known = find_family("reclaim", "net").known_optimum(parameters)
    SOLUTION.validate(PROBLEM.solution_document(instance, *known))


@given(reclaim_instances())
def test_drawn_instances(instance):
    INSTANCE.validate(PROBLEM.instance_document(instance))


def drop(*path):
    def change(document):
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return change


def put(value, *path):
    def change(document):
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


MALFORMED_INSTANCES = {
    "other_format": put("lyra-opt/allocation", "format"),
    "other_version": put(2, "version"),
    "true_version": put(True, "version"),
    "missing_name": drop("name"),
    "empty_name": put("", "name"),
    "unknown_semantics": put("soft", "semantics"),
    "negative_reclaim": put(-1, "reclaim_servers"),
    "fractional_reclaim": put(1.5, "reclaim_servers"),
    "text_reclaim": put("2", "reclaim_servers"),
    "integer_too_large": put(2**53, "reclaim_servers"),
    "servers_no_list": put({}, "servers"),
    "unknown_key": put(1, "colour"),
    "unknown_server_key": put(1, "servers", 0, "cpus"),
    "server_without_gpus": drop("servers", 0, "gpus"),
    "zero_gpus": put(0, "servers", 0, "gpus"),
    "true_gpus": put(True, "servers", 0, "gpus"),
    "numeric_loan": put(1, "servers", 0, "on_loan"),
    "numeric_id": put(1, "servers", 0, "id"),
    "job_without_workers": drop("jobs", 0, "workers"),
    "job_with_no_entry": put([], "jobs", 0, "workers"),
    "negative_weight": put(-1, "jobs", 0, "weight"),
    "null_min_workers": put(None, "jobs", 0, "min_workers"),
    "zero_gpus_per_worker": put(0, "jobs", 0, "gpus_per_worker"),
    "entry_without_worker": put({"server": "s1"}, "jobs", 0, "workers", 0),
    "entry_of_zero_workers": put({"server": "s1", "base": 0}, "jobs", 0, "workers", 0),
    "negative_flexible": put(-1, "jobs", 0, "workers", 0, "flexible"),
    "unknown_worker_key": put(1, "jobs", 0, "workers", 0, "gpu"),
}


@pytest.mark.parametrize("defect", MALFORMED_INSTANCES)
def test_malformed_instance(defect, figure_5_document):
    document = copy.deepcopy(figure_5_document)
    MALFORMED_INSTANCES[defect](document)
    assert not INSTANCE.is_valid(document)
    with pytest.raises(FieldError):
        PROBLEM.parse_instance(document)


MALFORMED_SOLUTIONS = {
    "other_format": put("lyra-opt/reclaim", "format"),
    "missing_instance": drop("instance"),
    "missing_servers": drop("servers"),
    "servers_no_list": put("s1", "servers"),
    "numeric_server": put([1], "servers"),
    "empty_server": put([""], "servers"),
    "negative_objective": put(-1, "objective"),
    "fractional_objective": put(0.5, "objective"),
    "unknown_key": put([], "preempted_jobs"),
}


@pytest.mark.parametrize("defect", MALFORMED_SOLUTIONS)
def test_malformed_solution(defect):
    document = json.loads(library_solutions()["lyra-figure-5"].read_text())
    MALFORMED_SOLUTIONS[defect](document)
    assert not SOLUTION.is_valid(document)
    with pytest.raises(FieldError):
        PROBLEM.parse_solution(document)


def test_integral_float_is_where_schema_and_parser_differ(figure_5_document):
    put(2.0, "reclaim_servers")(figure_5_document)
    assert INSTANCE.is_valid(figure_5_document)
    with pytest.raises(FieldError):
        PROBLEM.parse_instance(figure_5_document)


@given(allocation_instances())
def test_drawn_allocation_instances(instance):
    ALLOCATION_INSTANCE.validate(ALLOCATION.instance_document(instance))


@pytest.mark.parametrize("family", ["light", "load", "worst-case"])
def test_generated_allocation_instances(family):
    ALLOCATION_INSTANCE.validate(
        ALLOCATION.instance_document(generate("allocation", family, jobs=9))
    )


def running_and_released_later(document):
    document["jobs"][0].update(running=True, release_s=1)


def joint_without_gpus(document):
    document.update(objective="joint", gpus=0)


MALFORMED_ALLOCATIONS = {
    "other_format": put("lyra-opt/reclaim", "format"),
    "unknown_objective": put("makespan", "objective"),
    "negative_gpus": put(-1, "gpus"),
    "joint_without_gpus": joint_without_gpus,
    "no_jobs": put([], "jobs"),
    "unknown_key": put(1, "semantics"),
    "unknown_job_key": put(1, "jobs", 0, "weight"),
    "zero_min_workers": put(0, "jobs", 0, "min_workers"),
    "missing_max_workers": drop("jobs", 0, "max_workers"),
    "zero_work": put(0, "jobs", 0, "work_worker_s"),
    "huge_work": put(1e300, "jobs", 0, "work_worker_s"),
    "text_work": put("1", "jobs", 0, "work_worker_s"),
    "zero_gpus_per_worker": put(0, "jobs", 0, "gpus_per_worker"),
    "negative_release": put(-1, "jobs", 0, "release_s"),
    "numeric_running": put(1, "jobs", 0, "running"),
    "running_and_released_later": running_and_released_later,
    "large_scaling_loss": put(1.1, "jobs", 0, "scaling_loss"),
}


@pytest.mark.parametrize("defect", MALFORMED_ALLOCATIONS)
def test_malformed_allocation(defect):
    document = json.loads(library_instances()["lyra-table-2"].read_text())
    MALFORMED_ALLOCATIONS[defect](document)
    assert not ALLOCATION_INSTANCE.is_valid(document)
    with pytest.raises(FieldError):
        ALLOCATION.parse_instance(document)


MALFORMED_ALLOCATION_SOLUTIONS = {
    "missing_instance": drop("instance"),
    "neither": drop("schedule"),
    "both": put({}, "workers"),
    "schedule_no_list": put({}, "schedule"),
    "piece_without_job": drop("schedule", 0, "job"),
    "piece_before_time": put(-1, "schedule", 0, "start_s"),
    "piece_without_workers": put(0, "schedule", 0, "workers"),
    "unknown_piece_key": put(1, "schedule", 0, "gpus"),
    "text_objective": put("1", "objective"),
    "unknown_key": put([], "started"),
}


@pytest.mark.parametrize("defect", MALFORMED_ALLOCATION_SOLUTIONS)
def test_malformed_schedule(defect):
    document = json.loads(library_solutions()["lyra-table-2"].read_text())
    MALFORMED_ALLOCATION_SOLUTIONS[defect](document)
    assert not ALLOCATION_SOLUTION.is_valid(document)
    with pytest.raises(FieldError):
        ALLOCATION.parse_solution(document)


@pytest.mark.parametrize("workers", [[], {"A": -1}, {"A": 1.5}, {"": 1}])
def test_malformed_workers(workers):
    document = json.loads(library_solutions()["lyra-figure-6"].read_text())
    put(workers, "workers")(document)
    assert not ALLOCATION_SOLUTION.is_valid(document)
    with pytest.raises(FieldError):
        ALLOCATION.parse_solution(document)

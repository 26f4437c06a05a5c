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
from lyra_opt.errors import FieldError
from lyra_opt.problem import find_problem
from lyra_opt.testing import reclaim_instances

PROBLEM = find_problem("reclaim")
INSTANCE = Draft202012Validator(load_schema("reclaim"))
SOLUTION = Draft202012Validator(load_schema("reclaim-solution"))


@pytest.mark.parametrize("name", ["reclaim", "reclaim-solution"])
def test_schema_is_one(name):
    Draft202012Validator.check_schema(load_schema(name))


def test_unknown_schema():
    with pytest.raises(FileNotFoundError):
        load_schema("nope")


@pytest.mark.parametrize("name", library_instances())
def test_library_instances(name):
    INSTANCE.validate(json.loads(library_instances()[name].read_text()))


@pytest.mark.parametrize("name", library_solutions())
def test_library_solutions(name):
    SOLUTION.validate(json.loads(library_solutions()[name].read_text()))


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

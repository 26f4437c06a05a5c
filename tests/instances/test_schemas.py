"""The JSON Schemas accept what the parser accepts, and refuse what a schema can tell is wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from instances.family import find_family, generate
from instances.library import library_instances, library_solutions
from instances.schemas import load_schema
from lyra_opt.core.errors import FieldError
from lyra_opt.core.problem import find_problem, problems
from lyra_opt.testing import strategies
from tests.malformed import INSTANCES, SOLUTIONS, defects

FILES = [*library_instances().values(), *library_solutions().values()]


def schema_of(document):
    """Return the validator of the format that a document names."""
    return Draft202012Validator(load_schema(document["format"].removeprefix("lyra-opt/")))


@pytest.mark.parametrize("table", [INSTANCES, SOLUTIONS], ids=["instances", "solutions"])
def test_schema_is_one(table):
    for malformed in table.values():
        Draft202012Validator.check_schema(schema_of(malformed.valid).schema)


def test_unknown_schema():
    with pytest.raises(FileNotFoundError):
        load_schema("nope")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_library(path):
    document = json.loads(path.read_text())
    schema_of(document).validate(document)


def test_generated_solution():
    parameters = {"reclaim": 6}
    instance = generate("reclaim", "net", **parameters)
    known = find_family("reclaim", "net").known_optimum(parameters)
    document = find_problem("reclaim").solution_document(instance, *known)
    schema_of(document).validate(document)


@pytest.mark.parametrize("name", problems())
@given(data=st.data())
def test_drawn_instances(name, data):
    instance = data.draw(getattr(strategies, f"{name}_instances")())
    document = find_problem(name).instance_document(instance)
    schema_of(document).validate(document)


def test_integral_float_is_where_schema_and_parser_differ(figure_5_document):
    figure_5_document["reclaim_servers"] = 2.0
    assert schema_of(figure_5_document).is_valid(figure_5_document)
    with pytest.raises(FieldError):
        find_problem("reclaim").parse_instance(figure_5_document)


@pytest.mark.parametrize("table", [INSTANCES, SOLUTIONS], ids=["instances", "solutions"])
def test_what_is_wrong_by_form_is_refused_by_the_schema_too(table):
    for malformed in table.values():
        schema_of(malformed.valid).validate(malformed.valid)
    accepted = [
        (name, str(defect))
        for name, defect in defects(table, by_form_only=True)
        if schema_of(table[name].valid).is_valid(defect.in_(table[name].valid))
    ]
    assert accepted == []

"""The JSON Schemas accept what the parser accepts, and refuse what a schema can tell is wrong."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import keys_of
from lyra_opt.core.formats import formats, with_tables
from lyra_opt.core.problem import find_problem, problems
from lyra_opt.instances.library import library
from lyra_opt.testing import strategies
from tests.conftest import assert_one_line_error
from tests.malformed import INSTANCES, SOLUTIONS, defects
from tests.odd_instances import odd_instances
from tests.test_right_answers import SOLUTIONS as DRAWN

WRITTEN = [name for name, entry in library().entries.items() if entry.page == "papers"]
FILES = [
    path
    for name in WRITTEN
    for path in (library().folder / f"{name}.json", library().solution_file(name))
]


def schema_of(document):
    """Return the validator of the format that a document names."""
    return Draft202012Validator(formats()[document["format"]].schema())


@pytest.mark.parametrize("table", [INSTANCES, SOLUTIONS], ids=["instances", "solutions"])
def test_schema_is_one(table):
    for malformed in table.values():
        Draft202012Validator.check_schema(schema_of(malformed.valid).schema)


@pytest.mark.parametrize("kind", ["catalogues", "records"])
def test_catalogues_and_records_of_the_library(kind):
    paths = sorted((library().folder / kind).glob("*.json"))
    assert paths
    for path in paths:
        document = json.loads(path.read_text())
        validator = schema_of(document)
        Draft202012Validator.check_schema(validator.schema)
        validator.validate(document)
        for name in ("format", "instances"):
            assert not validator.is_valid({key: document[key] for key in document if key != name})
        assert not validator.is_valid(document | {"nonsense": 1})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_library(path):
    document = json.loads(path.read_text())
    schema_of(document).validate(document)


@pytest.mark.parametrize("name", problems())
@given(data=st.data())
def test_drawn_instances(name, data):
    instance = data.draw(getattr(strategies, f"{name}_instances")())
    document = find_problem(name).instance_document(instance)
    schema_of(document).validate(document)


@pytest.mark.parametrize("name", problems())
@given(data=st.data())
def test_drawn_solutions(name, data):
    variants, solutions = DRAWN[name]
    instance = data.draw(st.sampled_from(variants).flatmap(lambda v: odd_instances(name, v)))
    document = find_problem(name).solution_document(instance, data.draw(solutions(instance)), 0)
    schema_of(document).validate(document)


def test_command_writes_schemas_and_keys(run):
    exit_code, out, _ = run("schema", "lyra-opt/reclaim")
    assert exit_code == 0
    assert json.loads(out) == find_problem("reclaim").schemas()["lyra-opt/reclaim"]
    exit_code, out, _ = run("schema", "lyra-opt/reclaim-solution", "--keys")
    assert exit_code == 0
    assert "servers  (list of: text; default: required)" in out
    assert_one_line_error(run("schema", "nope"), "'nope': unknown format; known: lyra-opt/alloc")


def test_tables_of_keys_in_the_documentation_are_current():
    pages = [path.read_text(encoding="utf-8") for path in sorted(Path("docs/formats").glob("*.md"))]
    shown = re.findall(r"<!-- keys of (\S+) -->", "".join(pages))
    assert sorted(shown) == sorted(formats())
    assert [with_tables(page) for page in pages] == pages, "make docs"


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


@pytest.mark.parametrize("name", INSTANCES)
def test_name_and_variant_may_be_left_out(name):
    """By the schema and by the parser, which then take the first of them that are usual."""
    problem, valid = find_problem(name), INSTANCES[name].valid
    variant = {"preemption": "moves", "reclaim": "semantics"}.get(name, "objective")
    usual = next(each.default for each in keys_of(problem.instance_class) if each.name == variant)
    document = {key: valid[key] for key in valid if key not in ("name", variant)}
    schema_of(valid).validate(document)
    instance = problem.parse_instance(document)
    assert (instance.name, instance.variant) == ("unnamed", usual)
    written = problem.instance_document(instance)
    assert (written["name"], written[variant]) == ("unnamed", str(usual))

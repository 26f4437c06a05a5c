"""Objects of declared fields: what is drawn of them is kept, written, read, copied and frozen."""

import json
import pickle
import re
from copy import deepcopy
from types import MappingProxyType

import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from lyra_opt.allocation.instance import ElasticJob, SchedulePiece
from lyra_opt.core.errors import FieldError
from lyra_opt.core.fields import Table, keys_of, parsed, written
from lyra_opt.core.frames import columns_of, frame_of
from lyra_opt.core.problem import find_problem
from lyra_opt.core.rules import ListOf
from lyra_opt.heterogeneous.instance import GangJob, GpuServer, GpuType, RoundEntry
from lyra_opt.heterogeneous.utility import Deadline, InverseJct
from lyra_opt.network.instance import GangPlacement, Machine, WaitingJob
from lyra_opt.reclaim.instance import Job, Server, WorkerGroup
from lyra_opt.testing import strategies
from tests.draws import draws
from tests.malformed import INSTANCES

TABLES = (
    *(Deadline, ElasticJob, GangJob, GangPlacement, GpuServer, GpuType, InverseJct, Job, Machine),
    *(RoundEntry, SchedulePiece, Server, WaitingJob, WorkerGroup),
)
EVERY_PROBLEM = pytest.mark.parametrize("name", INSTANCES)


def instance_of(name, data):
    """Draw an instance of a problem."""
    return data.draw(getattr(strategies, f"{name}_instances")())


@EVERY_PROBLEM
@given(data=st.data())
@draws(30)
def test_objects_come_back_from_documents_and_pickles(name, data):
    """Equal, of one hash, and defaults left out."""
    drawn = instance_of(name, data)
    table, document = type(drawn), json.loads(json.dumps(written(drawn)))
    for back in (parsed(table, document), pickle.loads(pickle.dumps(drawn)), deepcopy(drawn)):
        assert back == drawn
        assert hash(back) == hash(drawn)
    for each in keys_of(table):
        if each.name in document and not (each.is_required or each.always_written):
            assert document[each.name] != each.default


def with_fields(table, document):
    """Return an object made by the constructor, whose arguments are what a document holds."""
    names = {each.in_documents: each.name for each in keys_of(table)}
    return table(**{names[key]: value for key, value in document.items()})


def deepened(value, draw):
    """Return a value of a document, some lists as tuples, some objects as read-only mappings."""
    if isinstance(value, list):
        entries = [deepened(each, draw) for each in value]
        return draw(st.sampled_from([list, tuple]))(entries)
    if isinstance(value, dict):
        items = {key: deepened(each, draw) for key, each in value.items()}
        return draw(st.sampled_from([dict, MappingProxyType]))(items)
    return value


@EVERY_PROBLEM
@given(data=st.data())
def test_an_instance_is_made_as_its_file_says_it(name, data):
    """From dictionaries, from objects where dictionaries are, and from both side by side."""
    problem, drawn = find_problem(name), instance_of(name, data)
    document = written(drawn)
    assert with_fields(problem.instance_class, document) == drawn
    for key, value in document.items():
        if isinstance(value, list):
            objects = getattr(drawn, key)
            document[key] = [
                data.draw(st.sampled_from(pair)) for pair in zip(value, objects, strict=True)
            ]
    assert with_fields(problem.instance_class, document) == drawn


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_parameters_of_the_docstring_are_the_fields(table):
    """With what is said of each."""
    for each in keys_of(table):
        said = re.sub(r"\s+", " ", table.__doc__)
        assert f" {each.name} {each.meaning}" in said


def places(table, document, path=()):
    """Return (path, schema) of each field of a document and of those in its lists."""
    found = []
    for each in keys_of(table):
        place = (*path, each.name)
        found.append((place, each.rule.schema()))
        if isinstance(each.rule, ListOf) and isinstance(each.rule.rule, Table):
            for position, entry in enumerate(document.get(each.name, ())):
                found += places(each.rule.rule.of, entry, (*place, position))
    return found


VALUES = (
    *(None, True, -1, 0, 0.5, 1e300, 2**53, float("nan")),
    *("", "x", [], [1], [None], {}, {"x": -1}),
)


@EVERY_PROBLEM
@given(data=st.data())
def test_a_broken_rule_is_named_by_its_place(name, data):
    """Whatever a schema refuses the parser refuses, in one line, and the constructor in the same.

    The constructor gets lists or tuples, at every depth; None leaves out an argument.
    """
    problem, document = find_problem(name), deepcopy(INSTANCES[name].valid)
    path, schema = data.draw(st.sampled_from(places(problem.instance_class, document)))
    value = data.draw(st.sampled_from(VALUES))
    is_nan = value != value
    assume(is_nan or not Draft202012Validator(schema).is_valid(value))
    target = document
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    with pytest.raises(FieldError) as refusal:
        problem.parse_instance(document)
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]
    assert refusal.value.field.startswith(place)
    assert str(refusal.value).isprintable()
    if value is None or isinstance(value, dict):
        return
    arguments = {key: document[key] for key in document if key not in ("format", "version")}
    with pytest.raises(FieldError, match=f"^{re.escape(str(refusal.value))}$"):
        with_fields(problem.instance_class, deepened(arguments, data.draw))


def test_lists_and_mappings_of_the_caller_are_copied():
    """What is changed afterwards does not reach the object, nor can the object be changed."""
    gpus, rates = {"a": 1}, {"a": 1.0}
    server = GpuServer(id="s", gpus=gpus)
    current = {"s": {"a": 1}}
    job = GangJob(id="j", gang=1, steps=1, throughput=rates, current=current)
    gpus["a"] = rates["a"] = 9
    current["s"]["a"] = 9
    assert (server.gpus, job.throughput, job.current) == ({"a": 1}, {"a": 1.0}, {"s": {"a": 1}})
    for mapping in (server.gpus, job.throughput, job.current, job.current["s"]):
        with pytest.raises(TypeError, match="cannot be changed"):
            mapping["a"] = 2
        with pytest.raises(TypeError, match="cannot be changed"):
            mapping.update(a=2)
    groups = [WorkerGroup(server="s", base=1)]
    held = Job(id="j", workers=groups)
    groups.append(WorkerGroup(server="t", base=1))
    assert held.workers == (WorkerGroup(server="s", base=1),)


@given(strategies.network_instances(), st.integers(0, 3))
def test_frame_has_a_row_an_object(instance, count):
    """And a column a field, with its type though there be no rows."""
    machines = instance.machines[:count]
    frame = frame_of(Machine, machines)
    assert [*frame.dtypes.astype(str)] == [each.dtype for each in columns_of(Machine)]
    assert [*frame.id] == [each.id for each in machines]
    affinities = [None if pd.isna(each) else each for each in frame.affinity]
    assert affinities == [each.affinity for each in machines]

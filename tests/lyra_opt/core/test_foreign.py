"""Scalars and arrays of NumPy and pandas are taken where Python's own are, and kept as those."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.core.errors import FieldError
from lyra_opt.core.foreign import as_python
from lyra_opt.core.rules import (
    ANY_NUMBER,
    Choice,
    Flag,
    Integer,
    ListOf,
    Named,
    Number,
    OrNull,
    Text,
)
from lyra_opt.network.instance import Machine
from lyra_opt.reclaim.instance import Job, Semantics, Server, Solution

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


def is_same(first, second):
    """Whether two values are equal and of one type, all through."""
    if type(first) is not type(second) or first != second:
        return False
    if isinstance(first, tuple) and isinstance(second, tuple):
        return all(map(is_same, first, second))
    return True


@pytest.mark.parametrize("kind", INTEGERS)
@given(value=st.integers(0, 127))
def test_integers_are_kept_exactly(kind, value):
    """Also where numbers are asked for, which then are floats."""
    assert is_same(Integer().check("", kind(value)), value)
    assert is_same(Number().check("", kind(value)), float(value))
    assert is_same(ANY_NUMBER.check("", kind(value)), value)


@given(st.floats(0, width=32, allow_infinity=False))
def test_numbers_are_kept_exactly(value):
    """Whatever their width; none of them is an integer, not even a whole one."""
    for kind in (np.float32, np.float64, np.longdouble):
        for rule in (Number(), ANY_NUMBER):
            assert is_same(rule.check("", kind(value)), value)
        with pytest.raises(FieldError, match="must be an integer"):
            Integer().check("", kind(value))


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (Number(), np.float32("nan")),
        (Number(), np.float64("inf")),
        (Number(), np.nextafter(np.longdouble(1), np.longdouble(2))),
        (Number(), np.complex128(1)),
        (Number(), np.bool_(True)),
        (Number(), np.array([1.0])),
        (Number(), pd.NA),
        (Number(), pd.Timedelta(1)),
        (Integer(), np.bool_(True)),
        (Integer(), np.timedelta64(1, "ns")),
        (Integer(), np.uint64(2**63)),
        (Flag(), np.int64(1)),
        (Text(), np.str_("")),
        (Text(), np.bytes_(b"x")),
        (Text(), np.int64(1)),
        (ListOf(Integer()), np.array([[1]])),
        (ListOf(Integer()), np.array([1.0])),
        (ListOf(Integer()), np.array(1)),
    ],
    ids=repr,
)
def test_the_rules_of_files_hold(rule, value):
    """A value of another kind, or one that cannot be kept exactly, is refused."""
    with pytest.raises(FieldError):
        rule.check("x", value)


def test_what_is_kept_is_python_s_own():
    """So that JSON, hashes and pickles are those of objects made otherwise."""
    server = Server(id=np.str_("a"), gpus=np.int64(8), on_loan=np.False_)
    for value, own in ((server.id, "a"), (server.gpus, 8), (server.on_loan, False)):
        assert is_same(value, own)
    assert is_same(Solution(np.array(["a", "b"])).servers, ("a", "b"))
    assert is_same(Solution(pd.Series(["a", "b"])).servers, ("a", "b"))
    assert is_same(ListOf(Integer()).check("", np.array([1, 2], np.int32)), (1, 2))
    named = Named(Number()).check("", {np.str_("a"): np.float32(0.5)})
    assert [(type(name), type(value)) for name, value in named.items()] == [(str, float)]
    assert Choice(Semantics).check("", np.str_("rigid")) is Semantics.RIGID


def test_what_is_not_available_is_left_out():
    """Where None would be; pandas reads empty cells so."""
    assert OrNull(Integer()).check("", pd.NA) is None
    machine = Machine(id="m", rack="r", gpus=1, free_gpus=1, affinity=pd.NA)
    assert machine.affinity is None
    workers = [{"server": "a", "base": 2}]
    assert Job(id="j", workers=workers, min_workers=pd.NA).min_workers == 2
    with pytest.raises(FieldError, match="^gpus is null: must be an integer"):
        Server(id="a", gpus=pd.NA)


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "x", [1], {"x": 1}, pd.NaT, math.inf])
def test_whatever_else_stays_as_it_is(value):
    """The value itself."""
    assert as_python(value) is value


def test_numbers_of_a_run_may_be_numpy_s():
    """As those that a loop over an array gives; the seed is the same seed."""
    fleet = lo.reclaim.Instance(
        servers=[{"id": name, "gpus": 8} for name in "abcd"], jobs=[], reclaim_servers=2
    )
    answer = lo.solve(fleet, "random", seed=np.int64(3), time_limit_s=np.float32(1.5))
    assert is_same(answer.seed, 3)
    assert answer.solution == lo.solve(fleet, "random", seed=3).solution

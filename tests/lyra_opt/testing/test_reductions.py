"""Reductions of documents reach what a reader would leave out."""

import pytest
from hypothesis import given

from lyra_opt.core.errors import FieldError
from lyra_opt.core.problem import find_problem
from lyra_opt.testing.reductions import reductions
from lyra_opt.testing.strategies import network_instances
from tests.draws import draws
from tests.tables import tables

TABLES = tables(__file__)


DOCUMENT = {
    "servers": [{"id": "a", "gpus": 4}, {"id": "b", "gpus": 4}],
    "jobs": [
        {"id": "x", "on": [{"server": "a", "base": 2}]},
        {"id": "y", "on": [{"server": "a", "base": 1}, {"server": "b", "base": 1}]},
    ],
    "chosen": 2,
}


@pytest.mark.parametrize(("changes", "meaning"), TABLES["left_out"])
def test_what_is_left_out(changes, meaning):
    """The document is not changed."""
    before = repr(DOCUMENT)
    assert DOCUMENT | changes in list(reductions(DOCUMENT))
    assert repr(DOCUMENT) == before


@draws(10)
@given(network_instances(min_jobs=2, max_jobs=3))
def test_one_job_less_is_an_instance(instance):
    """A format that the reductions know nothing of."""
    problem = find_problem("network")
    sizes = set()
    for document in reductions(problem.instance_document(instance)):
        try:
            sizes.add(len(problem.parse_instance(document).jobs))
        except FieldError:
            continue
    assert len(instance.jobs) - 1 in sizes

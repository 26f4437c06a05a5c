"""Instance generators: pinned bytes, names that contain the parameters, and refused parameters.

``family.toml`` holds the cases.
"""

import hashlib

import pytest

from lyra_opt.core.documents import format_document
from lyra_opt.core.errors import UserError
from lyra_opt.core.problem import find_problem
from lyra_opt.instances.family import family_names, generate
from tests.tables import tables

TABLES = tables(__file__)


@pytest.mark.parametrize("sha256", TABLES["golden"])
def test_golden_bytes(sha256):
    """A seed gives the same bytes in every version; a family that changes gets a new version."""
    problem, family, parameters = TABLES["golden"][sha256]
    instance = generate(problem, family, **parameters)
    text = format_document(find_problem(problem).instance_document(instance))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == sha256


@pytest.mark.parametrize("problem", ["reclaim", "preemption"])
def test_every_family_is_pinned(problem):
    """Families that read files have tests of their own."""
    pinned = {family for of, family, _ in TABLES["golden"].values() if of == problem}
    assert {*family_names(problem)} - pinned <= {"snapshot", "recorded", "set-union"}


@pytest.mark.parametrize("name", TABLES["names"])
def test_names_tell_the_parameters(name):
    problem, parameters = TABLES["names"][name]
    assert generate(problem, name.split("-v1")[0], **parameters).name == name


@pytest.mark.parametrize(("problem", "family", "parameters", "message"), TABLES["refused"]["cases"])
def test_bad_parameters(problem, family, parameters, message):
    with pytest.raises(UserError) as caught:
        generate(problem, family, **parameters)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)

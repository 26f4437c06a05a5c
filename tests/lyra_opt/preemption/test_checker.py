"""The checker: the worked example by hand, and a solution that breaks each rule."""

from dataclasses import replace

import pytest

from lyra_opt.preemption import check
from tests.lyra_opt.preemption.examples import BEST, example, example_document
from tests.optima import document_of
from tests.reference import preemption as reference
from tests.tables import tables

TABLES = tables(__file__)


def test_the_example_of_the_page():
    """The optimum loses train-a; reported measures are those of the page."""
    report = check(example(), BEST)
    assert report.victims == ("train-a",)
    assert (report.lost_pods_in_all, report.moved_pods_in_all, report.unplaced_pods) == (2, 0, 0)
    assert report.lost_resources == {"gpu": 8, "cpu": 32}
    assert report.objective == reference.optimum(example_document())


@pytest.mark.parametrize("case", TABLES["broken"])
def test_broken_rules_are_named(case):
    """The violation is reported, and no objective."""
    solution, instance, violation = TABLES["broken"][case]
    report = check(example(**instance), replace(BEST, **solution))
    assert violation in report.violations
    assert report.objective is None
    assert report.terms is None


@pytest.mark.parametrize("case", TABLES["values"])
def test_values_by_hand(case):
    """Each term counts what its name says; terms that are always 0 are left out."""
    solution, instance, values = TABLES["values"][case]
    changed = example(**instance)
    report = check(changed, replace(BEST, **solution))
    assert report.violations == ()
    assert dict(report.terms) == values
    assert list(report.terms) == [term.key for term in changed.terms.terms]
    assert report.objective == reference.encoded(document_of(changed), values.values())

"""Trees of orders are proofs: a checker that shares no code comes to the optimum in fractions."""

from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.allocation import PROBLEM, Instance
from lyra_opt.formulations.allocation.mean_jct.order_tree import order_certificate
from lyra_opt.instances.library import library
from lyra_opt.testing.strategies import allocation_instances
from tests.draws import draws, sampled
from tests.formulations.allocation.test_order_tree import ONCE_PROVED_ALONE
from tests.lyra_opt.allocation import examples
from tests.lyra_opt.allocation.examples import instance_of, job
from tests.optima import least_mean_jct
from tests.reference.order_certificates import Checker, RefutedError


def proved(instance: Instance) -> float:
    found = order_certificate(instance)
    checker = Checker(PROBLEM.instance_document(instance), found.denominator, found.ticks)
    return float(checker.proved(found.nodes))


@pytest.mark.parametrize("name", sampled([(name,) for name in ONCE_PROVED_ALONE], 3))
def test_the_tree_proves_the_best_known_of_the_library(name):
    known = library().known[name].best_known
    assert known * (1 - 1e-6) <= proved(library().load(name).instance) <= known * (1 + 1e-12)


@pytest.mark.parametrize(
    ("jobs", "seed", "options"),
    [
        (2, 1, {"fit": True, "loss": True, "wide": True}),
        (2, 2, {"fit": False, "releases": True, "loss": True}),
        (3, 1, {"fit": False, "loss": True}),
        (3, 2, {"fit": False, "releases": True, "loss": True, "wide": True}),
    ],
)
def test_the_tree_proves_what_brute_force_finds(jobs, seed, options):
    instance = examples.drawn(jobs, seed, **options)
    assert proved(instance) == pytest.approx(least_mean_jct(instance), rel=1e-6)


def test_a_job_alone_has_a_certificate():
    """Its least run time meets the optimum before the search begins."""
    assert proved(instance_of(1, job("a", 1, 1, 0.125))) == pytest.approx(0.125, rel=1e-6)


@draws(30)
@given(allocation_instances(objective="mean_jct", max_jobs=4), st.data())
def test_a_tree_that_is_changed_proves_no_more(instance, data):
    """A price that is another, or a node that is missing: refuted, or a bound that still holds."""
    found = order_certificate(instance)
    checker = Checker(PROBLEM.instance_document(instance), found.denominator, found.ticks)
    optimum = checker.proved(found.nodes)
    nodes = [dict(node) for node in found.nodes]
    place = data.draw(st.integers(0, len(nodes) - 1), label="node")
    if "work" in nodes[place] and data.draw(st.booleans(), label="price"):
        place_of_job = data.draw(st.integers(0, len(instance.jobs) - 1), label="job")
        key = data.draw(st.sampled_from([k for k in nodes[place] if k != "times"]), label="key")
        changed = list(nodes[place][key])
        factor = data.draw(st.sampled_from([0, 0.5, 1.5, 3]), label="factor")
        changed[place_of_job] = int(changed[place_of_job] * factor) + data.draw(
            st.sampled_from([0, 1 << 40])
        )
        nodes[place][key] = changed
    else:
        del nodes[place]
    with suppress(RefutedError):
        assert checker.proved(nodes) <= optimum * (1 + Fraction(2, 10**6))

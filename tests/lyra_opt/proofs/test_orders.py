"""Proofs of mean JCT: trees over orders of events, which a file of its own checks."""

import json
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.allocation import PROBLEM
from lyra_opt.core.errors import UserError
from lyra_opt.core.problem import problem_of_format
from lyra_opt.instances.library import library
from lyra_opt.proofs import order_stand_alone
from lyra_opt.proofs.files import proof_of
from lyra_opt.proofs.order_stand_alone import Refuted, check, main
from lyra_opt.proofs.stand_alone import content_hash
from lyra_opt.testing.strategies import allocation_instances
from tests.draws import draws, sampled
from tests.formulations.allocation.test_order_tree import ONCE_PROVED_ALONE
from tests.lyra_opt.allocation import examples
from tests.lyra_opt.allocation.examples import instance_of, job
from tests.lyra_opt.proofs.test_stand_alone import assert_stands_alone, refuse
from tests.optima import least_mean_jct

FLEET = json.loads((library().folder / "load-v1-n4-load100-release100-seed0.json").read_text())
NEAR = 2e-6


def proved(document):
    """Return the proof of the optimum of an instance, as a file has it."""
    problem = problem_of_format(document)
    instance = problem.parse_instance(document)
    solution = lo.solve(instance, "exact").solution
    return json.loads(json.dumps(proof_of(problem, instance, document, solution)))


def bound_of(instance):
    document = PROBLEM.instance_document(instance)
    return float(check(document, proved(document)))


def test_it_is_short_and_needs_nothing_but_python(tmp_path):
    proof = proved(FLEET)
    claims = ((proof["bound"], 0, "proved: bound 88.0499"), ("89", 1, "NOT proved: it claims"))
    cases = [(FLEET, proof | {"bound": bound}, *said) for bound, *said in claims]
    assert_stands_alone(Path(order_stand_alone.__file__), 400, tmp_path, cases)


@pytest.mark.parametrize("name", sampled([(name,) for name in ONCE_PROVED_ALONE], 3))
def test_the_tree_proves_the_best_known_of_the_library(name):
    known = library().known[name].best_known
    bound = bound_of(library().load(name).instance)
    assert known * (1 - 1e-6) <= bound <= known * (1 + 1e-12)


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
    assert bound_of(instance) == pytest.approx(least_mean_jct(instance), rel=NEAR)


def test_a_job_alone_has_a_certificate():
    """Its least run time meets the optimum before the search begins."""
    assert bound_of(instance_of(1, job("a", 1, 1, 0.125))) == pytest.approx(0.125, rel=NEAR)


def test_jobs_of_very_different_work_have_a_certificate():
    """Prices with few digits prove too little."""
    jobs = job("a", 1, 2, 1.0, scaling_loss=1.0), job("b", 1, 4, 0.001, running=True)
    assert bound_of(instance_of(1, *jobs)) == pytest.approx(0.501, rel=NEAR)


def test_a_bound_beyond_floats_is_refused(tmp_path, capsys):
    jobs = [{"min_workers": 1, "max_workers": 1, "work_worker_s": 1.7e308}] * 2
    jobs = [each | {"id": name} for each, name in zip(jobs, "ab", strict=True)]
    document = FLEET | {"gpus": 1, "jobs": jobs}
    proof = proved(FLEET) | {
        "sha256": content_hash(document),
        "denominator": 1,
        "prices": [[2, 0, 0, 0, 1, 0, 0, 0]],
        "nodes": [{"next": True}, {"next": True}, {"prices": 0}],
    }
    refuse(main, tmp_path, document, proof, capsys)


def test_a_schedule_that_is_not_the_best_has_no_proof():
    """The message says that a better schedule exists, or that there is always a schedule."""
    instance = PROBLEM.parse_instance(FLEET)
    poor = lo.solve(instance, "lyra").solution
    for solution, told in ((poor, "a better schedule may exist"), (None, "it has a schedule")):
        with pytest.raises(UserError, match=told):
            proof_of(PROBLEM, instance, FLEET, solution)


@draws(60)
@given(allocation_instances(objective="mean_jct", max_jobs=4), st.data())
def test_a_forgery_proves_no_more_than_the_optimum(instance, data):
    """Other prices, starts, leaves or denominators, nodes that are missing, repeated or swapped.

    Each forgery claims a bound beyond the optimum, and is refuted or cannot be read.
    """
    document = PROBLEM.instance_document(instance)
    proof = proved(document)
    beyond = str(Fraction(proof["bound"]) * (1 + Fraction(2, 10**6)) + Fraction(1, 10**9))
    for _ in range(40):
        forged = json.loads(json.dumps(proof | {"bound": beyond}))
        nodes, prices = forged["nodes"], forged["prices"]
        place = data.draw(st.integers(0, len(nodes) - 1))
        kind = data.draw(st.sampled_from(("price", "scale", "drop", "copy", "swap", "node")))
        if kind == "price":
            some = data.draw(st.sampled_from(prices))
            some[data.draw(st.integers(0, len(some) - 1))] += data.draw(
                st.integers(-(2**24), 2**24)
            )
        elif kind == "scale":
            forged["denominator"] = data.draw(st.sampled_from((1, 2**20, 2**23, 2**30, 0, -1)))
        elif kind == "drop":
            del nodes[place]
        elif kind == "copy":
            nodes.insert(place, nodes[place])
        elif kind == "swap":
            other = data.draw(st.integers(0, len(nodes) - 1))
            nodes[place], nodes[other] = nodes[other], nodes[place]
        else:
            most = st.integers(-1, max(len(prices), len(instance.jobs)))
            key = data.draw(st.sampled_from(("next", "start", "prices")))
            nodes[place] = {key: data.draw(most)}
        with suppress(ValueError, IndexError), pytest.raises(Refuted):
            check(document, forged)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("bound", bad) for bad in ("1e5", "1/0", 3, None)),
        *(("prices", bad) for bad in ([], 5)),
        ("nodes", [{"prices": -1}]),
        ("denominator", 0),
        ("version", 2),
    ],
)
def test_a_malformed_proof_is_refused(key, value, tmp_path, capsys):
    refuse(main, tmp_path, FLEET, proved(FLEET) | {key: value}, capsys)


@pytest.mark.parametrize(
    "change",
    [
        {"max_workers": 0},
        {"min_workers": 10**6, "max_workers": 10**6},
        {"scaling_loss": 1.5},
        {"running": True, "release_s": 3.0},
        {"id": "j1"},
        {"work_worker_s": 0},
        {"release_s": -1},
        {"gpus_per_worker": 1.5},
    ],
)
def test_instances_that_mislead_its_arithmetic_are_refused(change, tmp_path, capsys):
    jobs = [FLEET["jobs"][0] | change, *FLEET["jobs"][1:]]
    if "id" in change:
        jobs[0]["id"] = jobs[1]["id"]
    wrong = FLEET | {"jobs": jobs}
    refuse(main, tmp_path, wrong, proved(FLEET) | {"sha256": content_hash(wrong)}, capsys)

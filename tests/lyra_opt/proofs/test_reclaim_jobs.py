"""Proofs of rigid reclaiming by trees on jobs, which a file of its own checks."""

import json
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import lyra_opt as lo
from lyra_opt.core.errors import UserError
from lyra_opt.instances.library import library
from lyra_opt.proofs import files, reclaim_stand_alone
from lyra_opt.proofs.files import checked_proof, proof_of
from lyra_opt.proofs.prover import NotProved
from lyra_opt.proofs.reclaim_prover import proof_by_jobs
from lyra_opt.proofs.reclaim_stand_alone import Fleet, Refuted, check, main
from lyra_opt.proofs.stand_alone import content_hash
from tests.lyra_opt.proofs.test_stand_alone import assert_stands_alone, refuse
from tests.malformed import changed
from tests.odd_instances import choices_of, odd_document
from tests.reference import PROBLEMS
from tests.tables import tables

FLEET = json.loads((library().folder / "hyp8-v1-s20-k6-seed0.json").read_text())
OPTIMUM = 16
TABLES = tables(__file__)


def proved(document, bound=OPTIMUM):
    return json.loads(json.dumps(proof_by_jobs("fleet", document, bound, []))) | {"solution": None}


def forged(random, proof, places):
    """Return a proof with a node changed, added, removed or moved, without its end, or random."""
    nodes, other = list(proof["nodes"]), random.choice([*places, -1, 10**9, None, 0.5, "0"])
    first, last = (random.randrange(len(nodes) + 1) for _ in range(2))
    return proof | {
        "nodes": random.choice(
            (
                [*nodes[:first], other, *nodes[first + 1 :]],
                [*nodes[:first], other, *nodes[first:]],
                [*nodes[:first], *nodes[first + 1 :]],
                [*nodes[:first], *nodes[first + 1 :], *nodes[first : first + 1]],
                [*nodes[:first], *nodes[last:]],
                random.choices(places, k=first + last),
            )
        )
    }


def test_it_is_short_and_needs_nothing_but_python(tmp_path):
    claims = (("16", 0, "proved: bound 16"), ("17", 1, "NOT proved: a node branches"))
    cases = [(FLEET, proved(FLEET) | {"bound": bound}, *said) for bound, *said in claims]
    assert_stands_alone(Path(reclaim_stand_alone.__file__), 400, tmp_path, cases)


@pytest.mark.parametrize("first", [0, pytest.param(1000, marks=pytest.mark.slow)])
def test_optima_are_proved_and_no_forgery_proves_more(first):
    """Odd instances that enumeration knows; for a bound one too high, the tree never closes."""
    random = Random(first)
    for seed in range(first, first + (60 if first == 0 else 1000)):
        document = odd_document(choices_of(seed), "reclaim", "rigid")
        optimum, places = PROBLEMS["reclaim"].optimum(document), list(Fleet(document).number)
        proof = proved(document, optimum)
        assert check(document, proof) == (optimum, None)
        with pytest.raises(NotProved, match="a better choice exists"):
            proof_by_jobs("fleet", document, optimum + 1, [])
        for _ in range(20):
            other = forged(random, proof | {"bound": str(optimum + 1)}, [*places, 0])
            with suppress(ValueError), pytest.raises(Refuted):
                check(document, other)


def test_forged_trees_of_a_fleet_prove_no_more_than_the_optimum():
    random, proof, places = Random(1), proved(FLEET), list(Fleet(FLEET).number)
    assert len(proof["nodes"]) > 50
    for _ in range(100):
        with pytest.raises((Refuted, ValueError)):
            check(FLEET, forged(random, proof | {"bound": str(OPTIMUM + 1)}, places))


def test_a_large_tree_is_on_jobs(monkeypatch):
    """The proof contains the choice, so the checker sees that it is optimal."""
    monkeypatch.setattr(files, "MOST_RIGID_NODES", 0)
    loaded, name = library().load(FLEET["name"]), FLEET["name"]
    best, _ = library().solution(name)
    proof = proof_of(loaded.problem, loaded.instance, FLEET, best)
    found = checked_proof(loaded, FLEET, proof, "proof.json")
    assert (found.bound, found.value, found.is_optimal) == (OPTIMUM, OPTIMUM, True)
    with pytest.raises(Refuted, match="does not choose"):
        check(FLEET, proof | {"solution": [*proof["solution"][1:], "nowhere"]})
    wrong = lo.solve(loaded.instance, "random").solution
    with pytest.raises(UserError, match="a better choice exists"):
        proof_of(loaded.problem, loaded.instance, FLEET, wrong)
    other = checked_proof(loaded, FLEET, proof | {"sha256": "0"}, "proof.json")
    assert "for another instance" in other.in_words()


@pytest.mark.parametrize(
    ("key", "value"), [(key, bad) for key, values in TABLES["malformed"].items() for bad in values]
)
def test_a_malformed_proof_is_refused(key, value, tmp_path, capsys):
    refuse(main, tmp_path, FLEET, proved(FLEET) | {key: value}, capsys)


@pytest.mark.parametrize(("field", "value"), TABLES["misleading"])
def test_instances_that_mislead_its_arithmetic_are_refused(field, value, tmp_path, capsys):
    wrong = changed(FLEET, {field: value})
    refuse(main, tmp_path, wrong, proved(FLEET) | {"sha256": content_hash(wrong)}, capsys)

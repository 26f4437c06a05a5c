"""Proofs of schedules in rounds: of optima by brute force, of forgeries, of the library."""

import json
from contextlib import suppress
from fractions import Fraction
from random import Random

import pytest

import lyra_opt as lo
from lyra_opt.core.errors import UserError
from lyra_opt.core.result import Limits, Status
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.heterogeneous import PROBLEM
from lyra_opt.proofs.files import proof_of
from lyra_opt.proofs.stand_alone import UNREADABLE, Refuted, check
from tests.odd_instances import choices_of, odd_document
from tests.reference import PROBLEMS
from tests.reference.drawing import INFEASIBLE, UNKNOWN
from tests.reference.heterogeneous import MAXIMISED, ROUNDS

SLACK = Fraction(2, 10**9)


def cases(objective, number):
    """Yield odd instances whose optimum enumeration knows."""
    for seed in range(number):
        document = odd_document(choices_of(seed), "heterogeneous", objective)
        known = PROBLEMS["heterogeneous"].optimum(document)
        if known is not UNKNOWN:
            yield document, known


def proof_for(document):
    """Return the proof that no schedule is better than the best, or that none exists."""
    instance = PROBLEM.parse_instance(document)
    answer = lo.solve(instance, "brute-force")
    if answer.status not in (Status.OPTIMAL, Status.INFEASIBLE):
        raise UserError("brute force does not support the instance")
    with limited_to(Limits(time_s=20)):
        proof = proof_of(PROBLEM, instance, document, answer.solution)
    return json.loads(json.dumps(proof))


@pytest.mark.parametrize("objective", ROUNDS)
@pytest.mark.parametrize("number", [12, pytest.param(400, marks=pytest.mark.slow)])
def test_optima_are_proved_and_nothing_beyond(objective, number):
    """The programme ignores which server has which GPU, so a few optima have no proof."""
    sense, found, random = -1 if objective in MAXIMISED else 1, 0, Random(objective)
    tried, accepted = 0, []
    for document, known in cases(objective, number):
        tried += 1
        try:
            proof = proof_for(document)
        except UserError:
            continue
        found += 1
        bound, value = check(document, proof)
        assert value is None
        if known is INFEASIBLE:
            assert bound is None
            beyond = "1"
        else:
            assert bound is not None
            assert 0 <= sense * (Fraction(known) - bound) <= SLACK * abs(Fraction(known))
            step = SLACK * abs(bound) + Fraction(1, 10**12)
            beyond = str(bound + sense * step)
        for _ in range(20):
            forged = _forged(random, proof | {"bound": beyond})
            with suppress(Refuted, *UNREADABLE):
                check(document, forged)
                accepted.append(known)
    assert set(accepted) <= {INFEASIBLE}
    assert found > tried / 2


def _forged(random, proof):
    """Return a proof with a change to one node, to the denominator or to nothing but the bound."""
    forged = json.loads(json.dumps(proof))
    nodes = forged["nodes"]
    place = random.randrange(len(nodes))
    kind = random.choice(("bound", "drop", "copy", "empty", "multiplier", "branch", "scale"))
    if kind == "drop":
        del nodes[place]
    elif kind == "copy":
        nodes.insert(place, nodes[place])
    elif kind == "empty":
        nodes[place]["is_empty"] = True
    elif kind == "multiplier" and nodes[place].get("multipliers"):
        flat = nodes[place]["multipliers"]
        flat[random.randrange(len(flat))] += random.choice((1, -1, 2**20, -(2**20)))
    elif kind == "branch":
        nodes[place] = {"branch": random.randrange(9), "at_most": random.choice((-1, 0, 1))}
    elif kind == "scale":
        forged["denominator"] = random.choice((1, 2, 10**30, 0, -1))
    return forged


def test_a_makespan_is_at_most_one_round_beyond_its_programme():
    """A programme without a point has any cost, if its leaves are not called empty."""
    document, _ = next(each for each in cases("makespan", 12) if each[1] is not INFEASIBLE)
    proof = proof_for(document)
    bound = check(document, proof)
    for node in proof["nodes"]:
        node |= {"is_empty": False}
        node["multipliers"][1::2] = [10**6 * each for each in node["multipliers"][1::2]]
    assert check(document, proof) == bound


def test_a_proof_has_no_solution():
    """A point of the programme is not a schedule, so none is taken for one."""
    document, _ = next(cases("utility", 30))
    proof = proof_for(document)
    with pytest.raises(ValueError, match="has no solution"):
        check(document, proof | {"solution": {}})

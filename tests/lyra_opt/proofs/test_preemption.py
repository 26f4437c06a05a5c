"""The checker of preemption proofs: it accepts what brute force confirms, and nothing else."""

import json
from copy import deepcopy
from dataclasses import MISSING, fields
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import lyra_opt as lo
from lyra_opt.__main__ import main as lo_main
from lyra_opt.core.errors import UserError
from lyra_opt.core.problem import find_problem
from lyra_opt.preemption import Budget, Demand, Gang, Instance, Node, PodGroup, Shape
from lyra_opt.preemption.problem import PROBLEM
from lyra_opt.proofs import preemption_stand_alone
from lyra_opt.proofs.files import proof_of
from lyra_opt.proofs.preemption_stand_alone import FIELDS, Cluster, Programme, Refuted, check, main
from lyra_opt.proofs.stand_alone import UNREADABLE, content_hash
from tests.lyra_opt.preemption.draws import KINDS, draw
from tests.lyra_opt.preemption.test_instance import REFUSED, refused
from tests.lyra_opt.proofs.test_shares import with_objective
from tests.lyra_opt.proofs.test_stand_alone import assert_stands_alone, refuse
from tests.malformed import ABSENT, changed
from tests.reference import preemption as reference
from tests.tables import tables

JsonObject = dict[str, Any]

TABLES = tables(__file__)
FLEET: JsonObject = TABLES["fleet"]


def too_large() -> JsonObject:
    """Return the fleet with a demand for which also `wall` would have to leave."""
    return changed(FLEET, {"demand.level": None, "demand.shapes[0].count": 3})


def drawn(kind: str, seed: int) -> tuple[Instance, JsonObject]:
    """Return a small random instance, and its document as read from a file."""
    instance = draw(np.random.default_rng(seed), kind)
    return instance, json.loads(json.dumps(PROBLEM.instance_document(instance)))


def proved(document: JsonObject) -> JsonObject:
    """Return the proof of the optimum or of infeasibility, as read from a file."""
    instance = PROBLEM.parse_instance(document)
    answer = lo.solve(instance, "brute-force")
    return json.loads(json.dumps(proof_of(PROBLEM, instance, document, answer.solution)))


def best_of(document: JsonObject) -> dict[str, int] | None:
    """Return the terms of the optimum by brute force, without terms of 0; None if infeasible."""
    values = reference.best(document)
    if values is None:
        return None
    terms = reference.terms(document)
    keys = [t.name if t.priority is None else f"{t.name}@{t.priority}" for t in terms]
    return {key: value for key, value in zip(keys, values, strict=True) if value}


def is_accepted(document: JsonObject, proof: JsonObject, best: dict[str, int] | None) -> bool:
    """Return whether the checker accepts a proof; fail if it accepts a false claim."""
    try:
        bound, values = check(document, proof)
    except (Refuted, *UNREADABLE):
        return False
    if best is not None:
        keys = Cluster(document).terms
        optimum = [best.get(key, 0) for key in keys]
        assert bound is not None, "it says that no solution exists"
        assert [bound.get(key, 0) for key in keys] <= optimum
        assert values is None or [values.get(key, 0) for key in keys] >= optimum
    else:
        assert values is None, "it shows a solution of an infeasible instance"
    return True


def test_it_is_short_and_needs_nothing_but_python(tmp_path):
    optimum, counting = proved(FLEET), proved(too_large())
    better = optimum | {"bound": optimum["bound"] | {"lost:gpu": 5}}
    cases = (
        (FLEET, optimum, 0, "optimal"),
        (FLEET, better, 1, "NOT proved"),
        (too_large(), counting, 0, "no solution exists"),
    )
    assert_stands_alone(Path(preemption_stand_alone.__file__), 400, tmp_path, cases)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [0, pytest.param(1000, marks=pytest.mark.slow)])
def test_optima_and_infeasibility_are_proved_and_nothing_beyond(kind, first):
    """The proved bound is the optimum of brute force; a higher value of any term is refused."""
    for seed in range(first, first + (40 if first == 0 else 300)):
        instance, document = drawn(kind, seed)
        best, proof = best_of(document), proved(document)
        if best is None:
            assert check(document, proof) == (None, None)
            continue
        assert check(document, proof) == (best, best)
        for term in proof["bound"]:
            keys = Cluster(document).terms
            before = {key: best.get(key, 0) for key in keys[: keys.index(term)]}
            for value in (best.get(term, 0) + 1, float("nan")):
                with pytest.raises((Refuted, LookupError)):
                    check(document, proof | {"bound": before | {term: value}})
        with pytest.raises(UserError, match="cannot prove the answer"):
            proof_of(PROBLEM, instance, document, None)


def test_a_solution_that_is_not_optimal_has_no_proof():
    """Whether it loses more than necessary on a node that is needed, or elsewhere."""
    refused = 0
    for kind, seed in product(KINDS, range(40)):
        instance, document = drawn(kind, seed)
        best = best_of(document)
        for solver in ("fewest-pods-first", "kube-pods", "slurm"):
            answer = lo.solve(instance, solver) if best is not None else None
            if answer is not None and answer.solution is not None:
                terms = PROBLEM.check(instance, answer.solution).terms
                if {key: value for key, value in terms.items() if value} != best:
                    refused += 1
                    with pytest.raises(UserError, match="a better"):
                        proof_of(PROBLEM, instance, document, answer.solution)
    assert refused > 20


ODD = (*range(-2, 4), 2**53, 10**30, 0.5, True, None, "1", [], {}, float("nan"), float("inf"))


def forged(random: Random, proof: JsonObject) -> JsonObject:
    """Return a proof in which one to three values are changed, copied or removed."""
    found = deepcopy(proof)
    for _ in range(random.randint(1, 3)):
        places: list[tuple[Any, Any]] = []
        left: list[Any] = [found]
        for value in left:
            keys = list(value) if isinstance(value, dict) else range(len(value))
            places += [(value, key) for key in keys]
            left += [value[key] for key in keys if isinstance(value[key], dict | list)]
        (parent, key), (other, place) = random.choice(places), random.choice(places)
        old, action = parent[key], random.random()
        if action < 0.5 and type(old) is int:
            parent[key] = random.choice((old + 1, old - 1, -old, 2 * old, old // 2))
        elif action < 0.85:
            parent[key] = deepcopy(random.choice((random.choice(ODD), other[place])))
        else:
            del parent[key]
    return found


@pytest.mark.parametrize("first", [0, pytest.param(500, marks=pytest.mark.slow)])
def test_no_forged_proof_of_a_false_claim_is_accepted(first):
    """Changed numbers, other claims, and proofs of other instances, with the right hash or not."""
    random, accepted, others = Random(first), 0, []
    for seed in range(first, first + (60 if first == 0 else 600)):
        _, document = drawn(KINDS[seed % len(KINDS)], seed)
        best, proof = best_of(document), proved(document)
        others.append(proof)
        with pytest.raises(Refuted, match="another instance"):
            check(document | {"name": "other"}, proof)
        for _ in range(12):
            accepted += is_accepted(document, forged(random, proof), best)
        for other in random.sample(others, min(3, len(others))):
            borrowed = other | {"sha256": content_hash(document)}
            accepted += is_accepted(document, borrowed, best)
            assert other is proof or not is_accepted(document, other, best)
    assert accepted > 50


@pytest.mark.parametrize("case", TABLES["damaged"])
def test_damaged_trees_are_refuted(case):
    """Each with the reason; the undamaged tree proves that no cost is below 0."""
    programme = Programme(Cluster(FLEET), "r-a")
    cost, tree = programme.terms["lost:gpu"], {"denominator": 1, "nodes": [{"multipliers": []}]}
    assert programme.proved_cost(cost, tree) == 0
    assert not programme.rows[1][2], "row 1 is an inequality"
    damage, told = TABLES["damaged"][case]
    with pytest.raises((Refuted, ValueError), match=told):
        programme.proved_cost(cost, tree | damage)


def test_solutions_must_be_points_of_the_programme():
    """A pod that is placed without room, and a variable that is too large."""
    proof = proved(FLEET)
    variables = proof["solution"]["variables"]
    for wrong in ({"gang 'cheap' lost": 0}, {"gang 'cheap' lost": 2}, {"gang 'wall' lost": 1}):
        damaged = proof | {"solution": {"domain": "r-a", "variables": variables | wrong}}
        with pytest.raises(Refuted, match="not a point"):
            check(FLEET, damaged)


def test_nodes_outside_the_domain_can_be_emptied():
    """Room in the domain of the pending pods is lost only if no other node can be emptied."""
    document = FLEET | {"empty_nodes": 1}
    assert check(document, proved(document)) == (best_of(document), best_of(document))
    document |= {"empty_nodes": 2}  # `wall` cannot leave the third node
    assert proved(document)["table"][0]["shortfall"] == 1


def test_blocking_gangs_are_a_minimal_set():
    """With one gang too few the demand does not fit; with one too many, one is not needed."""
    document = too_large()
    document["gangs"].append(document["gangs"][2] | {"id": "spare", "pods": []})
    document["gangs"][3]["pods"] = [{"node": "a", "request": {"gpu": 1}}]
    proof = proved(document)
    assert proof["blocking"] == ["wall"]
    assert proof["table"] == [
        {"domain": None, "shape": "pod", "wanted": 3, "fit": 2, "shortfall": 1}
    ]
    for wrong in (["spare"], ["wall", "spare"], ["wall", "wall"], ["cheap"], ["nobody"]):
        with pytest.raises(Refuted, match="minimal set"):
            check(document, proof | {"blocking": wrong})
    with pytest.raises(Refuted, match="table"):
        check(document, proof | {"table": [proof["table"][0] | {"fit": 1}]})
    assert check(document, proof | {"blocking": []}) == (None, None)
    # Two shapes fit one by one without `wall`, but not together: counting decides nothing.
    document["demand"]["shapes"].append({"id": "other", "count": 2, "request": {"gpu": 5}})
    with pytest.raises(Refuted, match="minimal set"):
        check(document, proof | {"sha256": content_hash(document)})


def test_its_tables_are_those_of_the_toolkit():
    """Every key of an instance, and every default that does not depend on other keys."""
    records = {"instance": Instance, "node": Node, "gang": Gang, "pods": PodGroup}
    records |= {"demand": Demand, "shape": Shape, "budget": Budget}
    for name, record in records.items():
        declared = {each.name: each for each in fields(record) if each.name != "index"}
        known = {key: default for key, _, default in FIELDS[name]}
        assert known.keys() - {"format", "version"} == declared.keys() - {"problem"}
        for key, default in known.items():
            if key in declared and declared[key].default not in (MISSING, None):
                written = json.loads(json.dumps(declared[key].default, default=dict))
                assert json.loads(default) == written, (name, key)
            elif key in declared and declared[key].default is MISSING:
                assert not default, (name, key)


DECIDED = {
    *("capacities_that_do_not_sum", "broken_hard_budget", "no_pending_pods", "nothing_asked"),
    *("too_many_nodes_to_empty", "too_few_candidates"),
}
"""Cases in which only the toolkit refuses the instance; its optimum is clear all the same."""


@pytest.mark.parametrize("case", sorted(REFUSED.keys() - DECIDED))
def test_alone_it_refuses_instances_that_the_toolkit_refuses(case):
    """Otherwise it could confirm a claim about an instance that means something else."""
    with pytest.raises(UNREADABLE):
        Cluster(refused(case))


@pytest.mark.parametrize(
    ("kind", "field", "value"), [(kind, *each) for kind, of in TABLES["bad"].items() for each in of]
)
def test_bad_files_are_refused_with_one_line(kind, field, value, tmp_path, capsys):
    """By both checkers with exit code 2: nothing is said about the claim."""
    change = {field: ABSENT if value == "absent" else value}
    document = changed(FLEET, change if kind == "instance" else {})
    proof = changed(proved(FLEET), change if kind == "proof" else {})
    refuse(main, tmp_path, document, proof | {"sha256": content_hash(document)}, capsys)


class Endless(list[JsonObject]):
    """A list that claims to have a billion entries."""

    def __len__(self) -> int:
        return 10**9


def test_proofs_that_would_exhaust_time_or_memory_are_refused(tmp_path, capsys):
    """Too many nodes, a long chain of open branches, and a file that is nested too deeply."""
    document = changed(FLEET, {"demand.level": None, "demand.shapes[0].count": 10**6})
    document["demand"]["shapes"][0] |= {"min_count": 0, "request": {}}
    programme = Programme(Cluster(document), None)
    chain = [{"branch": 0, "at_most": 10**6 - 1 - depth} for depth in range(5000)]
    with pytest.raises(Refuted, match="does not split"):
        programme.proved_cost({}, {"denominator": 1, "nodes": chain})
    with pytest.raises(ValueError, match="too large"):
        programme.proved_cost({}, {"denominator": 1, "nodes": Endless()})
    (tmp_path / "proof.json").write_text("[" * 200_000)
    assert main([str(tmp_path / "proof.json")] * 2) == 2
    assert "RecursionError" in capsys.readouterr().err


def test_amounts_in_bytes_are_proved():
    """The search scales such rows, whose multipliers are too small for its common denominator."""
    pods = [{"node": "a", "request": {"memory": 10**10 + 7919 * k}} for k in range(6)]
    document = {**FLEET, "objective": ["weighted_gangs"]}
    document["nodes"] = [{"id": node, "capacity": {"memory": 7 * 10**10}} for node in "ab"]
    document["gangs"] = [
        {"id": f"g{k}", "pods": [pod], "weight": 3 + k} for k, pod in enumerate(pods)
    ]
    request = {"memory": 3 * 10**10 + 1}
    document["demand"] = {"priority": 1, "shapes": [{"count": 4, "request": request}]}
    assert check(document, proved(document)) == (best_of(document), best_of(document))


def test_the_commands_write_and_check_proofs(tmp_path, capsys):
    """Of an optimum that a rule found, and of an instance without a solution."""
    instance, proof = tmp_path / "instance.json", tmp_path / "proof.json"
    for document, written, checked in (
        (FLEET, "prove that no better solution exists", "than lost_gangs@0 1, lost:gpu 4, and"),
        (too_large(), "a table of 1 row proves that no solution exists", "no solution exists"),
    ):
        instance.write_text(json.dumps(document))
        assert lo_main(["solve", str(instance), "--solver", "exact", "--proof", str(proof)]) == 0
        assert written in capsys.readouterr().err
        assert lo_main(["verify", str(instance), "--proof", str(proof)]) == 0
        assert checked in capsys.readouterr().out


def test_other_problems_without_a_solution_are_proved():
    """A deadline that nobody can meet; and no proof where solutions exist."""
    problem, on_time = find_problem("heterogeneous"), with_objective("cost")
    late = changed(on_time, {"jobs[1].utility.deadline_s": 8.0})
    assert proof_of(problem, problem.parse_instance(late), late, None)["bound"] is None
    with pytest.raises(UserError, match="a solution may exist"):
        proof_of(problem, problem.parse_instance(on_time), on_time, None)

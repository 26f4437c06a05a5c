"""The checker of preemption proofs: it accepts what brute force confirms, and nothing else."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from contextlib import suppress
from copy import deepcopy
from dataclasses import MISSING, fields
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
from lyra_opt.proofs.preemption_stand_alone import (
    FIELDS,
    Cluster,
    Programme,
    Refuted,
    check,
    main,
)
from lyra_opt.proofs.stand_alone import UNREADABLE, content_hash
from tests.lyra_opt.preemption.draws import KINDS, draw
from tests.malformed import ABSENT, changed
from tests.reference import preemption as reference

JsonObject = dict[str, Any]

FILE = Path(preemption_stand_alone.__file__)
MOST_LINES = 400
FLEET: JsonObject = {
    "format": "lyra-opt/preemption",
    "version": 1,
    "name": "three",
    "moves": "none",
    "nodes": [
        {"id": node, "capacity": {"gpu": 8}, "domains": {"rack": f"r-{node}"}} for node in "abc"
    ],
    "gangs": [
        {"id": "cheap", "pods": [{"node": "a", "request": {"gpu": 2}, "count": 2}]},
        {"id": "dear", "priority": 1, "pods": [{"node": "b", "request": {"gpu": 8}}]},
        {"id": "wall", "priority": 9, "pods": [{"node": "c", "request": {"gpu": 8}}]},
    ],
    "demand": {"priority": 5, "level": "rack", "shapes": [{"count": 1, "request": {"gpu": 5}}]},
}
"""One pending pod fits if `cheap` or `dear` is lost; `wall` may lose nobody."""


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
    answer = lo.solve(instance, "exact")
    return json.loads(json.dumps(proof_of(PROBLEM, instance, document, answer.solution)))


def best_of(document: JsonObject) -> dict[str, int] | None:
    """Return the terms of the optimum by brute force, without terms of 0; None if infeasible."""
    values = reference.best(document)
    if values is None:
        return None
    terms = reference.terms(document)
    keys = [t.name if t.priority is None else f"{t.name}@{t.priority}" for t in terms]
    return {key: value for key, value in zip(keys, values, strict=True) if value}


def require_true(document: JsonObject, proof: JsonObject, best: dict[str, int] | None) -> bool:
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
    """A stranger reads it in an evening, copies it, and runs it without the toolkit."""
    text = FILE.read_text()
    assert text.count("\n") <= MOST_LINES
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported <= sys.stdlib_module_names
    (tmp_path / "check.py").write_text(text)
    optimum, counting = proved(FLEET), proved(too_large())
    for document, proof, code, told in (
        (FLEET, optimum, 0, "optimal"),
        (FLEET, optimum | {"bound": optimum["bound"] | {"lost:gpu": 5}}, 1, "NOT proved"),
        (too_large(), counting, 0, "no solution exists"),
    ):
        (tmp_path / "instance.json").write_text(json.dumps(document, indent=2))
        (tmp_path / "proof.json").write_text(json.dumps(proof))
        ran = subprocess.run(
            [sys.executable, "-I", "-S", "check.py", "instance.json", "proof.json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (code, "")
        assert told in ran.stdout


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [0, pytest.param(1000, marks=pytest.mark.slow)])
def test_optima_and_infeasibility_are_proved_and_nothing_beyond(kind, first):
    """The proved bound is the optimum of brute force; a higher value of any term is refused."""
    for seed in range(first, first + (12 if first == 0 else 300)):
        instance, document = drawn(kind, seed)
        best, proof = best_of(document), proved(document)
        if best is None:
            assert check(document, proof) == (None, None)
            continue
        assert check(document, proof) == (best, best)
        for term in proof["bound"]:
            keys = Cluster(document).terms
            before = keys[: keys.index(term)]
            bound = {key: best.get(key, 0) for key in before} | {term: best.get(term, 0) + 1}
            with pytest.raises((Refuted, LookupError)):
                check(document, proof | {"bound": bound})
        with pytest.raises(UserError, match="no proof"):
            proof_of(PROBLEM, instance, document, None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_that_is_not_optimal_has_no_proof(kind):
    """Whether it loses more than necessary on a node that is needed, or elsewhere."""
    refused = 0
    for seed in range(40):
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
    assert refused or kind in ("required-level", "empty-nodes")


ODD = (*range(-2, 4), 2**24, 2**53, 10**30, 0.5, True, None, "1", [], {})


def forged(random: Random, proof: JsonObject) -> JsonObject:
    """Return a proof in which one to three values are changed, repeated, swapped or removed."""
    found = deepcopy(proof)
    for _ in range(random.randint(1, 3)):
        places: list[tuple[Any, Any]] = []
        left: list[Any] = [found]
        for value in left:
            keys = list(value) if isinstance(value, dict) else range(len(value))
            places += [(value, key) for key in keys]
            left += [value[key] for key in keys if isinstance(value[key], dict | list)]
        parent, key = random.choice(places)
        action = random.random()
        if action < 0.5 and type(parent[key]) is int:
            parent[key] = random.choice(
                (parent[key] + 1, parent[key] - 1, -parent[key], 2 * parent[key], parent[key] // 2)
            )
        elif action < 0.7:
            parent[key] = random.choice(ODD)
        elif action < 0.85:
            other, place = random.choice(places)
            parent[key] = deepcopy(other[place])
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
        for _ in range(12):
            accepted += require_true(document, forged(random, proof), best)
        for other in random.sample(others, min(3, len(others))):
            borrowed = other | {"sha256": content_hash(document)}
            accepted += require_true(document, borrowed, best)
            assert other is proof or not require_true(document, other, best)
    assert accepted > 50


def test_no_multipliers_prove_too_much():
    """Random multipliers and branches, with a claim as high as they prove, are never wrong."""
    random, above = Random(0), 0
    for seed in range(600):
        _, document = drawn(KINDS[seed % len(KINDS)], seed)
        cluster = Cluster(document)
        domains: list[Any] = []
        least = None
        for domain in cluster.domains:
            programme = Programme(cluster, domain)
            rows, columns = len(programme.rows), len(programme.upper)
            nodes = [
                {
                    "multipliers": [
                        number
                        for row in random.sample(range(rows), min(rows, random.randint(1, 9)))
                        for number in (row, random.choice((0, 1, 1, 2, 3, 5)))
                    ]
                }
                for _ in range(3)
            ]
            column = random.randrange(columns)
            branch = {"branch": column, "at_most": 0}
            nodes = [branch, *nodes[:2]] if programme.upper[column] else nodes[:1]
            tree, cost = {"denominator": 1, "nodes": nodes}, programme.terms[cluster.terms[0]]
            with suppress(Refuted):
                cost_proved = programme.proved_cost(programme.rows, cost, tree)
                least = cost_proved if least is None else min(least, cost_proved)
            domains.append([tree])
        if least is not None and least > 0:
            above += 1
            claim = {"bound": {cluster.terms[0]: least}, "solution": None, "domains": domains}
            proof = proved(document) | claim | {"kind": "trees"}
            for key in ("table", "blocking"):
                proof.pop(key, None)
            assert require_true(document, proof, best_of(document))
    assert above > 30


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


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "unknown key": ({"gangs[0].min": 1}, {}),
    "node twice": ({"nodes[1].id": "a"}, {}),
    "gang twice": ({"gangs[1].id": "cheap"}, {}),
    "negative amount": ({"nodes[0].capacity.gpu": -8}, {}),
    "fractional amount": ({"gangs[0].pods[0].request.gpu": 1.5}, {}),
    "huge number": ({"gangs[0].weight": 2**53}, {}),
    "minimum": ({"gangs[0].min_pods": 3}, {}),
    "minimum of the demand": ({"demand.shapes[0].min_count": 2}, {}),
    "node too small": ({"nodes[0].capacity.gpu": 3}, {}),
    "no such node": ({"gangs[0].pods[0].node": "x"}, {}),
    "no such rule": ({"victims": "lots"}, {}),
    "no such term": ({"objective": ["lost_gang"]}, {}),
    "no such level": ({"demand.level": "row"}, {}),
    "no bound": ({}, {"bound": ABSENT}),
    "extra key": ({}, {"dominance": []}),
    "extra key of a tree": ({}, {"domains[0][0].hint": 1}),
    "extra key of a leaf": ({}, {"domains[0][0].nodes[0].is_empty": True}),
    "no such term in the bound": ({}, {"bound.lost": 1}),
    "no such kind": ({}, {"kind": "oracle"}),
    "half a multiplier": ({}, {"domains[0][0].nodes[0].multipliers": [0]}),
    "no such row": ({}, {"domains[0][0].nodes[0].multipliers": [99, 1]}),
    "denominator": ({}, {"domains[0][0].denominator": 0}),
    "domain without trees": ({}, {"domains[0]": []}),
    "too few domains": ({}, {"domains": []}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_bad_files_are_refused_with_one_line(name, tmp_path, capsys):
    """By both checkers with exit code 2: nothing is said about the claim."""
    of_instance, of_proof = CHANGES[name]
    document = changed(FLEET, of_instance)
    proof = changed(proved(FLEET), of_proof) | {"sha256": content_hash(document)}
    paths = [str(tmp_path / each) for each in ("instance.json", "proof.json")]
    for path, content in zip(paths, (document, proof), strict=True):
        Path(path).write_text(json.dumps(content))
    codes = [main(paths), lo_main(["verify", paths[0], "--proof", paths[1]])]
    told = capsys.readouterr()
    assert (codes, told.out) == ([2, 2], ""), told.err
    assert told.err.count("\n") == 2


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
        programme.proved_cost(programme.rows, {}, {"denominator": 1, "nodes": chain})
    with pytest.raises(ValueError, match="too large"):
        programme.proved_cost(programme.rows, {}, {"denominator": 1, "nodes": Endless()})
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
    problem = find_problem("heterogeneous")
    job = {"id": "a", "gang": 1, "steps": 60.0, "throughput": {"new": 3.0}}
    document: JsonObject = {
        "format": "lyra-opt/heterogeneous",
        "version": 1,
        "name": "late",
        "objective": "cost",
        "gpu_types": [{"name": "new", "price_per_hour": 3.0}],
        "servers": [{"id": "s", "gpus": {"new": 1}}],
        "jobs": [job | {"utility": {"kind": "deadline", "deadline_s": 19.0}}],
    }
    proof = proof_of(problem, problem.parse_instance(document), document, None)
    assert proof["bound"] is None
    on_time = changed(document, {"jobs[0].utility.deadline_s": 21.0})
    with pytest.raises(UserError, match="solutions may exist"):
        proof_of(problem, problem.parse_instance(on_time), on_time, None)

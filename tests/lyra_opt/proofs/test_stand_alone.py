"""The stand-alone checker: it needs Python alone, accepts what is right, and nothing else."""

import json
import subprocess
import sys
from copy import deepcopy
from dataclasses import MISSING, fields
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

import lyra_opt as lo
from lyra_opt import allocation as lo_allocation
from lyra_opt import heterogeneous as lo_heterogeneous
from lyra_opt import network as lo_network
from lyra_opt import reclaim as lo_reclaim
from lyra_opt.__main__ import main as lo_main
from lyra_opt.core.errors import UserError
from lyra_opt.core.problem import problem_of_format
from lyra_opt.network.instance import Machine, WaitingJob
from lyra_opt.proofs import stand_alone
from lyra_opt.proofs.files import proof_of
from lyra_opt.proofs.stand_alone import (
    DEFAULTS,
    Refuted,
    check,
    content_hash,
    main,
    programme_of,
    proved_cost,
)
from lyra_opt.reclaim.instance import Job, Server
from tests.malformed import changed
from tests.odd_instances import VARIANTS as ODD_VARIANTS
from tests.odd_instances import choices_of, odd_document
from tests.reference import PROBLEMS
from tests.reference.drawing import INFEASIBLE, UNKNOWN
from tests.reference.heterogeneous import ROUNDS
from tests.tables import tables
from tests.test_architecture import imported_by

LEAST_NORMAL = sys.float_info.min
SLACK, SHARE_SLACK = Fraction(1, 10**9), Fraction(1, 10**5)
"""How far proofs may stay behind an optimum, as documented."""

VARIANTS = [
    (problem, variant)
    for problem, variant in ODD_VARIANTS
    if problem != "preemption" and variant not in ("mean_jct", *ROUNDS)
]
TABLES = tables(__file__)
FLEET = TABLES["fleet"]


def proved(document, solver="brute-force"):
    """Return the proof of the optimum of an instance, as a file has it."""
    problem = problem_of_format(document)
    instance = problem.parse_instance(document)
    answer = lo.solve(instance, solver)
    return json.loads(json.dumps(proof_of(problem, instance, document, answer.solution)))


def assert_stands_alone(file, most_lines, folder, cases):
    """Assert that a file is short and checks proofs without any package.

    A stranger reads it in an evening, copies it, and runs it without the toolkit. A case is an
    instance, a proof, the exit code and a part of what is printed.
    """
    text = file.read_text()
    assert text.count("\n") <= most_lines
    imported = {name.partition(".")[0] for name in imported_by(file)}
    assert imported <= sys.stdlib_module_names
    (folder / "check.py").write_text(text)
    for document, proof, code, told in cases:
        (folder / "instance.json").write_text(json.dumps(document, indent=2))
        (folder / "proof.json").write_text(json.dumps(proof))
        command = [sys.executable, "-I", "-S", "check.py", "instance.json", "proof.json"]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stderr) == (code, "")
        assert told in ran.stdout


def test_it_is_short_and_needs_nothing_but_python(tmp_path):
    proof = proved(FLEET)
    claims = (("3", 0, "optimal"), ("4", 1, "NOT proved"), (None, 1, "NOT"))
    cases = [(FLEET, proof | {"bound": bound}, *said) for bound, *said in claims]
    assert_stands_alone(Path(stand_alone.__file__), 690, tmp_path, cases)


def test_a_file_that_cannot_be_read_is_named(capsys):
    assert stand_alone.main([stand_alone.__file__[:-1], "none.json"]) == 2
    said = capsys.readouterr().err
    assert said.endswith(": cannot be read: No such file or directory\n")


@pytest.mark.parametrize(("family", "variant"), VARIANTS)
@pytest.mark.parametrize("first", [0, pytest.param(1000, marks=pytest.mark.slow)])
def test_optima_are_proved_and_nothing_beyond(family, variant, first):
    """Odd instances that enumeration knows: weights of 0, huge ones, no jobs, no server."""
    for seed in range(first, first + (15 if first == 0 else 1000)):
        document = odd_document(choices_of(seed), family, variant)
        known = PROBLEMS[family].optimum(document)
        works = [job.get("work_worker_s", 1) for job in document["jobs"]]
        if not works or min(works) < LEAST_NORMAL:
            continue  # solvers cannot tell numbers apart that are so small
        if known in (UNKNOWN, INFEASIBLE):
            continue
        optimum, of_shares = Fraction(known), family == "heterogeneous"
        slack = SHARE_SLACK if of_shares else SLACK
        proof = proved(document, "lp-highs" if of_shares else "brute-force")
        bound, value = check(document, proof)
        assert bound is not None
        assert value is not None
        sense = programme_of(document, proof).sense
        assert abs(value - optimum) <= slack * abs(optimum)
        assert 0 <= sense * (value - bound) <= 2 * slack * abs(optimum)
        beyond = Fraction(proof["bound"]) + sense * ((not of_shares) + abs(optimum) * 2 * slack)
        with pytest.raises(Refuted, match="claims"):
            check(document, proof | {"bound": str(beyond)})


def test_a_choice_that_is_not_the_best_has_no_proof():
    """It gives back servers of two jobs although two free servers would do."""
    fleet = deepcopy(FLEET)
    fleet["servers"] += [{"id": server, "gpus": 8} for server in "de"]
    problem = problem_of_format(fleet)
    instance = problem.parse_instance(fleet)
    wrong = problem.parse_solution({"instance": "triangle", "servers": ["a", "b"]})[0]
    with pytest.raises(UserError, match="a better point exists, with cost 0"):
        proof_of(problem, instance, fleet, wrong)


def test_no_tree_and_no_multipliers_prove_too_much():
    """Weak duality: whatever stands in a proof that is accepted, the optimum is no better."""
    random = Random(0)
    accepted = 0
    for seed in range(400):
        family, variant = VARIANTS[seed % len(VARIANTS)]
        document = odd_document(choices_of(seed), family, variant)
        known = PROBLEMS[family].optimum(document)
        if known in (UNKNOWN, INFEASIBLE):
            continue
        some = {"solution": {"level": float(known) * random.choice((1.00001, 1.5, 4))}}
        programme = programme_of(document, some)
        if not programme.rows or not programme.names:
            continue
        optimum = programme.sense * Fraction(known)
        slack = SHARE_SLACK if family == "heterogeneous" else SLACK
        rows = len(programme.rows)

        def leaf(rows):
            flat = [
                each
                for row in random.sample(range(rows), min(rows, random.randint(0, 6)))
                for each in (row, random.choice((0, 1, 1, 2, 3, 5, -1)))
            ]
            return {"multipliers": flat} | ({"is_empty": True} if random.random() < 0.2 else {})

        column = random.randrange(len(programme.names))
        tree = [{"branch": column, "at_most": 0}, leaf(rows), leaf(rows)]
        for nodes in ([leaf(rows)], tree):
            try:
                cost = proved_cost(programme, {"denominator": 1, "nodes": nodes})
            except Refuted:
                continue
            accepted += 1
            assert cost is not None
            assert cost <= optimum + slack * abs(optimum)
    assert accepted > 200


@pytest.mark.parametrize("damage", TABLES["damaged"])
def test_damaged_proofs_are_refuted(damage):
    """Each with the reason."""
    proof = proved(FLEET)
    check(FLEET, proof)
    changes, told = TABLES["damaged"][damage]
    with pytest.raises(Refuted, match=told):
        check(FLEET, proof | changes)


RECORDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lyra-opt/reclaim": (lo_reclaim.Instance, {"servers": Server, "jobs": Job}),
    "lyra-opt/allocation": (lo_allocation.Instance, {"jobs": lo_allocation.ElasticJob}),
    "lyra-opt/network-placement": (lo_network.Instance, {"machines": Machine, "jobs": WaitingJob}),
    "lyra-opt/heterogeneous": (
        lo_heterogeneous.Instance,
        {
            "gpu_types": lo_heterogeneous.GpuType,
            "servers": lo_heterogeneous.GpuServer,
            "jobs": lo_heterogeneous.GangJob,
        },
    ),
}


def defaults_of(record):
    """Return the defaults of the keys that may be left out."""
    return {
        each.name: each.default
        for each in fields(record)
        if each.default is not MISSING and each.name != "problem"
    }


@pytest.mark.parametrize(("family", "variant"), VARIANTS)
def test_keys_that_are_left_out_have_the_defaults_of_the_toolkit(family, variant):
    """The checker has a table of its own; an instance without these keys has the same programme."""
    document = odd_document(choices_of(f"defaults {variant}"), family, variant)
    problem, name = problem_of_format(document), document["format"]
    record, parts = RECORDS[name]
    table = DEFAULTS[name]
    whole = problem.instance_document(problem.parse_instance(document))
    short = json.loads(json.dumps(whole))
    groups = [(record, table, [short])]
    groups += [(part, table[key], short[key]) for key, part in parts.items()]
    for each, known, rows in groups:
        defaults = defaults_of(each)
        for key, default in known.items():
            if not isinstance(default, dict):
                assert (defaults[key] or None) == (default or None), key
        for row in rows:
            for key in defaults.keys() & row.keys():
                if key not in ("utility", "current") and row[key] == known.get(key, ()):
                    del row[key]
    first, second = (programme_of(each, {"solution": {"level": 1.0}}) for each in (whole, short))
    assert (first.names, first.cost, first.rows) == (second.names, second.cost, second.rows)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("bound", bad) for bad in ("1e500000000", "-" + "9" * 5000, "1/0", 3, float("nan"))),
        *(("nodes", [{"multipliers": bad}]) for bad in ([0], [99, 1])),
        *(("nodes", bad) for bad in (5, [{"leaf": [10**2500]}])),
        *(("solution", {"x_s1": bad}) for bad in (float("inf"), 10**2500)),
    ],
)
def test_numbers_that_are_none_are_refused_at_once(key, value, tmp_path, capsys):
    """With exit code 2, not 1: nothing is said of a proof that cannot be read."""
    refuse(main, tmp_path, FLEET, proved(FLEET) | {key: value}, capsys)


def refuse(main, folder, instance, proof, capsys):
    """Check that both checkers refuse files, each in one line."""
    paths = [str(folder / name) for name in ("instance.json", "proof.json")]
    for path, document in zip(paths, (instance, proof), strict=True):
        Path(path).write_text(json.dumps(document))
    codes = [main(paths), lo_main(["verify", paths[0], "--proof", paths[1]])]
    told = capsys.readouterr()
    assert (codes, told.out) == ([2, 2], ""), told.err
    assert told.err.count("\n") == 2


def test_a_deep_file_is_refused(tmp_path, capsys):
    """Exit code 2 for what Python's own reader cannot hold."""
    (tmp_path / "instance.json").write_text(json.dumps(FLEET))
    (tmp_path / "proof.json").write_text("[" * 200_000)
    assert main([str(tmp_path / name) for name in ("instance.json", "proof.json")]) == 2
    assert "RecursionError" in capsys.readouterr().err


@pytest.mark.parametrize("case", TABLES["misleading"])
def test_instances_that_mislead_its_arithmetic_are_refused(case, tmp_path, capsys):
    """By the stand-alone checker, which does not check the rest of an instance, too."""
    fleet = changed(FLEET, TABLES["misleading"][case])
    refuse(main, tmp_path, fleet, proved(FLEET) | {"sha256": content_hash(fleet)}, capsys)


def test_a_gang_of_one_spans_nothing():
    """An efficiency beyond its machine would let it hold GPUs of several."""
    with pytest.raises(ValueError, match="only tier must be machine"):
        programme_of(TABLES["spread"], {})


def test_more_workers_than_fit_are_no_variables():
    """A w_max beyond the cluster costs nothing, and a vast cluster is refused in time."""
    wide = TABLES["wide"]
    assert proved(wide, "mckp-core")["bound"]
    with pytest.raises(UserError, match="more than 1000000 variables"):
        proved(wide | {"gpus": 2**21}, "mckp-greedy")

"""Proofs of shares of time: no shares that the checker of the problem accepts refute a bound."""

import json
from copy import deepcopy
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.core.errors import UserError
from lyra_opt.core.result import Status
from lyra_opt.heterogeneous import PROBLEM
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES, Objective, PackedRate, TimeShares
from lyra_opt.proofs.files import proof_of
from lyra_opt.proofs.stand_alone import Refuted, check, cost_of, programme_of, proved_cost
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.tables import tables

OBJECTIVES = sorted(map(str, SHARE_OBJECTIVES))
TABLES = tables(__file__)


def with_objective(objective):
    """Return the pair of jobs with an objective."""
    return {**deepcopy(TABLES["pair"]), "objective": objective}


def written(instance, solution):
    """Return an instance as a document, and the proof of a solution as a file has it."""
    document = PROBLEM.instance_document(instance)
    proof = proof_of(PROBLEM, instance, document, solution)
    return document, json.loads(json.dumps(proof))


def proved(objective):
    """Return the pair of jobs, and a proof of its optimum."""
    instance = PROBLEM.parse_instance(with_objective(objective))
    return written(instance, lo.solve(instance, "lp-highs").solution)


DRAWN = st.sampled_from(OBJECTIVES).flatmap(
    lambda objective: heterogeneous_instances(objective=objective, with_packing=True, max_jobs=5)
)


@draws(60)
@given(DRAWN, st.sampled_from(("lp-highs", "lp-glop", "lp-sifting")))
def test_optima_of_the_solvers_are_proved(instance, solver):
    """Jobs alone and in pairs: the bound is no more than the documented part beyond the optimum.

    And the value is that of the checker of the problem, which shares nothing with this one.
    """
    objective = instance.objective
    answer = lo.solve(instance, solver)
    if answer.status is Status.INFEASIBLE:
        return
    assert answer.objective is not None
    if answer.status is Status.FEASIBLE:  # deadlines so dear that their tolerance is worth more
        assert objective is Objective.COST
        with pytest.raises(UserError, match="the linear programme proves"):
            written(instance, answer.solution)
        return
    document, proof = written(instance, answer.solution)
    bound, value = check(document, proof)
    assert bound is not None
    assert value is not None
    assert float(value) == pytest.approx(answer.objective, rel=1e-12)
    sense = 1 if objective.sense == "min" else -1
    assert 0 <= sense * (value - bound) <= Fraction(1, 10**5) * value
    if objective is not Objective.COST:  # whose deadlines have a tolerance of their own
        assert sense * (value - bound) <= Fraction(11, 10**7) * value
    # The solver's own bound has the tolerance too, and may have more of it.
    assert answer.dual_bound is not None
    assert sense * (Fraction(answer.dual_bound) - bound) <= Fraction(1, 10**9) * value


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_shares_that_use_all_of_the_tolerance_do_not_refute_a_bound(objective):
    """The checker of the problem accepts them, and they are a point of the programme as well."""
    document, proof = proved(objective)
    instance = PROBLEM.parse_instance(document)
    best = lo.solve(instance, "lp-highs").solution
    part = 1 + 0.999e-6
    shares = {
        job: {name: share * part for name, share in of_types.items()}
        for job, of_types in best.shares.items()
    }
    report = PROBLEM.check(instance, TimeShares(shares))
    assert not report.violations
    assert instance.variant.is_better(report.objective, PROBLEM.check(instance, best).objective)
    assert not instance.variant.is_better(report.objective, float(Fraction(proof["bound"])))
    point = PROBLEM.proof_point(instance, TimeShares(shares))
    programme = programme_of(document, {"solution": point})
    worth = float(programme.sense * cost_of(programme, dict(point)))
    assert worth == pytest.approx(report.objective, rel=1e-12)


@pytest.mark.parametrize(
    ("missed", "is_valid"), [(0.0, True), (0.999e-6, True), (1.001e-6, False), (1e-3, False)]
)
def test_a_deadline_may_be_missed_by_the_tolerance(missed, is_valid):
    """Both checkers take the same shares: `b` needs 90 steps in 93 s, and does 2 a second."""
    document = with_objective("cost")
    instance, share = PROBLEM.parse_instance(document), 45 / 93 * (1 - missed)
    assert (not PROBLEM.check(instance, TimeShares({"b": {"old": share}})).violations) == is_valid
    programme, point = programme_of(document, {}), {"job b type old": share}
    if is_valid:
        assert -cost_of(programme, point) == 2 * Fraction(share)
    else:
        with pytest.raises(Refuted, match="violates row"):
            cost_of(programme, point)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_random_shares_are_worth_no_more_than_the_bound(objective):
    """Both checkers say the same of what is valid, and of what it is worth."""
    document, proof = proved(objective)
    instance, random = PROBLEM.parse_instance(document), Random(1)
    bound, valid = float(Fraction(proof["bound"])), 0
    for _ in range(300):
        shares = {
            job.id: {
                name: random.choice((0.0, 0.5, 1.0)) * random.random() for name in ("new", "old")
            }
            for job in instance.jobs
        }
        shares["b"]["new"] = 0.0
        report = PROBLEM.check(instance, TimeShares(shares))
        if report.violations:
            if objective in ("throughput", "cost", "max_min_share"):
                point = {
                    f"job {j} type {k}": x for j, of in shares.items() for k, x in of.items() if x
                }
                with pytest.raises(Refuted, match="violates row|beyond its bounds"):
                    cost_of(programme_of(document, {}), point)
            continue
        valid += 1
        assert not instance.variant.is_better(report.objective, bound)
        if report.objective:
            point = dict(PROBLEM.proof_point(instance, TimeShares(shares)))
            programme = programme_of(document, {"solution": point})
            found = float(programme.sense * cost_of(programme, point))
            assert found == pytest.approx(report.objective, rel=1e-12)
    assert valid > 20


@pytest.mark.parametrize("objective", ["finish_time_fairness", "makespan_share"])
def test_a_tangent_at_any_level_proves_no_more_than_the_optimum(objective):
    """One at a worse level proves less; at one that nobody can have there is no tangent."""
    document, proof = proved(objective)
    best = proof["solution"]["level"]
    for factor in (1.0, 1.01, 1.5, 10.0):
        shifted = {**proof, "solution": {"level": best * factor}}
        cost = proved_cost(programme_of(document, shifted), shifted)
        assert cost is not None
        assert cost <= Fraction(best)
    with pytest.raises(Refuted, match="can no longer reach the level"):
        programme_of(document, {"solution": {"level": 0.0}})


def damaged(proof, solution, **changes):
    """Return a proof with other values, and other values of its solution."""
    return {**proof, "solution": proof["solution"] | solution, **changes}


def test_damaged_proofs_are_refuted():
    """Each with the reason: a branch, a price, a bound, a level or shares that are wrong."""
    document, proof = proved("makespan_share")
    check(document, proof)
    (leaf,) = proof["nodes"]
    row, price, *others = leaf["multipliers"]
    branches = [{"branch": 0, "at_most": 0}, leaf, leaf]  # right if all shares were 0 or 1
    better = str(Fraction(proof["bound"]) * Fraction(100_001, 100_000))
    level = proof["solution"]["level"] * (1 - 1e-5)
    for wrong, told in (
        (damaged(proof, {}, nodes=branches), "does not split the integers"),
        (damaged(proof, {}, nodes=[leaf | {"multipliers": [row, 2 * price, *others]}]), "claims"),
        (damaged(proof, {}, bound=better), "claims"),
        (damaged(proof, {"level": level}), "claims|violates row"),
        *((damaged(proof, changes), told) for changes, told in TABLES["damaged"].values()),
    ):
        with pytest.raises(Refuted, match=told):
            check(document, wrong)


def test_a_deadline_that_is_over_leaves_no_solution():
    """Which a proof of one row shows; where it can be kept the same proof is refuted."""
    document = with_objective("cost")
    rows = len(programme_of(document, {}).rows)
    nodes = [{"multipliers": [rows - 1, 1], "is_empty": True}]
    kept = {"denominator": 1, "nodes": nodes}
    with pytest.raises(Refuted, match="do not show that it is empty"):
        proved_cost(programme_of(document, kept), kept)
    document["jobs"][1]["elapsed_s"] = 100.0
    assert proved_cost(programme_of(document, kept), kept) is None


def test_pairs_share_their_gpus_once_and_their_time_twice():
    """What is given in either order of two jobs is the same share."""
    document = with_objective("throughput") | TABLES["packed"]
    instance = PROBLEM.parse_instance(document)
    assert instance.packed == (PackedRate(kind="k", beside="k", throughput={"old": 0.75}),)
    shares = TimeShares({}, {"a": {"b": {"old": 0.5}}, "b": {"a": {"old": 0.5}}})
    _, proof = written(instance, shares)
    bound, value = check(PROBLEM.instance_document(instance), proof)
    assert proof["solution"] == {"job a beside b type old": 1.0}
    assert value == Fraction(3, 2)
    assert bound is not None
    assert 0 <= bound - value <= Fraction(3, 2) * Fraction(11, 10**7)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_what_is_not_the_best_has_no_proof(objective):
    """Half of the best shares are worth less."""
    instance = PROBLEM.parse_instance(with_objective(objective))
    best = lo.solve(instance, "lp-highs").solution
    share = 1 if objective == "cost" else 0.5  # half of them would miss the deadline
    half = {
        job: {name: each * (share if job == "b" else 0.5) for name, each in of_types.items()}
        for job, of_types in best.shares.items()
    }
    with pytest.raises(UserError, match="the linear programme proves"):
        written(instance, TimeShares(half))

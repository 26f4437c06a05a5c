"""Water filling: lexicographically max-min where there is one entity, and fair between several."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import lyra_opt as lo
from lyra_opt.core.errors import FieldError
from lyra_opt.core.solver import find_solver
from lyra_opt.heterogeneous.checker import check
from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays
from lyra_opt.heterogeneous.exact.shares.solver import SharePoint
from lyra_opt.heterogeneous.exact.shares.water_filling import JobGroup, fill
from lyra_opt.heterogeneous.problem import PROBLEM
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.lyra_opt.heterogeneous.heuristics.cases import instance_of, job
from tests.tables import tables

TABLES = tables(__file__)


def lexicographic(arrays):
    """Return the sorted-best levels over weights by the textbook sequence of programmes.

    Maximise the least level of the open jobs; then, job by job, ask with a programme of its own
    whether it could be higher while none is lower, and fix those that could not.
    """
    jobs, types = arrays.rate.shape
    value = arrays.share_value
    pairs = [(j, k) for j in range(jobs) for k in range(types) if arrays.usable[j, k]]
    fixed = {}
    limits = [[1.0 * (j == row) for j, _ in pairs] + [0.0] for row in range(jobs)]
    limits += [
        [arrays.gang[j] / max(1.0, arrays.gpus[k]) * (k == row) for j, k in pairs] + [0.0]
        for row in range(types)
    ]
    right = [1.0] * len(limits)
    bounds = [(0, None)] * len(pairs) + [(None, None)]

    def best(costs, levels, with_level):
        rows = [
            [-value[pair] * (pair[0] == j) for pair in pairs] + [1.0 * (j in with_level)]
            for j in range(jobs)
        ]
        least = [-levels.get(j, 0.0) * (1 - 1e-9) for j in range(jobs)]
        found = linprog(costs, limits + rows, right + least, bounds=bounds, method="highs-ds")
        assert found.status == 0, found.message
        return -found.fun

    while len(fixed) < jobs:
        still_open = set(range(jobs)) - set(fixed)
        level = best([0.0] * len(pairs) + [-1.0], fixed, still_open)
        all_levels = fixed | dict.fromkeys(still_open, level)
        for j in still_open:
            costs = [-value[pair] * (pair[0] == j) for pair in pairs] + [0.0]
            if best(costs, all_levels, set()) <= level * (1 + 1e-6):
                fixed[j] = level
    return np.array([fixed[j] for j in range(jobs)])


def promised(arrays, shares):
    return (arrays.share_value * arrays.weight[:, None] * shares).sum(axis=1)


@draws(20)
@given(heterogeneous_instances(objective="max_min_share", max_jobs=4))
def test_small_instances_are_lexicographically_max_min(instance):
    """The same with ties, types without GPUs and gangs that fill the cluster."""
    arrays = ShareArrays.of(instance)
    filled = fill(arrays)
    assert filled.levels / arrays.weight == pytest.approx(lexicographic(arrays), rel=1e-5)
    assert check(instance, arrays.solution(filled.shares)).objective == pytest.approx(
        (filled.levels / arrays.weight).min(), rel=1e-6
    )


def one_type(jobs, gpus):
    alike = [job(f"j{n}", 1, throughput={"a": 1.0 + n}) for n in range(jobs)]
    return ShareArrays.of(instance_of([{"a": gpus}], alike, objective="max_min_share"))


def test_what_one_job_leaves_goes_to_the_others():
    """A heavy job cannot use more than all its time; the rest shares what it leaves by weight."""
    filled = fill(replace(one_type(3, 2), weight=np.array([8.0, 1.0, 1.0])))
    assert filled.shares[:, 0] == pytest.approx([1.0, 0.5, 0.5], rel=1e-6)
    assert filled.frozen_in_round.tolist() == [0, 1, 1]


def test_entities_share_by_their_weights_whatever_their_jobs():
    """An entity of one job gets as much as one of three of the same weight."""
    arrays = one_type(4, 1)
    entities = [JobGroup(name="one", jobs=("j0",)), JobGroup(name="three", jobs=("j1", "j2", "j3"))]
    assert fill(arrays, entities).shares[:, 0] == pytest.approx([1 / 2, 1 / 6, 1 / 6, 1 / 6])
    heavy = [replace(entities[0], weight=3.0), entities[1]]
    assert fill(arrays, heavy).shares[:, 0] == pytest.approx([3 / 4, 1 / 12, 1 / 12, 1 / 12])


def test_fifo_serves_one_job_after_the_other():
    """Two entities on three GPUs: by fifo the first job is filled up before the second gets any."""
    arrays = one_type(5, 3)
    entities = [
        JobGroup(name="fifo", jobs=("j2", "j0", "j1"), policy="fifo"),
        JobGroup(name="fair", jobs=("j3", "j4")),
    ]
    filled = fill(arrays, entities)
    assert filled.shares[:, 0] == pytest.approx([0.5, 0.0, 1.0, 0.75, 0.75], abs=1e-6)
    assert filled.frozen_in_round[2] < filled.frozen_in_round[0]


def test_slack_is_no_level():
    """What rounds may miss of frozen levels is not given to jobs for which nothing is left."""
    jobs = [job(f"j{n}", 1, throughput={kind: 1.0}) for n, kind in enumerate("abaa")]
    entities = [
        JobGroup(name="light", jobs=("j0", "j1"), policy="fifo"),
        JobGroup(name="heavy", jobs=("j2", "j3"), weight=2.0, policy="fifo"),
    ]
    instance = instance_of([{"a": 1, "b": 1}], jobs, objective="max_min_share")
    filled = fill(ShareArrays.of(instance), entities)
    assert filled.levels == pytest.approx([2 / 3, 2.0, 4 / 3, 0.0], abs=1e-11)


@draws(15)
@given(heterogeneous_instances(objective="max_min_share", max_jobs=4), st.booleans())
def test_hierarchies_are_feasible_and_nobody_can_rise(instance, is_fifo):
    """Every job is frozen, with a proof that it could not rise; the checker accepts the shares."""
    ids = tuple(each.id for each in instance.jobs)
    half = (len(ids) + 1) // 2
    policy = "fifo" if is_fifo else "fairness"
    entities = [
        JobGroup(name=f"e{n}", jobs=part, weight=1.0 + n, policy=policy)
        for n, part in enumerate((ids[:half], ids[half:]))
        if part
    ]
    arrays = ShareArrays.of(instance)
    filled = fill(arrays, entities)
    assert not check(instance, arrays.solution(filled.shares)).violations
    assert (filled.frozen_in_round >= 0).all()
    assert (promised(arrays, filled.shares) >= filled.levels * (1 - 1e-6) - 1e-9).all()


@pytest.mark.parametrize(("entities", "message"), TABLES["bad_entities_are_named"])
def test_bad_entities_are_named(entities, message):
    """Unknown jobs, jobs in two entities and jobs in none."""
    with pytest.raises(FieldError, match=message):
        fill(one_type(2, 1), [JobGroup(name=name, jobs=jobs) for name, jobs in entities])


@pytest.mark.parametrize(("fields", "message"), TABLES["bad_entity"])
def test_bad_entity(fields, message):
    """Rules of single fields, by name."""
    with pytest.raises(FieldError, match=message):
        JobGroup(**{"name": "a", "jobs": ("j0",), **fields})


def test_engine_that_is_not_exact_is_refused():
    """Levels that no prices prove are an error that says by how much, not an answer."""
    arrays = one_type(2, 1)
    exact = find_solver("heterogeneous", "lp-highs").point_of

    def careless(programme):
        point = exact(programme)
        return replace(point, shares=0.9 * point.shares)

    with pytest.raises(RuntimeError, match="no further job is proved to be at its highest level"):
        fill(arrays, engine=careless)


def test_engine_without_a_solution_is_named():
    """No level is made up."""
    with pytest.raises(RuntimeError, match="returned no solution"):
        fill(one_type(2, 1), engine=lambda programme: SharePoint(None, None))


def of_entities(*entities):
    """Return four jobs on one GPU, three of them of one entity."""
    jobs = [job(f"j{n}", 1, entity="one" if n else "two") for n in range(4)]
    return instance_of([{"a": 1}], jobs, objective="max_min_share", entities=entities)


def test_entities_of_an_instance_come_first():
    """By their weights, and each divides what it has as it says; files say it."""
    shares = solved_shares(of_entities({"name": "one"}, {"name": "two", "weight": 3.0}))
    assert shares == pytest.approx([3 / 4, 1 / 12, 1 / 12, 1 / 12])
    by_turn = {"name": "one", "policy": "fifo"}, {"name": "two"}, {"name": "nobody"}
    kept = PROBLEM.parse_instance(PROBLEM.instance_document(of_entities(*by_turn)))
    assert solved_shares(kept) == pytest.approx([1 / 2, 1 / 2, 0, 0], abs=1e-6)


def solved_shares(instance):
    """Return the share of each job on the only type."""
    shares = lo.solve(instance, "water-filling").solution.shares
    return [shares.get(each.id, {}).get("a", 0.0) for each in instance.jobs]


def test_a_job_of_an_unknown_entity_is_refused():
    """Also one that names none; without entities the names do not matter."""
    with pytest.raises(FieldError, match="must be one of the entities: three"):
        of_entities({"name": "three"})
    assert solved_shares(of_entities()) == pytest.approx([0.25] * 4)

"""Results that cannot all be right are found, and named by both rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.core.result import Status
from lyra_opt.experiments.proofs import find_contradictions
from tests.experiments.records import MAXIMISING, make_run

if TYPE_CHECKING:
    from lyra_opt.experiments.records import SolverRecord

OPTIMAL, FEASIBLE, UNKNOWN = Status.OPTIMAL, Status.FEASIBLE, Status.UNKNOWN


def run(configuration: str, status: Status, **columns: Any) -> SolverRecord:
    return make_run("c", configuration, status, **columns)


AGREEING = {
    "one optimum": [
        run("a", OPTIMAL, objective=5, dual_bound=5),
        run("b", OPTIMAL, objective=5, dual_bound=5),
        run("c", FEASIBLE, objective=7, dual_bound=4),
    ],
    "a bound that rounding carried over the objective": [
        run("a", FEASIBLE, objective=5.0),
        run("b", UNKNOWN, dual_bound=5.0 + 1e-12),
    ],
    "a failed run claims nothing": [
        run("a", OPTIMAL, objective=5, dual_bound=5),
        run("b", Status.ERROR, objective=3, dual_bound=9, content_sha256=None),
    ],
    "a known optimum between bound and objective": [
        run("a", FEASIBLE, objective=5, dual_bound=3, known_optimum=4)
    ],
}


@pytest.mark.parametrize("runs", AGREEING.values(), ids=AGREEING.keys())
def test_results_that_agree_are_no_contradiction(runs):
    assert find_contradictions(runs) == []


CONTRADICTING = {
    "objective below a bound": (
        [run("a", FEASIBLE, objective=4), run("b", UNKNOWN, dual_bound=5)],
        "c: a found objective 4, but b (unknown) has dual bound 5",
    ),
    "two proved optima": (
        [
            run("a", OPTIMAL, objective=5, dual_bound=5),
            run("b", OPTIMAL, objective=6, dual_bound=6),
        ],
        "c: a found objective 5, but b (optimal) has dual bound 6",
    ),
    "solved and infeasible": (
        [run("a", FEASIBLE, objective=5), run("b", Status.INFEASIBLE)],
        "c: a found objective 5, but b claims that there is no solution",
    ),
    "better than the known optimum": (
        [run("a", FEASIBLE, objective=5, known_optimum=6)],
        "c: a found objective 5, but the optimum is 6 by construction",
    ),
    "bound above the known optimum": (
        [run("a", UNKNOWN, dual_bound=7, known_optimum=6)],
        "c: a has dual bound 7, but the optimum is 6 by construction",
    ),
    "one cell, two instances": (
        [run("a", UNKNOWN, content_sha256="x"), run("b", UNKNOWN, content_sha256="y")],
        "c: a and b ran on different instances: content x and y",
    ),
}


@pytest.mark.parametrize(("runs", "line"), CONTRADICTING.values(), ids=CONTRADICTING.keys())
def test_contradiction_is_found(runs, line):
    assert find_contradictions(runs) == [line]


def test_bounds_lie_above_when_maximising():
    above = run("b", UNKNOWN, dual_bound=5, **MAXIMISING)
    assert find_contradictions([run("a", FEASIBLE, objective=4, **MAXIMISING), above]) == []
    assert find_contradictions([run("a", FEASIBLE, objective=6, **MAXIMISING), above]) == [
        "c: a found objective 6, but b (unknown) has dual bound 5"
    ]


def test_instances_are_kept_apart():
    runs = [
        make_run("c1", "a", FEASIBLE, objective=4),
        make_run("c2", "b", OPTIMAL, objective=5, dual_bound=5),
    ]
    assert find_contradictions(runs) == []

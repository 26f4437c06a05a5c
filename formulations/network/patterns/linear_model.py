"""The linear relaxation of the pattern model in HiGHS: a proved bound and a rounded placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.formulations.backends.linear import BACKEND, columns
from lyra_opt.formulations.exact_model import ExactModelSolver, Statement
from lyra_opt.formulations.network.patterns.data import RELAXED_PATTERNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lyra_opt.formulations.backends.linear import LinearModel
    from lyra_opt.formulations.network.patterns.data import PatternModel, Variables


# Variables


def add_variables(model: LinearModel, patterns: PatternModel) -> Variables:
    """Add the continuous variables of the relaxation, with their bounds.

    ``0 <= y, d_ro <= 1``; ``z_rk, l_cp, q_r >= 0``.
    """
    return columns(model, patterns.largest)


# Constraints


def one_tier(model: LinearModel, patterns: PatternModel, variables: Variables) -> None:
    """Start job j at most once, at one tier: ``y_j0 + y_j1 + y_j2 <= 1``."""
    for j, places in patterns.places(variables):
        model.at_most(f"one_tier_{j}", _each(1, places), 1)


def one_pattern(model: LinearModel, patterns: PatternModel, variables: Variables) -> None:
    """Fill every machine of class c by a pattern: ``sum_p l_cp = M_c``."""
    for c, one in enumerate(patterns.classes):
        chosen = [variables.pattern[c, p] for p in range(len(patterns.patterns[c]))]
        model.equal(f"one_pattern_{c}", _each(1, chosen), len(one.machines))


def gangs_of_size(model: LinearModel, patterns: PatternModel, variables: Variables) -> None:
    """Start gangs of size n as patterns allow: ``sum_{n_j = n} y_j0 <= sum_{c, p} a_pn l_cp``.

    Both sides are equal (``=``) where machines count.
    """
    add = model.equal if patterns.data.counts_machines else model.at_most
    for n, gangs, slots in patterns.slots(variables):
        add(f"gangs_of_size_{n}", [*_each(1, gangs), *_less(slots)])


def gangs_of_kind(model: LinearModel, patterns: PatternModel, variables: Variables) -> None:
    """Assign the gangs of kind k to racks: ``sum_{j in k} y_j1 = sum_r z_rk``."""
    for k, gangs, in_racks in patterns.of_kind(variables):
        model.equal(f"gangs_of_kind_{k}", [*_each(1, gangs), *_each(-1, in_racks)])


def rack_gpus(model: LinearModel, patterns: PatternModel, variables: Variables) -> None:
    """Use at most the open GPUs of rack r: ``sum_k n_k z_rk + q_r <= sum_{c in r, p} o_p l_cp``.

    Both sides are equal (``=``) where machines count.
    """
    add = model.equal if patterns.data.counts_machines else model.at_most
    for r, needs, opened in patterns.rack_loads(variables):
        add(f"rack_gpus_{r}", [*needs, *_less(opened)])


def network_gpus(model: LinearModel, patterns: PatternModel, variables: Variables) -> None:
    """Take the GPUs of gangs across racks from the racks: ``sum_j n_j y_j2 = sum_r q_r``."""
    if variables.network:
        held = patterns.network_load(variables)
        model.equal("network_gpus", [*held, *_each(-1, variables.share.values())])


def open_pattern(model: LinearModel, patterns: PatternModel, variables: Variables) -> None:
    """Set d_ro if a machine leaves o GPUs open: ``sum_{c in r, p : o_p = o} l_cp <= M_r d_ro``."""
    for r, o, most, chosen in patterns.opening(variables):
        model.at_most(f"open_pattern_{r}_{o}", [*_each(1, chosen), (-most, variables.open[r, o])])


def spans_machines(model: LinearModel, patterns: PatternModel, variables: Variables) -> None:
    """Span machines if required: ``o d_ro + sum_{(r, k) in A} z_rk <= sum_{c in r, p} o_p l_cp``.

    A holds the pairs (r, k) such that gangs of kind k must span machines of rack r.
    """
    for r, o, apart, opened in patterns.racks_apart(variables):
        terms = [(o, variables.open[r, o]), *_each(1, apart), *_less(opened)]
        model.at_most(f"spans_machines_{r}_{o}", terms)


def spans_racks(model: LinearModel, patterns: PatternModel, variables: Variables) -> None:
    """Span racks where required: ``q_r + sum_{j in B} y_j2 <= sum_r' q_r'`` for each rack r.

    B holds the jobs that must span racks.
    """
    apart = [x for j, x in variables.network.items() if j in patterns.data.must_span_racks]
    for r in variables.share if apart else ():
        others = [x for other, x in variables.share.items() if other != r]
        model.at_most(f"spans_racks_{r}", [*_each(1, apart), *_each(-1, others)])


CONSTRAINTS = (
    one_tier,
    one_pattern,
    gangs_of_size,
    gangs_of_kind,
    rack_gpus,
    network_gpus,
    open_pattern,
    spans_machines,
    spans_racks,
)


# Objective


def add_objective(model: LinearModel, patterns: PatternModel, variables: Variables) -> None:
    """Minimise the number of partly free machines minus the value of the jobs that start.

    ``sum_{c, p} h_cp l_cp - sum_j (v_j0 y_j0 + v_j1 y_j1 + v_j2 y_j2)``.
    """
    for coefficient, column in patterns.cost(variables):
        model.cost[column] = float(coefficient)


def _each(coefficient: int, columns: Iterable[int]) -> list[tuple[int, int]]:
    return [(coefficient, column) for column in columns]


def _less(terms: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(-coefficient, column) for coefficient, column in terms]


STATEMENT = Statement(add_variables, CONSTRAINTS, add_objective)

LP_HIGHS = ExactModelSolver(RELAXED_PATTERNS, STATEMENT, BACKEND)

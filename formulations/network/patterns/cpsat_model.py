"""The pattern model for the CP-SAT backend of OR-Tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.formulations.backends.cpsat import BACKEND, integers, total, weighted
from lyra_opt.formulations.exact_model import ExactModelSolver, Statement
from lyra_opt.formulations.network.patterns.data import PATTERNS
from lyra_opt.formulations.network.tiers.cpsat_model import network_gpus, spans_racks

if TYPE_CHECKING:
    from lyra_opt.formulations.network.patterns.data import PatternModel, Variables


# Variables


def add_variables(model: Any, patterns: PatternModel) -> Variables:
    """Add variables for the tiers of jobs, gangs per rack, patterns, and shared GPUs.

    ``y, d_ro in {0, 1}``; ``z_rk, l_cp, q_r >= 0`` integer. y starts a job at a tier; rack r holds
    z_rk gangs of kind k and leaves q_r GPUs to gangs across racks. Pattern p fills l_cp machines of
    class c; d_ro is 1 if a machine of r leaves o GPUs open.
    """
    return integers(model, patterns.largest)


# Constraints


def one_tier(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """Start job j at most once, at one tier: ``y_j0 + y_j1 + y_j2 <= 1``."""
    for j, places in patterns.places(variables):
        model.add(total(places) <= 1).with_name(f"one_tier_{j}")


def one_pattern(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """Fill every machine of class c by a pattern: ``sum_p l_cp = M_c``."""
    for c, one in enumerate(patterns.classes):
        chosen = total(variables.pattern[c, p] for p in range(len(patterns.patterns[c])))
        model.add(chosen == len(one.machines)).with_name(f"one_pattern_{c}")


def gangs_of_size(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """Start gangs of size n as patterns allow: ``sum_{n_j = n} y_j0 <= sum_{c, p} a_pn l_cp``.

    Both sides are equal (``=``) where machines count.
    """
    for n, gangs, slots in patterns.slots(variables):
        filled = weighted(slots)
        needed = total(gangs)
        row = needed == filled if patterns.data.counts_machines else needed <= filled
        model.add(row).with_name(f"gangs_of_size_{n}")


def gangs_of_kind(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """Assign the gangs of kind k to racks: ``sum_{j in k} y_j1 = sum_r z_rk``."""
    for k, gangs, in_racks in patterns.of_kind(variables):
        model.add(total(gangs) == total(in_racks)).with_name(f"gangs_of_kind_{k}")


def rack_gpus(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """Use at most the open GPUs of rack r: ``sum_k n_k z_rk + q_r <= sum_{c in r, p} o_p l_cp``.

    Both sides are equal (``=``) where machines count.
    """
    for r, needs, opened in patterns.rack_loads(variables):
        held = weighted(needs)
        there = weighted(opened)
        row = held == there if patterns.data.counts_machines else held <= there
        model.add(row).with_name(f"rack_gpus_{r}")


def open_pattern(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """Set d_ro if a machine leaves o GPUs open: ``sum_{c in r, p : o_p = o} l_cp <= M_r d_ro``."""
    for r, o, most, chosen in patterns.opening(variables):
        model.add(total(chosen) <= most * variables.open[r, o]).with_name(f"open_pattern_{r}_{o}")


def spans_machines(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """Span machines if required: ``o d_ro + sum_{(r, k) in A} z_rk <= sum_{c in r, p} o_p l_cp``.

    A holds the pairs (r, k) such that gangs of kind k must span machines of rack r.
    """
    for r, o, apart, opened in patterns.racks_apart(variables):
        there = weighted(opened)
        model.add(o * variables.open[r, o] + total(apart) <= there).with_name(
            f"spans_machines_{r}_{o}"
        )


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


def add_objective(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """Minimise the number of partly free machines minus the value of the jobs that start.

    ``sum_{c, p} h_cp l_cp - sum_j (v_j0 y_j0 + v_j1 y_j1 + v_j2 y_j2)``.
    """
    model.minimize(weighted(patterns.cost(variables)))


STATEMENT = Statement(add_variables, CONSTRAINTS, add_objective)

CPSAT_PATTERNS = ExactModelSolver(PATTERNS, STATEMENT, BACKEND)

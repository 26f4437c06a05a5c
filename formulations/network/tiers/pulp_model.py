"""The tier model in PuLP, solved by CBC (in its own process) or HiGHS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.formulations.backends.pulp import CBC, HIGHS, integers, total, weighted
from lyra_opt.formulations.exact_model import ExactModelSolver, Statement
from lyra_opt.formulations.network.tiers.data import TIERS

if TYPE_CHECKING:
    from lyra_opt.formulations.network.tiers.data import TierModel, Variables


# Variables


def add_variables(model: Any, tiers: TierModel) -> Variables:
    """Add variables for the placement of jobs, shared GPUs, and the final state of machines.

    ``y in {0, 1}``; ``x_m, q_r >= 0`` integer; ``f_m, e_m, h_m in {0, 1}``. y starts a job at a
    tier. Gangs on several machines use x_m GPUs of machine m, and gangs across racks use q_r GPUs
    of rack r. Machine m ends full (f_m), idle (e_m) or partly free (h_m).
    """
    return integers(model, tiers.largest)


# Constraints


def one_tier(model: Any, tiers: TierModel, variables: Variables) -> None:
    """Start job j at most once, at one tier: ``sum_m y_jm + sum_r y_jr + y_j2 <= 1``."""
    for j, places in tiers.places(variables):
        model += total(places) <= 1, f"one_tier_{j}"


def machine_gpus(model: Any, tiers: TierModel, variables: Variables) -> None:
    """Use at most the free GPUs of machine m: ``sum_j n_j y_jm + x_m + F_m e_m <= F_m``."""
    for m, load in tiers.loads(variables):
        held = weighted(load)
        idle = total([tiers.data.free(m) * variables.idle[m]] if m in variables.idle else [])
        model += held + idle <= tiers.data.free(m), f"machine_gpus_{m}"


def full_machine(model: Any, tiers: TierModel, variables: Variables) -> None:
    """Call machine m full only if all its GPUs are used: ``sum_j n_j y_jm + x_m >= F_m f_m``.

    Only the objective ``least_fragmentation`` has this constraint.
    """
    for m, load in tiers.loads(variables):
        if m in variables.full:
            held = weighted(load)
            model += held >= tiers.data.free(m) * variables.full[m], f"full_machine_{m}"


def machine_state(model: Any, tiers: TierModel, variables: Variables) -> None:
    """Let machine m end full, idle or partly free: ``f_m + e_m + h_m = 1``.

    Only the objective ``least_fragmentation`` has this constraint.
    """
    for m in tiers.counted():
        idle = total([variables.idle[m]] if m in variables.idle else [])
        model += variables.full[m] + idle + variables.part[m] == 1, f"machine_state_{m}"


def rack_gpus(model: Any, tiers: TierModel, variables: Variables) -> None:
    """Take rack r's GPUs from its machines: ``sum_j n_j y_jr + q_r = sum_{m in r} x_m``."""
    for r, needs, wide in tiers.rack_loads(variables):
        held = weighted(needs)
        model += held == total(wide), f"rack_gpus_{r}"


def network_gpus(model: Any, tiers: TierModel, variables: Variables) -> None:
    """Take the GPUs of gangs across racks from the racks: ``sum_j n_j y_j2 = sum_r q_r``."""
    if variables.network:
        held = weighted(tiers.network_load(variables))
        model += held == total(variables.share.values()), "network_gpus"


def spans_machines(model: Any, tiers: TierModel, variables: Variables) -> None:
    """Span machines where required: ``x_m + sum_{(j, r) in A} y_jr <= sum_{m' in r} x_m'``.

    This holds for each machine m of rack r; A holds the pairs (j, r) such that j must span machines
    of r.
    """
    for r, apart, wide in tiers.racks_apart(variables):
        for m in tiers.data.racks[r]:
            model += (
                variables.wide[m] + total(apart) <= total(wide),
                f"spans_machines_{m}",
            )


def spans_racks(model: Any, tiers: TierModel, variables: Variables) -> None:
    """Span racks where required: ``q_r + sum_{j in B} y_j2 <= sum_r' q_r'`` for each rack r.

    B holds the jobs that must span racks.
    """
    apart = [x for j, x in variables.network.items() if j in tiers.data.must_span_racks]
    for r, share in variables.share.items() if apart else ():
        shares = total(variables.share.values())
        model += share + total(apart) <= shares, f"spans_racks_{r}"


CONSTRAINTS = (
    one_tier,
    machine_gpus,
    full_machine,
    machine_state,
    rack_gpus,
    network_gpus,
    spans_machines,
    spans_racks,
)


# Objective


def add_objective(model: Any, tiers: TierModel, variables: Variables) -> None:
    """Minimise the number of partly free machines minus the value of the jobs that start.

    ``sum_m h_m - sum_j (v_j0 sum_m y_jm + v_j1 sum_r y_jr + v_j2 y_j2)``.
    """
    model += weighted(tiers.cost(variables))


STATEMENT = Statement(add_variables, CONSTRAINTS, add_objective)

PULP_CBC = ExactModelSolver(TIERS, STATEMENT, CBC)
PULP_HIGHS = ExactModelSolver(TIERS, STATEMENT, HIGHS)

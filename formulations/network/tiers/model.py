"""The tier model of gang placement, written once as rows that all backends take.

``y in {0, 1}``; ``x_m, q_r >= 0`` integer; ``f_m, e_m, h_m in {0, 1}``. y starts a job at a tier.
Gangs on several machines use x_m GPUs of machine m, and gangs across racks use q_r GPUs of rack r.
Machine m ends full (f_m), idle (e_m) or partly free (h_m).
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from lyra_opt.formulations.backends.all_backends import BACKENDS
from lyra_opt.formulations.backends.rows import Row, Term, at_most, each, equal
from lyra_opt.formulations.exact_model import ExactModelSolver, RowStatement
from lyra_opt.formulations.network.placing import PlacementModel
from lyra_opt.formulations.network.tiers.data import TIERS, TierModel, Variables

# Constraints


def one_tier(tiers: TierModel, variables: Variables) -> Iterator[Row]:
    """Start job j at most once, at one tier: ``sum_m y_jm + sum_r y_jr + y_j2 <= 1``."""
    places: dict[int, list[Any]] = defaultdict(list)
    for (j, _), x in (*variables.machine.items(), *variables.rack.items()):
        places[j].append(x)
    for j, x in variables.network.items():
        places[j].append(x)
    for j in tiers.data.jobs:
        if places[j]:
            yield at_most(f"one_tier_{j}", each(places[j]), limit=1)


def machine_gpus(tiers: TierModel, variables: Variables) -> Iterator[Row]:
    """Use at most the free GPUs of machine m: ``sum_j n_j y_jm + x_m + F_m e_m <= F_m``."""
    for m, load in tiers.loads(variables):
        free = tiers.data.free(m)
        idle = [(free, variables.idle[m])] if m in variables.idle else []
        yield at_most(f"machine_gpus_{m}", [*load, *idle], limit=free)


def full_machine(tiers: TierModel, variables: Variables) -> Iterator[Row]:
    """Call machine m full only if all its GPUs are used: ``sum_j n_j y_jm + x_m >= F_m f_m``.

    Only the objective ``least_fragmentation`` has this constraint.
    """
    for m, load in tiers.loads(variables):
        if m in variables.full:
            all_gpus = [(tiers.data.free(m), variables.full[m])]
            yield at_most(f"full_machine_{m}", all_gpus, load)


def machine_state(tiers: TierModel, variables: Variables) -> Iterator[Row]:
    """Let machine m end full, idle or partly free: ``f_m + e_m + h_m = 1``.

    Only the objective ``least_fragmentation`` has this constraint.
    """
    for m in tiers.counted():
        kinds = (variables.full, variables.idle, variables.part)
        states = each(kind[m] for kind in kinds if m in kind)
        yield equal(f"machine_state_{m}", states, limit=1)


def rack_gpus(tiers: TierModel, variables: Variables) -> Iterator[Row]:
    """Take rack r's GPUs from its machines: ``sum_j n_j y_jr + q_r = sum_{m in r} x_m``."""
    needs: dict[int, list[Term]] = defaultdict(list)
    for (j, r), x in variables.rack.items():
        needs[r].append((tiers.data.gang(j), x))
    for r, x in variables.share.items():
        needs[r].append((1, x))
    for r in tiers.data.shared_racks():
        wide = each(variables.wide[m] for m in tiers.data.racks[r])
        yield equal(f"rack_gpus_{r}", needs[r], wide)


def network_gpus(model: PlacementModel, variables: Any) -> Iterator[Row]:
    """Take the GPUs of gangs across racks from the racks: ``sum_j n_j y_j2 = sum_r q_r``."""
    if variables.network:
        held = [(model.data.gang(j), x) for j, x in variables.network.items()]
        yield equal("network_gpus", held, each(variables.share.values()))


def spans_machines(tiers: TierModel, variables: Variables) -> Iterator[Row]:
    """Span machines where required: ``x_m + sum_{(j, r) in A} y_jr <= sum_{m' in r} x_m'``.

    This holds for each machine m of rack r; A holds the pairs (j, r) such that j must span machines
    of r. The row leaves out x_m, which stands on both sides.
    """
    apart: dict[int, list[Any]] = defaultdict(list)
    for (j, r), x in variables.rack.items():
        if (j, r) in tiers.data.must_span_machines:
            apart[r].append(x)
    for r, gangs in apart.items():
        for m in tiers.data.racks[r]:
            others = each(variables.wide[other] for other in tiers.data.racks[r] if other != m)
            yield at_most(f"spans_machines_{m}", each(gangs), others)


def spans_racks(model: PlacementModel, variables: Any) -> Iterator[Row]:
    """Span racks where required: ``q_r + sum_{j in B} y_j2 <= sum_r' q_r'`` for each rack r.

    B holds the jobs that must span racks. The row leaves out q_r, which stands on both sides.
    """
    apart = [x for j, x in variables.network.items() if j in model.data.must_span_racks]
    for r in variables.share if apart else ():
        others = each(x for other, x in variables.share.items() if other != r)
        yield at_most(f"spans_racks_{r}", each(apart), others)


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


def cost(tiers: TierModel, variables: Variables) -> list[Term]:
    """Minimise the number of partly free machines minus the value of the jobs that start.

    ``sum_m h_m - sum_j (v_j0 sum_m y_jm + v_j1 sum_r y_jr + v_j2 y_j2)``.
    """
    return tiers.cost(variables)


STATEMENT = RowStatement(CONSTRAINTS, cost)

SOLVERS = tuple(ExactModelSolver(TIERS, STATEMENT, backend) for backend in BACKENDS)

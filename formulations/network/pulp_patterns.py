"""The pattern model in PuLP, solved by CBC (a process of its own) or by HiGHS.

Twin of ``cpsat_patterns.py``, ``mathopt_patterns.py`` and ``lp_highs.py``: the same constraints by
the same names in the same order. Symbols: see the README beside this file.

How PuLP's backends are run: ``formulations/backends/pulp.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from formulations.backends.pulp import run_cbc, run_highs
from formulations.network.model_data import Built, name_of
from formulations.network.model_solver import NetworkModelSolver
from formulations.network.pattern_data import PatternModel, Variables, pattern_columns
from lyra_opt.network.links import Tier


def build(patterns: PatternModel) -> Built:
    """Return the model: variables, constraints in the order of `CONSTRAINTS`, objective."""
    import pulp

    model = pulp.LpProblem("network", pulp.LpMinimize)
    variables = add_variables(model, patterns)
    for add_constraint in CONSTRAINTS:
        add_constraint(model, patterns, variables)
    add_objective(model, patterns, variables)
    return Built(model, variables)


# Variables


def add_variables(model: Any, patterns: PatternModel) -> Variables:
    """``y, d_ro in {0, 1}``; ``z_rk, l_cp, q_r >= 0`` integer."""
    return Variables(
        *(
            {
                key: model.add_variable(name_of(kind, key), 0, most, cat="Integer")
                for key, most in largest.items()
            }
            for kind, largest in patterns.largest()._asdict().items()
        )
    )


# Constraints


def one_tier(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``y_j0 + y_j1 + y_j2 <= 1``."""
    import pulp

    for j, places in patterns.places(variables):
        model += pulp.lpSum(places) <= 1, f"one_tier_{j}"


def one_pattern(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``sum_p l_cp = M_c``."""
    import pulp

    for c, one in enumerate(patterns.classes):
        chosen = pulp.lpSum(variables.pattern[c, p] for p in range(len(patterns.patterns[c])))
        model += chosen == len(one.machines), f"one_pattern_{c}"


def gangs_of_size(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``sum_{j : n_j = n} y_j0 <= sum_{c, p} a_pn l_cp``; ``=`` where machines count."""
    import pulp

    for n, gangs, slots in patterns.slots(variables):
        filled = pulp.lpSum(count * x for count, x in slots)
        needed = pulp.lpSum(gangs)
        row = needed == filled if patterns.data.counts_machines else needed <= filled
        model += row, f"gangs_of_size_{n}"


def gangs_of_kind(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``sum_{j in k} y_j1 = sum_r z_rk`` for each kind k."""
    import pulp

    for k, gangs, in_racks in patterns.of_kind(variables):
        model += pulp.lpSum(gangs) == pulp.lpSum(in_racks), f"gangs_of_kind_{k}"


def rack_gpus(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``sum_k n_k z_rk + q_r <= sum_{c in r, p} o_p l_cp``; ``=`` where machines count."""
    import pulp

    for r, needs, opened in patterns.rack_loads(variables):
        held = pulp.lpSum(gpus * x for gpus, x in needs)
        there = pulp.lpSum(gpus * x for gpus, x in opened)
        row = held == there if patterns.data.counts_machines else held <= there
        model += row, f"rack_gpus_{r}"


def network_gpus(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``sum_j n_j y_j2 = sum_r q_r``."""
    import pulp

    if variables.network:
        held = pulp.lpSum(patterns.data.gang(j) * x for j, x in variables.network.items())
        model += held == pulp.lpSum(variables.share.values()), "network_gpus"


def open_pattern(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``sum_{c in r, p : o_p = o} l_cp <= M_r d_ro``."""
    import pulp

    for r, o, most, chosen in patterns.opening(variables):
        model += pulp.lpSum(chosen) <= most * variables.open[r, o], f"open_pattern_{r}_{o}"


def spans_machines(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``o d_ro + sum_{(r, k) in A} z_rk <= sum_{c in r, p} o_p l_cp``."""
    import pulp

    for r, o, apart, opened in patterns.racks_apart(variables):
        there = pulp.lpSum(gpus * x for gpus, x in opened)
        model += o * variables.open[r, o] + pulp.lpSum(apart) <= there, f"spans_machines_{r}_{o}"


def spans_racks(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``q_r + sum_{j in B} y_j2 <= sum_r' q_r'`` for each rack r."""
    import pulp

    apart = [x for j, x in variables.network.items() if j in patterns.data.must_span_racks]
    for r, share in variables.share.items() if apart else ():
        shares = pulp.lpSum(variables.share.values())
        model += share + pulp.lpSum(apart) <= shares, f"spans_racks_{r}"


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
    """Minimise ``sum_{c, p} h_cp l_cp - sum_j (v_j0 y_j0 + v_j1 y_j1 + v_j2 y_j2)``."""
    import pulp

    worth = patterns.data.worth_in_floats
    model += pulp.lpSum(
        [
            *(variables.pattern[key] for key, one in patterns.all_patterns() if one.leaves_part),
            *(-worth[j][Tier.MACHINE] * x for j, x in variables.machine.items()),
            *(-worth[j][Tier.RACK] * x for j, x in variables.rack.items()),
            *(-worth[j][Tier.NETWORK] * x for j, x in variables.network.items()),
        ]
    )


# Backends


PULP_CBC_PATTERNS = NetworkModelSolver(
    name="pulp-cbc-patterns",
    form=PatternModel.of,
    columns=pattern_columns,
    build=build,
    run=run_cbc,
    uses_floats=True,
    modules=("pulp",),
)
PULP_HIGHS_PATTERNS = replace(
    PULP_CBC_PATTERNS, name="pulp-highs-patterns", run=run_highs, modules=("pulp", "highspy")
)

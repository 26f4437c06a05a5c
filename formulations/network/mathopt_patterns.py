"""The pattern model in the MathOpt of OR-Tools, solved by its SCIP (GSCIP) or its HiGHS.

Twin of ``pulp_patterns.py``, ``cpsat_patterns.py`` and ``lp_highs.py``: the same constraints by the
same names in the same order. Symbols: see the README beside this file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from formulations.backends.mathopt import run_gscip, run_highs
from formulations.network.model_data import Built, name_of
from formulations.network.model_solver import NetworkModelSolver
from formulations.network.pattern_data import PatternModel, Variables, pattern_columns
from lyra_opt.network.links import Tier


def build(patterns: PatternModel) -> Built:
    """Return the model: variables, constraints in the order of `CONSTRAINTS`, objective."""
    from ortools.math_opt.python import mathopt

    model = mathopt.Model(name="network")
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
                key: model.add_integer_variable(lb=0, ub=most, name=name_of(kind, key))
                for key, most in largest.items()
            }
            for kind, largest in patterns.largest()._asdict().items()
        )
    )


# Constraints


def one_tier(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``y_j0 + y_j1 + y_j2 <= 1``."""
    from ortools.math_opt.python import mathopt

    for j, places in patterns.places(variables):
        model.add_linear_constraint(mathopt.fast_sum(places) <= 1, name=f"one_tier_{j}")


def one_pattern(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``sum_p l_cp = M_c``."""
    from ortools.math_opt.python import mathopt

    for c, one in enumerate(patterns.classes):
        chosen = mathopt.fast_sum(variables.pattern[c, p] for p in range(len(patterns.patterns[c])))
        model.add_linear_constraint(chosen == len(one.machines), name=f"one_pattern_{c}")


def gangs_of_size(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``sum_{j : n_j = n} y_j0 <= sum_{c, p} a_pn l_cp``; ``=`` where machines count."""
    from ortools.math_opt.python import mathopt

    for n, gangs, slots in patterns.slots(variables):
        filled = mathopt.fast_sum(count * x for count, x in slots)
        needed = mathopt.fast_sum(gangs)
        row = needed == filled if patterns.data.counts_machines else needed <= filled
        model.add_linear_constraint(row, name=f"gangs_of_size_{n}")


def gangs_of_kind(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``sum_{j in k} y_j1 = sum_r z_rk`` for each kind k."""
    from ortools.math_opt.python import mathopt

    for k, gangs, in_racks in patterns.of_kind(variables):
        model.add_linear_constraint(
            mathopt.fast_sum(gangs) == mathopt.fast_sum(in_racks), name=f"gangs_of_kind_{k}"
        )


def rack_gpus(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``sum_k n_k z_rk + q_r <= sum_{c in r, p} o_p l_cp``; ``=`` where machines count."""
    from ortools.math_opt.python import mathopt

    for r, needs, opened in patterns.rack_loads(variables):
        held = mathopt.fast_sum(gpus * x for gpus, x in needs)
        there = mathopt.fast_sum(gpus * x for gpus, x in opened)
        row = held == there if patterns.data.counts_machines else held <= there
        model.add_linear_constraint(row, name=f"rack_gpus_{r}")


def network_gpus(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``sum_j n_j y_j2 = sum_r q_r``."""
    from ortools.math_opt.python import mathopt

    if variables.network:
        held = mathopt.fast_sum(patterns.data.gang(j) * x for j, x in variables.network.items())
        model.add_linear_constraint(
            held == mathopt.fast_sum(variables.share.values()), name="network_gpus"
        )


def open_pattern(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``sum_{c in r, p : o_p = o} l_cp <= M_r d_ro``."""
    from ortools.math_opt.python import mathopt

    for r, o, most, chosen in patterns.opening(variables):
        model.add_linear_constraint(
            mathopt.fast_sum(chosen) <= most * variables.open[r, o], name=f"open_pattern_{r}_{o}"
        )


def spans_machines(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``o d_ro + sum_{(r, k) in A} z_rk <= sum_{c in r, p} o_p l_cp``."""
    from ortools.math_opt.python import mathopt

    for r, o, apart, opened in patterns.racks_apart(variables):
        there = mathopt.fast_sum(gpus * x for gpus, x in opened)
        model.add_linear_constraint(
            o * variables.open[r, o] + mathopt.fast_sum(apart) <= there,
            name=f"spans_machines_{r}_{o}",
        )


def spans_racks(model: Any, patterns: PatternModel, variables: Variables) -> None:
    """``q_r + sum_{j in B} y_j2 <= sum_r' q_r'`` for each rack r."""
    from ortools.math_opt.python import mathopt

    apart = [x for j, x in variables.network.items() if j in patterns.data.must_span_racks]
    for r, share in variables.share.items() if apart else ():
        shares = mathopt.fast_sum(variables.share.values())
        model.add_linear_constraint(
            share + mathopt.fast_sum(apart) <= shares, name=f"spans_racks_{r}"
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
    """Minimise ``sum_{c, p} h_cp l_cp - sum_j (v_j0 y_j0 + v_j1 y_j1 + v_j2 y_j2)``."""
    from ortools.math_opt.python import mathopt

    worth = patterns.data.worth_in_floats
    model.minimize(
        mathopt.fast_sum(
            [
                *(
                    variables.pattern[key]
                    for key, one in patterns.all_patterns()
                    if one.leaves_part
                ),
                *(-worth[j][Tier.MACHINE] * x for j, x in variables.machine.items()),
                *(-worth[j][Tier.RACK] * x for j, x in variables.rack.items()),
                *(-worth[j][Tier.NETWORK] * x for j, x in variables.network.items()),
            ]
        )
    )


# Backends


MATHOPT_GSCIP_PATTERNS = NetworkModelSolver(
    name="mathopt-gscip-patterns",
    form=PatternModel.of,
    columns=pattern_columns,
    build=build,
    run=run_gscip,
    uses_floats=True,
    modules=("ortools.math_opt.python.mathopt",),
)
MATHOPT_HIGHS_PATTERNS = replace(
    MATHOPT_GSCIP_PATTERNS, name="mathopt-highs-patterns", run=run_highs
)

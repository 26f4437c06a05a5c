"""Schedules in rounds in the MathOpt of OR-Tools, solved by its SCIP (GSCIP) or its HiGHS.

Twin of ``pulp_model.py`` and ``cpsat_model.py``: the same constraints by the same names in the
same order. Symbols: see the README beside this file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from formulations.backends.mathopt import run_gscip, run_highs
from formulations.heterogeneous.model_data import DUE_IN_FLOATS, Built, Variables
from formulations.heterogeneous.model_solver import RoundModelSolver
from lyra_opt.heterogeneous.instance import Objective

if TYPE_CHECKING:
    from formulations.heterogeneous.model_data import RoundModel


def build(data: RoundModel, *, has_start: bool) -> Built:
    """Return the model: variables, constraints in the order of `CONSTRAINTS`, objective."""
    from ortools.math_opt.python import mathopt

    model = mathopt.Model(name="heterogeneous")
    variables = add_variables(model, data)
    for add_constraint in CONSTRAINTS:
        add_constraint(model, data, variables)
    add_objective(model, data, variables)
    return Built(model, variables, has_start)


# Variables


def add_variables(model: Any, data: RoundModel) -> Variables:
    """``y_mvt in {0..k_g}``, ``w_mct >= 0`` integer, ``z_jt, n_j in {0, 1}``, ``p_j``, ``M``."""
    one_round = data.objective is Objective.ROUND_PROGRESS
    return Variables(
        runs={
            (m, v, t): model.add_integer_variable(lb=0, ub=data.most_runs(m), name=f"y_{m}_{v}_{t}")
            for m, v, t in data.run_keys()
        },
        held={
            (m, c, t): model.add_integer_variable(
                lb=0, ub=data.most_held(m, c), name=f"w_{m}_{c}_{t}"
            )
            for m, c, t in data.held_keys()
        },
        completes={
            (j, t): model.add_integer_variable(lb=0, ub=1, name=f"z_{j}_{t}")
            for j, job in enumerate(data.jobs)
            for t in job.completions
        },
        never={}
        if one_round
        else {
            j: model.add_integer_variable(lb=0, ub=1, name=f"n_{j}") for j in range(len(data.jobs))
        },
        progress={
            j: model.add_variable(lb=0, ub=job.worth_in_floats[0], name=f"p_{j}")
            for j, job in enumerate(data.jobs)
            if one_round
        },
        last=[model.add_integer_variable(lb=0, ub=data.instance.horizon_rounds, name="M")]
        if data.objective is Objective.MAKESPAN
        else [],
    )


# Constraints


def runs_until_completion(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{m in g} sum_v y_mvt <= k_g sum_{s >= t} z_js``; ``<= k_g`` in ``round_progress``."""
    from ortools.math_opt.python import mathopt

    for g, group in enumerate(data.groups):
        for t in data.jobs[group.job].slots:
            running = mathopt.fast_sum(variables.runs[key] for key in data.runs_of(group.modes, t))
            unfinished = (
                1
                if data.objective is Objective.ROUND_PROGRESS
                else mathopt.fast_sum(
                    variables.completes[key] for key in data.completions_from(group.job, t)
                )
            )
            model.add_linear_constraint(
                running <= group.most * unfinished, name=f"runs_until_completion_{g}_{t}"
            )


def whole_gang(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_c w_mct = g_j sum_v y_mvt``."""
    from ortools.math_opt.python import mathopt

    for m, mode in data.modes_with_choice():
        for t in data.jobs[mode.job].slots:
            held = mathopt.fast_sum(variables.held[m, c, t] for c in range(len(mode.cells)))
            running = mathopt.fast_sum(variables.runs[key] for key in data.runs_of((m,), t))
            model.add_linear_constraint(held == mode.gang * running, name=f"whole_gang_{m}_{t}")


def bottleneck(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{c : X_c < V_v} w_mct <= g_j sum_{u > v} y_mut`` for each level v but the slowest."""
    from ortools.math_opt.python import mathopt

    for m, mode in data.modes_with_choice():
        for v, cells in data.slower_cells(m):
            for t in data.jobs[mode.job].slots:
                held = mathopt.fast_sum(variables.held[m, c, t] for c in cells)
                slower = mathopt.fast_sum(
                    variables.runs[m, u, t] for u in range(v + 1, len(mode.levels))
                )
                model.add_linear_constraint(
                    held <= mode.gang * slower, name=f"bottleneck_{m}_{v}_{t}"
                )


def not_on_one_server(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{c on h} w_mct <= (g_j - 1) sum_v y_mvt`` for each server h of a spread mode m."""
    from ortools.math_opt.python import mathopt

    for m, mode in enumerate(data.modes):
        for h, cells in enumerate(mode.limited):
            for t in data.jobs[mode.job].slots:
                held = mathopt.fast_sum(variables.held[m, c, t] for c in cells)
                running = mathopt.fast_sum(variables.runs[key] for key in data.runs_of((m,), t))
                model.add_linear_constraint(
                    held <= (mode.gang - 1) * running, name=f"not_on_one_server_{m}_{h}_{t}"
                )


def capacity(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{(m, c) on (p, r)} h_mct <= C_pr``; h is w, or ``f_mc sum_v y_mvt`` where fixed."""
    from ortools.math_opt.python import mathopt

    for p, r, gpus, pairs in data.users():
        for t in data.rounds():
            held = [
                (1, variables.held[m, c, t])
                for m, c in pairs
                if data.modes[m].fixed is None and t in data.jobs[data.modes[m].job].slots
            ]
            for m, c in pairs:
                fixed = data.modes[m].fixed
                if fixed is not None and t in data.jobs[data.modes[m].job].slots:
                    held += [(fixed[c], variables.runs[key]) for key in data.runs_of((m,), t)]
            if held:
                model.add_linear_constraint(
                    mathopt.fast_sum(gpus_held * x for gpus_held, x in held) <= gpus,
                    name=f"capacity_{p}_{r}_{t}",
                )


def alike_servers(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{(m, c) on q} h_mct <= sum_{(m, c) on p} h_mct`` for alike servers p before q."""
    from ortools.math_opt.python import mathopt

    for p, q, t, *loads in data.alike_loads():
        first, second = (
            mathopt.fast_sum(
                load.gpus * (variables.held if load.is_chosen else variables.runs)[load.key]
                for load in held
            )
            for held in loads
        )
        model.add_linear_constraint(second <= first, name=f"alike_servers_{p}_{q}_{t}")


def work_done(model: Any, data: RoundModel, variables: Variables) -> None:
    """``D_j sum_{s <= t} z_js <= sum_{s <= t} sum_{m, v} a_mv y_mvs``."""
    from ortools.math_opt.python import mathopt

    for j, job in enumerate(data.jobs):
        for t in job.completions:
            done = mathopt.fast_sum(
                job.steps_in_floats[m, v] * variables.runs[m, v, s]
                for s in range(job.slots.start, t + 1)
                for m, v, _ in data.runs_of(data.modes_of(j), s)
            )
            complete = mathopt.fast_sum(
                variables.completes[key] for key in data.completions_until(j, t)
            )
            model.add_linear_constraint(DUE_IN_FLOATS * complete <= done, name=f"work_done_{j}_{t}")


def rounds_needed(model: Any, data: RoundModel, variables: Variables) -> None:
    """``ceil(D_j / a) sum_{s <= t} z_js <= sum_{s <= t} sum_{m, v} ceil(a_mv / a) y_mvs``.

    For the steps ``a`` of each level; valid because of ``work_done``, and tighter.
    """
    from ortools.math_opt.python import mathopt

    for j, job in enumerate(data.jobs):
        for t in job.completions:
            complete = mathopt.fast_sum(
                variables.completes[key] for key in data.completions_until(j, t)
            )
            for a, (needed, counts) in enumerate(job.rounds_needed):
                counted = mathopt.fast_sum(
                    counts[m, v] * variables.runs[m, v, s]
                    for s in range(job.slots.start, t + 1)
                    for m, v, _ in data.runs_of(data.modes_of(j), s)
                )
                model.add_linear_constraint(
                    needed * complete <= counted, name=f"rounds_needed_{j}_{a}_{t}"
                )


def completes_once(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_t z_jt + n_j = 1``."""
    from ortools.math_opt.python import mathopt

    for j, never in variables.never.items():
        completes = mathopt.fast_sum(
            variables.completes[key] for key in data.completions_from(j, 0)
        )
        model.add_linear_constraint(completes + never == 1, name=f"completes_once_{j}")


def last_completion(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_t (t + 1) z_jt <= M`` (``makespan``)."""
    from ortools.math_opt.python import mathopt

    for last in variables.last:
        for j in range(len(data.jobs)):
            rounds = mathopt.fast_sum(
                (t + 1) * variables.completes[j, t] for t in data.jobs[j].completions
            )
            model.add_linear_constraint(rounds <= last, name=f"last_completion_{j}")


def progress(model: Any, data: RoundModel, variables: Variables) -> None:
    """``p_j <= sum_{m, v} b_mv y_mv`` (``round_progress``)."""
    from ortools.math_opt.python import mathopt

    for j, made in variables.progress.items():
        job = data.jobs[j]
        gained = mathopt.fast_sum(
            job.gains_in_floats[m, v] * variables.runs[m, v, t]
            for t in job.slots
            for m, v, _ in data.runs_of(data.modes_of(j), t)
        )
        model.add_linear_constraint(made <= gained, name=f"progress_{j}")


CONSTRAINTS = (
    runs_until_completion,
    whole_gang,
    bottleneck,
    not_on_one_server,
    capacity,
    alike_servers,
    work_done,
    rounds_needed,
    completes_once,
    last_completion,
    progress,
)


# Objective


def add_objective(model: Any, data: RoundModel, variables: Variables) -> None:
    """Minimise ``M + P sum n``, ``sum (t + 1) z + P sum n``, ``-sum U z`` or ``-sum p``."""
    from ortools.math_opt.python import mathopt

    worth = mathopt.fast_sum(
        job.worth_in_floats[t - job.completions.start] * variables.completes[j, t]
        for j, job in enumerate(data.jobs)
        for t in job.completions
        if data.objective is Objective.UTILITY
    )
    rounds = mathopt.fast_sum(
        (t + 1) * variable
        for (_, t), variable in variables.completes.items()
        if data.objective is Objective.MEAN_JCT
    )
    penalty = mathopt.fast_sum(data.penalty * never for never in variables.never.values())
    gained = mathopt.fast_sum(variables.progress.values())
    cost = mathopt.fast_sum(variables.last) + rounds + penalty - worth - gained
    model.minimize(cost)


# Backends


MATHOPT_GSCIP = RoundModelSolver(
    name="mathopt-gscip",
    build=build,
    run=run_gscip,
    uses_floats=True,
    modules=("ortools.math_opt.python.mathopt",),
)
MATHOPT_HIGHS = replace(MATHOPT_GSCIP, name="mathopt-highs", run=run_highs)

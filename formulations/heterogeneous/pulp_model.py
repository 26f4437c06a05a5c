"""Schedules in rounds in PuLP, solved by CBC (a process of its own) or by HiGHS.

Twin of ``cpsat_model.py`` and ``mathopt_model.py``: the same constraints by the same names in the
same order. Symbols: see the README beside this file.

How PuLP's backends are run: ``formulations/backends/pulp.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from formulations.backends.pulp import run_cbc, run_highs
from formulations.heterogeneous.model_data import DUE_IN_FLOATS, Built, Variables
from formulations.heterogeneous.model_solver import RoundModelSolver
from lyra_opt.heterogeneous.instance import Objective

if TYPE_CHECKING:
    from formulations.heterogeneous.model_data import RoundModel


def build(data: RoundModel, *, has_start: bool) -> Built:
    """Return the model: variables, constraints in the order of `CONSTRAINTS`, objective."""
    import pulp

    model = pulp.LpProblem("heterogeneous", pulp.LpMinimize)
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
            (m, v, t): model.add_variable(f"y_{m}_{v}_{t}", 0, data.most_runs(m), cat="Integer")
            for m, v, t in data.run_keys()
        },
        held={
            (m, c, t): model.add_variable(f"w_{m}_{c}_{t}", 0, data.most_held(m, c), cat="Integer")
            for m, c, t in data.held_keys()
        },
        completes={
            (j, t): model.add_variable(f"z_{j}_{t}", 0, 1, cat="Integer")
            for j, job in enumerate(data.jobs)
            for t in job.completions
        },
        never={}
        if one_round
        else {j: model.add_variable(f"n_{j}", 0, 1, cat="Integer") for j in range(len(data.jobs))},
        progress={
            j: model.add_variable(f"p_{j}", 0, job.worth_in_floats[0])
            for j, job in enumerate(data.jobs)
            if one_round
        },
        last=[model.add_variable("M", 0, data.instance.horizon_rounds, cat="Integer")]
        if data.objective is Objective.MAKESPAN
        else [],
    )


# Constraints


def runs_until_completion(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{m in g} sum_v y_mvt <= k_g sum_{s >= t} z_js``; ``<= k_g`` in ``round_progress``."""
    import pulp

    for g, group in enumerate(data.groups):
        for t in data.jobs[group.job].slots:
            running = pulp.lpSum(variables.runs[key] for key in data.runs_of(group.modes, t))
            unfinished = (
                1
                if data.objective is Objective.ROUND_PROGRESS
                else pulp.lpSum(
                    variables.completes[key] for key in data.completions_from(group.job, t)
                )
            )
            model += running <= group.most * unfinished, f"runs_until_completion_{g}_{t}"


def whole_gang(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_c w_mct = g_j sum_v y_mvt``."""
    import pulp

    for m, mode in data.modes_with_choice():
        for t in data.jobs[mode.job].slots:
            held = pulp.lpSum(variables.held[m, c, t] for c in range(len(mode.cells)))
            running = pulp.lpSum(variables.runs[key] for key in data.runs_of((m,), t))
            model += held == mode.gang * running, f"whole_gang_{m}_{t}"


def bottleneck(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{c : X_c < V_v} w_mct <= g_j sum_{u > v} y_mut`` for each level v but the slowest."""
    import pulp

    for m, mode in data.modes_with_choice():
        for v, cells in data.slower_cells(m):
            for t in data.jobs[mode.job].slots:
                held = pulp.lpSum(variables.held[m, c, t] for c in cells)
                slower = pulp.lpSum(variables.runs[m, u, t] for u in range(v + 1, len(mode.levels)))
                model += held <= mode.gang * slower, f"bottleneck_{m}_{v}_{t}"


def not_on_one_server(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{c on h} w_mct <= (g_j - 1) sum_v y_mvt`` for each server h of a spread mode m."""
    import pulp

    for m, mode in enumerate(data.modes):
        for h, cells in enumerate(mode.limited):
            for t in data.jobs[mode.job].slots:
                held = pulp.lpSum(variables.held[m, c, t] for c in cells)
                running = pulp.lpSum(variables.runs[key] for key in data.runs_of((m,), t))
                model += held <= (mode.gang - 1) * running, f"not_on_one_server_{m}_{h}_{t}"


def capacity(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{(m, c) on (p, r)} h_mct <= C_pr``; h is w, or ``f_mc sum_v y_mvt`` where fixed."""
    import pulp

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
                model += (
                    pulp.lpSum(gpus_held * x for gpus_held, x in held) <= gpus,
                    f"capacity_{p}_{r}_{t}",
                )


def alike_servers(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{(m, c) on q} h_mct <= sum_{(m, c) on p} h_mct`` for alike servers p before q."""
    import pulp

    for p, q, t, *loads in data.alike_loads():
        first, second = (
            pulp.lpSum(
                load.gpus * (variables.held if load.is_chosen else variables.runs)[load.key]
                for load in held
            )
            for held in loads
        )
        model += second <= first, f"alike_servers_{p}_{q}_{t}"


def work_done(model: Any, data: RoundModel, variables: Variables) -> None:
    """``D_j sum_{s <= t} z_js <= sum_{s <= t} sum_{m, v} a_mv y_mvs``."""
    import pulp

    for j, job in enumerate(data.jobs):
        for t in job.completions:
            done = pulp.lpSum(
                job.steps_in_floats[m, v] * variables.runs[m, v, s]
                for s in range(job.slots.start, t + 1)
                for m, v, _ in data.runs_of(data.modes_of(j), s)
            )
            complete = pulp.lpSum(variables.completes[key] for key in data.completions_until(j, t))
            model += DUE_IN_FLOATS * complete <= done, f"work_done_{j}_{t}"


def rounds_needed(model: Any, data: RoundModel, variables: Variables) -> None:
    """``ceil(D_j / a) sum_{s <= t} z_js <= sum_{s <= t} sum_{m, v} ceil(a_mv / a) y_mvs``.

    For the steps ``a`` of each level; valid because of ``work_done``, and tighter.
    """
    import pulp

    for j, job in enumerate(data.jobs):
        for t in job.completions:
            complete = pulp.lpSum(variables.completes[key] for key in data.completions_until(j, t))
            for a, (needed, counts) in enumerate(job.rounds_needed):
                counted = pulp.lpSum(
                    counts[m, v] * variables.runs[m, v, s]
                    for s in range(job.slots.start, t + 1)
                    for m, v, _ in data.runs_of(data.modes_of(j), s)
                )
                model += needed * complete <= counted, f"rounds_needed_{j}_{a}_{t}"


def completes_once(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_t z_jt + n_j = 1``."""
    import pulp

    for j, never in variables.never.items():
        completes = pulp.lpSum(variables.completes[key] for key in data.completions_from(j, 0))
        model += completes + never == 1, f"completes_once_{j}"


def last_completion(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_t (t + 1) z_jt <= M`` (``makespan``)."""
    import pulp

    for last in variables.last:
        for j in range(len(data.jobs)):
            rounds = pulp.lpSum(
                (t + 1) * variables.completes[j, t] for t in data.jobs[j].completions
            )
            model += rounds <= last, f"last_completion_{j}"


def progress(model: Any, data: RoundModel, variables: Variables) -> None:
    """``p_j <= sum_{m, v} b_mv y_mv`` (``round_progress``)."""
    import pulp

    for j, made in variables.progress.items():
        job = data.jobs[j]
        gained = pulp.lpSum(
            job.gains_in_floats[m, v] * variables.runs[m, v, t]
            for t in job.slots
            for m, v, _ in data.runs_of(data.modes_of(j), t)
        )
        model += made <= gained, f"progress_{j}"


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
    import pulp

    worth = pulp.lpSum(
        job.worth_in_floats[t - job.completions.start] * variables.completes[j, t]
        for j, job in enumerate(data.jobs)
        for t in job.completions
        if data.objective is Objective.UTILITY
    )
    rounds = pulp.lpSum(
        (t + 1) * variable
        for (_, t), variable in variables.completes.items()
        if data.objective is Objective.MEAN_JCT
    )
    penalty = pulp.lpSum(data.penalty * never for never in variables.never.values())
    gained = pulp.lpSum(variables.progress.values())
    cost = pulp.lpSum(variables.last) + rounds + penalty - worth - gained
    model += cost


# Backends


PULP_CBC = RoundModelSolver(
    name="pulp-cbc", build=build, run=run_cbc, uses_floats=True, modules=("pulp",)
)
PULP_HIGHS = replace(PULP_CBC, name="pulp-highs", run=run_highs, modules=("pulp", "highspy"))

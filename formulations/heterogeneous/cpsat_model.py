"""Schedules in rounds in the CP-SAT solver of OR-Tools.

Twin of ``pulp_model.py`` and ``mathopt_model.py``: the same constraints by the same names in the
same order. Symbols: see the README beside this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formulations.backends.cpsat import run_cpsat
from formulations.heterogeneous.model_data import Built, Variables
from formulations.heterogeneous.model_solver import RoundModelSolver
from lyra_opt.heterogeneous.instance import Objective

if TYPE_CHECKING:
    from formulations.heterogeneous.model_data import RoundModel


def build(data: RoundModel, *, has_start: bool) -> Built:
    """Return the model: variables, constraints in the order of `CONSTRAINTS`, objective."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
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
            (m, v, t): model.new_int_var(0, data.most_runs(m), f"y_{m}_{v}_{t}")
            for m, v, t in data.run_keys()
        },
        held={
            (m, c, t): model.new_int_var(0, data.most_held(m, c), f"w_{m}_{c}_{t}")
            for m, c, t in data.held_keys()
        },
        completes={
            (j, t): model.new_int_var(0, 1, f"z_{j}_{t}")
            for j, job in enumerate(data.jobs)
            for t in job.completions
        },
        never={}
        if one_round
        else {j: model.new_int_var(0, 1, f"n_{j}") for j in range(len(data.jobs))},
        progress={
            j: model.new_int_var(0, job.worth[0], f"p_{j}")
            for j, job in enumerate(data.jobs)
            if one_round
        },
        last=[model.new_int_var(0, data.instance.horizon_rounds, "M")]
        if data.objective is Objective.MAKESPAN
        else [],
    )


# Constraints


def runs_until_completion(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{m in g} sum_v y_mvt <= k_g sum_{s >= t} z_js``; ``<= k_g`` in ``round_progress``."""
    for g, group in enumerate(data.groups):
        for t in data.jobs[group.job].slots:
            running = sum(variables.runs[key] for key in data.runs_of(group.modes, t))
            unfinished = (
                1
                if data.objective is Objective.ROUND_PROGRESS
                else sum(variables.completes[key] for key in data.completions_from(group.job, t))
            )
            model.add(running <= group.most * unfinished).with_name(
                f"runs_until_completion_{g}_{t}"
            )


def whole_gang(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_c w_mct = g_j sum_v y_mvt``."""
    for m, mode in data.modes_with_choice():
        for t in data.jobs[mode.job].slots:
            held = sum(variables.held[m, c, t] for c in range(len(mode.cells)))
            running = sum(variables.runs[key] for key in data.runs_of((m,), t))
            model.add(held == mode.gang * running).with_name(f"whole_gang_{m}_{t}")


def bottleneck(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{c : X_c < V_v} w_mct <= g_j sum_{u > v} y_mut`` for each level v but the slowest."""
    for m, mode in data.modes_with_choice():
        for v, cells in data.slower_cells(m):
            for t in data.jobs[mode.job].slots:
                held = sum(variables.held[m, c, t] for c in cells)
                slower = sum(variables.runs[m, u, t] for u in range(v + 1, len(mode.levels)))
                model.add(held <= mode.gang * slower).with_name(f"bottleneck_{m}_{v}_{t}")


def not_on_one_server(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{c on h} w_mct <= (g_j - 1) sum_v y_mvt`` for each server h of a spread mode m."""
    for m, mode in enumerate(data.modes):
        for h, cells in enumerate(mode.limited):
            for t in data.jobs[mode.job].slots:
                held = sum(variables.held[m, c, t] for c in cells)
                running = sum(variables.runs[key] for key in data.runs_of((m,), t))
                model.add(held <= (mode.gang - 1) * running).with_name(
                    f"not_on_one_server_{m}_{h}_{t}"
                )


def capacity(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{(m, c) on (p, r)} h_mct <= C_pr``; h is w, or ``f_mc sum_v y_mvt`` where fixed."""
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
                model.add(sum(gpus_held * x for gpus_held, x in held) <= gpus).with_name(
                    f"capacity_{p}_{r}_{t}"
                )


def alike_servers(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_{(m, c) on q} h_mct <= sum_{(m, c) on p} h_mct`` for alike servers p before q."""
    for p, q, t, *loads in data.alike_loads():
        first, second = (
            sum(
                load.gpus * (variables.held if load.is_chosen else variables.runs)[load.key]
                for load in held
            )
            for held in loads
        )
        model.add(second <= first).with_name(f"alike_servers_{p}_{q}_{t}")


def work_done(model: Any, data: RoundModel, variables: Variables) -> None:
    """``D_j sum_{s <= t} z_js <= sum_{s <= t} sum_{m, v} a_mv y_mvs``."""
    for j, job in enumerate(data.jobs):
        for t in job.completions:
            done = sum(
                job.steps[m, v] * variables.runs[m, v, s]
                for s in range(job.slots.start, t + 1)
                for m, v, _ in data.runs_of(data.modes_of(j), s)
            )
            complete = sum(variables.completes[key] for key in data.completions_until(j, t))
            model.add(job.due * complete <= done).with_name(f"work_done_{j}_{t}")


def rounds_needed(model: Any, data: RoundModel, variables: Variables) -> None:
    """``ceil(D_j / a) sum_{s <= t} z_js <= sum_{s <= t} sum_{m, v} ceil(a_mv / a) y_mvs``.

    For the steps ``a`` of each level; valid because of ``work_done``, and tighter.
    """
    for j, job in enumerate(data.jobs):
        for t in job.completions:
            complete = sum(variables.completes[key] for key in data.completions_until(j, t))
            for a, (needed, counts) in enumerate(job.rounds_needed):
                counted = sum(
                    counts[m, v] * variables.runs[m, v, s]
                    for s in range(job.slots.start, t + 1)
                    for m, v, _ in data.runs_of(data.modes_of(j), s)
                )
                model.add(needed * complete <= counted).with_name(f"rounds_needed_{j}_{a}_{t}")


def completes_once(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_t z_jt + n_j = 1``."""
    for j, never in variables.never.items():
        completes = sum(variables.completes[key] for key in data.completions_from(j, 0))
        model.add(completes + never == 1).with_name(f"completes_once_{j}")


def last_completion(model: Any, data: RoundModel, variables: Variables) -> None:
    """``sum_t (t + 1) z_jt <= M`` (``makespan``)."""
    for last in variables.last:
        for j in range(len(data.jobs)):
            rounds = sum((t + 1) * variables.completes[j, t] for t in data.jobs[j].completions)
            model.add(rounds <= last).with_name(f"last_completion_{j}")


def progress(model: Any, data: RoundModel, variables: Variables) -> None:
    """``p_j <= sum_{m, v} b_mv y_mv`` (``round_progress``)."""
    for j, made in variables.progress.items():
        job = data.jobs[j]
        gained = sum(
            job.gains[m, v] * variables.runs[m, v, t]
            for t in job.slots
            for m, v, _ in data.runs_of(data.modes_of(j), t)
        )
        model.add(made <= gained).with_name(f"progress_{j}")


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
    worth = sum(
        job.worth[t - job.completions.start] * variables.completes[j, t]
        for j, job in enumerate(data.jobs)
        for t in job.completions
        if data.objective is Objective.UTILITY
    )
    rounds = sum(
        (t + 1) * variable
        for (_, t), variable in variables.completes.items()
        if data.objective is Objective.MEAN_JCT
    )
    penalty = sum(data.penalty * never for never in variables.never.values())
    gained = sum(variables.progress.values())
    cost = sum(variables.last) + rounds + penalty - worth - gained
    model.minimize(cost)


# Backend


CPSAT = RoundModelSolver(
    name="cpsat",
    build=build,
    run=run_cpsat,
    uses_floats=False,
    modules=("ortools.sat.python.cp_model",),
)

"""The model of schedules in rounds in MathOpt of OR-Tools, solved by SCIP (GSCIP) or HiGHS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.formulations.backends.mathopt import GSCIP, HIGHS, integers, total, weighted
from lyra_opt.formulations.exact_model import ExactModelSolver, Statement
from lyra_opt.formulations.heterogeneous.round_model import ROUNDS

if TYPE_CHECKING:
    from lyra_opt.formulations.heterogeneous.round_model import RoundModel
    from lyra_opt.formulations.heterogeneous.round_numbers import Variables


# Variables


def add_variables(model: Any, data: RoundModel) -> Variables:
    """Add variables for running modes, GPUs held, completions, progress and the makespan.

    ``y_mvt in {0..k_g}``, ``w_mct >= 0`` integer, ``z_jt, n_j in {0, 1}``, ``p_j``, ``M``. In round
    t, mode m runs at level v in y_mvt copies and holds w_mct GPUs in cell c. Job j completes in
    round t (z_jt = 1) or never (n_j = 1). p_j is its progress, M the makespan in rounds.
    """
    largest = data.largest
    p = {j: model.add_variable(lb=0, ub=most, name=f"p_{j}") for j, most in largest.p.items()}
    return integers(model, largest._replace(p={}))._replace(p=p)


# Constraints


def runs_until_completion(model: Any, data: RoundModel, variables: Variables) -> None:
    """Run job j only until it completes: ``sum_{m in g} sum_v y_mvt <= k_g sum_{s >= t} z_js``.

    This holds for each group g of modes and each round t; in ``round_progress`` the right side is
    k_g.
    """
    for g, t, runs, most, unfinished in data.group_runs(variables):
        model.add_linear_constraint(
            total(runs) <= most * total(unfinished), name=f"runs_until_completion_{g}_{t}"
        )


def whole_gang(model: Any, data: RoundModel, variables: Variables) -> None:
    """Give each gang that runs in mode m exactly g_j GPUs: ``sum_c w_mct = g_j sum_v y_mvt``."""
    for m, t, gang, held, runs in data.gangs(variables):
        model.add_linear_constraint(total(held) == gang * total(runs), name=f"whole_gang_{m}_{t}")


def bottleneck(model: Any, data: RoundModel, variables: Variables) -> None:
    """Forbid GPUs slower than rate level v in gangs that run at level v or faster.

    ``sum_{c : X_c < V_v} w_mct <= g_j sum_{u > v} y_mut``.

    This holds for each level v of a mode m except the slowest.
    """
    for m, v, t, gang, held, slower in data.bottlenecks(variables):
        model.add_linear_constraint(
            total(held) <= gang * total(slower), name=f"bottleneck_{m}_{v}_{t}"
        )


def not_on_one_server(model: Any, data: RoundModel, variables: Variables) -> None:
    """Spread gangs of mode m over servers: ``sum_{c on h} w_mct <= (g_j - 1) sum_v y_mvt``.

    This holds for each server h of a spread mode m.
    """
    for m, h, t, gang, held, runs in data.spread_gangs(variables):
        model.add_linear_constraint(
            total(held) <= (gang - 1) * total(runs), name=f"not_on_one_server_{m}_{h}_{t}"
        )


def capacity(model: Any, data: RoundModel, variables: Variables) -> None:
    """Use no more GPUs of type r at place p than exist: ``sum_{(m, c) on (p, r)} h_mct <= C_pr``.

    h_mct is w_mct, or ``f_mc sum_v y_mvt`` where the GPUs per cell are fixed.
    """
    for p, r, t, gpus, held in data.loads(variables):
        model.add_linear_constraint(weighted(held) <= gpus, name=f"capacity_{p}_{r}_{t}")


def alike_servers(model: Any, data: RoundModel, variables: Variables) -> None:
    """Fill equal servers p, q in file order: ``sum_{on q} h_mct <= sum_{on p} h_mct``.

    This breaks the symmetry between equal servers; both sums run over the pairs (m, c) on the
    server.
    """
    for p, q, t, first, second in data.alike_loads(variables):
        model.add_linear_constraint(
            weighted(second) <= weighted(first), name=f"alike_servers_{p}_{q}_{t}"
        )


def work_done(model: Any, data: RoundModel, variables: Variables) -> None:
    """Let job j complete by round t only if its steps are done by then.

    ``D_j sum_{s <= t} z_js <= sum_{s <= t} sum_{m, v} a_mv y_mvs``.
    """
    for j, t, due, completed, done in data.work(variables):
        model.add_linear_constraint(
            due * total(completed) <= weighted(done), name=f"work_done_{j}_{t}"
        )


def rounds_needed(model: Any, data: RoundModel, variables: Variables) -> None:
    """Tighten ``work_done`` by the number of rounds that a job needs at the rate of each level.

    ``ceil(D_j / a) sum_{s <= t} z_js <= sum_{s <= t} sum_{m, v} ceil(a_mv / a) y_mvs``.
    """
    for j, a, t, needed, completed, counted in data.counted_rounds(variables):
        model.add_linear_constraint(
            needed * total(completed) <= weighted(counted), name=f"rounds_needed_{j}_{a}_{t}"
        )


def completes_once(model: Any, data: RoundModel, variables: Variables) -> None:
    """Complete job j once or never: ``sum_t z_jt + n_j = 1``."""
    for j, completes, never in data.endings(variables):
        model.add_linear_constraint(total(completes) + never == 1, name=f"completes_once_{j}")


def last_completion(model: Any, data: RoundModel, variables: Variables) -> None:
    """Make M at least each job's completion, for ``makespan``: ``sum_t (t + 1) z_jt <= M``."""
    for j, rounds, last in data.last_rounds(variables):
        model.add_linear_constraint(weighted(rounds) <= last, name=f"last_completion_{j}")


def progress(model: Any, data: RoundModel, variables: Variables) -> None:
    """Limit progress to the steps done, in ``round_progress``: ``p_j <= sum_{m, v} b_mv y_mv``."""
    for j, made, gained in data.gains(variables):
        model.add_linear_constraint(made <= weighted(gained), name=f"progress_{j}")


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
    """Minimise the cost of the objective, with a penalty P for jobs that never complete.

    ``M + P sum n`` for ``makespan``, ``sum (t + 1) z + P sum n`` for ``mean_jct``, ``-sum U z`` for
    ``utility``, ``-sum p`` for ``round_progress``.
    """
    model.minimize(weighted(data.cost(variables)))


STATEMENT = Statement(add_variables, CONSTRAINTS, add_objective)

MATHOPT_GSCIP = ExactModelSolver(ROUNDS, STATEMENT, GSCIP)
MATHOPT_HIGHS = ExactModelSolver(ROUNDS, STATEMENT, HIGHS)

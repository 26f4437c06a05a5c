"""The model of schedules in rounds, written once as rows that all backends take.

``y_mvt in {0..k_g}``, ``w_mct >= 0`` integer, ``z_jt, n_j in {0, 1}``, ``p_j``, ``M``. In round t,
mode m runs at level v in y_mvt copies and holds w_mct GPUs in cell c. Job j completes in round t
(z_jt = 1) or never (n_j = 1). p_j is its progress, M the makespan in rounds.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lyra_opt.core.result import Number
from lyra_opt.formulations.backends.all_backends import BACKENDS
from lyra_opt.formulations.backends.rows import Row, Term, at_most, each, equal
from lyra_opt.formulations.exact_model import ExactModelSolver, RowStatement
from lyra_opt.formulations.heterogeneous.round_model import ROUNDS, RoundModel
from lyra_opt.formulations.heterogeneous.round_numbers import Variables
from lyra_opt.heterogeneous.instance import Objective

# Constraints


def runs_until_completion(data: RoundModel, variables: Variables) -> Iterator[Row]:
    """Run job j only until it completes: ``sum_{m in g} sum_v y_mvt <= k_g sum_{s >= t} z_js``.

    This holds for each group g of modes and each round t; in ``round_progress`` the right side is
    k_g.
    """
    for g, group in enumerate(data.groups):
        for t in data.jobs[group.job].slots:
            name, runs = (
                f"runs_until_completion_{g}_{t}",
                each(_runs(data, variables, group.modes, t)),
            )
            if data.objective is Objective.ROUND_PROGRESS:
                yield at_most(name, runs, limit=group.most)
            else:
                later = (variables.z[key] for key in data.completions_from(group.job, t))
                yield at_most(name, runs, each(later, group.most))


def whole_gang(data: RoundModel, variables: Variables) -> Iterator[Row]:
    """Give each gang that runs in mode m exactly g_j GPUs: ``sum_c w_mct = g_j sum_v y_mvt``."""
    for m, mode in data.modes_with_choice():
        for t in data.jobs[mode.job].slots:
            held = each(variables.w[m, c, t] for c in range(len(mode.cells)))
            runs = each(_runs(data, variables, (m,), t), mode.gang)
            yield equal(f"whole_gang_{m}_{t}", held, runs)


def bottleneck(data: RoundModel, variables: Variables) -> Iterator[Row]:
    """Forbid GPUs slower than rate level v in gangs that run at level v or faster.

    ``sum_{c : X_c < V_v} w_mct <= g_j sum_{u > v} y_mut``.

    This holds for each level v of a mode m except the slowest.
    """
    for m, mode in data.modes_with_choice():
        for v, cells in data.slower_cells(m):
            for t in data.jobs[mode.job].slots:
                held = each(variables.w[m, c, t] for c in cells)
                slower = each(
                    (variables.y[m, u, t] for u in range(v + 1, len(mode.levels))), mode.gang
                )
                yield at_most(f"bottleneck_{m}_{v}_{t}", held, slower)


def not_on_one_server(data: RoundModel, variables: Variables) -> Iterator[Row]:
    """Spread gangs of mode m over servers: ``sum_{c on h} w_mct <= (g_j - 1) sum_v y_mvt``.

    This holds for each server h of a spread mode m.
    """
    for m, mode in enumerate(data.modes):
        for h, cells in enumerate(mode.limited):
            for t in data.jobs[mode.job].slots:
                held = each(variables.w[m, c, t] for c in cells)
                runs = each(_runs(data, variables, (m,), t), mode.gang - 1)
                yield at_most(f"not_on_one_server_{m}_{h}_{t}", held, runs)


def capacity(data: RoundModel, variables: Variables) -> Iterator[Row]:
    """Use no more GPUs of type r at place p than exist: ``sum_{(m, c) on (p, r)} h_mct <= C_pr``.

    h_mct is w_mct, or ``f_mc sum_v y_mvt`` where the GPUs per cell are fixed.
    """
    using: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for m, mode in enumerate(data.modes):
        for c, cell in enumerate(mode.cells):
            using[cell.place, cell.gpu_type].append((m, c))
    position = {kind.name: r for r, kind in enumerate(data.instance.gpu_types)}
    for (p, name), pairs in using.items():
        pairs.sort(key=lambda pair: data.modes[pair[0]].fixed is not None)
        for t in data.rounds():
            if held := _held(data, variables, pairs, t):
                row = f"capacity_{p}_{position[name]}_{t}"
                yield at_most(row, held, limit=data.places[p].gpus[name])


def alike_servers(data: RoundModel, variables: Variables) -> Iterator[Row]:
    """Fill equal servers p, q in file order: ``sum_{on q} h_mct <= sum_{on p} h_mct``.

    This breaks the symmetry between equal servers; both sums run over the pairs (m, c) on the
    server.
    """
    for p, q in data.alike_servers():
        pairs = [
            [
                (m, c)
                for m, mode in enumerate(data.modes)
                for c, cell in enumerate(mode.cells)
                if cell.place == place
            ]
            for place in (p, q)
        ]
        for t in data.rounds():
            first, second = (_held(data, variables, of_place, t) for of_place in pairs)
            if second:
                yield at_most(f"alike_servers_{p}_{q}_{t}", second, first)


def work_done(data: RoundModel, variables: Variables) -> Iterator[Row]:
    """Let job j complete by round t only if its steps are done by then.

    ``D_j sum_{s <= t} z_js <= sum_{s <= t} sum_{m, v} a_mv y_mvs``.
    """
    for j, t in data.completion_keys():
        done = _until(data, variables, j, t, data.jobs[j].steps)
        completed = each(_completed(data, variables, j, t), data.jobs[j].due)
        yield at_most(f"work_done_{j}_{t}", completed, done)


def rounds_needed(data: RoundModel, variables: Variables) -> Iterator[Row]:
    """Tighten ``work_done`` by the number of rounds that a job needs at the rate of each level.

    ``ceil(D_j / a) sum_{s <= t} z_js <= sum_{s <= t} sum_{m, v} ceil(a_mv / a) y_mvs``.
    """
    for j, t in data.completion_keys():
        for a, (needed, counts) in enumerate(data.jobs[j].rounds_needed):
            counted = _until(data, variables, j, t, counts)
            completed = each(_completed(data, variables, j, t), needed)
            yield at_most(f"rounds_needed_{j}_{a}_{t}", completed, counted)


def completes_once(data: RoundModel, variables: Variables) -> Iterator[Row]:
    """Complete job j once or never: ``sum_t z_jt + n_j = 1``."""
    for j, never in variables.n.items():
        completes = [variables.z[key] for key in data.completions_from(j, 0)]
        yield equal(f"completes_once_{j}", each([*completes, never]), limit=1)


def last_completion(data: RoundModel, variables: Variables) -> Iterator[Row]:
    """Make M at least each job's completion, for ``makespan``: ``sum_t (t + 1) z_jt <= M``."""
    for last in variables.M.values():
        for j, job in enumerate(data.jobs):
            rounds = [(t + 1, variables.z[j, t]) for t in job.completions]
            yield at_most(f"last_completion_{j}", rounds, [(1, last)])


def progress(data: RoundModel, variables: Variables) -> Iterator[Row]:
    """Limit progress to the steps done, in ``round_progress``: ``p_j <= sum_{m, v} b_mv y_mv``."""
    for j, made in variables.p.items():
        job = data.jobs[j]
        gained = _until(data, variables, j, job.slots.stop - 1, job.gains)
        yield at_most(f"progress_{j}", [(1, made)], gained)


def _runs(data: RoundModel, variables: Variables, modes: Iterable[int], t: int) -> list[Any]:
    return [variables.y[key] for key in data.runs_of(modes, t)]


def _held(
    data: RoundModel, variables: Variables, pairs: Iterable[tuple[int, int]], t: int
) -> list[Term]:
    """Return the GPUs that given pairs of mode and cell use in round t, as terms."""
    held: list[Term] = []
    for m, c in pairs:
        mode = data.modes[m]
        if t in data.jobs[mode.job].slots:
            if mode.fixed is None:
                held.append((1, variables.w[m, c, t]))
            else:
                held += each(_runs(data, variables, (m,), t), mode.fixed[c])
    return held


def _completed(data: RoundModel, variables: Variables, j: int, t: int) -> list[Any]:
    return [variables.z[key] for key in data.completions_until(j, t)]


def _until(
    data: RoundModel,
    variables: Variables,
    j: int,
    t: int,
    per_run: Mapping[tuple[int, int], Number],
) -> list[Term]:
    """Return the runs of job j up to round t, as terms with a coefficient per mode and level."""
    return [
        (per_run[m, v], variables.y[m, v, s])
        for s in range(data.jobs[j].slots.start, t + 1)
        for m, v, _ in data.runs_of(data.modes_of(j), s)
    ]


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


def cost(data: RoundModel, variables: Variables) -> list[Term]:
    """Minimise the cost of the objective, with a penalty P for jobs that never complete.

    ``M + P sum n`` for ``makespan``, ``sum (t + 1) z + P sum n`` for ``mean_jct``, ``-sum U z`` for
    ``utility``, ``-sum p`` for ``round_progress``.
    """
    return data.cost(variables)


STATEMENT = RowStatement(CONSTRAINTS, cost, continuous=("p",))

SOLVERS = tuple(ExactModelSolver(ROUNDS, STATEMENT, backend) for backend in BACKENDS)

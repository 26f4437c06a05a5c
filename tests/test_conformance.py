"""Every registered solver, through one conformance suite, on each case that it takes."""

import subprocess
import sys
from copy import deepcopy
from functools import cache
from itertools import product

import pytest

from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Status
from lyra_opt.core.solver import find_solver, solver_names
from lyra_opt.core.solving import solve_and_check
from lyra_opt.testing.conformance import assert_conforms
from tests.draws import sampled
from tests.optima import optimum
from tests.reference.drawing import UNKNOWN
from tests.tables import generated, tables

TABLES = tables(__file__)


def _two_gangs(objective, work=1.0, gang=2, **fields):
    """Return two gangs and a job that comes later.

    With all the work some policies do not end within the horizon, with half of it all do.
    """
    is_one_round = objective == "round_progress"
    document = {**deepcopy(TABLES["two_gangs"]), "name": f"two-gangs-{objective}-{work}", **fields}
    document |= {"objective": objective, "horizon_rounds": 1 if is_one_round else 4}
    for job in document["jobs"]:
        job["steps"] *= work
    if is_one_round or "share" in objective:
        document["jobs"][-1]["release_s"] = 0.0
    if gang == 1:
        document["jobs"][0]["gang"] = gang
        del document["jobs"][0]["spread_throughput"]
    return find_problem("heterogeneous").parse_instance(document)


ROUND_OBJECTIVES = ("utility", "makespan", "mean_jct", "round_progress")
TIMES = ("makespan", "mean_jct")
SHARE_OBJECTIVES = (
    *("max_min_share", "finish_time_fairness", "makespan_share", "throughput", "cost"),
)


def _with_timers(objective, timer_s):
    """Return two racks beside which two gangs wait, with timers that bind, or that are over."""
    document = {**deepcopy(TABLES["busy"]), "name": f"busy-{objective}", "objective": objective}
    for job in document["jobs"]:
        if "waiting_s" in job:
            job |= {"rack_timer_s": timer_s, "network_timer_s": timer_s}
    return find_problem("network").parse_instance(document)


def _crowded(moves, kind):
    """Return four nodes where five gangs run, and what is special about one kind of case."""
    document = deepcopy(TABLES["crowded"]) | {"name": f"crowded-{moves}-{kind}", "moves": moves}
    if kind == "empty":
        del document["demand"]
        del document["gangs"][0]["pods"][0]["count"]  # one pod less, as brute force moves them all
    return find_problem("preemption").parse_instance(document | TABLES["preemption"][kind])


INSTANCES = {
    **generated(TABLES["generated"], seed=1),
    "heterogeneous": [
        *(_two_gangs(objective) for objective in (*ROUND_OBJECTIVES, *SHARE_OBJECTIVES)),
        *(_two_gangs(objective, forking=True) for objective in ROUND_OBJECTIVES),
        *(
            _two_gangs(objective, work=0.5, forking=forking)
            for objective, forking in product(TIMES, (False, True))
        ),
        *(_two_gangs(objective, work=0.5, gang=1) for objective in ROUND_OBJECTIVES),
    ],
    "network": [
        *(_with_timers(each, 0.0) for each in ("epoch", "work_rate", "least_fragmentation")),
        *(_with_timers("fewest_tiers", timer_s) for timer_s in (0.0, 3600.0)),
        _with_timers("epoch", 3600.0),
    ],
    "preemption": [
        _crowded(*case) for case in product(("none", "victims", "any"), TABLES["preemption"])
    ],
}
# In these some policies find no solution.
TIGHT = [
    *(
        instance
        for instance in INSTANCES["heterogeneous"]
        if instance.objective in TIMES and instance.name.endswith("-1.0")
    ),
    *(each for each in INSTANCES["preemption"] if each.name.endswith(("level", "hard", "short"))),
]


@cache
def best_of(problem, position):
    """Return a solution by brute force, and the reference's optimum; None for what is not known."""
    instance = INSTANCES[problem][position]
    brute_force = find_solver(problem, "brute-force")
    best = optimum(instance) if instance.variant in brute_force.variants else UNKNOWN
    if brute_force.supports(instance) is not None or isinstance(best, str):
        return None, None
    return solve_and_check(find_problem(problem), instance, brute_force).solution, float(best)


PAIRS = [
    (problem, name, position)
    for problem, instances in INSTANCES.items()
    for position in range(len(instances))
    for _, name in solver_names(problem)
]
TAKEN = [
    pair for pair in PAIRS if find_solver(*pair[:2]).supports(INSTANCES[pair[0]][pair[2]]) is None
]


@pytest.mark.parametrize(("problem", "name", "position"), sampled(TAKEN, 3))
def test_solver_conforms(problem, name, position):
    """Proofs, claims, seeds, warm starts and limits, as `assert_conforms` lists them."""
    best_solution, best = best_of(problem, position)
    found = assert_conforms(
        find_solver(problem, name),
        find_problem(problem),
        INSTANCES[problem][position],
        optimum=best,
        best_solution=best_solution,
    )
    answer = found.answer
    assert str(found).startswith(f"{name} conforms on {answer.instance.name} ({problem}): ")
    is_bounded = answer.dual_bound is not None
    assert answer.is_solved or is_bounded or INSTANCES[problem][position] in TIGHT


@pytest.fixture(scope="module")
def _load():
    """Four processes that take all the time that they get."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    yield
    for process in busy:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("_load")
@pytest.mark.parametrize(
    ("problem", "name", "position"),
    [pair for pair in TAKEN if find_solver(*pair[:2]).exact_variants],
)
def test_exact_solvers_conform_beside_busy_processes(problem, name, position):
    """Wherever in its work a limit ends a run, nothing is claimed that is not so."""
    best_solution, best = best_of(problem, position)
    assert_conforms(
        find_solver(problem, name),
        find_problem(problem),
        INSTANCES[problem][position],
        optimum=best,
        best_solution=best_solution,
        time_limits_s=(0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05),
    )


def test_every_solver_solves_a_case_of_each_variant_that_it_claims():
    """A solver that is registered and takes none of the cases would go untested."""
    solved = {
        (problem, name, INSTANCES[problem][position].variant)
        for problem, name, position in TAKEN
        if INSTANCES[problem][position] not in TIGHT
    }
    claimed = {
        (problem, name, str(variant))
        for problem, name in solver_names()
        for variant in find_solver(problem, name).variants
    }
    assert claimed == solved


def test_what_always_ends_with_a_proof_is_said_to():
    """The converse of rule 6: a bound that always meets the objective is a promise not made."""
    proves_all = {}
    for problem, name, position in TAKEN:
        solver, instance = find_solver(problem, name), INSTANCES[problem][position]
        variant = instance.variant
        if solver.gives_bound and variant not in solver.exact_variants:
            answer = solve_and_check(find_problem(problem), instance, solver)
            key = (problem, name, str(variant))
            proves_all[key] = proves_all.get(key, True) and answer.status is Status.OPTIMAL
    # A linear relaxation often, but not always, meets the optimum.
    lucky = {("network", "lp-highs")}
    assert {key[:2] for key, proved in proves_all.items() if proved} <= lucky


def test_every_solver_says_in_a_line_what_it_is():
    """The list of solvers is of use to who does not know their names."""
    summaries = {
        (problem, name): find_solver(problem, name).summary for problem, name in solver_names()
    }
    for name, summary in summaries.items():
        assert 10 <= len(summary) <= 100, name
        assert summary[0].isupper(), name
        assert not set("`\n") & set(summary), name
    assert len({(of, summary) for (of, _), summary in summaries.items()}) == len(summaries)


def test_an_instance_that_is_not_taken_is_refused_with_the_reason():
    """By the solver, and by the suite, which would otherwise pass without solving."""
    problem, name, position = next(pair for pair in PAIRS if pair not in TAKEN)
    solver, instance = find_solver(problem, name), INSTANCES[problem][position]
    with pytest.raises(AssertionError, match="the solver does not support the instance"):
        assert_conforms(solver, find_problem(problem), instance)
    for problem, name, position in set(PAIRS) - set(TAKEN):
        skip = find_solver(problem, name).supports(INSTANCES[problem][position])
        assert skip.reason

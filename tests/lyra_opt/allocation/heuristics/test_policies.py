"""The schedule policies: valid schedules, the rule of each, and what they guarantee."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.allocation import check
from lyra_opt.allocation.heuristics.lookahead import BASE_POLICIES, FILLS
from lyra_opt.allocation.heuristics.policy_solver import most_reduction
from lyra_opt.allocation.schedules.evaluator import FluidState, mean_jct_s
from lyra_opt.core.result import Limits
from lyra_opt.core.solver import find_solver
from lyra_opt.testing.strategies import allocation_instances
from tests.lyra_opt.allocation.examples import LONG, NARROW, drawn, example, instance_of, job
from tests.lyra_opt.allocation.schedules.test_evaluator import SCHEDULES, run_fill
from tests.tables import tables

TABLES = tables(__file__)


POLICIES = (
    *("lyra", "sjf", "srw", "equal-share", "afs"),
    *("optimus", "gandiva", "ibm-dp", "best-fill", "rollout"),
)
EVERY_POLICY = pytest.mark.parametrize("name", POLICIES)


def scheduled(name, instance, seed=0):
    """Return the schedule of a policy, by its registered name."""
    result = find_solver("allocation", name).solve(
        instance, limits=Limits(), rng=np.random.default_rng(seed)
    )
    assert result.objective == mean_jct_s(instance, result.solution)
    return result.solution


def value(name, instance):
    return mean_jct_s(instance, scheduled(name, instance))


def at(schedule, time_s):
    """Return how many workers each running job holds at a time."""
    return {
        piece.job: piece.workers
        for piece in schedule.pieces
        if piece.start_s <= time_s < piece.end_s
    }


def assert_valid(instance, schedule):
    """Require the rules of schedules, whole workers, and pieces that are merged."""
    assert check(instance, schedule).violations == ()
    for each in instance.jobs:
        workers = [piece.workers for piece in schedule.pieces if piece.job == each.id]
        assert all(isinstance(count, int) for count in workers)
        assert all(earlier != later for earlier, later in pairwise(workers))


@EVERY_POLICY
@given(instance=SCHEDULES)
def test_schedules_are_valid(name, instance):
    """Among them those of jobs that wait, grow and shrink."""
    assert_valid(instance, scheduled(name, instance))


@EVERY_POLICY
def test_schedules_of_compiled_kernels_are_valid(name):
    """The same rules, above the size from which kernels are compiled."""
    instance = drawn(45, 7, fit=False, releases=True, loss=True, wide=True)
    assert_valid(instance, scheduled(name, instance))


# The rules, one by one.


@pytest.mark.parametrize(("name", "first", "narrow_first"), TABLES["first_decision"])
def test_first_decision_on_the_examples_of_the_paper(name, first, narrow_first):
    """Lyra's own knapsack picks 5 and 3 on Lyra's own example, 16 % worse than the best."""
    assert at(scheduled(name, example(LONG)), 0) == first
    if name != "best-fill":  # one by one, which it may choose, does better than srw here
        assert at(scheduled(name, example(NARROW)), 0) == narrow_first


def test_keys_of_sjf_and_srw():
    """Work / w_max of the original work against remaining work: 8 / 8 < 4 / 2 but 8 > 4."""
    instance = instance_of(4, job("wide", 1, 8, 8.0), job("narrow", 1, 2, 4.0))
    assert at(scheduled("sjf", instance), 0) == {"wide": 3, "narrow": 1}
    assert at(scheduled("srw", instance), 0) == {"wide": 2, "narrow": 2}


def test_sjf_keeps_the_rank_of_the_original_work():
    """`late` is longer than what is left of `first`, but shorter than it was."""
    instance = instance_of(4, job("first", 1, 4, 40.0), job("late", 1, 4, 36.0, release_s=9))
    assert at(scheduled("sjf", instance), 9) == {"first": 1, "late": 3}
    assert at(scheduled("srw", instance), 9) == {"first": 3, "late": 1}


@pytest.mark.parametrize("name", ["sjf", "srw"])
def test_ties_go_in_file_order(name):
    """Also where the later in the file was released earlier."""
    first, second = job("first", 1, 3, 6.0), job("second", 1, 3, 6.0)
    assert at(scheduled(name, instance_of(4, first, second)), 0) == {"first": 3, "second": 1}
    instance = instance_of(1, job("first", 1, 1, 2.0, release_s=1), job("second", 1, 1, 2.0),
                           job("running", 1, 1, 3.0, running=True))  # fmt: skip
    assert at(scheduled(name, instance), 3) == {"first": 1}


@pytest.mark.parametrize("name", ["sjf", "srw", "lyra"])
def test_a_base_demand_that_does_not_fit_is_skipped(name):
    """The next in order starts; the started job keeps its base demand whatever is shorter."""
    instance = instance_of(
        4, job("started", 2, 2, 90.0, running=True), job("big", 3, 3, 6.0), job("small", 1, 2, 8.0)
    )
    assert at(scheduled(name, instance), 0) == {"started": 2, "small": 2}


def test_lyra_starts_by_shortest_time_and_values_remaining_work():
    """Base demands by work / w_max; by what was due at first, old would get 3 at 5 s."""
    instance = instance_of(2, job("a", 2, 2, 20.0), job("b", 1, 4, 24.0), job("c", 1, 1, 7.0))
    assert at(scheduled("lyra", instance), 0) == {"b": 1, "c": 1}
    instance = instance_of(5, job("old", 1, 4, 30.0), job("new", 1, 4, 16.0, release_s=5))
    assert at(scheduled("lyra", instance), 5) == {"old": 2, "new": 3}


def test_lyra_solves_the_knapsack_exactly_with_unlike_gpus():
    """The paper's figure 6: A has 2 GPUs a worker; values 20, 50, 70, 80, 86, 90."""
    jobs = [job("A", 2, 3, 300.0, gpus_per_worker=2), job("B", 2, 6, 120.0)]
    values = []
    for free in range(1, 7):
        extra = most_reduction(jobs, [300.0, 120.0], free)
        assert sum(e * j.gpus_per_worker for e, j in zip(extra, jobs, strict=True)) <= free
        values.append(
            sum(
                float(j.duration_s(j.min_workers) - j.duration_s(j.min_workers + e))
                for e, j in zip(extra, jobs, strict=True)
            )
        )
    assert values == pytest.approx([20, 50, 70, 80, 86, 90])
    assert at(scheduled("lyra", instance_of(8, *jobs)), 0) == {"A": 3, "B": 2}


@given(
    instance=allocation_instances(
        objective="mean_jct", max_jobs=3, with_releases=False, max_gpus_per_worker=3
    )
)
def test_lyra_first_decision_is_worth_the_most(instance):
    """Against every choice of extra workers for the jobs that phase 1 starts."""
    held = at(scheduled("lyra", instance), 0)
    started = [each for each in instance.jobs if each.id in held]

    def reduction(workers):
        return sum(
            float(each.duration_s(each.min_workers) - each.duration_s(count))
            for each, count in zip(started, workers, strict=True)
        )

    best = max(
        reduction(workers)
        for workers in product(*(range(j.min_workers, j.max_workers + 1) for j in started))
        if sum(w * j.gpus_per_worker for w, j in zip(workers, started, strict=True))
        <= instance.gpus
    )
    assert reduction(tuple(held[each.id] for each in started)) == pytest.approx(best, abs=1e-9)


def test_gandiva_grows_only_while_nothing_waits():
    """A job that waits for GPUs shrinks the others to their base demands, and idles the rest."""
    instance = instance_of(4, job("a", 1, 4, 16.0), job("wide", 4, 4, 4.0, release_s=2))
    schedule = scheduled("gandiva", instance)
    assert at(schedule, 0) == {"a": 4}
    assert at(schedule, 2) == {"a": 1}


@pytest.mark.parametrize("name", ["afs", "equal-share", "gandiva", "sjf", "srw"])
@given(instance=allocation_instances(objective="mean_jct", max_jobs=6), more=st.integers(0, 3))
def test_no_wish_is_left_if_all_fits(name, instance, more):
    """The simulation decides so without the policy, for jobs that run, whatever they lose."""
    jobs = [replace(each, running=True, release_s=0.0) for each in instance.jobs]
    state = FluidState(
        replace(instance, gpus=more + sum(each.max_gpus for each in jobs), jobs=jobs), logs=False
    )
    policy = find_solver("allocation", name)
    assert policy.leaves_no_wish
    policy.prepare(state)
    state.advance()
    policy.decide(state)
    assert list(map(state.target, range(len(jobs)))) == [each.max_workers for each in jobs]


def test_equal_share_levels_gpus_not_workers():
    """Four GPUs each: two workers of two and four of one."""
    instance = instance_of(8, job("a", 1, 8, 9.0, gpus_per_worker=2), job("b", 1, 8, 9.0))
    assert at(scheduled("equal-share", instance), 0) == {"a": 2, "b": 4}


def test_optimus_differs_from_lyra_in_who_starts():
    """First come, first served, not shortest first."""
    instance = instance_of(2, job("long", 2, 2, 50.0), job("short", 1, 1, 1.0))
    assert at(scheduled("optimus", instance), 0) == {"long": 2}
    assert at(scheduled("lyra", instance), 0) == {"short": 1}


def test_afs_prefers_the_shorter_of_two_at_equal_efficiency():
    """The source's comparison, worked by hand.

    Both start with nothing: the shorter, b, wins. Then a, without workers and so endlessly long,
    against b with one: 1 > 1/1 is false, b wins; with two: 1 > 1/2, a wins. At a = 1, b = 2 (b is
    shorter): 1/2 > 1/2 is false, b wins; at b = 3: 1/2 > 1/3, a wins. At a = 2, b = 3 b wins.
    """
    instance = instance_of(6, job("a", 1, 6, 60.0), job("b", 1, 6, 30.0))
    assert at(scheduled("afs", instance), 0) == {"a": 2, "b": 4}


def test_ibm_dp_admits_in_order_and_gives_the_most_throughput():
    """The first that does not fit blocks those behind; GPUs go where scaling loses least."""
    instance = instance_of(
        6,
        job("lossy", 1, 6, 40.0, scaling_loss=0.5),
        job("linear", 1, 3, 40.0),
        job("wide", 5, 5, 5.0),
        job("small", 1, 1, 1.0),
    )
    assert at(scheduled("ibm-dp", instance), 0) == {"lossy": 3, "linear": 3}


# Guarantees, and families on which there is none.


@given(instance=SCHEDULES)
def test_best_fill_is_the_best_of_its_fills(instance):
    """And srw is one of them, so it is never worse."""
    found = value("best-fill", instance)
    fills = [mean_jct_s(instance, run_fill(instance, fill)) for fill in FILLS]
    assert found == pytest.approx(min(fills), rel=1e-11)
    assert fills[0] == pytest.approx(value("srw", instance), rel=1e-12)


@given(instance=allocation_instances(objective="mean_jct", max_jobs=7))
def test_rollout_is_never_worse_than_its_base_policies(instance):
    """Their decisions are among its candidates."""
    base = min(mean_jct_s(instance, run_fill(instance, fill)) for fill in BASE_POLICIES)
    assert value("rollout", instance) <= base * (1 + 1e-11)


@pytest.mark.parametrize("gpus", [10, 50])
def test_srw_runs_side_by_side_what_should_queue(gpus):
    """Equal jobs that may each use the whole cluster: (n + 1) / 2n of srw's mean JCT."""
    instance = instance_of(gpus, *(job(f"j{i}", 1, gpus, 60.0) for i in range(gpus)))
    assert value("srw", instance) == pytest.approx(60)
    assert value("best-fill", instance) == pytest.approx(60 * (gpus + 1) / (2 * gpus))


def test_a_table_that_does_not_fit_is_refused():
    """The dynamic programme has a cell for each job and GPU."""
    large = instance_of(2**40, job("a", 1, 3, 1.0))
    refused = find_solver("allocation", "ibm-dp").supports(large)
    assert refused.reason == (
        "ibm-dp supports tables of at most 134217728 cells (jobs x GPUs); "
        "this instance needs 1099511627777"
    )

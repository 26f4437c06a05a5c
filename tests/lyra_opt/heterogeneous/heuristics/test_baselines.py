"""YARN-CS, Tiresias, AlloX and ours: the rule of each on cases worked by hand or by brute force."""

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.heterogeneous.heuristics.baselines import AlloX, Tiresias
from lyra_opt.heterogeneous.heuristics.policy import FreeGpus
from lyra_opt.heterogeneous.heuristics.priced_progress import PricedProgress
from tests.lyra_opt.heterogeneous.heuristics.cases import (
    decided,
    instance_of,
    job,
    run,
    running,
    state_of,
)
from tests.tables import tables

ORDERS = tables(__file__)["orders"]


@pytest.mark.parametrize("case", ORDERS.values(), ids=ORDERS)
def test_who_runs_in_each_round(case):
    """YARN-CS and Tiresias, worked by hand."""
    jobs = [job(name, steps, gang, release_s=late) for name, steps, gang, late in case["jobs"]]
    tiresias = {key: case[key] for key in ("thresholds_gpu_s", "promote_knob") if key in case}
    instance = instance_of([{"a": case["gpus"]}], jobs, objective="utility")
    found = run(Tiresias(**tiresias) if tiresias else case["policy"], instance)
    who = case["who"].split()
    assert ["".join(sorted(running(found, number))) for number in range(len(who))] == who


def test_yarn_cs_mixes_types_only_where_it_must():
    """A gang of two on one GPU of each kind, since there is no other way."""
    instance = instance_of([{"a": 1, "b": 1}], [job("x", 1, gang=2, throughput={"a": 2, "b": 1})])
    assert run("yarn-cs", instance).schedule.entries[0].gpus == {"s0": {"a": 1, "b": 1}}


def test_tiresias_moves_nobody_without_need():
    """The new job takes the GPU that is free, though its turn comes first."""
    jobs = [job("x", 9), job("y", 1, release_s=3.0)]
    found = run(Tiresias((2.0,)), instance_of([{"a": 1}, {"a": 1}], jobs))
    assert {next(iter(e.gpus)) for e in found.schedule.entries if e.job == "x"} == {"s0"}


@pytest.mark.parametrize("thresholds", [(2.0, 2.0), (0.0,), (3.0, 1.0)])
def test_tiresias_thresholds_increase(thresholds):
    """One clear error."""
    with pytest.raises(FieldError, match="thresholds"):
        Tiresias(thresholds)


def test_allox_considers_the_oldest():
    """With alpha of a half the shortest job, last of four, is not looked at."""
    jobs = [job("w", 8), job("x", 9), job("y", 9), job("z", 1)]
    instance = instance_of([{"a": 1}], jobs)
    assert set(decided(AlloX(), state_of(instance))) == {"z"}
    assert set(decided(AlloX(alpha=0.5), state_of(instance))) == {"w"}


def test_allox_leaves_out_whom_no_free_gpu_can_run():
    """A pair of job and place that cannot be is never matched."""
    jobs = [job("x", 1, throughput={"b": 1.0}), job("y", 5, throughput={"a": 1.0, "b": 0.0})]
    policy = AlloX()
    instance = instance_of([{"a": 1}, {"b": 1}], jobs)
    state = state_of(instance)
    assert set(decided(policy, state)) == {"x", "y"}
    only_a = FreeGpus(instance.servers[:1])
    queues = policy.queues(state.jobs, only_a)
    assert {name: [active.job.id for _, active in queue] for name, queue in queues.items()} == {
        "a": ["y"]
    }


def test_priced_progress_gives_fast_gpus_to_whom_they_help():
    """Though y is first, needs longer and would rather have a too, a helps x far more."""
    jobs = [
        job("y", 100, throughput={"a": 2.2, "b": 2.0}),
        job("x", 100, throughput={"a": 8.0, "b": 1.0}),
    ]
    instance = instance_of([{"a": 1}, {"b": 1}], jobs)
    decision = decided(PricedProgress(), state_of(instance))
    assert {name: list(placed[0]) for name, placed in decision.items()} == {
        "x": ["s0"],
        "y": ["s1"],
    }


def test_priced_progress_runs_the_shortest_first_and_the_longest_at_once():
    """Two GPUs: the critical job begins at once, the others go shortest first beside it."""
    instance = instance_of([{"a": 2}], [job("s", 3), job("t", 2), job("u", 4), job("long", 9)])
    assert run("priced-progress", instance).last_round == {"t": 1, "s": 4, "u": 8, "long": 8}
    found = run(PricedProgress(criticality=2.0), instance)
    assert found.last_round == {"t": 1, "s": 2, "u": 5, "long": 11}


def test_priced_progress_leaves_no_gpu_idle_that_could_be_used():
    """Whoever is left fills what is left, on mixed types too."""
    jobs = [job("x", 9, gang=3, throughput={"a": 1.0, "b": 1.0})]
    instance = instance_of([{"a": 2}, {"b": 1}], jobs)
    decision = decided(PricedProgress(), state_of(instance))
    assert decision == {"x": ({"s0": {"a": 2}, "s1": {"b": 1}},)}


def test_priced_progress_uses_the_servers_of_its_last_preparation():
    """A gang that only fits the fast type after servers were lent gets the fast type then."""
    jobs = [job("x", 9, gang=2, throughput={"a": 4.0, "b": 1.0})]
    policy = PricedProgress()
    places = [
        list(decided(policy, state_of(instance_of([{"a": gpus}, {"b": 2}], jobs)))["x"][0])
        for gpus in (1, 2)
    ]
    assert places == [["s1"], ["s0"]]


@pytest.mark.parametrize("name", ["criticality", "inertia"])
def test_priced_progress_refuses_bad_parameters(name):
    """One clear error."""
    with pytest.raises(FieldError, match=name):
        PricedProgress(**{name: -1.0})

"""Bounds beside replays: by hand where that is possible, kept by every scheme, and refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import lyra_opt as lo
from lyra_opt.core.errors import InputError
from lyra_opt.experiments.simulation.measuring.bounds import (
    MAKESPAN,
    MEAN_JCT,
    MEAN_QUEUE,
    require_kept,
)
from lyra_opt.experiments.simulation.running.tasks import replay_tasks
from lyra_opt.experiments.simulation.scenario.loading import Change, load_scenario
from lyra_opt.experiments.simulation.scenario.setup import SimulationError
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.workload import Job, Workload

if TYPE_CHECKING:
    from collections.abc import Mapping


def figures_of(name: str, *changes: tuple[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Return the figures of each scheme of a scenario."""
    replays = lo.simulate(name, changes={"bounds": True, **dict(changes)}).replays
    assert not replays.failed
    return {run.scheme: run.figures or {} for run in replays.runs}


def test_what_forking_must_give_one_job() -> None:
    """By hand: an hour on the fastest GPU, or on all nodes with their rates together."""
    found = figures_of(
        "forking",
        ("axes", {"jobs.workload": ["mix-1"]}),
        ("cluster.like", "hadare-aws"),
        ("schemes", ["hadar", "hadare"]),
    )
    rates = [18.0, 18.0, 6.0, 6.0, 1.81]  # ResNet-18 with batches of 128: V100, T4 a third, K80
    assert found["hadar"][MAKESPAN] == pytest.approx(3600, rel=1e-5)
    assert found["hadare"][MAKESPAN] == pytest.approx(3600 * rates[0] / sum(rates), rel=1e-5)
    assert len({figures[MEAN_JCT] for figures in found.values()}) == 1  # with copies for both
    for figures in found.values():
        assert figures[MEAN_JCT] <= figures["jct_mean_s"]
        assert figures[MAKESPAN] < figures["makespan_s"] < 1.1 * figures[MAKESPAN]


def test_both_are_proved_of_gangs_in_a_network() -> None:
    """The same for all schemes, none of which is better."""
    found = figures_of(
        "dally-batch", ("jobs.parameters.jobs", 20), ("schemes", ["dally", "best-fit", "hadar"])
    )
    assert len({(figures[MAKESPAN], figures[MEAN_JCT]) for figures in found.values()}) == 1
    for figures in found.values():
        assert 0 < figures[MAKESPAN] <= figures["makespan_s"]
        assert 0 < figures[MEAN_JCT] <= figures["jct_mean_s"]


@pytest.mark.parametrize("figure", ["makespan_s", "jct_mean_s", "queue_mean_s"])
def test_a_replay_that_beats_what_is_proved_is_no_result(figure: str) -> None:
    """One of the two is wrong then."""
    figures = {MAKESPAN: 10.0, MEAN_JCT: 10.0, MEAN_QUEUE: 10.0}
    figures |= {"makespan_s": 10.0, "jct_mean_s": 10.0, "queue_mean_s": 10.0}
    require_kept(figures, scheme="fifo")
    with pytest.raises(
        SimulationError, match=f"scheme fifo: {figure} is 9.9, but proved to be at least 10"
    ):
        require_kept({**figures, figure: 9.9}, scheme="fifo")


@pytest.mark.parametrize(
    ("schemes", "reading"),
    [(["fifo", "lyra"], "restart"), (["fifo", "tiresias"], "conserved")],
)
def test_schemes_are_held_against_what_all_of_them_may_do(schemes: list[str], reading: str) -> None:
    """A scheme that resumes work may beat a bound for those that start again from nothing."""
    found = figures_of(
        "lyra-paper",
        ("cluster.servers", 8),
        ("jobs.parameters.days", 1),
        ("schemes", schemes),
    )
    for figures in found.values():
        assert figures["bound_reading"] == reading
        assert 0 < figures[MEAN_JCT] <= figures["jct_mean_s"]
        assert figures["jct_above_bound_share"] >= 0


def test_where_no_bound_holds_none_is_given() -> None:
    """Found out before the first replay, in a line that names the key and the scheme."""
    changes = {"bounds": True, "schemes": ["pollux"], "jobs.parameters.days": 1}
    scenario = load_scenario("lyra-paper", [Change(*each) for each in changes.items()])
    with pytest.raises(InputError, match="bounds: no bound applies to scheme pollux"):
        replay_tasks(scenario)[0].setup()


def test_clock_times_are_rounded_more_than_a_bound_is() -> None:
    """A replay in Unix time is no refutation: its moments are a quarter of a microsecond apart."""
    jobs = tuple(
        Job(id=f"j{number}", submit_s=1.7e9 + number, work_worker_s=work)
        for number, work in enumerate([0.3, 0.3, 0.1])
    )
    runs = lo.simulate(
        "plain",
        jobs=Workload(name="short", jobs=jobs),
        cluster=Cluster.of_servers(1, gpus_per_server=1),
        schemes=["fifo"],
        changes={"bounds": True},
    )
    assert not runs.replays.failed

"""The figures of the simulated cluster: what they measure, on small scenarios."""

from __future__ import annotations

from functools import partial

import pytest

from lyra_opt.experiments.bench import replays
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES


def with_changes(monkeypatch: pytest.MonkeyPatch, more: dict[str, object]) -> None:
    """Make the scenarios of all figures small."""
    real = replays.replayed

    def small(scenario: str, schemes: object, changes: object = None, **options: object) -> object:
        assert changes is None or isinstance(changes, dict)
        return real(scenario, schemes, {**(changes or {}), **more}, **options)

    monkeypatch.setattr(replays, "replayed", small)


@pytest.mark.slow
def test_a_figure_for_each_scheme_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is held to a minute, and says how many jobs it ran, or why it ran none."""
    with_changes(monkeypatch, {"jobs.workload": "gavel-like", "jobs.parameters": {"jobs": 8}})
    figures = list(replays.round_figures())
    assert [figure.what for figure in figures] == [f"{name}, hadar-60" for name in ROUND_POLICIES]
    measured = [figure for figure in figures if figure.runs]
    (without_pairs,) = (figure for figure in figures if not figure.runs)
    assert without_pairs.what.startswith("gavel-gandiva")
    assert "nothing is known of how fast two are at once" in without_pairs.remark
    for figure in measured:
        assert (figure.target, figure.unit) == (60, "s")
        assert 0 < int(figure.remark.split()[0]) <= 8


@pytest.mark.slow
def test_a_figure_for_each_rule_and_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "LINK_SETS", ("shipped", "congested-1"))
    with_changes(monkeypatch, {"jobs.parameters": {"jobs": 4}})
    figures = list(replays.lease_figures())
    assert [figure.what for figure in figures] == [
        f"{name}, dally-batch, {links}"
        for links in ("shipped", "congested-1")
        for name in PLACEMENT_POLICIES
    ]
    assert all(figure.measured and figure.target == 30 for figure in figures)


@pytest.mark.slow
def test_speed_growth_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LYRA_OPT_TRACES", raising=False)
    monkeypatch.setattr(replays, "GROWTH_JOBS", (40, 80))
    monkeypatch.setattr(replays, "GROWTH_SEEDS", 2)
    monkeypatch.setattr(replays, "LYRA_DAYS", 1)
    with_changes(monkeypatch, {"cluster.servers": 20})
    fifo, own_scheme, speed, memory, growth = replays.simulation_figures()
    for of_a_trace in (fifo, own_scheme):
        assert (of_a_trace.runs, of_a_trace.verdict) == (0, "")
        assert of_a_trace.remark.startswith("not measured: ")
    assert (speed.statistic, speed.at_least) == ("jobs per CPU second", True)
    assert memory.unit == "MiB"
    assert growth.runs == 4
    assert growth.remark.startswith("40 jobs: ")


def test_a_replay_that_fails_stops_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "run_stored", partial(lambda *_, **__: 1))
    with pytest.raises(RuntimeError, match="a replay of dally-batch failed"):
        replays.replayed("dally-batch", ["dally"])

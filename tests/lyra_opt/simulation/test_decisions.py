"""Decisions that are put to solvers, and answers that are no answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lyra_opt.core.result import SolveResult, Status
from lyra_opt.reclaim.instance import Solution
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.decisions import DecisionError, ReclaimRule
from lyra_opt.simulation.scheme import prepare
from lyra_opt.simulation.workload import Workload
from tests.lyra_opt.simulation.replays import job_of, lending


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            SolveResult(
                status=Status.FEASIBLE,
                solution=Solution(("inference-2", "inference-2")),
                objective=0,
            ),
            "odd chose 1 of 2 servers",
        ),
        (SolveResult(status=Status.UNKNOWN, message="out of time"), "odd chose no .*: out of time"),
    ],
)
def test_too_few_servers_chosen_is_an_error(
    answer: SolveResult, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solver does not grade itself."""
    workload = Workload(name="drawn", jobs=(job_of("a", 0, 1),))
    cluster = Cluster.of_servers(1, inference_servers=3)
    kernel = prepare(workload, cluster, "lyra", plan=lending(3))
    kernel.hosts.lend(kernel.cluster.pools[-1].hosts)
    rule = ReclaimRule("lyra-greedy")
    assert len(rule.choose(kernel, 2)) == 2
    monkeypatch.setattr(rule, "_solver", SimpleNamespace(name="odd", solve=lambda *_, **__: answer))
    with pytest.raises(DecisionError, match=message):
        rule.choose(kernel, 2)

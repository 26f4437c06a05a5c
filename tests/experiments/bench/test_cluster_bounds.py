"""The figures of the bound on whole replays: what they measure, on small scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lyra_opt.experiments.bench import cluster_bounds

if TYPE_CHECKING:
    from pathlib import Path


TRACE = "job_id,submit_time_s,gpus,duration_s\n" + "".join(
    f"j{number},{10 * number},{1 + number % 8},{600 + 50 * number}\n" for number in range(30)
)


@pytest.mark.slow
def test_gaps_costs_and_growth(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each has its target; a trace that is not there is said, and measured is what is."""
    (trace := tmp_path / "few.csv").write_text(TRACE)
    traces = {"few": (str(trace), 1, 7.0), "none": (str(tmp_path / "none.csv"), 1, 1.0)}
    monkeypatch.setattr(cluster_bounds, "TRACES", traces)
    small = {"cluster.servers": 4, "jobs.parameters.days": 1}
    monkeypatch.setattr(cluster_bounds, "LYRA", small)
    monkeypatch.setattr(cluster_bounds, "GROWTH_JOBS", (40, 80))
    gap, cost, none, lyra, memory, growth = cluster_bounds.cluster_bound_figures()
    assert gap.what == "few, 8 GPUs"
    assert (gap.target, gap.unit) == (7.0, "%")
    assert gap.measured is not None
    assert gap.measured >= 0
    assert cost.measured is not None
    assert cost.measured > 0
    assert (none.runs, none.verdict) == (0, "")
    assert none.remark.startswith("not measured: ")
    assert (lyra.unit, memory.unit) == ("s", "MiB")
    assert memory.measured is not None
    assert memory.measured > 30
    assert growth.runs == 2
    assert growth.remark.startswith("40 jobs: ")

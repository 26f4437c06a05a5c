"""The figures of shares of time: what they measure."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from lyra_opt.experiments.bench import __main__ as bench
from lyra_opt.experiments.bench import heterogeneous_shares
from lyra_opt.experiments.bench.heterogeneous_shares import share_instance

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_all_figures_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small instances; whether a time meets its target is not what is tested: 1 is a miss."""
    monkeypatch.setattr(heterogeneous_shares, "JOBS", 20)
    monkeypatch.setattr(heterogeneous_shares, "RUNS", 1)
    assert bench.main(["--only", "shares", "--seeds", "1", "--out", str(tmp_path)]) in (0, 1)
    with (tmp_path / "figures.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    targets = [(row["what"], float(row["target"])) for row in rows if row["target"]]
    assert targets == [
        (f"lp-sifting, max-min shares, {kind}, 20 jobs x 3 types", 1.0)
        for kind in ("Gavel's job types", "no two jobs alike")
    ]


def test_instances_depend_on_the_seed_alone() -> None:
    """The same seed gives the same jobs, another one others; without jobs alike none are."""
    first, again, other = (
        share_instance("max_min_share", jobs=50, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert first.jobs != other.jobs
    unlike = share_instance("max_min_share", jobs=50, seed=1, all_unlike=True)
    assert len({job.weight for job in unlike.jobs}) == 50

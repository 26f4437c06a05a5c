"""Overload and starving jobs are reported and not hidden in averages."""

import json

import pandas as pd
import pytest

import lyra_opt as lo
from lyra_opt.__main__ import main

TYPES = {"A10": (4, 1), "A100": (8, 8)}
TYPED = {
    "cluster.groups": [
        {"servers": servers, "gpus_per_server": gpus, "gpu_type": name}
        for name, (servers, gpus) in TYPES.items()
    ],
    "gpu_types": {"A10": {"relative_speed": 0.6}, "A100": {"relative_speed": 2.0}},
}


def jobs_of(rows):
    names = ("job_id", "submit_time_s", "duration_s", "gpus", "gpu_types")
    return pd.DataFrame([dict(zip(names, row, strict=False)) for row in rows])


def test_a_gang_that_starves_is_seen_on_every_cluster():
    """By hand: small gangs determine all percentiles, while one large gang waits."""
    small = [(f"s{number}", 300 * number, 600, 8, "v100") for number in range(10)]
    jobs = jobs_of([*small, ("large", 100, 600, 16, "v100")])
    types = [{"servers": servers, "gpu_type": name} for servers, name in ((2, "v100"), (1, "k80"))]
    for changes in (
        {"cluster.servers": 2, "cluster.gpu_type": "v100"},
        {
            "cluster.servers": 2,
            "cluster.gpu_type": "v100",
            "cluster.servers_per_rack": 2,
            "cluster.network": {"links": "free"},
        },
        {"cluster.groups": types},
    ):
        runs = lo.simulate("plain", jobs=jobs, schemes=["sjf"], changes=changes)
        (row,) = runs.frame.to_dict("records")
        # The last small job is submitted after 2,700 s and runs until 3,300 s.
        assert row["queue_max_s"] == pytest.approx(3200, rel=0.01)
        assert row["jct_max_s"] > 3790
        assert row["queue_p50_s"] < 1
        assert "Queuing time, longest" in repr(runs)


def test_the_load_of_each_type_is_reported(tmp_path, capsys):
    """By hand: 20 jobs of 1,000 s within 1,900 s are a load of 263 % on 4 GPUs."""
    rows = [
        (f"{name}-{number}", 100 * number, 1000, 1, name) for number in range(20) for name in TYPES
    ]
    jobs = jobs_of([*rows, *((f"any-{number}", 0, 1000, 1, "") for number in range(3))])
    alike = {"gpu_types": {name: {"relative_speed": 1.0} for name in TYPES}}
    runs = lo.simulate("plain", jobs=jobs, schemes=["fifo"], changes=TYPED | alike)
    (run,) = runs.replays.runs
    assert run.figures is not None
    assert run.figures["load_by_type"] == pytest.approx(
        {"A10": 20 * 1000 / (4 * 1900), "A100": 20 * 1000 / (64 * 1900)}
    )
    assert "263 % of A10 (overloaded), 16 % of A100" in run.setting["demand"]
    trace = tmp_path / "trace.csv"
    jobs.to_csv(trace, index=False)
    sets = [f"cluster.groups={json.dumps(TYPED['cluster.groups'])}".replace('": ', '" = ')]
    sets += [f"gpu_types.{name}.relative_speed=1" for name in TYPES]
    asked = [part for text in sets for part in ("--set", text)]
    assert main(["simulate", "plain", "--jobs", str(trace), *asked]) == 0
    told = capsys.readouterr().err
    # At the last submission 19 jobs have had 4 * 1,900 GPU-seconds: 12,400 are left, 3,100 s on 4.
    assert "overloaded: at the last submission, work for 51.7 min of all GPUs of type A10" in told
    assert "type A100" not in told


def test_no_load_by_type_without_types_or_time():
    """One GPU type has the load of the cluster; jobs submitted at one moment have no load."""
    at_once = jobs_of([("a", 0, 1000, 1, "A10"), ("b", 0, 1000, 1, "A100")])
    alike = jobs_of([("a", 0, 1000, 1), ("b", 50, 1000, 1)])
    for jobs, changes in ((at_once, TYPED), (alike, {"cluster.servers": 1})):
        (run,) = lo.simulate("plain", jobs=jobs, changes=changes).replays.runs
        assert "load_by_type" not in (run.figures or {})
        assert "only one GPU type" not in run.setting["demand"]

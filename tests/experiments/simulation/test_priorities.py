"""Priorities in results: the same jobs under every scheme, figures by priority, saved decisions."""

import pytest

import lyra_opt as lo

SCHEMES = ["priority-none", "priority-kube", "priority-exact"]


def test_figures_by_priority_are_those_of_the_jobs():
    """All schemes have the same priorities by seed, and sums over priorities are the totals."""
    changes = {"cluster.servers": 8, "seeds": [2, 3]}
    runs = lo.simulate("priorities", schemes=SCHEMES, changes=changes)
    drawn = runs.jobs.pivot(index=["seed", "job_id"], columns="scheme", values="priority")
    assert (drawn.nunique(axis=1) == 1).all()
    shares = drawn["priority-none"].value_counts(normalize=True)
    assert shares.round(1).to_dict() == {1: 0.4, 2: 0.4, 3: 0.2}
    for figures in runs.frame.to_dict("records"):
        jobs = runs.jobs.query(f"scheme == {figures['scheme']!r} and seed == {figures['seed']}")
        for level, queued_s in jobs.groupby("priority").queued_s:
            assert figures[f"queue_priority_{level}_mean_s"] == pytest.approx(queued_s.mean())
            assert figures[f"queue_priority_{level}_p95_s"] == pytest.approx(
                queued_s.quantile(0.95)
            )
        for before, after in (("preemptions", ""), ("lost", "_gpu_s")):
            parts = [figures[f"{before}_priority_{level}{after}"] for level in (1, 2, 3)]
            assert sum(parts) == pytest.approx(figures[before + after])
    rows = [repr(runs).index(f"Queuing time of priority {level}, mean") for level in (3, 2, 1)]
    assert rows == sorted(rows)


def test_captured_preemptions_can_be_solved(run, tmp_path):
    """Jobs of one priority have no figures by priority, and no decisions."""
    more = ("--scheme", "priority-exact", "--capture", tmp_path, "--format=json")
    assert "priority_" not in run("simulate", "lyra-testbed", *more)[1]
    assert not list(tmp_path.iterdir())
    small = ("--set", "cluster.servers=8", "--seed", "2")
    assert "priority_3" in run("simulate", "priorities", *small, *more)[1]
    files = sorted(tmp_path.glob("preemption-*-priority-exact-at-*-s.json"))
    assert {file.name.split("-")[1] for file in files} == {"contested", "easy"}
    assert lo.solve(lo.load(files[0]), "exact").status == "optimal"

"""The parts of ``lyra-opt simulate`` by themselves: sampling, means, plans, progress."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.simulation import progress
from experiments.simulation.capture import Capture
from experiments.simulation.plots import bin_length_s, distribution
from experiments.simulation.replay import step_means
from experiments.simulation.setup import (
    LONGEST_PLAN_DAYS,
    make_loaning,
    make_options,
    plan_days,
    proportional_inference_servers,
)
from lyra_opt.simulation.engine import Cluster
from lyra_opt.simulation.workload import TrainingJob, Workload


def workload(*jobs: tuple[float, float, int]) -> Workload:
    """Return a workload of jobs (submission, duration, GPUs)."""
    return Workload(
        name="made",
        jobs=tuple(
            TrainingJob(
                id=str(number),
                submit_s=submit_s,
                work_worker_s=duration_s * gpus,
                min_workers=gpus,
                max_workers=gpus,
            )
            for number, (submit_s, duration_s, gpus) in enumerate(jobs)
        ),
    )


class TestCapture:
    """A reservoir that holds a uniform sample of decisions."""

    def sample(self, decisions: int, seed: int, most: int = 5) -> list[int]:
        capture = Capture(workload="w", scheme="s", seed=seed, most=most)
        for number in range(decisions):
            capture("reclaim", number)
        assert capture.seen == ({"reclaim": decisions} if decisions else {})
        return [instance for _, instance in capture._kept.get("reclaim", [])]

    @given(st.integers(0, 60), st.integers(0, 10))
    def test_size(self, decisions: int, seed: int) -> None:
        """As many as there are, up to the most; none twice; by seed."""
        kept = self.sample(decisions, seed)
        assert len(set(kept)) == len(kept) == min(5, decisions)
        assert kept == self.sample(decisions, seed)

    def test_every_decision_is_as_likely(self) -> None:
        """Each of 20 is kept by a quarter of 2,000 samples of 5, within five deviations."""
        counts = np.zeros(20)
        for seed in range(2000):
            counts[self.sample(20, seed)] += 1
        assert np.abs(counts - 500).max() < 5 * np.sqrt(2000 * 0.25 * 0.75)


class TestMeans:
    """Means over time of values that hold until the next."""

    @given(
        st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=12),
        st.integers(1, 7),
    )
    def test_against_seconds_one_by_one(self, steps: list[tuple[int, int]], length: int) -> None:
        """The mean of a bin is that of its seconds; the last value holds on."""
        time_s = np.cumsum([0, *(duration for duration, _ in steps)])
        values = np.array([*(value for _, value in steps), 3])
        edges_s = np.arange(0, time_s[-1] + 2 * length, length)
        each_second = np.repeat([*values], [*np.diff(time_s), 3 * length])
        expected = [each_second[start : start + length].mean() for start in edges_s[:-1]]
        assert step_means(1.0 * time_s, values, 1.0 * edges_s) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("makespan_s", "length_s"),
        [(1, 1), (600, 1), (601, 10), (36_000, 60), (36_001, 300), (1e9, 86_400)],
    )
    def test_bin_length(self, makespan_s: float, length_s: int) -> None:
        """Long runs get long bins."""
        assert bin_length_s(makespan_s) == length_s


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=3000))
def test_distribution(values: list[int]) -> None:
    """Every point is one of the exact distribution; the ends are among them."""
    found, shares = distribution(np.array(values, dtype=np.float64))
    ordered = sorted(values)
    assert len(found) <= 600
    assert (found[0], found[-1], shares[-1]) == (ordered[0], ordered[-1], 1)
    for value, share in zip(found, shares, strict=True):
        assert ordered[round(share * len(ordered)) - 1] == value


class TestPlan:
    """Loans are planned for as long as a run takes."""

    def test_days(self) -> None:
        """Ten days to drain at least, more where work is left, and an end."""
        day_s = 86_400.0
        cluster = Cluster(servers=1, inference_servers=2)
        assert plan_days(workload((0, 60, 1), (2 * day_s, 60, 1)), cluster) == 12
        assert plan_days(workload((0, 10 * day_s, 8), (day_s, 10 * day_s, 8)), cluster) == 61
        assert plan_days(workload((0, 1e11, 1)), cluster) == LONGEST_PLAN_DAYS

    def test_loans_cover_the_plan(self) -> None:
        """One number of servers for each five minutes; none without inference servers."""
        jobs = workload((0, 60, 1), (86_400, 60, 1))
        loaning = make_loaning(jobs, Cluster(servers=1, inference_servers=5), seed=0, headroom=0.1)
        assert loaning is not None
        assert len(loaning.plan.on_loan) == len(loaning.plan.busy_share) == 11 * 288
        assert 0 < max(loaning.plan.on_loan) <= 4
        assert loaning.plan.busy_share[:288] == loaning.demand.busy_share[:288]
        assert make_loaning(jobs, Cluster(servers=1), seed=0) is None

    def test_ideal_jobs_lose_nothing_on_mixed_gpus(self) -> None:
        """Unlike those of the other scenarios (Lyra, section 7.1)."""
        assert make_options(seed=0, scenario="ideal").mixed_efficiency == 1
        assert make_options(seed=0, scenario="advanced").mixed_efficiency == 0.7

    def test_proportions(self) -> None:
        """Lyra's own clusters, and one too small to have a share."""
        assert proportional_inference_servers(443 * 8) == 520
        assert proportional_inference_servers(1) == 1


def test_progress_in_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no terminal, a line now and then, with the time left."""
    clock = iter([0.0, 1.0, 20.0, 21.0])
    monkeypatch.setattr("experiments.simulation.progress.time.monotonic", lambda: next(clock))
    with progress.simulated_time("lyra", 10 * 86_400.0) as show:
        show(86_400.0)
        show(4 * 86_400.0)
        show(5 * 86_400.0)
    assert capsys.readouterr().err == "lyra: day 4.0 of about 10.0, about 30 s left\n"

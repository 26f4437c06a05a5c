"""Parts of ``lyra-opt simulate``: samples of decisions, means of series, plans of loans."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.allocation.instance import ElasticJob, Objective
from lyra_opt.allocation.instance import Instance as AllocationInstance
from lyra_opt.core.loading import load_instance
from lyra_opt.experiments.simulation.running.capture import (
    Capture,
    Reservoir,
    lacks_gpus,
    preempts_somebody,
)
from lyra_opt.experiments.simulation.scenario.setup import (
    LONGEST_PLAN_DAYS,
    make_loaning,
    plan_days,
)
from lyra_opt.reclaim.instance import Instance as ReclaimInstance
from lyra_opt.reclaim.instance import Job as HostedJob
from lyra_opt.reclaim.instance import Semantics, Server, WorkerGroup
from lyra_opt.simulation.cluster import Cluster
from tests.lyra_opt.simulation.replays import job_of, workload_of


def workload(*jobs):
    """Return a workload of jobs, each given as submission, duration and GPUs."""
    return workload_of(*(job_of(str(number), *job) for number, job in enumerate(jobs)))


class TestReservoir:
    """A uniform sample of a stream."""

    def sample(self, entries, seed, most=5):
        reservoir = Reservoir(most, np.random.default_rng(seed))
        for entry in range(entries):
            reservoir.offer(entry)
        assert reservoir.seen == entries
        return reservoir.kept

    @given(st.integers(0, 60), st.integers(0, 10))
    def test_size(self, entries, seed):
        """The sample has no duplicates, depends on the seed, and is in the order of the stream."""
        kept = self.sample(entries, seed)
        assert len(set(kept)) == len(kept) == min(5, entries)
        assert kept == sorted(kept) == self.sample(entries, seed)

    def test_every_entry_is_as_likely(self):
        """Each of 20 entries is in a quarter of 2,000 samples of 5, within five deviations."""
        counts = np.zeros(20)
        for seed in range(2000):
            counts[self.sample(20, seed)] += 1
        assert np.abs(counts - 500).max() < 5 * np.sqrt(2000 * 0.25 * 0.75)


def reclaim(count, *, moment_s=0, weight=1):
    """Return an instance with two free servers and one server with a job; `count` are reclaimed."""
    return ReclaimInstance(
        name=f"reclaim-at-{moment_s}-s",
        semantics=Semantics.RIGID,
        reclaim_servers=count,
        servers=tuple(Server(id=name, gpus=8) for name in "abc"),
        jobs=(HostedJob(id="j", workers=(WorkerGroup(server="b", base=8),), weight=weight),),
    )


def allocation(gpus, objective):
    """Return an instance with two jobs of 1 to 3 workers with 2 GPUs each."""
    jobs = tuple(
        ElasticJob(id=name, min_workers=1, max_workers=3, work_worker_s=60, gpus_per_worker=2)
        for name in "ab"
    )
    return AllocationInstance(name="allocation-at-0-s", objective=objective, gpus=gpus, jobs=jobs)


class TestCapture:
    """Contested and easy decisions are sampled separately."""

    @pytest.mark.parametrize(("count", "pays"), [(0, False), (2, False), (3, True)])
    def test_contested_reclaims(self, count, pays):
        """Two servers are free and the third one costs a job; a job of weight 0 costs nothing."""
        assert preempts_somebody(reclaim(count)) is pays
        assert not preempts_somebody(reclaim(count, weight=0))

    @pytest.mark.parametrize(
        ("objective", "gpus", "lacks"),
        [
            (Objective.JCT_REDUCTION, 8, False),
            (Objective.JCT_REDUCTION, 7, True),
            (Objective.MEAN_JCT, 12, False),
            (Objective.MEAN_JCT, 11, True),
        ],
    )
    def test_contested_allocations(self, objective, gpus, lacks):
        """In Lyra's phase 2 only the GPUs beyond the base demands count."""
        assert lacks_gpus(allocation(gpus, objective)) is lacks

    def test_decisions_of_one_moment_are_all_kept(self, tmp_path):
        """File names have whole seconds, so decisions within a second are numbered."""
        capture = Capture(workload="w", scheme="s", seed=0)
        for count in (1, 2, 1):
            capture("reclaim", reclaim(count))
        documents = capture.documents()
        names = list(documents)
        assert names == [
            "reclaim-easy-s-at-0-s.json",
            "reclaim-easy-s-at-0-s-2.json",
            "reclaim-easy-s-at-0-s-3.json",
        ]
        for name, text in documents.items():
            (tmp_path / name).write_text(text)
        instances = [load_instance(tmp_path / name).instance for name in names]
        assert [instance.reclaim_servers for instance in instances] == [1, 2, 1]
        assert len({instance.name for instance in instances}) == 3

    def test_samples(self, write):
        """Each sample has its own size limit, and file names state the sample."""
        capture = Capture(workload="w", scheme="s", seed=0, most=3)
        assert capture.in_words() == "scheme s asks no solver to decide: no decisions captured"
        for moment_s in range(20):
            capture("reclaim", reclaim(3 if moment_s in (4, 9) else 1, moment_s=moment_s))
        capture("allocation", allocation(8, Objective.JCT_REDUCTION))
        assert capture.in_words() == (
            "scheme s: captured 1 of 1 easy allocation decisions, "
            "2 of 2 contested reclaim decisions, 3 of 18 easy reclaim decisions"
        )
        documents = capture.documents()
        names = list(documents)
        assert [name for name in names if "contested" in name] == [
            "reclaim-contested-s-at-4-s.json",
            "reclaim-contested-s-at-9-s.json",
        ]
        assert sum(name.startswith("reclaim-easy-s-at-") for name in names) == 3
        assert "allocation-easy-s-at-0-s.json" in names
        name = "reclaim-contested-s-at-9-s.json"
        kept = load_instance(write(documents[name], name)).instance
        assert kept == replace(reclaim(3, moment_s=9), name="w-reclaim-s-at-9-s")

    def test_by_seed(self):
        """The same seed keeps the same decisions; each sample has its own random numbers."""

        def kept(seed, *, contested):
            capture = Capture(workload="w", scheme="s", seed=seed, most=2)
            for moment_s in range(30):
                if moment_s < contested:
                    capture("reclaim", reclaim(3, moment_s=moment_s))
                capture("reclaim", reclaim(1, moment_s=moment_s))
            easy = capture._samples["reclaim", "easy"].kept
            return " ".join(instance.name for instance in easy)

        assert kept(0, contested=0) == kept(0, contested=30)
        assert len({kept(seed, contested=0) for seed in range(10)}) > 1


class TestPlan:
    """Loans are planned for as long as a run takes."""

    def test_days(self):
        """Jobs have at least ten days to drain, more if work is left, and the plan is limited."""
        day_s = 86_400.0
        cluster = Cluster.of_servers(1, inference_servers=2)
        assert plan_days(workload((0, 60, 1), (2 * day_s, 60, 1)), cluster) == 12
        assert plan_days(workload((0, 10 * day_s, 8), (day_s, 10 * day_s, 8)), cluster) == 61
        assert plan_days(workload((0, 1e11, 1)), cluster) == LONGEST_PLAN_DAYS

    def test_loans_cover_the_plan(self):
        """There is a number of servers per five minutes; no plan without inference servers."""
        jobs = workload((0, 60, 1), (86_400, 60, 1))
        loaning = make_loaning(
            jobs, Cluster.of_servers(1, inference_servers=5), seed=0, headroom=0.1
        )
        assert len(loaning.plan.on_loan) == len(loaning.plan.busy_share) == 11 * 288
        assert 0 < max(loaning.plan.on_loan) <= 4
        assert loaning.plan.busy_share[:288] == loaning.demand.busy_share[:288]
        assert make_loaning(jobs, Cluster.of_servers(1), seed=0) is None

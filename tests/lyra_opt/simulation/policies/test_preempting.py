"""Schemes that stop jobs for waiting gangs of higher priority: what their solvers may do to whom.

Replays worked out by hand are in ``by_hand.toml``, and `PreemptsLower` looks on in random replays.
"""

import random
from dataclasses import replace

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.core.result import SolveResult, Status
from lyra_opt.instances.workloads.lyra_like import lyra_like
from lyra_opt.instances.workloads.transform import JobAssumptions, rescaled
from lyra_opt.preemption import Solution
from lyra_opt.preemption.exact.solver import Exact
from lyra_opt.simulation.cluster import Cluster, GpuType
from lyra_opt.simulation.policies.elastic import ElasticJobs
from lyra_opt.simulation.scheme import ComposedScheme, Options, simulate
from lyra_opt.simulation.tenure import Leases
from lyra_opt.simulation.view import PolicyError
from lyra_opt.simulation.workload import Workload
from tests.draws import sampled
from tests.lyra_opt.simulation.product import draw, kind_of, run_drawn
from tests.lyra_opt.simulation.replays import borrowing, job_of, lending, replay

SOLVERS = ("exact", "kube-pods", "kueue", "slurm")
CLUSTER = Cluster.of_servers(8)


def crowded(seed, **assumed):
    """Return two days of jobs with wide workers, for which 64 GPUs hardly suffice."""
    given = {"elastic_percent": 0, "checkpoint_percent": 50, "most_gpus_per_worker": 8, **assumed}
    drawn = lyra_like(days=2, training_gpus=64, seed=seed, assumptions=JobAssumptions(**given))
    return rescaled(drawn, load=1.1, gpus=64)


def of_parts(preempter, **parts):
    given = {"queue": "priority", "preempter": preempter, **parts}
    return ComposedScheme(name="of-parts", summary="for tests", **given)


@pytest.mark.parametrize("solver", SOLVERS)
def test_with_one_priority_all_is_as_without_preemption(solver):
    """Hosts are counted in one case and told apart in the other, which changes no time."""
    found, without = (simulate(crowded(1), CLUSTER, of_parts(each)) for each in (solver, None))
    for mine, other in zip(found.runs, without.runs, strict=True):
        assert mine.preemptions == 0
        assert (mine.start_s, mine.completion_s) == (other.start_s, other.completion_s)


def test_an_answer_is_checked_before_jobs_are_stopped(monkeypatch):
    """Without victims the gang waits; a failure, and victims that do not suffice, are errors."""
    jobs = [job_of("a", 0, 100, 8, priority=1), job_of("b", 10, 50, 8, priority=2)]

    def answered(**result):
        monkeypatch.setattr(Exact, "solve", lambda *_, **__: SolveResult(**result))
        found = replay(jobs, Cluster.of_servers(1), "priority-exact")
        return [run.start_s for run in found.runs]

    assert answered(status=Status.UNKNOWN) == answered(status=Status.INFEASIBLE) == [0, 100]
    with pytest.raises(PolicyError, match="exact failed to choose victims: lost"):
        answered(status=Status.ERROR, message="lost")
    with pytest.raises(PolicyError, match="exact chose invalid victims: 0 pods"):
        answered(status=Status.FEASIBLE, objective=0, solution=Solution(lost_gangs=()))


def test_schemes_that_cannot_preempt_are_refused():
    """GPUs must be free at once, and there must be such a solver."""
    with pytest.raises(UserError, match="with tenure leases these GPUs become free later"):
        simulate(crowded(1), CLUSTER, "priority-exact", tenure=Leases())
    with pytest.raises(UserError, match="fastt"):
        replay([job_of("a", 0, 1)], CLUSTER, of_parts("fastt"))


def crowded_loans(seed):
    """Return elastic jobs on servers on loan, where several GPUs may replace a training GPU."""
    rng = random.Random(seed)
    speed, servers, size = rng.choice([0.5, 1 / 3, 0.4]), rng.randint(3, 5), rng.randint(3, 5)
    submitted_s = sorted(5 * rng.randint(0, 12) for _ in range(rng.randint(7, 12)))
    jobs = [
        job_of(
            f"j{number}",
            submit_s,
            rng.randint(20, 200),
            max_workers=1 + rng.choice([0, 2, 3, 4]),
            gpus_per_worker=rng.choice([1, 1, 2, 3]),
            fungible=rng.random() < 0.9,
            checkpoints=rng.random() < 0.5,
            priority=rng.randint(0, 3),
        )
        for number, submit_s in enumerate(submitted_s)
    ]
    scaling = rng.choice(["policy:afs", "knapsack:mckp-core"])
    loans = {"reclaimer": "lyra-greedy", "keeps_groups_apart": False, "scaling": scaling}
    return {
        "workload": Workload(name="drawn", jobs=tuple(jobs)),
        "cluster": borrowing(3, servers, size, GpuType(name="T4", relative_speed=speed)),
        "plan": lending(*(rng.choice([servers, servers, 2]) for _ in range(4))),
        "scheme": of_parts(rng.choice(("exact", *SOLVERS)), **loans),
        "options": Options(scaling_interval_s=0),
    }


@pytest.mark.parametrize(("first", "last"), sampled([(0, 50), (50, 400)], 2))
def test_elastic_jobs_on_loan_give_way_soundly(first, last, monkeypatch):
    """The watch of `product` keeps its own books of them, and some lose flexible workers alone."""
    shrunk = []
    give_up = ElasticJobs.give_up
    monkeypatch.setattr(ElasticJobs, "give_up", lambda *given: shrunk.append(give_up(*given)))
    is_base = ("pools+loans", "forever", "lyra")
    base = draw(next(seed for seed in range(10_000) if kind_of(seed)[:3] == is_base))
    for seed in range(first, last):
        drawn = replace(base, seed=seed, ignores_distance=False, **crowded_loans(seed))
        assert run_drawn(drawn).kernel is not None
    assert shrunk

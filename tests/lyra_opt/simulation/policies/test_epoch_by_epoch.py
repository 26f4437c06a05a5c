"""Pollux in the simulated cluster: no queue, one worker first, doubling, costly restarts."""

import numpy as np
import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.goodput.model import CIFAR, NCF, STAGES, fixed_goodput, tuned_goodput
from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.scheme import find_scheme
from lyra_opt.simulation.view import Observer
from lyra_opt.simulation.workload import Job
from tests.lyra_opt.simulation.replays import job_of, replay


def run_pollux(jobs, *observers, servers=1, gpus=4):
    """Replay jobs, by submission."""
    kernel = replay(
        sorted(jobs, key=lambda job: job.submit_s),
        Cluster.of_servers(servers, gpus_per_server=gpus),
        "pollux",
        observers=observers,
    )
    require_conserved(kernel)
    return kernel


def cifar(name, submit_s, hours=10.0, **fields):
    """Return an elastic job that trains ResNet-18, by its hours on one GPU."""
    fields = {"min_workers": 1, "max_workers": 16} | fields
    return Job(id=name, submit_s=submit_s, work_worker_s=hours * 3600, model="cifar10", **fields)


class Held(Observer):
    """Notes how many workers jobs have, whenever that is another number than before."""

    def __init__(self):
        self.workers = {}
        self.changed_s = set()

    def passes(self, view, until_s):
        for run in view.runs:
            noted = self.workers.setdefault(run.job.id, [0])
            if run.workers != noted[-1]:
                noted.append(run.workers)
                if run.workers:
                    self.changed_s.add(view.now_s)


def test_a_job_starts_on_one_gpu_and_doubles():
    """Though its base demand is four; never more than twice the most that it has had."""
    held = Held()
    job = cifar("a", 5.0, min_workers=4, max_workers=16)
    (run,) = run_pollux([job], held, servers=4).runs
    workers = held.workers["a"]
    assert workers[:3] == [0, 1, 2]
    assert max(workers) > 4
    most = np.maximum.accumulate(workers)
    assert all(later <= 2 * before for before, later in zip(most[1:], workers[2:], strict=False))
    assert run.restarts == len(workers) - 2
    assert run.paused_s == 30.0 * run.allocations
    assert all(moment % 60 == 0 for moment in held.changed_s - {run.completion_s})


def test_a_gang_that_cannot_be_restarted_keeps_its_gpus():
    jobs = [job_of("pinned", 0.0, 4000.0, 4), *(cifar(f"b{i}", 60.0, 0.01) for i in range(9))]
    pinned, *others = run_pollux(jobs).runs
    assert pinned.preemptions == 0
    assert all(run.start_s >= pinned.completion_s for run in others)
    jobs[0] = job_of("checkpoints", 0.0, 4000.0, 4, checkpoints=True)
    stopped, *others = run_pollux(jobs).runs
    assert stopped.preemptions > 0
    assert stopped.lost_work == 0
    assert any(run.start_s < stopped.completion_s for run in others)


@pytest.mark.parametrize("spreads", [False, True])
def test_the_rate_follows_the_stages_of_the_training(spreads):
    """Of a job that has what it can use: to the second, but for stages that end within an epoch."""
    job = cifar("a", 0.0, hours=50.0, max_workers=2)
    servers, gpus = (2, 1) if spreads else (1, 2)
    (run,) = run_pollux([job], servers=servers, gpus=gpus).runs
    unit = np.mean([1 / fixed_goodput(CIFAR, 1, gpus, stage) for stage in range(STAGES)])
    rates = [unit * tuned_goodput(CIFAR, 2, gpus, stage) for stage in range(STAGES)]
    expected_s = sum(job.work_worker_s / STAGES / rate for rate in rates)
    assert run.restarts == 1
    assert run.running_s == pytest.approx(expected_s, abs=60 * STAGES)
    assert run.slower_type_s == 0
    if spreads:
        near = run_pollux([job], servers=1, gpus=2).runs[0]
        assert near.running_s < run.running_s - 60 * STAGES


def test_a_model_that_uses_one_gpu_stays_on_it():
    held = Held()
    job = Job(id="ncf", submit_s=0.0, work_worker_s=900.0, max_workers=4, model="ncf")
    (run,) = run_pollux([job], held).runs
    assert held.workers["ncf"] == [0, 1]
    assert NCF.most_gpus == 1
    assert run.restarts == 0


def test_a_queue_that_is_not_known_is_refused():
    with pytest.raises(FieldError, match='queue is "last-come": must be one of'):
        find_scheme("pollux").with_parameters({"queue": "last-come"})

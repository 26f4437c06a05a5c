"""What tuning makes of the jobs of a simulation.

A simulated job has work in worker-seconds and does it at a rate that is linear in its workers; no
trace says which model it trains. So each elastic job is given a profile, and the goodput model
changes its rate. Inelastic jobs are as their users set them up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.seeding import generator
from lyra_opt.simulation.goodput.model import (
    BERT,
    CIFAR,
    DEEP_SPEECH,
    IMAGENET,
    YOLO,
    fixed_goodput,
    tuned_goodput,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.simulation.goodput.model import ModelProfile
    from lyra_opt.simulation.workload import Job

CLASSES: tuple[tuple[float, tuple[ModelProfile, ...]], ...] = (
    (1.0, (CIFAR,)),
    (10.0, (DEEP_SPEECH, BERT)),
    (100.0, (YOLO,)),
    (float("inf"), (IMAGENET,)),
)
"""Jobs below so many GPU-hours train one of these."""


def draw_profile(job: Job, seed: int) -> ModelProfile:
    """Return the model that a job is taken to train.

    The mix is that of Pollux's workloads: by GPU-hours, as in `CLASSES`, and in a class of two by
    lot, each alike. NCF, the other half of the first class, is left out, since Pollux's simulator
    keeps it on one GPU. A model that cannot use all the GPUs of the job gives way to the next
    class; the last class takes what is left.

    Parameters
    ----------
    job
        The job, by whose name the lot is drawn.
    seed
        Of the simulation.
    """
    gpu_hours = job.work_worker_s * job.gpus_per_worker / 3600
    lot = generator(goodput="profile", job=job.id, seed=seed).integers(2)
    most_gpus = job.max_workers * job.gpus_per_worker
    for below, profiles in CLASSES[:-1]:
        profile = profiles[lot % len(profiles)]
        if gpu_hours < below and most_gpus <= profile.most_gpus:
            return profile
    return CLASSES[-1][1][0]


class TunedSpeed:
    """The rate of jobs whose batch size and learning rate are tuned while they run.

    One object a workload: what it finds for a job it keeps by the job's name.

    With G*(w) for the goodput that tuning reaches with w workers (`tuned_goodput`) and G(w) for
    that of the batch size the user has set (`fixed_goodput`), an elastic job has the rate
    rate(w) * G*(w) / G(w), where rate is that of the untuned job. Tuning multiplies whatever the
    job would do with these workers, never by less than 1. It keeps Lyra's assumption that
    throughput is linear in the workers, which its authors measured on their cluster (section 5,
    figure 3), so that schemes with and without tuning can be compared.

    Parameters
    ----------
    seed
        For `draw_profile`.
    gpus_per_server
        Of the training cluster; jobs are taken to be on as few servers as hold them.

    Notes
    -----
    Source: Lyra (EuroSys 2023), section 7.1, names the Lyra scheduler with the Pollux job agent as
    Lyra+TunedJobs, without saying how the agent's effect is simulated: the model is this
    project's.
    """

    def __init__(self, *, seed: int = 0, gpus_per_server: int = 8) -> None:
        self.gpus_per_server = gpus_per_server
        self._seed = seed
        self._profiles: dict[str, ModelProfile] = {}
        self._rates: dict[str, NDArray[np.float64]] = {}

    def profile(self, job: Job) -> ModelProfile:
        """Return the model of a job, drawn once."""
        profile = self._profiles.get(job.id)
        if profile is None:
            profile = self._profiles[job.id] = draw_profile(job, self._seed)
        return profile

    def rate(self, job: Job, workers: int) -> float:
        """Return the work in worker-seconds that a job does a second with at least one worker."""
        if not job.is_elastic:
            return job.rate(workers)
        if job.min_workers <= workers <= job.max_workers:
            return float(self.rates(job)[workers - job.min_workers])
        return self._tuned_rate(job, workers)

    def rates(self, job: Job) -> NDArray[np.float64]:
        """Return the rates of an elastic job with w_min to w_max workers; remembered."""
        rates = self._rates.get(job.id)
        if rates is None:
            rates = np.array(
                [self._tuned_rate(job, w) for w in range(job.min_workers, job.max_workers + 1)]
            )
            rates.flags.writeable = False
            self._rates[job.id] = rates
        return rates

    def _tuned_rate(self, job: Job, workers: int) -> float:
        profile = self.profile(job)
        gpus = workers * job.gpus_per_worker
        tuned = tuned_goodput(profile, gpus, self.gpus_per_server)
        # Below the base demand, where only comparisons ask, there is no scaling loss.
        untuned = job.rate(workers) if workers > job.min_workers else float(workers)
        return untuned * (tuned / fixed_goodput(profile, gpus, self.gpus_per_server))

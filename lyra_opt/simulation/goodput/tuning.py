"""What tuning makes of the jobs of a simulation.

A simulated job has work in worker-seconds, and hardly any trace says which model it trains. So each
elastic job is given a profile, from which its rate follows. Inelastic jobs are as their users set
them up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.seeding import generator
from lyra_opt.simulation.goodput.model import (
    BERT,
    CIFAR,
    DEEP_SPEECH,
    IMAGENET,
    PROFILES,
    STAGES,
    YOLO,
    fixed_duration_s,
    fixed_goodput,
    tuned_goodput,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.simulation.goodput.model import ModelProfile
    from lyra_opt.simulation.job_run import JobRun
    from lyra_opt.simulation.workload import Job

    FloatArray = NDArray[np.float64]

CLASSES: tuple[tuple[float, tuple[ModelProfile, ...]], ...] = (
    (1.0, (CIFAR,)),
    (10.0, (DEEP_SPEECH, BERT)),
    (100.0, (YOLO,)),
    (float("inf"), (IMAGENET,)),
)
"""Jobs below so many GPU-hours train one of these."""


NEAR, SPREAD = range(2)
"""Whether the GPUs of a job are on one server, or on several."""

_PROFILE_OF = {profile.application: profile for profile in PROFILES}


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


class JobTuning(ABC):
    """How fast jobs run whose batch size and learning rate are tuned while they run.

    One object a simulation: what it finds for a job it keeps by the job's name.

    Parameters
    ----------
    seed
        For `draw_profile`.
    gpus_per_server
        Of the training cluster.
    """

    tells_near_from_far = False
    """Whether rates depend on where the GPUs of a job are."""

    def __init__(self, *, seed: int = 0, gpus_per_server: int = 8) -> None:
        self.gpus_per_server = gpus_per_server
        self._seed = seed
        self._profiles: dict[str, ModelProfile] = {}

    def profile(self, job: Job) -> ModelProfile:
        """Return the model of a job: the one that it names, or one drawn once."""
        profile = self._profiles.get(job.id)
        if profile is None:
            profile = _PROFILE_OF.get(job.model or "") or draw_profile(job, self._seed)
            self._profiles[job.id] = profile
        return profile

    def least_workers(self, job: Job) -> int:
        """Return with how few workers a job may run."""
        return job.min_workers

    @abstractmethod
    def rate(self, job: Job, workers: int) -> float:
        """Return the most work in worker-seconds that a job does a second with some workers."""

    def rate_of(self, run: JobRun) -> float:
        """Return the work in worker-seconds that a running job does a second now."""
        return self.rate(run.job, run.workers)


class TunedSpeed(JobTuning):
    """Tuning on top of linear scaling: Lyra's jobs with the Pollux job agent.

    With G*(w) for the goodput that tuning reaches with w workers (`tuned_goodput`) and G(w) for
    that of the batch size the user has set (`fixed_goodput`), an elastic job has the rate
    rate(w) * G*(w) / G(w), where rate is that of the untuned job. Tuning multiplies whatever the
    job would do with these workers, never by less than 1. It keeps Lyra's assumption that
    throughput is linear in the workers, which its authors measured on their cluster (section 5,
    figure 3), so that schemes with and without tuning can be compared. The noise scale does not
    change while a job trains, and jobs are taken to be on as few servers as hold them.

    Notes
    -----
    Source: Lyra (EuroSys 2023), section 7.1, names the Lyra scheduler with the Pollux job agent as
    Lyra+TunedJobs, without saying how the agent's effect is simulated: the model is this
    project's.
    """

    def __init__(self, *, seed: int = 0, gpus_per_server: int = 8) -> None:
        super().__init__(seed=seed, gpus_per_server=gpus_per_server)
        self._rates: dict[str, FloatArray] = {}

    def rate(self, job: Job, workers: int) -> float:
        """See `JobTuning`; with at least one worker."""
        if not job.is_elastic:
            return job.rate(workers)
        if job.min_workers <= workers <= job.max_workers:
            return float(self.rates(job)[workers - job.min_workers])
        return self._tuned_rate(job, workers)

    def rates(self, job: Job) -> FloatArray:
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


class GoodputSpeed(JobTuning):
    """The rates of Pollux's jobs: nothing but their goodput, from one worker on.

    An elastic job has the rate u * G*(w, place, stage), with G* the goodput of the best batch size
    (`tuned_goodput`), which grows more slowly than its workers w, is less across servers, and rises
    from stage to stage of the training as the gradient noise does. The unit u makes its work last
    as long as the workload says where the job has its base demand, on as few servers as hold it,
    and the batch size of its user (`fixed_goodput`) from beginning to end.
    """

    tells_near_from_far = True

    def __init__(self, *, seed: int = 0, gpus_per_server: int = 8) -> None:
        super().__init__(seed=seed, gpus_per_server=gpus_per_server)
        self._rates: dict[tuple[str, int, int, int], FloatArray] = {}
        self._best: dict[tuple[str, int, int, int], FloatArray] = {}

    def least_workers(self, job: Job) -> int:
        """See `JobTuning`: elastic jobs may have less than their base demand."""
        return 1 if job.is_elastic else job.min_workers

    def rate(self, job: Job, workers: int) -> float:
        """See `JobTuning`."""
        if not job.is_elastic:
            return job.rate(workers)
        key = self._key(job)
        best = self._best.get(key)
        if best is None:
            rates = self.rates(job).max(axis=0)
            fits = np.arange(rates.shape[1]) * job.gpus_per_worker <= self.gpus_per_server
            best = self._best[key] = np.maximum(rates[NEAR] * fits, rates[SPREAD])
        return float(best[workers])

    def rate_of(self, run: JobRun) -> float:
        """See `JobTuning`."""
        if not run.job.is_elastic:
            return run.job.rate(run.workers)
        place = SPREAD if len(run.gpus) > 1 else NEAR
        return float(self.rates(run.job)[stage_of(run), place, run.workers])

    def rates(self, job: Job) -> FloatArray:
        """Return the rates of an elastic job, shape (`STAGES`, near or spread, w_max + 1).

        Those of a single worker that is spread are 0. Kept for all jobs that are alike.
        """
        key = self._key(job)
        rates = self._rates.get(key)
        if rates is None:
            profile, width = self.profile(job), job.gpus_per_worker
            duration_s = fixed_duration_s(profile, job.min_gpus, self.gpus_per_server)
            unit = job.min_workers * duration_s / profile.work_samples
            rates = np.zeros((STAGES, 2, job.max_workers + 1))
            for stage in range(STAGES):
                for workers in range(1, job.max_workers + 1):
                    gpus = workers * width
                    rates[stage, NEAR, workers] = tuned_goodput(profile, gpus, gpus, stage)
                    if workers > 1:
                        rates[stage, SPREAD, workers] = tuned_goodput(profile, gpus, width, stage)
            rates *= unit
            rates.flags.writeable = False
            self._rates[key] = rates
        return rates

    def _key(self, job: Job) -> tuple[str, int, int, int]:
        """Return what jobs have in common whose rates are the same."""
        return self.profile(job).name, job.min_workers, job.max_workers, job.gpus_per_worker


def stage_of(run: JobRun) -> int:
    """Return the stage of the training that a job is in, by what is left of it."""
    return min(int(STAGES * (1 - run.left / run.work)), STAGES - 1)

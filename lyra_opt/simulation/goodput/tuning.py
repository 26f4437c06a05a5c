"""The speed of jobs whose batch size and learning rate are tuned while they run.

Simulated jobs have work in worker-seconds, and hardly any trace names the trained model. So each
elastic job is assigned a model profile, which determines its rate. Inelastic jobs run as their
users set them up.
"""

from abc import ABC, abstractmethod

import numpy as np

from lyra_opt.core.arrays import FloatArray
from lyra_opt.core.seeding import generator
from lyra_opt.simulation.goodput.model import (
    BERT,
    CIFAR,
    DEEP_SPEECH,
    IMAGENET,
    PROFILES,
    STAGES,
    YOLO,
    ModelProfile,
    fixed_duration_s,
    fixed_goodput,
    tuned_goodput,
)
from lyra_opt.simulation.job_run import JobRun
from lyra_opt.simulation.workload import Job

CLASSES: tuple[tuple[float, tuple[ModelProfile, ...]], ...] = (
    (1.0, (CIFAR,)),
    (10.0, (DEEP_SPEECH, BERT)),
    (100.0, (YOLO,)),
    (float("inf"), (IMAGENET,)),
)
"""Limits in GPU-hours; jobs below a limit train one of its models."""


NEAR, SPREAD = range(2)
"""Index of the rates of a job on one server, and on several servers."""

_PROFILE_OF = {profile.application: profile for profile in PROFILES}


def draw_profile(job: Job, seed: int) -> ModelProfile:
    """Return the model that a job is assumed to train.

    The mix is that of Pollux's workloads: by GPU-hours as in `CLASSES`, with equal probability in a
    class of two. NCF, the other half of the first class, is left out, because Pollux's simulator
    keeps it on one GPU. If a model cannot use all GPUs of the job, the next class is tried; the
    last class takes all remaining jobs.

    Parameters
    ----------
    job
        The job, whose id determines the random choice.
    seed
        Random seed of the simulation.
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
    """The speed of jobs whose batch size and learning rate are tuned while they run.

    An object serves one simulation; it caches results by job id.

    Parameters
    ----------
    seed
        Random seed for `draw_profile`.
    gpus_per_server
        GPUs of a server of the training cluster.
    """

    depends_on_placement = False
    """Whether rates depend on the placement of a job's GPUs."""

    def __init__(self, *, seed: int = 0, gpus_per_server: int = 8) -> None:
        self.gpus_per_server = gpus_per_server
        self._seed = seed
        self._profiles: dict[str, ModelProfile] = {}

    def profile(self, job: Job) -> ModelProfile:
        """Return the model that a job names; if that is unknown, return a model drawn once."""
        profile = self._profiles.get(job.id)
        if profile is None:
            profile = _PROFILE_OF.get(job.model or "") or draw_profile(job, self._seed)
            self._profiles[job.id] = profile
        return profile

    def least_workers(self, job: Job) -> int:
        """Return the fewest workers with which a job may run."""
        return job.min_workers

    @abstractmethod
    def rate(self, job: Job, workers: int) -> float:
        """Return the best rate of a job with `workers` workers, in worker-seconds per second."""

    def rate_of(self, run: JobRun) -> float:
        """Return the current rate of a running job, in worker-seconds per second."""
        return self.rate(run.job, run.workers)


class TunedSpeed(JobTuning):
    """A speed model in which jobs scale linearly, as in Lyra, and Pollux's agent tunes batch sizes.

    Let G*(w) be the goodput that tuning reaches with w workers (`tuned_goodput`), and G(w) the
    goodput of the batch size that the user has set (`fixed_goodput`). An elastic job has the rate
    rate(w) * G*(w) / G(w), where rate is that of the untuned job. So tuning multiplies the job's
    rate, never by less than 1. This keeps Lyra's assumption that throughput is linear in the
    workers, which its authors measured on their cluster (section 5, figure 3), so that schemes with
    and without tuning can be compared. The noise scale is constant, and jobs are assumed to be on
    as few servers as possible.

    Notes
    -----
    Source: Lyra (EuroSys 2023), section 7.1, calls the Lyra scheduler with the Pollux job agent
    Lyra+TunedJobs, but does not say how the effect of the agent is simulated; the model is this
    project's.
    """

    def __init__(self, *, seed: int = 0, gpus_per_server: int = 8) -> None:
        super().__init__(seed=seed, gpus_per_server=gpus_per_server)
        self._rates: dict[str, FloatArray] = {}

    def rate(self, job: Job, workers: int) -> float:
        """Return the tuned rate of a job with at least one worker, in worker-seconds per second."""
        if not job.is_elastic:
            return job.rate(workers)
        if job.min_workers <= workers <= job.max_workers:
            return float(self.rates(job)[workers - job.min_workers])
        return self._tuned_rate(job, workers)

    def rates(self, job: Job) -> FloatArray:
        """Return the rates of an elastic job with w_min to w_max workers (cached)."""
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
        # Scaling loss begins above the base demand; fewer workers occur only in comparisons.
        untuned = job.rate(workers) if workers > job.min_workers else float(workers)
        return untuned * (tuned / fixed_goodput(profile, gpus, self.gpus_per_server))


class GoodputSpeed(JobTuning):
    """A speed model for Pollux: elastic jobs run at a rate proportional to their goodput.

    An elastic job has the rate u * G*(w, placement, stage), where G* is the goodput of the best
    batch size (`tuned_goodput`). G* grows more slowly than the number of workers w, is lower across
    servers, and rises from stage to stage of the training with the gradient noise. The unit u is
    chosen so that the job's work lasts as long as the workload says if the job has its base demand,
    on as few servers as possible, and its user's batch size (`fixed_goodput`) all the time.
    """

    depends_on_placement = True

    def __init__(self, *, seed: int = 0, gpus_per_server: int = 8) -> None:
        super().__init__(seed=seed, gpus_per_server=gpus_per_server)
        self._rates: dict[tuple[str, int, int, int], FloatArray] = {}
        self._best: dict[tuple[str, int, int, int], FloatArray] = {}

    def least_workers(self, job: Job) -> int:
        """Return the fewest workers of a job: 1 if it is elastic, else its base demand."""
        return 1 if job.is_elastic else job.min_workers

    def rate(self, job: Job, workers: int) -> float:
        """Return the job's highest rate with `workers` workers over all stages and placements."""
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
        """Return the rate, in worker-seconds per second, at the job's stage and placement."""
        if not run.job.is_elastic:
            return run.job.rate(run.workers)
        place = SPREAD if len(run.gpus) > 1 else NEAR
        return float(self.rates(run.job)[stage_of(run), place, run.workers])

    def rates(self, job: Job) -> FloatArray:
        """Return an elastic job's rates by training stage, one server or several, and workers.

        The shape is (`STAGES`, near or spread, w_max + 1). The rate of a single spread worker is 0.
        Jobs with the same parameters share a cached result.
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
        """Return the parameters that determine the rates of a job."""
        return self.profile(job).name, job.min_workers, job.max_workers, job.gpus_per_worker


def stage_of(run: JobRun) -> int:
    """Return the training stage of a job, from the share of its work that is done."""
    return min(int(STAGES * (1 - run.left / run.work)), STAGES - 1)

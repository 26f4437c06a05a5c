"""Goodput of a training job: throughput times statistical efficiency.

With K GPUs, a batch of m samples on each, and s passes whose gradients are accumulated before the
pass that synchronises, the batch is M = K * m * (s + 1) samples, and

* a pass computes for T_grad = alpha_c + beta_c * m;
* gradients are synchronised in T_sync = 0 if K = 1, alpha_r + beta_r * (K - 2) on one server,
  alpha_n + beta_n * (K - 2) across servers;
* the two overlap: T_iter = s * T_grad + (T_grad**gamma + T_sync**gamma)**(1 / gamma), which is
  their sum if gamma = 1 and tends to the longer of the two as gamma grows;
* throughput = M / T_iter in samples per second;
* efficiency = (phi + M_0) / (phi + M), the progress per sample relative to the initial batch M_0,
  where phi is the gradient noise scale.

phi grows during training, and was found to be larger in larger batches: ``noise_scales.csv``, next
to this file, has it for `STAGES` equal parts of the progress. For one goodput over the whole
training, use `ModelProfile.noise_scale`.

Source: Pollux (OSDI 2021), sections 3.1 and 3.2, and the measurements of its public artifact,
petuum/adaptdl, branch osdi21-artifact (Apache licence 2.0, copyright its authors).
"""

import csv
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from lyra_opt.core.arrays import FloatArray

STAGES = 10
"""Number of equal parts of the training progress; phi is constant in each."""

NOISE_SCALES = "noise_scales.csv"


@cache
def noise_scales(application: str) -> tuple[FloatArray, FloatArray]:
    """Return an application's measured batch sizes, and its noise scale by stage and batch size.

    The noise scale phi is the value for which the progress of the stage takes as many steps as in
    the run with this batch size. The iterations and the progress of each epoch are in the
    artifact's ``validation-*.csv``. Values are rounded to four digits.
    """
    text = (files("lyra_opt.simulation.goodput") / NOISE_SCALES).read_text(encoding="utf-8")
    rows = [row for row in csv.DictReader(text.splitlines()) if row["application"] == application]
    batches = np.array([float(row["batch_size"]) for row in rows])
    noise = [[float(row[f"noise_scale_{stage}"]) for row in rows] for stage in range(STAGES)]
    return batches, np.array(noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProfile:
    """The parameters that determine the goodput of a model.

    Parameters
    ----------
    name
        The model and its data set.
    application
        The name of the model in Pollux's traces.
    gradient_s, gradient_s_per_sample
        alpha_c and beta_c.
    server_sync_s, server_sync_s_per_gpu
        alpha_r and beta_r: synchronisation within a server.
    network_sync_s, network_sync_s_per_gpu
        alpha_n and beta_n: synchronisation across servers.
    overlap
        gamma, from 1 to 10.
    initial_batch, largest_batch
        M_0, and the most samples of all GPUs and passes together.
    least_local_batch, largest_local_batch
        Fewest and most samples of one GPU in one pass; its memory limits the most. The
        `largest_batch` is at least the `least_local_batch` and twice the `initial_batch`, so that
        for any number of GPUs there is a batch of whole samples within the limits.
    noise_scale
        phi in samples, over the whole training.
    work_samples
        Samples of the initial batch that the whole training needs.
    """

    name: str
    application: str
    gradient_s: float
    gradient_s_per_sample: float
    server_sync_s: float
    server_sync_s_per_gpu: float
    network_sync_s: float
    network_sync_s_per_gpu: float
    overlap: float
    initial_batch: int
    largest_batch: int
    least_local_batch: int
    largest_local_batch: int
    noise_scale: float
    work_samples: float

    @property
    def most_gpus(self) -> int:
        """The most GPUs over which the largest batch can be divided."""
        return self.largest_batch // self.least_local_batch

    def efficiency(self, batch: float | FloatArray, stage: int | None = None) -> float | FloatArray:
        """Return the progress per sample relative to the initial batch, above 0 and at most 1.

        Parameters
        ----------
        batch
            M, at least M_0.
        stage
            Stage of the training, below `STAGES`, with phi interpolated between batch sizes; None
            uses `noise_scale`.
        """
        noise_scale: float | FloatArray = self.noise_scale
        if stage is not None:
            batches, measured = noise_scales(self.application)
            noise_scale = np.interp(batch, batches, measured[stage])
        return (noise_scale + self.initial_batch) / (noise_scale + batch)

    def sync_s(self, gpus: int, servers: int) -> float:
        """Return the seconds in which `gpus` GPUs on `servers` servers synchronise gradients."""
        if gpus == 1:
            return 0.0
        if servers == 1:
            return self.server_sync_s + self.server_sync_s_per_gpu * (gpus - 2)
        return self.network_sync_s + self.network_sync_s_per_gpu * (gpus - 2)

    def iteration_s(
        self,
        gpus: int,
        servers: int,
        local_batch: float | FloatArray,
        accumulated: int | FloatArray = 0,
    ) -> float | FloatArray:
        """Return the seconds of a training iteration with `accumulated` passes before the last."""
        gradient_s = self.gradient_s + self.gradient_s_per_sample * local_batch
        sync_s = self.sync_s(gpus, servers)
        synchronised_s = (gradient_s**self.overlap + sync_s**self.overlap) ** (1 / self.overlap)
        taken_s: float | FloatArray = accumulated * gradient_s + synchronised_s
        return taken_s

    def goodput(
        self, gpus: int, servers: int, samples_per_gpu: int | FloatArray, stage: int | None = None
    ) -> float | FloatArray:
        """Return the goodput in samples of the initial batch per second.

        The samples of a GPU are divided among the fewest passes that hold them. That is best: fewer
        passes do not compute longer, and the last pass, which overlaps with synchronisation, is
        longer; x -> (x**gamma + T_sync**gamma)**(1 / gamma) - x never increases. Passes may differ
        by one sample; their mean is used instead, because T_grad is linear.

        Parameters
        ----------
        gpus, servers
            K, and the number of servers that they are on.
        samples_per_gpu
            m * (s + 1), such that the batch is at least M_0.
        stage
            See `efficiency`.
        """
        passes = np.ceil(np.divide(samples_per_gpu, self.largest_local_batch))
        taken_s = self.iteration_s(gpus, servers, samples_per_gpu / passes, passes - 1)
        batch = gpus * samples_per_gpu
        return batch / taken_s * self.efficiency(batch, stage)


@cache
def tuned_goodput(
    profile: ModelProfile, gpus: int, gpus_per_server: int, stage: int | None = None
) -> float:
    """Return the goodput of the best batch size, in samples of the initial batch per second.

    All batch sizes are tried; Pollux tries 50. GPUs beyond `ModelProfile.most_gpus` stay idle. The
    result is at most K times that of one GPU, which can use the same batch by accumulation. Time
    and memory O(largest batch / GPUs); cached.

    Parameters
    ----------
    profile
        The model.
    gpus
        K, at least 1.
    gpus_per_server
        GPUs of a server; the job is on as few servers as possible.
    stage
        See `ModelProfile.efficiency`.
    """
    used = min(gpus, profile.most_gpus)
    least = max(profile.least_local_batch, -(-profile.initial_batch // used))
    samples = np.arange(least, profile.largest_batch // used + 1, dtype=np.float64)
    return float(np.max(profile.goodput(used, -(-used // gpus_per_server), samples, stage)))


@cache
def fixed_goodput(
    profile: ModelProfile, gpus: int, gpus_per_server: int, stage: int | None = None
) -> float:
    """Return the goodput of a job that always uses the initial batch size M_0 on each GPU.

    This is Lyra's assumption of a fixed local batch (section 5), and the configuration of the
    workloads that Pollux calls realistic (M_0 times GPUs). If the largest batch does not allow it,
    the batch is smaller. The result is never above `tuned_goodput`, which also tries this batch.
    Parameters as there.
    """
    used = min(gpus, profile.most_gpus)
    local = min(profile.initial_batch, profile.largest_local_batch, profile.largest_batch // used)
    samples = max(local, profile.least_local_batch, -(-profile.initial_batch // used))
    return float(profile.goodput(used, -(-used // gpus_per_server), samples, stage))


def fixed_duration_s(profile: ModelProfile, gpus: int, gpus_per_server: int) -> float:
    """Return the seconds that a whole training takes if its batch size is never tuned.

    The parameters are those of `fixed_goodput`.
    """
    of_stage = profile.work_samples / STAGES
    return sum(
        of_stage / fixed_goodput(profile, gpus, gpus_per_server, stage) for stage in range(STAGES)
    )


PROFILES = tuple(
    ModelProfile(application=application, **fields)
    for application, fields in tomllib.loads(
        (files("lyra_opt.simulation.goodput") / "profiles.toml").read_text(encoding="utf-8")
    ).items()
)
"""The models of Pollux's traces, with times fitted to the measurements of its artifact."""

IMAGENET, CIFAR, YOLO, DEEP_SPEECH, BERT, NCF = PROFILES

"""What is assumed of jobs that no public trace says: who is elastic, fungible and so on.

Shares are kept exactly, and each is drawn from a stream of its own: to change one leaves all
others as they are, and a larger share holds all jobs of a smaller one. Runs under other assumptions
are therefore paired job by job.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from lyra_opt.core.validation import require_flag, require_integer
from lyra_opt.instances.randomness import IntegerStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.simulation.workload import Job

LARGEST_RANGE = 2
"""Most workers of an elastic job as a multiple of its base demand (Lyra, section 7.1, Ideal)."""

ESTIMATE_ERROR_PERCENT = 25
"""How far a wrong estimate of the running time can be off (Lyra, section 7.4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAssumptions:
    """Shares of jobs, in percent; the defaults are Lyra's Basic scenario (section 7.1).

    Parameters
    ----------
    fungible_percent
        Jobs that can run on inference GPUs instead.
    elastic_percent
        Jobs whose workers can grow to twice the base demand.
    heterogeneous_percent
        Jobs whose workers can be on both kinds of GPU at once.
    all_elastic
        Lyra's Ideal: every job is elastic and heterogeneous, whatever the two shares say.
    checkpoint_percent
        Jobs that keep their progress when they are preempted.
    scaling_loss_percent
        What a worker beyond the base demand of an elastic job does less than one of the base.
    wrong_estimate_percent
        Jobs whose running time the scheduler believes to be shorter or longer.
    estimate_error_percent
        By how much at most, from 0 to 99.
    """

    fungible_percent: int = 21
    elastic_percent: int = 5
    heterogeneous_percent: int = 0
    all_elastic: bool = False
    checkpoint_percent: int = 0
    scaling_loss_percent: int = 0
    wrong_estimate_percent: int = 0
    estimate_error_percent: int = ESTIMATE_ERROR_PERCENT

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name == "all_elastic":
                require_flag(field.name, self.all_elastic)
            else:
                # An error of all of it would leave a job nothing to do.
                most = 99 if field.name == "estimate_error_percent" else 100
                require_integer(field.name, getattr(self, field.name), minimum=0, maximum=most)

    @property
    def in_words(self) -> str:
        """As a sentence."""
        elastic, heterogeneous = (
            self.effective_elastic_percent,
            self.effective_heterogeneous_percent,
        )
        return (
            f"Assumed by seed: {self.fungible_percent} % of the jobs are fungible, "
            f"{heterogeneous} % heterogeneous, {elastic} % elastic (base demand as requested, "
            f"range up to {LARGEST_RANGE} times that, {self.scaling_loss_percent} % less work from "
            f"each worker beyond the base), {self.checkpoint_percent} % with checkpoints, "
            f"{self.wrong_estimate_percent} % with an estimate that is off by up to "
            f"{self.estimate_error_percent} %; each "
            "share is drawn independently of the others."
        )

    @property
    def label(self) -> str:
        """What differs from the defaults, for names: empty, or such as ``-fungible0``."""
        short = {"all_elastic": "ideal"}
        parts = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                name = short.get(field.name, field.name.removesuffix("_percent").replace("_", "-"))
                parts.append(f"-{name}" if value is True else f"-{name}{value}")
        return "".join(parts)

    @property
    def effective_elastic_percent(self) -> int:
        """The share of elastic jobs, whichever field says so."""
        return 100 if self.all_elastic else self.elastic_percent

    @property
    def effective_heterogeneous_percent(self) -> int:
        """The share of heterogeneous jobs, whichever field says so."""
        return 100 if self.all_elastic else self.heterogeneous_percent


def assigned(
    jobs: Sequence[Job],
    assumptions: JobAssumptions,
    *,
    seed: int,
    elastic_first: Sequence[int] = (),
) -> tuple[Job, ...]:
    """Return the jobs with what is assumed of them; what they said before is lost.

    Parameters
    ----------
    jobs
        In the order of submission.
    assumptions
        The shares, each rounded half up to whole jobs.
    seed
        Of all draws.
    elastic_first
        Positions of the jobs that are elastic before any other.

    Notes
    -----
    Time O(jobs).
    """
    count = len(jobs)

    def drawn(purpose: str, percent: int, first: Sequence[int] = ()) -> set[int]:
        stream = IntegerStream(workload="scenario", purpose=purpose, seed=seed)
        chosen_first, known = list(first), set(first)
        others = [position for position in range(count) if position not in known]
        stream.shuffle(chosen_first)
        stream.shuffle(others)
        return set((chosen_first + others)[: (count * percent + 50) // 100])

    elastic = drawn("elastic", assumptions.effective_elastic_percent, elastic_first)
    fungible = drawn("fungible", assumptions.fungible_percent)
    heterogeneous = drawn("heterogeneous", assumptions.effective_heterogeneous_percent)
    checkpoints = drawn("checkpoints", assumptions.checkpoint_percent)
    wrong = drawn("wrong-estimate", assumptions.wrong_estimate_percent)
    errors = IntegerStream(workload="scenario", purpose="estimate-error", seed=seed)
    most = 10 * assumptions.estimate_error_percent  # per mille
    result = []
    for position, job in enumerate(jobs):
        # Drawn for every job, so that a job's error does not depend on how many have one.
        error = errors.between(-most, most)
        is_elastic = position in elastic
        result.append(
            replace(
                job,
                max_workers=job.min_workers * (LARGEST_RANGE if is_elastic else 1),
                scaling_loss=assumptions.scaling_loss_percent / 100 if is_elastic else 0.0,
                fungible=position in fungible,
                heterogeneous=position in heterogeneous,
                checkpoints=position in checkpoints,
                estimated_work_worker_s=(
                    job.work_worker_s * (1000 + error) / 1000 if position in wrong else None
                ),
            )
        )
    return tuple(result)

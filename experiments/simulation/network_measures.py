"""What a simulation on a network of tiers reports, in words: the rows of its tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.simulation.measures import (
    MEASURES,
    WISH_MEASURES,
    Measure,
    show_count,
    show_milliseconds,
    show_percent,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMMON = {measure.key: measure for measure in MEASURES}


def _counts(by_tier: Mapping[str, int]) -> str:
    return " / ".join(map(show_count, by_tier.values()))


def _shares(by_tier: Mapping[str, float]) -> str:
    whole = sum(by_tier.values())
    return " / ".join(show_percent(value / whole) for value in by_tier.values())


NETWORK_MEASURES = (
    _COMMON["jobs"],
    _COMMON["finished"],
    _COMMON["makespan_s"],
    *(_COMMON[f"jct_{statistic}_s"] for statistic in ("mean", "p50", "p95", "p99")),
    Measure("jct_max_s", "JCT, longest (s)", _COMMON["jct_mean_s"].show),
    replace(
        _COMMON["queue_mean_s"],
        meaning="The sum of all waits of a job, over all jobs; percentiles interpolate linearly. "
        "With leases that includes the hand-over of a job's own GPUs after each lease. In rounds a "
        "job that starts or restarts holds its GPUs meanwhile, and does not queue; the elastic "
        "schemes hand nothing over.",
    ),
    *(_COMMON[f"queue_{statistic}_s"] for statistic in ("p50", "p95", "p99")),
    Measure("queue_max_s", "Queuing time, longest (s)", _COMMON["queue_mean_s"].show),
    Measure(
        "communication_share",
        "Communication (%)",
        show_percent,
        "GPU-seconds in which gangs ran and waited for the network, as a share of those in which "
        "they ran.",
    ),
    Measure(
        "communication_s",
        "Communication of a job, mean (GPU s)",
        _COMMON["jct_mean_s"].show,
        "GPU-seconds in which a gang ran and waited for the network.",
    ),
    Measure(
        "gpu_usage",
        "GPU usage (%)",
        show_percent,
        "GPU-seconds that gangs hold, as a share of what there are over the makespan; pauses after "
        "a migration, or after a start in rounds, are held.",
    ),
    Measure(
        "computing_usage",
        "GPUs that compute (%)",
        show_percent,
        "GPU-seconds of computing, as such a share: usage without communication.",
    ),
    Measure(
        "hand_over_share",
        "GPUs handed over (%)",
        show_percent,
        "GPU-seconds in which GPUs were neither held nor free, as such a share: with leases, those "
        "handed over after each of them; in rounds, those of a job that completes before its round "
        "ends; none in the elastic schemes.",
    ),
    Measure(
        "allocations_by_tier",
        "Allocations: machine / rack / network",
        _counts,
        "How often a gang got GPUs of one machine, of several machines of a rack, and of several "
        "racks.",
    ),
    Measure(
        "gpu_s_by_tier",
        "GPU time: machine / rack / network (%)",
        _shares,
        "GPU-seconds held by gangs on one machine, in one rack, and in several.",
    ),
    Measure(
        "fragmented_machines_mean",
        "Machines partly free (%)",
        show_percent,
        "In the mean over the makespan.",
    ),
    Measure(
        "stranded_share",
        "Free GPUs on such machines (%)",
        show_percent,
        "Share of the free GPU-seconds on machines that were partly free.",
    ),
    Measure(
        "lease_losses",
        "Leases lost",
        show_count,
        "How often a gang had to give its GPUs back before it was complete; in rounds, how often "
        "it was left out of the next one.",
    ),
    Measure(
        "preemptions",
        "Preemptions",
        show_count,
        "Losses after which a gang was not running again as soon as its GPUs were free; in rounds "
        "all are.",
    ),
    _COMMON["preemptions_per_submission"],
    Measure(
        "migrations",
        "Migrations",
        show_count,
        "How often a gang got other machines, or other numbers of their GPUs, than the last time: "
        "it moved, or had lost what it had.",
    ),
    Measure(
        "decisions",
        "Decisions",
        show_count,
        "How often the scheme was asked; not known of the elastic ones.",
    ),
    Measure(
        "decision_mean_s",
        "Decision time, mean (ms)",
        show_milliseconds,
        "Wall time that the scheme takes to decide.",
    ),
    Measure("decision_p99_s", "Decision time, 99th percentile (ms)", show_milliseconds),
    Measure("decision_max_s", "Decision time, longest (ms)", show_milliseconds),
    *WISH_MEASURES,
    _COMMON["wall_time_s"],
    _COMMON["jobs_per_cpu_s"],
)

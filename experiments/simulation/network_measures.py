"""What a simulation on a network of tiers reports, in words: the rows of its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.simulation.measures import (
    MEASURES,
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
    *(_COMMON[f"queue_{statistic}_s"] for statistic in ("mean", "p50", "p95", "p99")),
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
        "GPU-seconds that gangs hold, as a share of what there are over the makespan.",
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
        "GPU-seconds in which GPUs were idle between two gangs, as such a share.",
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
        "How often a gang had to give its GPUs back before it was complete.",
    ),
    Measure(
        "preemptions",
        "Preemptions",
        show_count,
        "Losses after which a gang was not running again as soon as its GPUs were free.",
    ),
    _COMMON["preemptions_per_submission"],
    Measure("migrations", "Migrations", show_count, "How often a gang went to other GPUs."),
    Measure("decisions", "Decisions", show_count),
    Measure(
        "decision_mean_s",
        "Decision time, mean (ms)",
        show_milliseconds,
        "Wall time that the scheme takes to decide.",
    ),
    Measure("decision_p99_s", "Decision time, 99th percentile (ms)", show_milliseconds),
    Measure("decision_max_s", "Decision time, longest (ms)", show_milliseconds),
    _COMMON["wall_time_s"],
    _COMMON["jobs_per_cpu_s"],
)

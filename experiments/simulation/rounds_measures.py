"""What a simulation in rounds reports, in words: the rows of its tables."""

from __future__ import annotations

from experiments.simulation.measures import (
    MEASURES,
    WISH_MEASURES,
    Measure,
    show_count,
    show_milliseconds,
    show_percent,
)

_COMMON = {measure.key: measure for measure in MEASURES}


def _two_digits(value: float) -> str:
    return f"{value:,.2f}"


ROUND_MEASURES = (
    _COMMON["jobs"],
    _COMMON["finished"],
    Measure(
        "makespan_s",
        "Total time duration, TTD (s)",
        _COMMON["makespan_s"].show,
        "From the first submission to the last completion: the makespan.",
    ),
    *(_COMMON[f"jct_{statistic}_s"] for statistic in ("mean", "p50", "p95", "p99")),
    Measure("jct_min_s", "JCT, shortest (s)", _COMMON["jct_mean_s"].show),
    Measure("jct_max_s", "JCT, longest (s)", _COMMON["jct_mean_s"].show),
    *(_COMMON[f"queue_{statistic}_s"] for statistic in ("mean", "p50", "p95", "p99")),
    Measure(
        "cru",
        "Cluster resource utilisation, CRU (%)",
        show_percent,
        "Time for which servers work, over servers and TTD. It says nothing of idle GPUs on a "
        "server that works.",
    ),
    Measure(
        "gpu_usage",
        "GPU usage (%)",
        show_percent,
        "GPU-seconds in which GPUs work, restarts and merges included, as a share of what they "
        "have over the TTD.",
    ),
    Measure(
        "fairness_mean",
        "Finish-time fairness, mean",
        _two_digits,
        "JCT of a job over the JCT that it would have on an equal n-th part of the cluster of its "
        "own, n being the mean number of jobs that are there while it is (Themis, from memory; "
        "the speed on the n-th part as in Gavel). Below 1 it fares better.",
    ),
    Measure("fairness_max", "Finish-time fairness, worst", _two_digits),
    Measure(
        "restarts",
        "Restarts",
        show_count,
        "How often a job began elsewhere than in the round before, or after a wait; first starts "
        "not counted.",
    ),
    Measure(
        "preemptions",
        "Preemptions",
        show_count,
        "How often a job did not run after a round in which it did.",
    ),
    _COMMON["preemptions_per_submission"],
    Measure(
        "copies_mean",
        "Copies of a job, mean",
        _two_digits,
        "Over the time for which it runs; 1 without forking.",
    ),
    Measure("copies_max", "Copies of a job, most", show_count),
    Measure("rounds", "Rounds", show_count, "In which jobs were there."),
    Measure(
        "decision_mean_s",
        "Decision time, mean (ms)",
        show_milliseconds,
        "Wall time that the scheme takes for a round; those in which nothing can change are not "
        "decided anew.",
    ),
    Measure("decision_max_s", "Decision time, longest (ms)", show_milliseconds),
    *WISH_MEASURES,
    _COMMON["wall_time_s"],
    _COMMON["jobs_per_cpu_s"],
)

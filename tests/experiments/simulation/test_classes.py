"""The table of who loses time adds up, and counts each job in its class."""

import pandas as pd
import pytest

from lyra_opt.experiments.simulation.measuring.classes import CLASSES, losses
from lyra_opt.experiments.simulation.measuring.measures import variants_of
from tests.experiments.records import make_replay

# GPUs, least run time, JCT and class of each job; the limits themselves, and what is next to them.
JOBS = (
    ((1, 3599.0, 3600.0), "1 GPU, below 1 h"),
    ((1, 3600.0, 3610.0), "1 GPU, 1 h to 1 day"),
    ((2, 10.0, 110.0), "2 to 8 GPUs, below 1 h"),
    ((8, 86_400.0, 87_400.0), "2 to 8 GPUs, over 1 day"),
    ((16, 7200.0, 17_200.0), "over 8 GPUs, 1 h to 1 day"),
    ((16, 90_000.0, 89_999.9), "over 8 GPUs, over 1 day"),
)


def table(*jobs):
    """Return a table of jobs with 2 GPUs a worker, if their GPUs allow it."""
    return pd.DataFrame(
        [
            {
                "min_workers": gpus // 2 or 1,
                "gpus_per_worker": 2 if gpus > 1 else 1,
                "least_run_s": least_run_s,
                "jct_s": jct_s,
            }
            for gpus, least_run_s, jct_s in jobs
        ]
    )


def test_each_job_loses_in_its_class_and_classes_add_up():
    """A class counts its jobs and their loss per job of any class; a loss is never negative."""
    (variant,) = variants_of([make_replay(0, figures={})], [])
    (found,) = losses([variant], lambda _: table(*(job for job, _ in JOBS)))
    lost_s = dict(zip(CLASSES, found.losses_s, strict=True))
    shares = dict(zip(CLASSES, found.shares, strict=True))
    for (_, least_run_s, jct_s), name in JOBS:
        assert lost_s.pop(name) == pytest.approx(max(0.0, jct_s - least_run_s) / len(JOBS))
        assert shares.pop(name) == pytest.approx(1 / len(JOBS))
    assert not any(lost_s.values())
    assert not any(shares.values())
    assert found.cells()[0] == "30.9 min"
    assert len(found.cells()) == len(CLASSES) + 1


def test_runs_without_least_run_times_are_left_out():
    """Stores of earlier versions lack least run times."""
    (variant,) = variants_of([make_replay(0, figures={})], [])
    assert not list(losses([variant], lambda _: pd.DataFrame({"jct_s": [1.0]})))


def test_seeds_are_averaged_over_all_their_jobs():
    """Two seeds, one job each: the loss is the mean of both."""
    (variant,) = variants_of([make_replay(0, figures={}), make_replay(1, figures={})], [])
    jobs = {0: table((1, 10.0, 20.0)), 1: table((1, 10.0, 50.0))}
    (found,) = losses([variant], lambda run: jobs[run.seed])
    assert found.losses_s[0] == 25.0

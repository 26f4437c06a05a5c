"""The pages on questions of our own say what was found."""

from __future__ import annotations

import math

import pytest

from experiments.simulation.carried_out import SimulationError
from paper_figures.hadar import competitive_ratio, forking, rounding
from paper_figures.hadar.cases import Setting
from paper_figures.hadar.competitive_ratio import COMMITTED, Found, OfflineCase
from paper_figures.hadar.forking import BoundCase, Gain
from paper_figures.hadar.rounding import KINDS, LOADS, Received, RoundingCase
from paper_figures.report import page_as_markdown

SETTING = Setting(scale=0.1, seeds=1)


def found(utility: float, optimum: float | None, dual: float) -> Found:
    """Return what came of an instance."""
    return Found(
        optimum=optimum,
        exact_bound=dual,
        dual=dual,
        utility={"hadar": utility, COMMITTED: 0.0},
        two_alpha=20.0,
        committed_two_alpha=50.0,
    )


def test_what_was_not_proved_is_counted_and_left_out() -> None:
    """Neither its bound nor its utility enters the ratio; ratios stand beside 2 alpha."""
    small = [found(1.0, 1.0, 1.0), found(1.0, 1.21, 2.0), found(1.0, None, 9.0)]
    page = competitive_ratio.make_page(small, [found(1.0, None, 1.5)])
    first, large = page.answers()[0].sentences
    assert "on 2 small instances" in first
    assert "1.100 times" in first
    assert "at most 1.21, 1 times exactly 1" in first
    assert "2 alpha would allow 20" in first
    assert "left out: 1 of 3." in first
    assert "at most that (2 alpha: 20)" in large
    text = page_as_markdown(page)
    assert "| Hadar, committed (theorem) | – | – | – | – |" in text  # no utility, hence no ratio
    assert "| Gavel (max-min) | – |" in text  # not run


def test_small_instance_from_end_to_end() -> None:
    """Utility of every rule <= proved optimum <= dual bound, on a real instance."""
    of = OfflineCase(is_small=True, seed=2).run(SETTING)
    assert of.optimum is not None
    assert max(of.utility.values()) <= of.optimum * (1 + 1e-9)
    assert of.optimum <= of.dual * (1 + 1e-9)
    assert set(of.utility) == set(competitive_ratio.RULES)


@pytest.mark.parametrize(
    ("utility", "optimum", "dual"), [(2.0, 1.0, 3.0), (1.0, 3.0, 2.0), (2.0, None, 1.0)]
)
def test_numbers_out_of_order_are_no_result(
    utility: float, optimum: float | None, dual: float
) -> None:
    """A utility above the optimum, or an optimum above the bound, is a mistake somewhere."""
    case = OfflineCase(is_small=True, seed=0)
    with pytest.raises(SimulationError, match="out of order"):
        case._require_order({"hadar": utility}, optimum, dual)


def test_what_forking_must_give_one_job() -> None:
    """By hand: all nodes' rates together over the fastest node's."""
    least_s, forked_s = BoundCase(testbed="hadare-aws", jobs=1).run(SETTING)
    assert least_s == pytest.approx(3600)
    rates = [18.0, 18.0, 6.0, 6.0, 1.81]  # ResNet-18 with batches of 128: V100, T4 a third, K80
    assert least_s / forked_s == pytest.approx(sum(rates) / rates[0], rel=1e-6)


def test_gain_of_forking_is_split_without_remainder() -> None:
    """Observed = must x Hadar's distance / HadarE's distance."""
    gain = Gain(
        testbed="hadare-aws",
        jobs="M-3",
        least_s=4.0,
        forked_s=2.0,
        ttd_s={"hadar": 6.0, "hadare": 2.5},
    )
    assert gain.observed == pytest.approx(gain.must * gain.hadar_distance / gain.hadare_distance)
    sentence = forking.make_page([gain]).answers()[0].sentences[0]
    assert "2.00 times shorter than the best without (2.00 to 2.00; no shorter for 0 of 1)" in (
        sentence
    )
    assert "2.40 times shorter than Hadar's" in sentence
    assert "a factor of 1.50 is Hadar's own" in sentence
    assert "within 25 %" in sentence


def test_without_runs_no_forking_is_claimed() -> None:
    """The page says that it was not run."""
    assert "Not run" in forking.make_page([]).answers()[0].sentences[0]


def received(gang: int, promised: float, had: float) -> Received:
    """Return a job that got its time where it was promised it."""
    return Received(
        gang=gang,
        promised=promised,
        had=had,
        promised_steps_per_s=promised,
        steps_per_s=had,
        equal_steps_per_s=1.0,
    )


def test_rounds_keep_no_more_than_was_promised() -> None:
    """What one job gets beyond its promise does not make up for what another lacks."""
    assert received(1, 0.5, 0.9).time_kept == 1
    assert received(1, 0.5, 0.25).steps_kept == 0.5
    jobs = [received(1, 0.5, 0.9), received(1, 0.5, 0.25)]
    page = rounding.make_page(
        {RoundingCase(jobs=load, seed=0, kind=kind): jobs for load in LOADS for kind in KINDS}
    )
    assert all("75.0 % of the steps of one-GPU jobs" in s for s in page.answers()[0].sentences)
    assert page.series["one-GPU jobs alone"][0] == pytest.approx((LOADS[0], 50.0))


def test_one_gpu_jobs_keep_their_shares_where_they_fill_the_cluster() -> None:
    """As many or more jobs than GPUs: each keeps what was promised, to two rounds in 400."""
    jobs = RoundingCase(jobs=LOADS[-1], seed=0, kind="one-GPU jobs alone").run(SETTING)
    assert len(jobs) == LOADS[-1]
    assert min(job.time_kept for job in jobs) > 0.98
    assert not any(math.isnan(job.steps_kept) for job in jobs)
    assert math.fsum(job.had for job in jobs) <= 3 * rounding.GPUS_OF_TYPE + 1e-9

"""Intervals of bootstrapped traces cover the true difference as often as the page says."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from lyra_opt.core.numbers import DAY_S
from lyra_opt.core.table import Column
from lyra_opt.experiments.intervals import Resampling
from lyra_opt.experiments.random_inputs import RandomInputs, Sample, with_intervals
from lyra_opt.experiments.simulation.running.replay import replay
from lyra_opt.experiments.simulation.scenario.building import make_setup
from lyra_opt.experiments.simulation.scenario.loading import load_scenario, parse_change
from lyra_opt.experiments.simulation.scenario.schemes import make_schemes
from lyra_opt.instances.workloads.lyra_like import drawn_days, usual_block_days

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
JOBS_PER_DAY = 20
WARM_UP_DAYS = 30
TRACES = 40


def days_with_differences(generator, days, correlation, *, is_skewed):
    """Return the number of jobs of each day, and the mean difference of its jobs; its mean is 0.

    ``correlation`` is that between a day and the next. The differences are normal, or log-normal.
    """
    noise = generator.normal(size=WARM_UP_DAYS + days)
    values = np.zeros(len(noise))
    for day in range(1, len(noise)):
        values[day] = correlation * values[day - 1] + noise[day]
    values = values[WARM_UP_DAYS:] * np.sqrt(1 - correlation**2)
    if is_skewed:
        values = np.exp(values) - np.exp(0.5)
    return 1 + generator.poisson(JOBS_PER_DAY, days), values


def coverage(source_days, days, draws, *, correlation, is_skewed, repetitions, seed=0):
    """Return the share of generated traces whose interval contains the true mean difference."""
    generator = np.random.default_rng(seed)
    block_days = usual_block_days(source_days)
    resampling = Resampling(days=days, block_days=block_days, source_days=source_days, source=0)
    covered = 0
    for repetition in range(repetitions):
        jobs, differences = days_with_differences(
            generator, source_days, correlation, is_skewed=is_skewed
        )
        chosen = [
            drawn_days(
                source_days, days=days, block_days=block_days, seed=draws * repetition + number
            )
            for number in range(draws)
        ]
        means = [np.average(differences[each], weights=jobs[each]) for each in chosen]
        low, high = resampling.interval(np.array(means))
        covered += low <= 0 <= high
    return covered / repetitions


def documented():
    """Return the coverage in %, by days of the trace, days of a draw and number of draws."""
    rows = [line.strip("| \n").split(" | ") for line in PAGE.read_text().splitlines()]
    numbers = [row for row in rows if len(row) == 7 and row[0].isdigit()]
    return {(int(a), int(b), int(c)): [*map(float, shares)] for a, b, c, *shares in numbers}


def assert_covers(sizes, repetitions):
    """Measure a row of the page again; each share may differ by four standard errors."""
    processes = [(skewed, correlation) for skewed in (False, True) for correlation in (0.0, 0.5)]
    for percent, (is_skewed, correlation) in zip(documented()[sizes], processes, strict=True):
        share = percent / 100
        found = coverage(
            *sizes, correlation=correlation, is_skewed=is_skewed, repetitions=repetitions, seed=1
        )
        assert found == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / repetitions))


def test_coverage_is_that_of_the_page():
    assert len(documented()) == 8
    assert_covers((75, 10, 5), 300)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", documented())
def test_coverage_is_that_of_the_page_everywhere(sizes):
    assert_covers(sizes, 1000)


def test_interval_of_draws_does_not_shrink_with_their_number():
    """By hand for 5 draws, 10 days and blocks of 2; more draws only sharpen the quantile."""
    resampling = Resampling(days=10, block_days=2, source_days=10, source=0)
    low, high = resampling.interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    half = stats.t.ppf(0.975, 2) * math.sqrt(2.5) * math.sqrt(5 / 4 + 1 / 5)
    assert (low, high) == (pytest.approx(3 - half), pytest.approx(3 + half))
    many = np.random.default_rng(0).normal(size=2000)
    low, high = resampling.interval(many)
    assert high - low == pytest.approx(2 * stats.t.ppf(0.975, 4) * math.sqrt(5 / 4), rel=0.05)
    one_block = Resampling(days=10, block_days=10, source_days=10, source=0)
    assert one_block.interval(many) == (-math.inf, math.inf)


def test_relative_interval_is_never_below_minus_100_percent():
    """Close to the interval of the ratio's logarithm; without a baseline it is unknown."""
    before = np.array([100.0, 110.0, 90.0, 105.0])
    after = np.array([20.0, 25.0, 15.0, 22.0])
    logs = np.log(after / before)
    found = RandomInputs().paired(before, after)
    expected = logs.mean() + stats.sem(logs) * stats.t.ppf(0.975, 3) * np.array([-1, 1])
    ends = [found.low_percent, found.high_percent]
    assert ends == pytest.approx([*(100 * np.expm1(expected))], abs=2)
    uneven = RandomInputs().paired(before, np.array([10.0, 60.0, 5.0, 15.0]))
    assert uneven.low < -uneven.mean_a
    assert -100 < uneven.low_percent < 0
    assert math.isnan(RandomInputs().paired(np.zeros(4), after).low_percent)
    alone = RandomInputs().paired(np.array([88.0, 0.0]), np.array([9.0, 0.0]))
    assert alone.change_percent < 0
    assert math.isnan(alone.low_percent), "one unit that is not 0 has no spread"


@pytest.mark.parametrize(
    ("before", "after"),
    [([1.0, 2.0], [2.0, 5.0]), ([1.0, 9.0, 1.0], [9.0, 1.0, 9.0])],
    ids=["two units", "an interval further than a factor of ten"],
)
def test_too_few_units_have_no_interval(before, after):
    """Neither in hours nor in %: the two would contradict one another."""
    found = RandomInputs(Sample.DRAWS).paired(np.array(before), np.array(after))
    ends = (found.low, found.high, found.low_percent, found.high_percent)
    assert all(map(math.isnan, ends))
    assert found.difference == np.mean(after) - np.mean(before)


def trace_of_days(generator, path, days):
    """Write a trace whose days have loads of their own, and return its path."""
    rows = ["job_id,submit_time_s,duration_s,gpus"]
    for day in range(days):
        jobs = generator.poisson(generator.uniform(12, 36))
        for submit_s in np.sort(generator.integers(DAY_S, size=jobs)):
            duration_s = 60 + generator.exponential(5500)
            rows.append(f"j{len(rows)},{day * DAY_S + submit_s},{duration_s:.0f},1")
    path.write_text("\n".join(rows) + "\n")
    return path


def mean_jcts_s(path, *given, seeds=1):
    """Return the mean JCT under FIFO and under SJF with each seed, and the resampling."""
    changes = ["cluster.servers=1", "cluster.gpus_per_server=2", *given]
    scenario = load_scenario("plain", map(parse_change, changes), jobs=str(path))
    schemes = make_schemes(scenario, ["fifo", "sjf"])
    setups = [make_setup(scenario, schemes, seed) for seed in range(seeds)]
    fifo, sjf = (
        np.array([replay(setup, scheme).jobs.jct_s.mean() for setup in setups])
        for scheme in schemes
    )
    return fifo, sjf, setups[0].resampling


@pytest.mark.slow
def test_intervals_of_replays_cover_as_often_as_the_page_says(tmp_path):
    """The truth comes from other traces; both shares may differ by three standard errors."""
    generator = np.random.default_rng(3)
    file = tmp_path / "trace.csv"
    fifo, sjf = np.mean(
        [np.ravel(mean_jcts_s(trace_of_days(generator, file, 12))[:2]) for _ in range(200)], axis=0
    )
    covered = np.zeros(2)
    for _ in range(TRACES):
        trace = trace_of_days(generator, file, 12)
        before, after, resampling = mean_jcts_s(trace, "jobs.bootstrap.days=12", seeds=5)
        draws = RandomInputs(Sample.DRAWS, resampling=resampling)
        found = draws.paired(before, after)
        covered += [
            found.low <= sjf - fifo <= found.high,
            found.low_percent <= 100 * (sjf / fifo - 1) <= found.high_percent,
        ]
    shown = re.search(r"(\d+) % of the intervals in hours and\s(\d+) %", PAGE.read_text())
    for found, percent in zip(covered / TRACES, shown.groups(), strict=True):
        share = int(percent) / 100
        assert found == pytest.approx(share, abs=3 * math.sqrt(share * (1 - share) / TRACES))


def test_an_interval_stands_in_the_cell_of_its_difference():
    """The unit is written once; a dash marks a difference without an interval."""
    texts = {
        "difference_s": ["−6.2 min", "−1 h"],
        "low_s": ["−14 min", "–"],
        "high_s": ["+2 min", "–"],
    }
    columns = [
        Column(key=key, values=[0, 0], heading=key[:-2], texts=each) for key, each in texts.items()
    ]
    (found,) = with_intervals(columns, ("95 % from", "to"))
    assert found.cells == ("−6.2 min (−14 to +2)", "−1 h (–)")
    assert found.title == "difference, 95 % interval"

"""Gavel's table of throughputs, and the gangs made of it."""

from __future__ import annotations

import pytest

from instances.heterogeneous.job_types import (
    MEASURED_TYPES,
    find_type,
    gang_of,
    job_types,
    measured_gangs,
    rates_on,
    types_for,
)
from instances.heterogeneous.speeds import DERIVED_SPEEDS, derivation_in_words
from lyra_opt.errors import FieldError


class TestTable:
    """The data as published."""

    def test_how_many(self) -> None:
        """83 kinds: 26 of one GPU, and 19 each of 2, 4 and 8."""
        assert len(job_types()) == 83
        assert measured_gangs() == (1, 2, 4, 8)
        assert [len(types_for(gang, MEASURED_TYPES)) for gang in (1, 2, 4, 8)] == [26, 19, 19, 19]

    def test_some_rows(self) -> None:
        """Figures of the table, a missing one and one that does not fit among them."""
        resnet = find_type("ResNet-50", 64, 1)
        assert dict(resnet.throughput) == {"v100": 4.39, "p100": 2.62, "k80": 0.619}
        large = find_type("ResNet-50", 128, 2)
        assert large.throughput["k80"] == 0
        assert "k80" not in large.spread_throughput
        assert find_type("A3C", None, 1).name == "A3C"
        assert find_type("LM", 5, 8).spread_throughput["p100"] == 94.9

    def test_on_one_gpu_it_makes_no_difference_where(self) -> None:
        """Spread and not are the same number."""
        for job_type in job_types():
            if job_type.gang == 1:
                assert job_type.throughput == job_type.spread_throughput

    def test_unknown(self) -> None:
        """One error that says what was not measured."""
        with pytest.raises(FieldError, match="GPT-3"):
            find_type("GPT-3", None, 1)
        with pytest.raises(FieldError, match="gpu_types"):
            types_for(1, ["unheard-of"])


class TestGangs:
    """Jobs with rates."""

    def test_steps_are_what_a_v100_does(self) -> None:
        """An hour on V100 is an hour, and slower on others."""
        job = gang_of(
            "x",
            find_type("LM", 20, 4),
            gang=4,
            v100_s=3600,
            release_s=7,
            gpu_types=("v100", "k80"),
        )
        assert job.steps == 3600 * 111
        assert dict(job.throughput) == {"v100": 111, "k80": 35.7}
        assert job.spread_throughput is not None
        assert dict(job.spread_throughput) == {"v100": 33.4, "k80": 30}
        assert job.release_s == 7

    def test_gangs_between_those_measured(self) -> None:
        """They are as fast as the next smaller one, for each GPU."""
        job = gang_of(
            "x", find_type("LM", 20, 6), gang=6, v100_s=10, release_s=0, gpu_types=("v100",)
        )
        assert job.rate(("v100",), is_spread=False) == pytest.approx(111 * 6 / 4)
        assert job.steps / job.throughput["v100"] == pytest.approx(10)

    def test_derived_speeds(self) -> None:
        """Types that were not measured follow the V100, and results say so."""
        measured = find_type("LM", 20, 1).throughput
        rates = rates_on(measured, ("k80", "t4", "rtx-3090"))
        assert rates == {
            "k80": 17.1,
            "t4": pytest.approx(64.7 / 3),
            "rtx-3090": pytest.approx(64.7 * 936 / 900),
        }
        assert all(0 < speed < 1.1 for speed in DERIVED_SPEEDS.values())
        assert "t4 0.33, rtx-3090 1.04" in derivation_in_words(["t4", "rtx-3090"])

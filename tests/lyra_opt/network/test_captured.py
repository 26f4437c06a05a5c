"""Decisions of a simulation as standalone instances."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from lyra_opt.network.captured import instance_of
from lyra_opt.network.checker import value_of
from lyra_opt.network.links import Tier
from tests.lyra_opt.network.policy_cases import gang, state_for


@pytest.mark.parametrize("pace", [0.5, 1.0, 2.5])
def test_gangs_on_gpus_of_any_speed_are_worth_what_they_are(pace: float) -> None:
    """Weight times what it computes, and time over what it computes, also where that is above 1."""
    state = state_for([[8, 8]], gang(4, weight=3.0, remaining_s=600.0))
    waiting = replace(state.waiting, efficiency=state.waiting.efficiency * pace)
    instance = instance_of(replace(state, waiting=waiting), name="fast")
    (job,) = instance.jobs
    waits = 1 + Fraction(instance.waiting_weight_per_s) * Fraction(job.waiting_s)
    for tier in (Tier.MACHINE, Tier.RACK):
        efficiency = float(waiting.efficiency[0, tier])
        worth = float(value_of(instance, job, tier))
        assert worth == pytest.approx(3.0 * 4 * efficiency * float(waits))
        assert job.remaining_s / job.efficiency[tier.label] == pytest.approx(600 / efficiency)

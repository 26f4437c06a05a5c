"""The goodput model keeps its bounds, and its profiles the measurements they were fitted to."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.goodput.model import (
    BERT,
    CIFAR,
    DEEP_SPEECH,
    IMAGENET,
    YOLO,
    fixed_goodput,
    tuned_goodput,
)
from tests.tables import tables

PROFILES = (IMAGENET, CIFAR, YOLO, DEEP_SPEECH, BERT)
profiles = st.sampled_from(PROFILES)
gpu_counts = st.integers(1, 160)


@given(profiles, st.floats(1, 1e6))
def test_efficiency_is_a_share_that_falls_from_the_initial_batch_on(profile, times):
    efficiency = profile.efficiency(profile.initial_batch * times)
    assert 0 < efficiency <= 1
    assert profile.efficiency(profile.initial_batch) == 1
    assert profile.efficiency(profile.initial_batch * times * 2) < efficiency


@given(profiles, gpu_counts)
def test_smaller_servers_never_help(profile, gpus):
    assert tuned_goodput(profile, gpus, 4) <= tuned_goodput(profile, gpus, 8)


@given(profiles, st.integers(1, 64), st.integers(1, 400))
def test_fewest_passes_are_best(profile, gpus, samples):
    fewest = math.ceil(samples / profile.largest_local_batch)
    times = [
        profile.iteration_s(gpus, 2, samples / passes, passes - 1)
        for passes in range(fewest, fewest + 5)
    ]
    assert min(times) == pytest.approx(times[0], rel=1e-12)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_gpus_beyond_the_most_stand_idle(profile):
    most = profile.most_gpus
    assert tuned_goodput(profile, most + 9, 8) == tuned_goodput(profile, most, 8)
    assert fixed_goodput(profile, most + 9, 8) == fixed_goodput(profile, most, 8)


def test_goodput_of_two_gpus_by_hand():
    profile = dataclasses.replace(
        BERT,
        gradient_s=1.0,
        gradient_s_per_sample=0.5,
        server_sync_s=3.0,
        overlap=1.0,
        initial_batch=4,
        largest_local_batch=4,
        noise_scale=4.0,
    )
    # 8 samples each in two passes of 3 s, and 3 s to synchronise; 8 / 20 of the samples count.
    assert profile.goodput(2, 1, 8) == pytest.approx(16 / 9 * 8 / 20)


BY_NAME = {profile.name: profile for profile in PROFILES}
TABLE = tables(__file__)["measured_iterations"]


@pytest.mark.parametrize(("name", "servers", "gpus", "local_batch", "measured_s"), TABLE)
def test_iterations_are_near_the_published_measurements(
    name, servers, gpus, local_batch, measured_s
):
    """From placements.csv and scalability.csv of Pollux's artifact; its own model errs alike."""
    found_s = BY_NAME[name].iteration_s(gpus, servers, local_batch)
    assert found_s == pytest.approx(measured_s, rel=0.3)

"""The goodput model keeps its bounds, and its profiles the measurements they were fitted to."""

from __future__ import annotations

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

PROFILES = (IMAGENET, CIFAR, YOLO, DEEP_SPEECH, BERT)
profiles = st.sampled_from(PROFILES)
gpu_counts = st.integers(1, 160)
server_sizes = st.sampled_from((1, 4, 8))


@given(profiles, st.floats(1, 1e6))
def test_efficiency_is_a_share_that_falls_from_the_initial_batch_on(profile, times):
    efficiency = profile.efficiency(profile.initial_batch * times)
    assert 0 < efficiency <= 1
    assert profile.efficiency(profile.initial_batch) == 1
    assert profile.efficiency(profile.initial_batch * times * 2) < efficiency


@given(profiles, gpu_counts, server_sizes)
def test_goodput_is_at_most_linear_in_gpus(profile, gpus, gpus_per_server):
    one = tuned_goodput(profile, 1, gpus_per_server)
    assert 0 < tuned_goodput(profile, gpus, gpus_per_server) <= gpus * one * (1 + 1e-12)


@given(profiles, gpu_counts, server_sizes)
def test_tuning_never_loses_against_the_batch_size_of_the_user(profile, gpus, gpus_per_server):
    fixed = fixed_goodput(profile, gpus, gpus_per_server)
    assert 0 < fixed <= tuned_goodput(profile, gpus, gpus_per_server)


@given(profiles, gpu_counts)
def test_smaller_servers_never_help(profile, gpus):
    assert tuned_goodput(profile, gpus, 4) <= tuned_goodput(profile, gpus, 8)


@given(profiles, st.integers(2, 64), st.integers(1, 16), st.integers(4, 1024), st.floats(1, 10))
def test_iteration_lies_between_full_overlap_and_none(profile, gpus, servers, batch, overlap):
    profile = dataclasses.replace(profile, overlap=overlap)
    gradient_s = profile.gradient_s + profile.gradient_s_per_sample * batch
    sync_s = profile.sync_s(gpus, servers)
    taken_s = profile.iteration_s(gpus, servers, batch)
    assert max(gradient_s, sync_s) * (1 - 1e-12) <= taken_s <= (gradient_s + sync_s) * (1 + 1e-12)
    assert profile.iteration_s(gpus, servers, batch, 3) == pytest.approx(taken_s + 3 * gradient_s)


@given(profiles, st.integers(1, 64), st.integers(1, 400))
def test_fewest_passes_are_best(profile, gpus, samples):
    fewest = math.ceil(samples / profile.largest_local_batch)
    times = [
        profile.iteration_s(gpus, 2, samples / passes, passes - 1)
        for passes in range(fewest, fewest + 5)
    ]
    assert min(times) == pytest.approx(times[0], rel=1e-12)


@given(profiles, gpu_counts)
def test_without_synchronisation_and_noise_goodput_is_linear(profile, gpus):
    ideal = dataclasses.replace(
        profile,
        gradient_s=0.0,
        server_sync_s=0.0,
        server_sync_s_per_gpu=0.0,
        network_sync_s=0.0,
        network_sync_s_per_gpu=0.0,
        noise_scale=1e15,
    )
    used = min(gpus, profile.most_gpus)
    assert tuned_goodput(ideal, gpus, 8) == pytest.approx(used * tuned_goodput(ideal, 1, 8))


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


@pytest.mark.parametrize(
    ("profile", "servers", "gpus", "local_batch", "measured_s"),
    [
        (IMAGENET, 1, 1, 200, 0.9235),
        (IMAGENET, 1, 4, 81, 0.4491),
        (IMAGENET, 8, 8, 40, 0.3755),
        (IMAGENET, 16, 64, 200, 1.0869),
        (CIFAR, 1, 1, 513, 0.3554),
        (CIFAR, 4, 16, 257, 0.2241),
        (CIFAR, 8, 32, 64, 0.2216),
        (YOLO, 1, 4, 8, 0.5009),
        (YOLO, 16, 16, 8, 1.0327),
        (YOLO, 16, 64, 6, 1.4768),
        (DEEP_SPEECH, 1, 1, 20, 0.6812),
        (DEEP_SPEECH, 8, 8, 40, 1.3101),
        (DEEP_SPEECH, 16, 64, 10, 1.1940),
        (BERT, 1, 2, 12, 0.9190),
        (BERT, 8, 8, 8, 1.5858),
        (BERT, 16, 64, 4, 1.8735),
    ],
)
def test_iterations_are_near_the_published_measurements(
    profile, servers, gpus, local_batch, measured_s
):
    """From placements.csv and scalability.csv of Pollux's artifact; its own model errs alike."""
    assert profile.iteration_s(gpus, servers, local_batch) == pytest.approx(measured_s, rel=0.3)

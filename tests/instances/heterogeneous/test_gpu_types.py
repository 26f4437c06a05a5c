"""Types of GPUs: those of the toolkit, and those of users."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.heterogeneous.instance import GangJob
from lyra_opt.instances.heterogeneous.clusters import (
    cluster_of,
    known_gpu_types,
    read_gpu_types,
    speeds_in_words,
    types_of,
)
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.workload import Job, Workload
from tests.conftest import assert_refused

if TYPE_CHECKING:
    from pathlib import Path


def test_those_of_the_toolkit() -> None:
    """Each says where its speed is from; the figures of papers are those of the papers."""
    known = known_gpu_types()
    assert all(gpu_type.source for gpu_type in known.values())
    assert all(name == gpu_type.name for name, gpu_type in known.items())
    assert {name: known[name].price_per_hour for name in ("v100", "p100", "k80", "t4")} == {
        "v100": 0.74,
        "p100": 0.43,
        "k80": 0.135,
        "t4": 1.0,
    }
    assert known["v100"].relative_speed == 1
    assert known["t4"].relative_speed == 1 / 3
    assert known["rtx-3090"].relative_speed == 936 / 900
    assert known["h100"].relative_speed > known["a100"].relative_speed > 1


def test_ones_own_replace_and_add() -> None:
    """Of a known type what is given alone; another one needs a speed."""
    own = known_gpu_types({"h100": {"price_per_hour": 3}, "mine": {"relative_speed": "5/4"}})
    assert own["h100"].price_per_hour == 3
    assert own["h100"].relative_speed == known_gpu_types()["h100"].relative_speed
    assert own["mine"].relative_speed == 1.25
    assert "mine" not in known_gpu_types()
    measured = known_gpu_types({"h100": {"relative_speed": 2}})["h100"]
    assert (measured.relative_speed, measured.source) == (2.0, "")


def test_types_by_name() -> None:
    """In the order asked for; another name is told with those that are known."""
    assert [found.name for found in types_of(["k80", "v100"])] == ["k80", "v100"]
    with pytest.raises(FieldError, match='gpu_types is "abacus": no such type; known: v100, p100'):
        types_of(["abacus"])


def test_speeds_of_jobs_without_rates_are_told() -> None:
    """Where they say anything: own types unlike the reference, and jobs that nobody measured."""
    job = Job.rigid(id="j", submit_s=0, gpus=1, work_gpu_s=1)
    plain = Workload(name="plain", jobs=(job,))
    cluster = cluster_of({"v100": 1, "h100": 1})
    (sentence,) = speeds_in_words(plain, cluster)
    assert "h100 3.72 (memory bandwidth" in sentence
    assert "v100" not in sentence
    measured = Job.of_gang(GangJob(id="j", gang=1, steps=1, throughput={"h100": 1.0}))
    assert speeds_in_words(replace(plain, jobs=(measured,)), cluster) == ()
    assert speeds_in_words(plain, cluster_of({"v100": 1})) == ()
    assert speeds_in_words(plain, Cluster.of_servers(1, inference_servers=2)) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mine = 3", "mine is 3: must be an object"),
        ("[mine]\nprice_per_hour = 1", "mine.relative_speed is missing"),
        ("[mine]\nspeed = 1", "mine.speed is 1: unknown key; the known keys are relative_speed"),
        ("[mine]\nrelative_speed = 0", "mine.relative_speed is 0: must be a finite number above"),
        ('[mine]\nrelative_speed = "1/0"', 'mine.relative_speed is "1/0": must be a finite numb'),
        ("[mine]\nrelative_speed = 1e9", "mine.relative_speed is 1000000000.0: must be from 1e-06"),
        ("[k80]\nprice_per_hour = -1", "k80.price_per_hour is -1: must be a finite number above"),
        ("[mine]\nrelative_speed = 1\nsource = 5", "mine.source is 5: must be a string"),
        ("[mine", "is not valid TOML"),
    ],
)
def test_damage_is_named(tmp_path: Path, text: str, message: str) -> None:
    """One line with the file, the field, its value and the rule."""
    path = tmp_path / "types.toml"
    path.write_text(text)
    assert_refused(read_gpu_types, path, message)


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    """A table for each type."""
    path = tmp_path / "types.toml"
    path.write_text('[mine]\nrelative_speed = 2.5\nprice_per_hour = 4\nsource = "our benchmark"\n')
    found = read_gpu_types(path)["mine"]
    assert (found.relative_speed, found.price_per_hour, found.source) == (2.5, 4.0, "our benchmark")

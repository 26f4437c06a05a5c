"""Benchmarks of plans for real clusters: whole commands on files as kubectl writes them."""

import json
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from lyra_opt.experiments.bench.timing import sized, timed, usage_of
from lyra_opt.instances.family import generate
from lyra_opt.instances.snapshots.sample import kubectl_list, padded

SIZES = {"large": (sized(5_000, 54), 5), "medium": (sized(500, 54), 5)}
"""Number of nodes and of daemons on each node; with them 5,000 nodes have about 43,000 pods."""

PLANS = (
    ("large", "drain --nodes 20"),
    ("large", f"fit --pods {sized(16, 2)} --gpus 8 --priority p3 --level rack"),
    ("large", f"fit --pods {sized(64, 4)} --gpus 8 --priority p3"),
    ("medium", "drain --nodes 20"),
    ("medium", f"fit --pods {sized(16, 2)} --gpus 8 --priority p3"),
    ("medium", "consolidate --moves 20"),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a file as kubectl writes it for each size of a cluster."""
    folder = tmp_path_factory.mktemp("clusters")
    found = {}
    for name, (nodes, daemons) in SIZES.items():
        instance = generate("preemption", "crowded", nodes=nodes, seed=1)
        found[name] = folder / f"{name}.json"
        document = padded(kubectl_list(instance), daemons)
        found[name].write_text(json.dumps(document, indent=4), encoding="utf-8")
    return found


@pytest.mark.parametrize(("size", "words"), PLANS, ids=[f"{size}: {plan}" for size, plan in PLANS])
def test_plan(benchmark: BenchmarkFixture, files: dict[str, Path], size: str, words: str) -> None:
    """Time a whole command, from the file to the commands and the proof."""
    path = files[size]

    def run() -> float:
        _, memory_mib, text = usage_of(
            "plan", *words.split(), "--snapshot", str(path), "--format=json"
        )
        assert json.loads(text)["status"] in ("optimal", "infeasible")
        return memory_mib

    memory_mib = timed(benchmark, run, rounds=3, warms_up=False)
    benchmark.extra_info["peak_memory_mib"] = memory_mib
    benchmark.extra_info["file_mib"] = path.stat().st_size / 2**20

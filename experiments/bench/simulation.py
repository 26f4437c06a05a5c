"""Benchmarks of the simulated cluster: speed, growth and memory of replays and of their bound."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.bench.timing import sized, timed, usage_of
from lyra_opt.experiments.simulation.measuring.proving import prove
from lyra_opt.experiments.simulation.running.tasks import replay_tasks
from lyra_opt.experiments.simulation.scenario.loading import Change, Scenario, load_scenario
from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.instances.heterogeneous.generated_jobs import PHILLY_TRACE
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES
from lyra_opt.network.links import LINK_SETS
from lyra_opt.simulation.bounds.scope import Reading

LYRA = "lyra-paper"
"""Scenario with Lyra's clusters: 3,544 training GPUs and 4,160 inference GPUs."""
LITTLE = {"cluster.servers": 4, "jobs.parameters.days": 1}
TWO_WEEKS = sized({"jobs.parameters.days": 15}, LITTLE)
OPTIONS = [f"--set={path}={value}" for path, value in TWO_WEEKS.items()]

JOBS = sized((12_500, 25_000, 50_000, 100_000), (40, 80))
JOBS_PER_DAY = 50_390 / 15
LOAD = 0.77
"""Average load of the generator; a single draw has 72 to 82 %, with shorter or longer queues."""
SEEDS = sized(3, 1)

OWN_SCENARIO = "philly-one-cluster"
OWN_SCHEME = """
from lyra_opt.simulation.policy import QueuePolicy


class SmallGangs(QueuePolicy):
    def decide(self, view):
        for run in sorted(self.waiting.values(), key=lambda run: (run.job.min_gpus, run.order)):
            if parts := view.fit(run):
                self.start(view, run, parts)
"""
"""A simple loop over all waiting jobs, as a user would write it."""

SERVERS_OF_TRACE = sized({PHILLY_TRACE: 60, "microsoft_itp2021_jobs.csv.gz": 150}, {"few": 1})
"""Number of servers with eight GPUs, for the bound on all jobs of each trace."""
FEW_JOBS = "job_id,submit_time_s,gpus,duration_s\n" + "".join(
    f"j{number},{10 * number},{1 + number % 8},{600 + 50 * number}\n" for number in range(30)
)


def scenario_of(name: str, changes: Mapping[str, Any]) -> Scenario:
    """Load a scenario with changed keys; jobs that are too large for the cluster are dropped."""
    asked = {"jobs.oversized": "drop", **changes}
    return load_scenario(name, [Change(path, value) for path, value in asked.items()])


def jobs_at_equal_load(jobs: int) -> dict[str, Any]:
    """Return scenario keys for a number of jobs, over so many days that the load is constant."""
    days = max(1, round(jobs / JOBS_PER_DAY))
    return {"jobs.parameters": {"days": days, "jobs": jobs}, "jobs.load": LOAD}


def time_replays(
    benchmark: BenchmarkFixture, name: str, scheme: str, changes: Mapping[str, Any]
) -> None:
    """Time the replays of a scenario, one per seed; skip the benchmark if a trace is missing.

    The results also contain CPU time, number of jobs, and decision times if the scheme measures
    them.
    """
    tasks = replay_tasks(scenario_of(name, changes), [scheme])
    try:
        tasks[0].setup()
    except UserError as error:
        pytest.skip(f"{name}, {scheme}: {error}")
    records = timed(benchmark, lambda: [task.run() for task in tasks], warms_up=False)
    figures = records[0].figures
    assert figures is not None, "a replay that fails raises"
    kept = ("jobs", "decision_mean_s", "decision_max_s")
    benchmark.extra_info |= {name: figures[name] for name in kept if name in figures}
    cpu_time_s = sum(record.cpu_time_s or 0.0 for record in records)
    benchmark.extra_info |= {
        "cpu_time_s": cpu_time_s,
        "jobs_per_cpu_s": figures["jobs"] / cpu_time_s,
    }


@pytest.fixture(autouse=True, scope="module")
def _loaded() -> None:
    """Load everything that replays and bounds need, so that no benchmark times it."""
    replay_tasks(scenario_of(LYRA, LITTLE), ["lyra"])[0].run()
    list(prove(scenario_of(LYRA, LITTLE), tuple(Reading)))


def test_fifo(benchmark: BenchmarkFixture) -> None:
    """Time the simulation of all jobs of the Philly trace under the scheme ``fifo``."""
    time_replays(benchmark, "plain", "fifo", {"cluster.servers": 443, "jobs.trace": PHILLY_TRACE})


def test_lyra(benchmark: BenchmarkFixture) -> None:
    """Time the simulation of two weeks on Lyra's training and inference clusters."""
    time_replays(benchmark, LYRA, "lyra", TWO_WEEKS)


def test_lyra_memory(benchmark: BenchmarkFixture) -> None:
    """Measure the peak memory of simulating two weeks on Lyra's training and inference clusters."""
    words = ("simulate", LYRA, "--scheme=lyra", "--processes=1")
    _, peak_mib, _ = timed(benchmark, usage_of, *words, *OPTIONS, warms_up=False)
    benchmark.extra_info["peak_memory_mib"] = peak_mib


@pytest.mark.parametrize("size", JOBS)
def test_lyra_growth(benchmark: BenchmarkFixture, size: int) -> None:
    """Time simulations of the scheme ``lyra`` with growing numbers of jobs at equal load."""
    time_replays(benchmark, LYRA, "lyra", jobs_at_equal_load(size) | {"seeds": SEEDS})


def test_own_scheme(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Compare the CPU time of ``lyra-opt simulate`` under a user's and under a built-in scheme."""
    try:
        load_scenario(OWN_SCENARIO).path_to_read(PHILLY_TRACE)
    except UserError as error:
        pytest.skip(f"{OWN_SCENARIO}: {error}")
    file = tmp_path / "own_scheme.py"
    file.write_text(OWN_SCHEME)

    def least_cpu_time_s(scheme: str) -> float:
        command = ("simulate", OWN_SCENARIO, "--scheme", scheme)
        return min(cpu_time_s for cpu_time_s, _, _ in (usage_of(*command) for _ in range(2)))

    own_s = timed(benchmark, least_cpu_time_s, f"{file}:SmallGangs", warms_up=False)
    benchmark.extra_info["cpu_ratio"] = own_s / least_cpu_time_s("sjf")


@pytest.mark.parametrize("scheme", ROUND_POLICIES)
def test_rounds(benchmark: BenchmarkFixture, scheme: str) -> None:
    """Time round-based schemes on 20 V100, 20 P100 and 20 K80 GPUs with up to 480 jobs."""
    few = {"jobs.workload": "gavel-like", "jobs.parameters": {"jobs": 8}}
    time_replays(benchmark, "hadar-60", scheme, sized({}, few))


@pytest.mark.parametrize("links", sized(list(LINK_SETS), ["shipped"]))
@pytest.mark.parametrize("scheme", PLACEMENT_POLICIES)
def test_leases(benchmark: BenchmarkFixture, scheme: str, links: str) -> None:
    """Time schemes on 256 GPUs with 500 jobs that are submitted at the same time."""
    few = sized({}, {"jobs.parameters": {"jobs": 4}})
    time_replays(benchmark, "dally-batch", scheme, {"cluster.network.links": links, **few})


@pytest.mark.parametrize("trace", SERVERS_OF_TRACE)
def test_bound(benchmark: BenchmarkFixture, trace: str, tmp_path: Path) -> None:
    """Time the JCT bound for rigid jobs that restart, and record the gap of a found schedule."""
    (few := tmp_path / "few.csv").write_text(FEW_JOBS)
    changes = {"jobs.trace": sized(trace, str(few)), "cluster.servers": SERVERS_OF_TRACE[trace]}
    proofs = prove(scenario_of("plain", changes), [Reading.RESTART], searches=True)
    try:
        found = timed(benchmark, next, proofs, warms_up=False).as_json_object()
    except UserError as error:
        pytest.skip(str(error))
    benchmark.extra_info |= {"gap_percent": 100 * found["found_above_bound_share"], **found}


def test_bound_of_loans(benchmark: BenchmarkFixture) -> None:
    """Measure CPU time and memory of proving JCT bounds for two weeks on Lyra's clusters."""
    words = ("bound", LYRA, "--format=json", *OPTIONS)
    _, peak_mib, output = timed(benchmark, usage_of, *words, warms_up=False)
    cpu_s = sum(each["cpu_s"] for each in json.loads(output))
    benchmark.extra_info |= {"cpu_s": cpu_s, "peak_memory_mib": peak_mib}


@pytest.mark.parametrize("size", JOBS)
def test_bound_growth(benchmark: BenchmarkFixture, size: int) -> None:
    """Time the proofs of JCT bounds for growing numbers of jobs at equal load."""
    scenario = scenario_of(LYRA, jobs_at_equal_load(size))
    found = timed(benchmark, lambda: list(prove(scenario, tuple(Reading))), warms_up=False)
    benchmark.extra_info["cpu_s"] = sum(each.bound.cpu_s for each in found)

"""``lyra-opt simulate`` on heterogeneous GPUs and in a network."""

import re
from collections import Counter
from importlib.resources import files

import pandas as pd
import pytest

from lyra_opt.core.loading import load_instance
from lyra_opt.core.numbers import three_digits
from lyra_opt.experiments.store import table_path
from lyra_opt.simulation.communication import MODELS
from tests.experiments.simulation.conftest import (
    HEADER,
    ONE_SERVER,
    assert_figures,
    changes,
    figures,
    schemes,
)
from tests.tables import tables

TABLES = tables(__file__)


ONE_GPU_JOBS = HEADER + "a,0,100,1\nb,10,50,1\nc,20,30,1\n"

TWO_RACKS = ("dally-batch", *changes("cluster.servers=4", "cluster.servers_per_rack=2"))
SMALL_RACKS = (*TWO_RACKS, *changes("jobs.parameters.jobs=12"))


def groups(**servers_of):
    """Return the option for servers with one GPU each, by GPU type."""
    tables = ", ".join(
        f'{{servers = {servers}, gpus_per_server = 1, gpu_type = "{name}"}}'
        for name, servers in servers_of.items()
    )
    return changes(f"cluster.groups=[{tables}]")


@pytest.fixture
def one_gpu_jobs(tmp_path):
    """Return the path of a trace with three one-GPU jobs."""
    path = tmp_path / "one-gpu.csv"
    path.write_text(ONE_GPU_JOBS)
    return path


WISHING_JOBS = TABLES["wishing_jobs"]


class TestTypes:
    """Several GPU types and round-based schemes."""

    def test_what_jobs_ask_for(self, simulate, tmp_path):
        """First come, first served: b waits for the V100, and c waits for b."""
        path = tmp_path / "wishes.csv"
        path.write_text(WISHING_JOBS)
        out = tmp_path / "out"
        given = ("plain", "--jobs", path, *groups(v100=1, k80=1), "--scheme", "fifo")
        exit_code, printed, err = simulate(*given, "--out", out)
        assert exit_code == 0, err
        jobs = pd.read_csv(table_path(out, "fifo seed=0", "jobs"))
        assert [*jobs.gpu_types] == ["v100", "v100", "v100|k80"]
        assert [*jobs.model] == ["ResNet-18-128", "CycleGAN", "CycleGAN"]
        assert [*jobs.start_s[:2]] == [0, 3600]
        assert [*jobs.missed_deadline[1:]] == [True, False]
        per_hour = {"v100": 0.74, "k80": 0.135}
        used = [per_hour[name] for name in ("v100", "v100", "k80")]
        assert [*jobs.cost] == pytest.approx([*(used * jobs.held_gpu_s / 3600)])
        weighted_s = (jobs.weight * jobs.jct_s).sum() / 5
        for row in (
            f"JCT, weighted mean (hours) {weighted_s / 3600:.2f}",
            "Deadlines missed 1",
            "Deadlines missed (%) 50.0",
            f"Cost {three_digits(jobs.cost.sum())}",
        ):
            assert row in re.sub(" +", " ", printed)
        record = figures(simulate(*given, "--format=json"))
        assert record["cost"] == pytest.approx(jobs.cost.sum())
        assert record["missed_deadlines"] == 1

    def test_by_hand(self, simulate, one_gpu_jobs, tmp_path):
        """One V100, rounds of 200 s, first come, first served: a until 110 s with its start."""
        given = (*groups(v100=1), *changes("speed.throughputs=gavel", "tenure.rounds.round_s=200"))
        written = ("--out", tmp_path / "out", "--scheme", "yarn-cs", "--format=json")
        ran = simulate("plain", "--jobs", one_gpu_jobs, *given, *written)
        record, err = figures(ran), ran[2]
        assert list(record) == TABLES["keys"]["types"]
        assert_figures(record, TABLES["by_hand"]["types"])
        assert record["gpu_usage_by_type"] == {"v100": record["gpu_usage"]}
        assert any("seed" in sentence for sentence in record["assumptions"])  # of the models
        assert "3 jobs over 0.0 hours ask for 0.1 GPU hours" in err
        series = pd.read_csv(table_path(tmp_path / "out", "yarn-cs seed=0", "series"))
        assert (series.gpus_held_v100[0], series.running_jobs[0]) == (1, 1)


class TestOwnTypes:
    """GPU types of the user, and their speed."""

    @pytest.mark.parametrize(
        ("gpu_type", "speed"), [("v100", 1.0), ("a100", 1555 / 900), ("invented", 2.5)]
    )
    def test_speed_of_the_only_type(self, simulate, one_gpu_jobs, gpu_type, speed):
        """Running times are those of the reference GPU, so twice the speed takes half the time."""
        given = (*changes(f"cluster.gpu_type={gpu_type}"), "--scheme", "fifo", "--format=json")
        own = changes("gpu_types.invented.relative_speed=2.5")
        record = figures(simulate("plain", "--jobs", one_gpu_jobs, *ONE_SERVER, *given, *own))
        assert record["jobs"] == 3
        shortest_s = min(record[key] for key in ("jct_p50_s", "makespan_s"))
        assert shortest_s > 0
        # Two GPUs: a alone on one, b and then c on the other.
        assert record["makespan_s"] == pytest.approx(max(100, 10 * speed + 50 + 30) / speed)

    def test_the_model_of_a_trace_is_used(self, simulate, tmp_path):
        """The measured rates of a stated model apply, and no model is drawn."""
        path = tmp_path / "jobs.csv"
        rounds = changes("tenure.rounds={round_s=10, restart_s=0, merge_s=0}")

        def makespans(model):
            path.write_text(f"model,{HEADER}{model},a,0,1000,1\n")
            given = ("plain", "--jobs", path, *rounds, "--scheme", "yarn-cs", "--format=json")
            table = changes("speed.throughputs=gavel")
            return [
                figures(simulate(*given, *table, *groups(k80=1), "--seed", seed))["makespan_s"]
                for seed in range(4)
            ]

        # Gavel measured 4.43 steps a second on a V100, and 0.505 on a K80.
        assert makespans("CycleGAN") == [pytest.approx(1000 * 4.43 / 0.505)] * 4
        assert len(set(makespans(""))) > 1


class TestRacks:
    """Gangs that run slower the farther apart their GPUs are."""

    def test_by_hand(self, simulate, one_gpu_jobs, tmp_path):
        """One GPU that stays idle for a second between two jobs."""
        one = ("servers=1", "gpus_per_server=1", "servers_per_rack=1", "network={}", "name=one")
        given = changes(*(f"cluster.{each}" for each in one))
        written = ("--scheme", "dally", "--out", tmp_path / "out", "--format=json")
        ran = simulate("plain", "--jobs", one_gpu_jobs, *given, *written)
        record, err = figures(ran), ran[2]
        assert list(record) == TABLES["keys"]["racks"]
        assert_figures(record, TABLES["by_hand"]["racks"])
        assert "3 jobs over 0.0 hours ask for 0.1 GPU hours of computing of 1 GPU (" in err
        jobs = pd.read_csv(table_path(tmp_path / "out", "dally seed=0", "jobs"))
        assert jobs.machine_allocations.tolist() == [1, 1, 1]
        assert set(jobs.model) <= set(MODELS)

    def test_schemes_of_three_papers_side_by_side(self, simulate):
        """All schemes do the same work, and each states how it is simulated."""
        names = ("dally", "lyra", "hadar")
        exit_code, out, _ = simulate(*SMALL_RACKS, *schemes(*names))
        assert exit_code == 0
        assert re.search(r"^ +dally +lyra +hadar$", out, re.MULTILINE)
        for measure in ("Makespan", r"Allocations: machine / rack / network", "Communication"):
            assert re.search(rf"^{measure} .*\d", out, re.MULTILINE)
        records = figures(simulate(*SMALL_RACKS, *schemes(*names), "--format=json"))
        work = [record["computing_gpu_s"] for record in records]
        assert work == pytest.approx([work[0]] * 3)
        assert [record["engine"] for record in records] == ["leases", "elastic", "rounds"]
        # A lease means nothing to a scheme in rounds, nor a round to one with leases.
        keys = ("lease_s", "hand_over_s_per_gpu", "round_s", "restart_s")
        assert [[record[key] for key in keys] for record in records] == [
            [3600, 1, None, None],
            [None, None, None, None],
            [None, None, 360, 10],
        ]

    def test_the_example_topology_is_that_of_the_scenario(self, simulate):
        """Racks from a file and racks of the scenario give the same figures."""
        few = (*changes("jobs.parameters.jobs=12"), "--scheme", "dally", "--format=json")
        path = files("lyra_opt.instances.network") / "four-racks.toml"
        by_file = changes(f'cluster={{network={{topology="{path}"}}}}')
        records = [figures(simulate("dally-batch", *given, *few)) for given in ((), by_file)]
        expected = {"racks": 4, "machines": 32, "gpus": 256, "topology": "four-racks"}
        for record in records:
            assert_figures(record, {**expected, "network": "shipped"})
        assert records[0]["jct_mean_s"] == records[1]["jct_mean_s"]

    def test_captured_decisions_are_instances(self, simulate, tmp_path):
        """Captured decisions are instances; those with too few GPUs are contested."""
        folder = tmp_path / "decisions"
        given = (*TWO_RACKS, *changes("jobs.parameters.jobs=25", "capture.most=3"))
        named = (*schemes("dally", "hadar", "fifo"), "--capture", folder)
        exit_code, _, err = simulate(*given, *named)
        assert exit_code == 0, err
        assert "scheme fifo asks no solver to decide: no decisions captured" in err
        found = sorted(folder.iterdir())
        assert Counter(path.name.split("-at-")[0] for path in found) == dict.fromkeys(
            (
                f"{kind}-{sample}-{scheme}"
                for kind, scheme in (("network", "dally-epoch"), ("heterogeneous", "hadar-round"))
                for sample in ("contested", "easy")
            ),
            3,
        )
        networks = [path for path in found if path.name.startswith("network")]
        for path in found:
            instance = load_instance(path).instance
            gpus = instance.free_gpus if path in networks else 32
            assert (sum(job.gang for job in instance.jobs) > gpus) == ("contested" in path.name)

    def test_keys_reach_the_simulation(self, simulate):
        """Changed keys of the scenario change the result as expected."""

        def record(*texts, scheme="dally", seed=0):
            given = (*changes(*texts), "--scheme", scheme, "--seed", seed, "--format=json")
            return figures(simulate(*SMALL_RACKS, *given))

        for leases, scheme in (("inf", "consolidated"), ("0", "no-wait")):
            timers = f"rack_leases={leases}, network_leases={leases}"
            manual = record(f'schemes=[{{name="manual", label="mine", {timers}}}]', scheme="mine")
            assert manual["jct_mean_s"] == record(scheme=scheme)["jct_mean_s"]
        plain, hidden = record(), record("cluster.network.overlap=1.0")
        assert hidden["communication_share"] < plain["communication_share"]
        slower = record("cluster.network.rack_latency_s=1e-3")
        assert slower["communication_share"] > plain["communication_share"]
        other = record("tenure.leases.hand_over_s_per_gpu=0", seed=5)
        assert (other["seed"], other["hand_over_share"]) == (5, 0)

"""``lyra-opt simulate --topology``, from end to end."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from importlib.metadata import EntryPoint
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

from lyra_opt.loading import load_instance
from lyra_opt.network.communication import MODELS
from lyra_opt.network.policies import PLACEMENT_POLICIES
from lyra_opt.simulation.scheme import LEASES, SCHEMES, find_scheme, scheme_names
from tests.conftest import assert_one_line_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

HEADER = "job_id,submit_time_s,duration_s,gpus\n"

# On one GPU, which is idle for a second after each of them.
THREE_JOBS = HEADER + "a,0,100,1\nb,10,50,1\nc,20,30,1\n"

TOPOLOGY = """\
format = "lyra-opt/topology"
version = 1
name = "{name}"
racks = {racks}
machines_per_rack = {machines}
gpus_per_machine = {gpus}
"""

KEYS = [
    *("workload", "topology", "network", "scheme", "engine", "seed", "racks", "machines", "gpus"),
    *("lease_s", "hand_over_s_per_gpu", "round_s", "restart_s", "dropped", "jobs", "finished"),
    *("queue_mean_s", "queue_p50_s", "queue_p95_s", "queue_p99_s", "queue_max_s"),
    *("jct_mean_s", "jct_p50_s", "jct_p95_s", "jct_p99_s", "jct_max_s", "makespan_s"),
    *("gpu_s", "computing_gpu_s", "communication_s", "communication_share", "gpu_usage"),
    *("computing_usage", "hand_over_share", "allocations_by_tier", "gpu_s_by_tier"),
    *("fragmented_machines_mean", "stranded_share", "allocations", "lease_losses"),
    *("preemptions", "preemptions_per_submission", "migrations", "decisions"),
    *("decision_mean_s", "decision_p99_s", "decision_max_s", "wall_time_s", "jobs_per_cpu_s"),
    "assumptions",
]
MEASURED = (
    *("wall_time_s", "jobs_per_cpu_s"),
    *("decision_mean_s", "decision_p99_s", "decision_max_s"),
)

SMALL = ("--workload", "dally-batch", "--job-count", "12")


REFUSED = {
    "pollux": "goodput model of its own",
    "lyra-tuned": "goodput model of its own",
    "allox": "runs jobs of one GPU alone",
    "hadare": "which no server can run, and it spreads none",
    "gavel-cost": "its prices are by type of GPU, and there is one type",
}
"""Schemes that do not run these jobs, and why."""


def write_topology(path: Path, *, racks: int = 1, machines: int = 1, gpus: int = 1) -> Path:
    path.write_text(TOPOLOGY.format(name=path.stem, racks=racks, machines=machines, gpus=gpus))
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return the trace of three jobs."""
    path = tmp_path / "three.csv"
    path.write_text(THREE_JOBS)
    return path


@pytest.fixture
def one_gpu(tmp_path: Path) -> Path:
    """Return a cluster of one GPU."""
    return write_topology(tmp_path / "one.toml")


@pytest.fixture
def two_racks(tmp_path: Path) -> Path:
    """Return a cluster of two racks of two machines of 8 GPUs."""
    return write_topology(tmp_path / "racks.toml", racks=2, machines=2, gpus=8)


class TestFigures:
    """What is printed is what happens."""

    def test_by_hand(self, run: Run, trace: Path, one_gpu: Path) -> None:
        """One GPU that stays idle for a second between two jobs."""
        given = ("--jobs", trace, "--topology", one_gpu, "--scheme", "dally")
        exit_code, out, err = run("simulate", *given, "--json")
        record = json.loads(out)
        assert exit_code == 0
        assert list(record) == KEYS
        assert record["jobs"] == record["finished"] == record["allocations"] == 3
        assert record["makespan_s"] == pytest.approx(182)
        assert record["jct_mean_s"] == pytest.approx((100 + 141 + 162) / 3)
        assert record["queue_mean_s"] == pytest.approx((0 + 91 + 132) / 3)
        assert record["gpu_usage"] == record["computing_usage"] == pytest.approx(180 / 182)
        assert record["communication_share"] == 0
        assert record["allocations_by_tier"] == {"machine": 3, "rack": 0, "network": 0}
        assert any("Assigned by seed" in sentence for sentence in record["assumptions"])
        assert "3 jobs over 0.0 hours ask for 0.1 GPU hours of computing of 1 GPU (" in err

    def test_slowdowns(self, run: Run, tmp_path: Path) -> None:
        """A gang of two on two machines, at half its speed; nothing is handed over but at ends."""
        topology = write_topology(tmp_path / "pair.toml", machines=2)
        table = tmp_path / "slowdowns.csv"
        rows = [f"{model},2,rack,2\n" for model in MODELS]
        table.write_text("model,gpus,tier,slowdown\n" + "".join(rows))
        jobs = tmp_path / "one.csv"
        jobs.write_text(HEADER + "a,0,100,2\n")
        given = ("--jobs", jobs, "--topology", topology, "--slowdowns", table, "--json")
        record = json.loads(run("simulate", *given)[1])
        assert (record["scheme"], record["network"]) == ("dally", "measured slowdowns")
        assert record["makespan_s"] == pytest.approx(200)
        assert record["communication_share"] == pytest.approx(0.5)
        assert record["communication_s"] == pytest.approx(200)
        assert record["gpu_s_by_tier"] == {"machine": 0, "rack": pytest.approx(400), "network": 0}
        # Leases of a minute and 2 s without the GPUs after each but the last.
        short = (*given, "--lease-s", 60, "--hand-over-s", 1)
        record = json.loads(run("simulate", *short)[1])
        assert record["makespan_s"] == pytest.approx(200 + 3 * 2)
        assert (record["allocations"], record["lease_losses"]) == (4, 3)

    @pytest.mark.parametrize("scheme", [name for name in scheme_names() if name not in REFUSED])
    def test_every_scheme(self, run: Run, two_racks: Path, scheme: str) -> None:
        """Each name of the registry runs, on the same cluster and the same jobs."""
        given = (*SMALL, "--topology", two_racks, "--network", "congested-1", "--scheme", scheme)
        exit_code, out, err = run("simulate", *given, "--json")
        assert exit_code == 0, err
        record = json.loads(out)
        assert (record["scheme"], record["finished"]) == (scheme, 12)
        assert record["network"] == "congested-1"
        assert sum(record["allocations_by_tier"].values()) == record["allocations"]
        assert 0 < record["computing_gpu_s"] <= record["gpu_s"]

    def test_schemes_of_three_papers_side_by_side(self, run: Run, two_racks: Path) -> None:
        """All in one table, the same work done by each, and how each is simulated is said."""
        names = ("dally", "lyra", "hadar")
        schemes = [part for name in names for part in ("--scheme", name)]
        exit_code, out, _ = run("simulate", *SMALL, "--topology", two_racks, *schemes)
        assert exit_code == 0
        assert re.search(r"^ +dally +lyra +hadar$", out, re.MULTILINE)
        for measure in ("Makespan", r"Allocations: machine / rack / network", "Communication"):
            assert re.search(rf"^{measure} .*\d", out, re.MULTILINE)
        for engine in ("with leases", "under which gangs keep", "that decide in rounds of 360 s"):
            assert f"- Simulated, schemes {engine}" in out
        printed = run("simulate", *SMALL, "--topology", two_racks, *schemes, "--json")[1]
        records = json.loads(printed)
        work = [record["computing_gpu_s"] for record in records]
        assert work == pytest.approx([work[0]] * 3)
        assert [record["engine"] for record in records] == ["leases", "elastic", "rounds"]

    def test_machines_of_unlike_sizes(self, run: Run, tmp_path: Path) -> None:
        """No scheme needs machines that are alike."""
        path = tmp_path / "uneven.toml"
        path.write_text(
            'format = "lyra-opt/topology"\nversion = 1\nname = "uneven"\n'
            "[[rack]]\nmachines = 2\ngpus_per_machine = 8\n"
            "[[rack]]\nmachines = 4\ngpus_per_machine = 4\n"
        )
        schemes = [part for name in ("dally", "fifo", "hadar") for part in ("--scheme", name)]
        exit_code, out, err = run("simulate", *SMALL, "--topology", path, *schemes, "--json")
        assert exit_code == 0, err
        assert [record["finished"] for record in json.loads(out)] == [12] * 3

    def test_captured_decisions_are_solved(self, run: Run, two_racks: Path, tmp_path: Path) -> None:
        """Placements and rounds are instances, contested where GPUs do not suffice for all."""
        schemes = [part for name in ("dally", "hadar", "fifo") for part in ("--scheme", name)]
        folder = tmp_path / "decisions"
        given = ("--topology", two_racks, *schemes, "--capture", folder, "--capture-limit", 3)
        exit_code, _, err = run("simulate", "--workload", "dally-batch", "--job-count", 25, *given)
        assert exit_code == 0, err
        assert "scheme fifo puts no decision to a solver: nothing captured" in err
        files = sorted(folder.iterdir())
        kinds = [path.name.split("-at-")[0] for path in files]
        assert Counter(kinds) == dict.fromkeys(
            (
                f"{kind}-{sample}-{scheme}"
                for kind, scheme in (("network", "dally-epoch"), ("heterogeneous", "hadar-round"))
                for sample in ("contested", "easy")
            ),
            3,
        )
        networks = [path for path in files if path.name.startswith("network")]
        for path in networks:
            instance = load_instance(path).instance
            lacking = sum(job.gang for job in instance.jobs) > instance.free_gpus
            assert lacking == ("contested" in path.name)
        for paths, solver in ((networks, "no-wait"), (sorted({*files} - {*networks}), "hadar")):
            exit_code, out, err = run("solve", *paths, "--solver", solver, "--json")
            assert exit_code == 0, err
            assert all(answer["objective"] is not None for answer in json.loads(out))

    def test_options(self, run: Run, two_racks: Path) -> None:
        """Each reaches the simulation."""
        given = ("simulate", "--topology", two_racks, "--json")

        def record(*arguments: object) -> dict[str, float]:
            exit_code, out, err = run(*given, *arguments)
            assert exit_code == 0, err
            return json.loads(out)

        manual = (*SMALL, "--scheme", "manual")
        patient = record(*manual, "--timers", "inf,inf")
        assert patient["jct_mean_s"] == record(*SMALL, "--scheme", "consolidated")["jct_mean_s"]
        hasty = record(*manual, "--timers", "0,0")
        assert hasty["jct_mean_s"] == record(*SMALL, "--scheme", "no-wait")["jct_mean_s"]
        plain, hidden = record(*SMALL), record(*SMALL, "--overlap", "1")
        assert hidden["communication_share"] < plain["communication_share"]
        other = record(*SMALL, "--seed", 5, "--window-leases", 3, "--hand-over-s", 0)
        assert (other["seed"], other["hand_over_share"]) == (5, 0)
        assert other["jct_mean_s"] != plain["jct_mean_s"]
        rounds = record(*SMALL, "--scheme", "hadar", "--round-s", 3600, "--restart-s", 60)
        assert (rounds["round_s"], rounds["restart_s"]) == (3600, 60)
        few = ("--job-count", 5, "--drop-oversized")
        slow = record("--workload", "dally-poisson", *few, "--jobs-per-day", 0.1)
        fast = record("--workload", "dally-poisson", *few)
        assert slow["makespan_s"] > 5 * fast["makespan_s"]
        gangs = record("--workload", "dally-distributed", *few)
        assert gangs["workload"] == "dally-distributed-59.6perday-v1-5jobs-seed0"

    def test_oversized_jobs(self, run: Run, tmp_path: Path, one_gpu: Path) -> None:
        """They are an error, or left out and counted."""
        path = tmp_path / "jobs.csv"
        path.write_text(HEADER + "a,0,100,1\nb,0,100,2\nc,0,100,9\n")
        given = ("simulate", "--jobs", path, "--topology", one_gpu, "--json")
        assert_one_line_error(run(*given), "job c has a gang of 9", "1 GPU", "(2 jobs are too")
        kept = json.loads(run(*given, "--drop-oversized")[1])
        assert (kept["jobs"], kept["dropped"]) == (1, 2)
        assert "2 jobs larger than 1 GPU left out." in kept["assumptions"]
        path.write_text(HEADER + "c,0,100,9\n")
        assert_one_line_error(run(*given, "--drop-oversized"), "no job fits the cluster")

    def test_same_seed_same_files(self, run: Run, two_racks: Path, tmp_path: Path) -> None:
        """Everything but times; another seed gives another run."""
        given = (*SMALL, "--topology", two_racks, "--scheme", "dally", "--scheme", "fifo", "--json")

        def written(name: str) -> list[bytes]:
            out = tmp_path / name
            exit_code, printed, _ = run("simulate", *given, "--seed", 1, "--out", out)
            assert exit_code == 0
            records = json.loads(printed)
            assert json.loads((out / "metrics.json").read_text()) == records
            for record in records:
                for key in MEASURED:
                    del record[key]
            tables = [(out / table).read_bytes() for table in ("jobs.csv", "series.csv")]
            return [json.dumps(records).encode(), *tables]

        first = written("first")
        assert written("again") == first
        other = json.loads(run("simulate", *given, "--seed", 2)[1])
        assert other[0]["jct_mean_s"] != json.loads(first[0])[0]["jct_mean_s"]


class TestFiles:
    """What --out writes."""

    def test_tables_and_page(self, run: Run, trace: Path, one_gpu: Path, tmp_path: Path) -> None:
        """A row for each job and for each moment, plots, and a page that loads nothing."""
        out = tmp_path / "new" / "folder"
        schemes = ("--scheme", "dally", "--scheme", "fifo", "--out", out)
        exit_code, printed, _ = run("simulate", "--jobs", trace, "--topology", one_gpu, *schemes)
        assert exit_code == 0
        assert str(out / "report.html") in printed
        with (out / "jobs.csv").open() as stream:
            jobs = list(csv.DictReader(stream))
        assert [(row["scheme"], row["job_id"]) for row in jobs] == [
            (scheme, job) for scheme in ("dally", "fifo") for job in "abc"
        ]
        assert (jobs[1]["jct_s"], jobs[1]["gang"], jobs[1]["leases"]) == ("141.0", "1", "1")
        assert jobs[1]["model"] in MODELS
        with (out / "series.csv").open() as stream:
            series = list(csv.DictReader(stream))
        assert list(series[0])[:4] == ["scheme", "time_s", "queued_jobs", "running_jobs"]
        assert float(series[0]["gpus_held"]) == 1
        plots = sorted((out / "plots").iterdir())
        assert [path.name for path in plots] == [
            *("distributions.svg", "network_costs.svg", "over_time.svg"),
        ]
        for path in plots:
            ElementTree.fromstring(path.read_text())
        page = (out / "report.html").read_text()
        names = r"http://www\.w3\.org/(2000/svg|1999/xlink)"  # of XML vocabularies, never loaded
        assert "://" not in re.sub(names, "", page)
        assert "1 rack, 1 machine." in page
        assert "Allocations: machine / rack / network" in page
        assert page.rstrip().endswith("</html>")
        assert "None" not in re.sub("<svg.*?</svg>", "", page, flags=re.DOTALL)


class TestBadInput:
    """One line that says what is wrong, and nothing written."""

    @pytest.mark.parametrize(
        ("arguments", "parts"),
        [
            ("--topology none.toml", ["none.toml", "cannot be read"]),
            ("--topology three.csv", ["three.csv", "TOML"]),
            ("--topology racks.toml --network dsl", ["--network", "'dsl'", "congested-3"]),
            ("--topology racks.toml --slowdowns none.csv", ["none.csv", "cannot be read"]),
            ("--topology racks.toml --slowdowns three.csv", ["three.csv", "line 1"]),
            (
                "--topology racks.toml --slowdowns three.csv --network shipped",
                ["--network says nothing with --slowdowns"],
            ),
            (
                "--topology racks.toml --slowdowns three.csv --overlap 0.5",
                ["--overlap says nothing with --slowdowns"],
            ),
            ("--topology racks.toml --overlap 2", ["--overlap", "'2'", "from 0 to 1"]),
            ("--topology racks.toml --lease-s 0", ["--lease-s", "'0'"]),
            ("--topology racks.toml --lease-s inf", ["--lease-s", "'inf'"]),
            ("--topology racks.toml --lease-s 1e-12", ["--lease-s", "'1e-12'", "from 1 to 1e+09"]),
            ("--topology racks.toml --lease-s 1e10", ["--lease-s", "'1e10'"]),
            ("--topology racks.toml --hand-over-s 1e308", ["--hand-over-s", "from 0 to 1e+09"]),
            ("--topology racks.toml --hand-over-s -1", ["--hand-over-s", "'-1'"]),
            ("--topology racks.toml --timers 6", ["--timers", "'6'", "two numbers"]),
            ("--topology racks.toml --timers 6,x", ["--timers", "'6,x'"]),
            ("--topology racks.toml --timers 6,-1", ["--timers", "'6,-1'"]),
            ("--topology racks.toml --timers 6,12", ["--timers", "without --scheme manual"]),
            ("--topology racks.toml --window-leases 0", ["--window-leases", "'0'"]),
            (
                "--topology racks.toml --scheme no-wait --window-leases 9",
                ["--window-leases says nothing without --scheme dally"],
            ),
            ("--topology racks.toml --scheme fifo --lease-s 60", ["--lease-s", "with leases"]),
            ("--topology racks.toml --round-s 60", ["--round-s", "decides in rounds"]),
            (
                "--topology racks.toml --scheme hadar --round-s 10 --restart-s 10",
                ["restart_s", "round_s"],
            ),
            ("--topology racks.toml --scheme best", ["'best'", "dally", "lyra", "hadar"]),
            *(
                (f"--topology racks.toml --scheme {name}", [f"--scheme {name}", reason])
                for name, reason in REFUSED.items()
            ),
            ("--topology racks.toml --servers 4", ["--servers says nothing with --topology"]),
            ("--topology racks.toml --gpus v100=1", ["--gpus says nothing with --topology"]),
            ("--topology racks.toml --scenario basic", ["--scenario", "with --topology"]),
            ("--topology racks.toml --capture-limit 3", ["--capture-limit", "without --capture"]),
            ("--topology racks.toml --jobs-per-day 5", ["--jobs-per-day", "dally-poisson"]),
            ("--topology racks.toml --jobs-per-day 0", ["--jobs-per-day", "'0'"]),
            ("--topology racks.toml --days 3", ["--days is for --jobs alone"]),
            ("--topology racks.toml --job-count 0", ["--job-count", "'0'"]),
            ("--topology one.toml", ["gang of 16", "1 GPU", "--drop-oversized"]),
            ("--topology racks.toml --out three.csv", ["--out three.csv", "is a file"]),
            ("--network shipped --scheme lyra", ["--network says nothing without --topology"]),
            ("--scheme dally", ["--workload dally-batch needs --topology"]),
        ],
    )
    def test_table(
        self,
        run: Run,
        trace: Path,
        one_gpu: Path,
        two_racks: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        arguments: str,
        parts: list[str],
    ) -> None:
        """Whatever is wrong is found before the first simulation."""
        before = {path.name: path.read_text() for path in tmp_path.iterdir()}
        monkeypatch.chdir(tmp_path)
        result = run("simulate", "--out", "out", *SMALL, *arguments.split(), "--json")
        assert_one_line_error(result, *parts)
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before

    @pytest.mark.parametrize(
        ("arguments", "parts"),
        [
            ("--jobs three.csv --servers 2 --lease-s 60", ["--lease-s", "with leases"]),
            ("--jobs three.csv --servers 2 --timers 1,2", ["--timers", "without --scheme manual"]),
            ("--jobs three.csv --servers 2 --network shipped", ["--network", "--topology"]),
            ("--jobs three.csv --topology one.toml --job-count 3", ["--job-count"]),
            ("--jobs three.csv --topology one.toml --vc x", ["three.csv", "vc"]),
            ("--workload lyra-like --topology one.toml", ["lyra-like", "dally-distributed"]),
            ("--workload mix-5 --topology one.toml", ["mix-5", "dally-distributed"]),
        ],
    )
    def test_workloads(
        self,
        run: Run,
        trace: Path,
        one_gpu: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        arguments: str,
        parts: list[str],
    ) -> None:
        """Jobs and schemes that do not go together."""
        monkeypatch.chdir(tmp_path)
        assert_one_line_error(run("simulate", *arguments.split()), *parts)

    def test_slowdowns_that_lack_a_line(self, run: Run, two_racks: Path, tmp_path: Path) -> None:
        """The file is named, with the model that it does not know, or the line that it lacks."""
        table = tmp_path / "slowdowns.csv"
        table.write_text("model,gpus,tier,slowdown\nmine,2,machine,1.5\n")
        given = ("simulate", "--topology", two_racks, "--slowdowns", table)
        assert_one_line_error(
            run(*given, *SMALL),
            f"{table}: has no lines for model",
            "which job",
            "trains; has: mine",
        )
        jobs = tmp_path / "jobs.csv"
        jobs.write_text(HEADER + "a,0,100,2\n")  # of which the table has one tier of three
        lacks = f"{table}: the slowdowns have no line for model 'mine' on 2 GPUs, tier rack"
        assert_one_line_error(run(*given, "--jobs", jobs), lacks)
        jobs.write_text("model," + HEADER + "yours,a,0,100,2\n")
        named = ("has no lines for model 'yours', which job a trains; has: mine",)
        assert_one_line_error(run(*given, "--jobs", jobs), *named)
        without = ("simulate", "--topology", two_racks, "--jobs", jobs)
        assert_one_line_error(run(*without), "job a trains 'yours'", "bert", "--slowdowns")

    def test_a_folder_that_cannot_be_made_costs_no_simulation(
        self, run: Run, two_racks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is found out first; one in which nothing was written in the end is gone again."""

        def interrupted(*given: object, **named: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("experiments.simulation.replay.replay", interrupted)
        given = ("simulate", "--topology", two_racks, *SMALL, "--out")
        # A name too long for any file system.
        assert_one_line_error(run(*given, tmp_path / "new" / ("x" * 300)), "cannot be made")
        assert run(*given, tmp_path / "new" / "folder")[0] == 130
        assert not (tmp_path / "new").exists()

    def test_a_scheme_that_fails(
        self, run: Run, two_racks: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It says so and is left out; the others are reported, and the exit code is 1."""
        policy = type(PLACEMENT_POLICIES["dally"]())
        monkeypatch.setattr(policy, "decide", lambda self, state: [])
        schemes = ("--scheme", "fifo", "--scheme", "dally")
        given = (*SMALL, "--topology", two_racks, *schemes, "--json")
        exit_code, out, err = run("simulate", *given)
        assert exit_code == 1
        assert [record["scheme"] for record in json.loads(out)] == ["fifo"]
        assert "error: scheme dally: policy dally, at" in err
        assert "Traceback" not in err


def test_settings_that_play_no_part_are_null(run: Run, two_racks: Path) -> None:
    """A lease means nothing to a scheme in rounds, nor a round to one with leases."""
    keys = ("lease_s", "hand_over_s_per_gpu", "round_s", "restart_s")
    schemes = [part for name in ("dally", "fifo", "hadar") for part in ("--scheme", name)]
    printed = run("simulate", *SMALL, "--topology", two_racks, *schemes, "--json")[1]
    assert [[record[key] for key in keys] for record in json.loads(printed)] == [
        [3600, 1, None, None],
        [None, None, None, None],
        [None, None, 360, 10],
    ]


def test_jobs_are_dallys_batch_unless_others_are_given(run: Run, two_racks: Path) -> None:
    """With a topology alone; without one nothing is assumed."""
    given = ("--topology", two_racks, "--job-count", 5, "--json")
    assert json.loads(run("simulate", *given)[1])["workload"].startswith("dally-batch-")
    assert_one_line_error(run("simulate"), "one of --jobs and --workload is required")


def test_example_topology(run: Run) -> None:
    """The one that is shipped is what its comments say."""
    given = ("--topology", files("instances.network") / "four-racks.toml", "--job-count", "3")
    record = json.loads(run("simulate", "--workload", "dally-batch", *given, "--json")[1])
    assert (record["racks"], record["machines"], record["gpus"]) == (4, 32, 256)
    assert (record["topology"], record["network"]) == ("four-racks", "shipped")


def test_help(run: Run) -> None:
    """It names all schemes where they belong, and which do not run such gangs, and why."""
    exit_code, out, _ = run("simulate", "--help")
    assert exit_code == 0
    title = "schemes with leases, on a network of tiers (--topology):\n"
    with_leases = out[out.index(title) :].split("\n\n")[0]
    refused = out[out.index("are refused by:") :].split("\n\n")[0]
    for name in scheme_names():
        assert f"\n  {name} " in out
        assert (f"\n  {name} " in with_leases) == (find_scheme(name).tenure == LEASES)
        assert (f"\n  {name} " in refused) == (name in REFUSED)
    for reason in REFUSED.values():
        assert reason in re.sub(r"\s+", " ", refused)
    assert max(map(len, out.splitlines())) <= 100


def test_help_without_a_package_that_is_broken(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what cannot be loaded, beside all that can."""
    broken = EntryPoint(name="odd", value="no_such_module:ODD", group="lyra_opt.schemes")
    points = {**SCHEMES._points, "odd": broken}
    monkeypatch.setattr(SCHEMES, "_points", points)
    exit_code, out, _ = run("simulate", "--help")
    assert exit_code == 0
    told = out[out.index("not to be had:") :].split("\n\n")[0]
    assert "scheme 'odd': no_such_module:ODD cannot be loaded" in told
    assert "\n  dally " in out

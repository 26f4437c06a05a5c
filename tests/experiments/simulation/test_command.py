"""``lyra-opt simulate`` from end to end, on traces small enough to follow by hand."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.loading import load_instance
from tests.conftest import assert_one_line_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

HEADER = "job_id,submit_time_s,duration_s,gpus\n"

# On one server of two GPUs, FIFO runs a, b, c one after the other; SJF takes c before b.
THREE_JOBS = HEADER + "a,0,100,2\nb,10,50,1\nc,20,30,2\n"

KEYS = [
    *("workload", "scenario", "scheme", "seed", "servers", "gpus_per_server"),
    *("inference_servers", "forecaster", "headroom", "load", "dropped", "jobs", "finished"),
    *("queue_mean_s", "queue_p50_s", "queue_p95_s", "queue_p99_s"),
    *("jct_mean_s", "jct_p50_s", "jct_p95_s", "jct_p99_s", "makespan_s"),
    *("training_usage", "overall_usage", "preemptions", "preemptions_per_submission"),
    *("collateral_share", "loans", "reclaims", "returned_servers", "scaling_operations"),
    *("loan_usage", "training_usage_while_submitting", "overall_usage_while_submitting"),
    *("inference_shortfall_share", "wall_time_s", "jobs_per_cpu_s", "assumptions"),
]
MEASURED = ("wall_time_s", "jobs_per_cpu_s")

# Long enough for elastic jobs to be on loan at times.
BUSY = ("--workload", "lyra-like", "--servers", "20", "--days", "2")
SMALL = ("--workload", "lyra-like", "--servers", "10", "--days", "1")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return the trace of three jobs."""
    path = tmp_path / "three.csv"
    path.write_text(THREE_JOBS)
    return path


@pytest.fixture
def simulate(run: Run, trace: Path) -> Callable[..., tuple[int, str, str]]:
    """Return a function that simulates the three jobs on one server of two GPUs."""

    def simulate_trace(*arguments: object) -> tuple[int, str, str]:
        given = ("--jobs", trace, "--servers", 1, "--gpus-per-server", 2, *arguments)
        return run("simulate", *given)

    return simulate_trace


class TestFigures:
    """What is printed is what happens."""

    @pytest.mark.parametrize(
        ("scheme", "queue_mean_s", "queue_p50_s", "jct_mean_s"),
        [("fifo", (0 + 90 + 130) / 3, 90, 400 / 3), ("sjf", (0 + 120 + 80) / 3, 80, 380 / 3)],
    )
    def test_list_schedules(
        self, simulate: Run, scheme: str, queue_mean_s: float, queue_p50_s: float, jct_mean_s: float
    ) -> None:
        """Two schedules that are quickly drawn by hand."""
        exit_code, out, err = simulate("--scheme", scheme, "--json")
        record = json.loads(out)
        assert exit_code == 0
        assert list(record) == KEYS
        assert record["jobs"] == record["finished"] == 3
        assert record["queue_mean_s"] == pytest.approx(queue_mean_s)
        assert record["queue_p50_s"] == queue_p50_s
        assert record["jct_mean_s"] == pytest.approx(jct_mean_s)
        assert record["makespan_s"] == 180
        assert record["training_usage"] == record["overall_usage"] == pytest.approx(310 / 360)
        assert record["training_usage_while_submitting"] == pytest.approx(1, abs=0.01)
        for key in ("forecaster", "headroom", "collateral_share", "loan_usage"):
            assert record[key] is None
        assert "3 jobs over 0.0 days ask for 775.0 % of 2 GPUs" in err

    def test_all_at_one_moment(self, run: Run, tmp_path: Path) -> None:
        """There is no load then, and JSON has no infinity."""
        path = tmp_path / "jobs.csv"
        path.write_text(HEADER + "a,5,100,1\nb,5,50,1\n")
        record = json.loads(run("simulate", "--jobs", path, "--servers", 1, "--json")[1])
        assert record["load"] is None
        assert record["training_usage_while_submitting"] is None
        assert record["makespan_s"] == 100

    def test_side_by_side(self, simulate: Run) -> None:
        """Several schemes are an array, and columns of a table; a repeated one counts once."""
        schemes = ("--scheme", "fifo", "--scheme", "sjf", "--scheme", "fifo")
        records = json.loads(simulate(*schemes, "--json")[1])
        assert [record["scheme"] for record in records] == ["fifo", "sjf"]
        out = simulate(*schemes)[1]
        assert re.search(r"Queuing time, mean \(s\) +73.3 +66.7\n", out)
        assert re.search(r"Training usage \(%\) +86.1 +86.1\n", out)
        assert "- Each worker of the trace's jobs holds one GPU" in out

    def test_a_trace_is_plain_unless_told_otherwise(self, simulate: Run) -> None:
        """Elasticity is assumed only where it is asked for, and said to be."""
        plain = json.loads(simulate("--json")[1])
        assert plain["scenario"] == "plain"
        assert plain["scheme"] == "lyra"
        assert not any("Assumed by seed" in sentence for sentence in plain["assumptions"])
        ideal = json.loads(simulate("--json", "--scenario", "ideal")[1])
        assert any("100 % elastic" in sentence for sentence in ideal["assumptions"])

    def test_dropping_oversized_jobs(self, simulate: Run, trace: Path) -> None:
        """They are counted."""
        trace.write_text(THREE_JOBS + "d,30,10,3\ne,40,10,64\n")
        exit_code, out, err = simulate("--drop-oversized", "--json")
        assert exit_code == 0
        assert json.loads(out)["dropped"] == 2
        assert json.loads(out)["jobs"] == 3
        assert "2 jobs larger than the cluster left out" in err

    def test_generated_clusters_keep_their_proportions(self, run: Run) -> None:
        """A smaller cluster borrows from a smaller one, unless told otherwise."""
        arguments = ("simulate", *SMALL, "--scheme", "fifo", "--json")
        assert json.loads(run(*arguments)[1])["inference_servers"] == 12
        record = json.loads(run(*arguments, "--inference-servers", 0)[1])
        assert record["inference_servers"] == 0
        assert record["overall_usage"] == record["training_usage"]

    def test_loans(self, run: Run, tmp_path: Path) -> None:
        """A usage series stands for the demand; the oracle never lends what will be missed."""
        usage = tmp_path / "usage.csv"
        rows = [
            f"2020-05-01 {minute // 60:02d}:{minute % 60:02d}:00,100,{50 + minute % 40}"
            for minute in range(0, 600, 5)
        ]
        usage.write_text("time,total_gpu_num,running_gpu_num\n" + "\n".join(rows) + "\n")
        given = ("simulate", *SMALL, "--inference-usage", usage, "--forecaster", "oracle", "--json")
        record = json.loads(run(*given, "--headroom", "0.1")[1])
        assert record["forecaster"] == "oracle"
        assert record["headroom"] == 0.1
        assert record["loans"] > 0
        assert record["reclaims"] > 0
        assert record["inference_shortfall_share"] == 0
        assert any("measured share of GPUs" in sentence for sentence in record["assumptions"])

    def test_schemes_of_other_kinds(self, run: Run) -> None:
        """Rules in rounds and with leases run on the same servers, and borrow some too."""
        names = ("lyra", "hadar", "dally")
        schemes = [part for name in names for part in ("--scheme", name)]
        given = (*SMALL, *schemes, "--round-s", 600, "--hand-over-s", 0)
        exit_code, out, err = run("simulate", *given, "--json")
        assert exit_code == 0, err
        records = json.loads(out)
        assert [record["scheme"] for record in records] == list(names)
        for record in records:
            assert list(record) == KEYS
            assert record["finished"] == record["jobs"] == records[0]["jobs"]
            assert record["loans"] == records[0]["loans"] > 0
            assert record["inference_shortfall_share"] is not None
        for record, part in zip(
            records,
            ("starts again from its last checkpoint", "is decided every 600 s", "after 3600 s"),
            strict=True,
        ):
            told = [text for text in record["assumptions"] if text.startswith("Simulated")]
            assert len(told) == 1
            assert part in told[0]

    def test_same_seed_same_files(self, run: Run, tmp_path: Path) -> None:
        """Everything but times, decisions kept included; another seed gives another run."""

        def files(name: str, seed: int) -> dict[str, bytes]:
            out, capture = tmp_path / name / "out", tmp_path / name / "capture"
            schemes = ("--scheme", "lyra", "--scheme", "random")
            seeded = ("--seed", seed, "--out", out, "--capture", capture)
            exit_code, printed, _ = run("simulate", *SMALL, *schemes, *seeded, "--json")
            assert exit_code == 0
            records = json.loads(printed)
            assert json.loads((out / "metrics.json").read_text()) == records
            for record in records:
                for key in MEASURED:
                    del record[key]
            found = {"metrics": json.dumps(records).encode()}
            for path in (out / "jobs.csv", out / "series.csv", *capture.iterdir()):
                found[path.name] = path.read_bytes()
            return found

        first = files("first", 1)
        assert files("again", 1) == first
        assert files("other", 2) != first


class TestFiles:
    """What --out and --capture write."""

    def test_tables(self, simulate: Run, tmp_path: Path) -> None:
        """A row for each scheme and job, and for each scheme and moment."""
        out = tmp_path / "new" / "folder"
        exit_code, printed, _ = simulate("--scheme", "fifo", "--scheme", "sjf", "--out", out)
        assert exit_code == 0
        assert str(out / "report.html") in printed
        with (out / "jobs.csv").open() as stream:
            jobs = list(csv.DictReader(stream))
        assert [(row["scheme"], row["job_id"], row["start_s"]) for row in jobs] == [
            *(("fifo", "a", "0.0"), ("fifo", "b", "100.0"), ("fifo", "c", "150.0")),
            *(("sjf", "a", "0.0"), ("sjf", "b", "130.0"), ("sjf", "c", "100.0")),
        ]
        assert jobs[2]["queued_s"] == "130.0"
        assert jobs[2]["jct_s"] == "160.0"
        assert jobs[2]["held_gpu_s"] == "60.0"
        assert jobs[2]["ran_on_loan"] == "false"
        with (out / "series.csv").open() as stream:
            series = list(csv.DictReader(stream))
        last = series[-1]
        assert (last["scheme"], last["time_s"], last["running_jobs"]) == ("sjf", "180.0", "0.0")

    def test_series_without_inference_servers(self, run: Run, tmp_path: Path) -> None:
        """Means over steps of 25 s, a 4,000th of the makespan, although no servers move."""
        trace = tmp_path / "jobs.csv"
        trace.write_text(HEADER + "a,0,100000,4\nb,1010,300,8\n")
        run("simulate", "--jobs", trace, "--servers", 1, "--scheme", "fifo", "--out", tmp_path)
        with (tmp_path / "series.csv").open() as stream:
            rows = list(csv.DictReader(stream))
        assert [float(row["time_s"]) for row in rows] == [25 * step for step in range(4013)]
        queued = {float(row["time_s"]): float(row["queued_jobs"]) for row in rows}
        waits = range(1025, 100_000, 25)
        # In the step from 1000 s on, one job waits for 15 of 25 s.
        assert queued == {
            **dict.fromkeys(queued, 0),
            1000: pytest.approx(0.6),
            **dict.fromkeys(waits, 1),
        }
        held = {float(row["time_s"]): float(row["training_gpus_held"]) for row in rows}
        assert (held[0], held[99_975], held[100_000], held[100_300]) == (4, 4, 8, 0)

    def test_series_counts_no_waits_of_no_time(self, run: Run, tmp_path: Path) -> None:
        """A job that is preempted and starts again at once does not wait for five minutes."""
        given = ("simulate", "--workload", "lyra-like", "--servers", 40, "--days", 1)
        record = json.loads(run(*given, "--out", tmp_path, "--json")[1])
        assert record["preemptions"] > 0, "or the test says nothing"
        assert record["queue_mean_s"] == 0, "or the test says nothing"
        with (tmp_path / "series.csv").open() as stream:
            rows = list(csv.DictReader(stream))
        assert {row["queued_jobs"] for row in rows} == {"0.0"}
        assert float(rows[0]["running_jobs"]) > 0
        assert rows[-1]["running_jobs"] == "0.0"
        times = [float(row["time_s"]) for row in rows]
        assert times == sorted(set(times))

    def test_page_needs_no_other_file(self, run: Run, tmp_path: Path) -> None:
        """Plots are drawn into it, with nothing that a browser would load."""
        given = ("simulate", *SMALL, "--scheme", "fifo", "--scheme", "lyra", "--out", tmp_path)
        assert run(*given)[0] == 0
        page = (tmp_path / "report.html").read_text()
        links = _Links()
        links.feed(page)
        assert all(link.startswith("#") for link in links.loaded)
        assert links.tags.count("svg") == 3
        assert not {"script", "link", "img", "iframe", "object"} & set(links.tags)
        names = r"http://www\.w3\.org/(2000/svg|1999/xlink)"  # of XML vocabularies, never loaded
        assert "://" not in re.sub(names, "", page)
        plots = sorted((tmp_path / "plots").iterdir())
        assert [path.name for path in plots] == ["distributions.svg", "loans.svg", "over_time.svg"]
        for path in plots:
            ElementTree.fromstring(path.read_text())

    def test_time_axes_leave_out_what_only_drains(self, run: Run, tmp_path: Path) -> None:
        """One job of many days does not squeeze the others into a corner."""
        trace, out = tmp_path / "jobs.csv", tmp_path / "out"
        short = "".join(f"s{number},{60 * number},600,1\n" for number in range(199))
        given = ("simulate", "--jobs", trace, "--servers", 3, "--scheme", "fifo", "--out", out)
        trace.write_text(HEADER + short)
        run(*given)
        assert "Cut off" not in (out / "report.html").read_text()
        trace.write_text(HEADER + short + "long,20000,1000000,1\n")
        run(*given)
        page = (out / "report.html").read_text()
        assert "Cut off on the right, where 99 % of the jobs are complete." in page
        assert "Time since the first submission (hours)" in page

    def test_page_escapes_names(self, run: Run, tmp_path: Path) -> None:
        """A file may be called anything."""
        trace = tmp_path / "a<b>$x$.csv"
        trace.write_text(THREE_JOBS)
        given = ("--servers", 1, "--scheme", "fifo", "--out", tmp_path / "out")
        assert run("simulate", "--jobs", trace, *given)[0] == 0
        assert "<h1>a&lt;b&gt;$x$</h1>" in (tmp_path / "out" / "report.html").read_text()

    def test_captured_decisions_are_solved(self, run: Run, tmp_path: Path) -> None:
        """They are instance files like any others, under names of their own."""
        schemes = ("--scheme", "fifo", "--scheme", "lyra", "--scheme", "least-loss")
        folder = tmp_path / "decisions"
        exit_code, _, err = run("simulate", *BUSY, *schemes, "--capture", folder)
        assert exit_code == 0
        assert "scheme fifo puts no decision to a solver: nothing captured" in err
        found = r"(\d+) of [\d,]+ {} decisions"
        samples = "contested allocation", "easy allocation", "contested reclaim", "easy reclaim"
        counts = ", ".join(found.format(sample) for sample in samples)
        summary = re.search(rf"scheme lyra: captured {counts}\n", err)
        assert summary is not None
        kept = dict(zip(samples, map(int, summary.groups()), strict=True))
        assert kept["easy reclaim"] == 50
        assert kept["contested reclaim"] > 0
        files = sorted(folder.iterdir())
        kinds = [path.name.split("-at-")[0] for path in files]
        assert {kind.replace("-easy", "").replace("-contested", "") for kind in kinds} == {
            *("reclaim-lyra", "reclaim-least-loss"),
            *("allocation-lyra-training", "allocation-lyra-loan"),
            *("allocation-least-loss-training", "allocation-least-loss-loan"),
        }
        for sample, count in kept.items():
            name, kind = sample.split()
            assert sum(found.startswith(f"{kind}-{name}-lyra") for found in kinds) == count
        instances = [load_instance(path).instance for path in files]
        assert len({instance.name for instance in instances}) == len(files)
        chosen = [next(path for path in files if path.name.startswith(kind)) for kind in set(kinds)]
        exit_code, out, _ = run("solve", *chosen, "--json")
        assert exit_code == 0
        assert all(answer["objective"] is not None for answer in json.loads(out))
        for contested, costs in (("easy", {False}), ("contested", {True})):
            these = [path for path in files if path.name.startswith(f"reclaim-{contested}-lyra")]
            answers = json.loads(run("solve", *these, "--solver", "lyra-greedy", "--json")[1])
            assert {answer["objective"] > 0 for answer in answers} == costs

    def test_capture_limit(self, run: Run, tmp_path: Path) -> None:
        """It holds for contested and easy decisions by themselves."""
        given = ("simulate", *SMALL, "--capture", tmp_path, "--capture-limit", 2)
        assert run(*given)[0] == 0
        kinds = Counter(path.name.split("-lyra-")[0] for path in tmp_path.iterdir())
        assert kinds["reclaim-easy"] == kinds["allocation-easy"] == 2
        assert max(kinds.values()) == 2

    def test_traces_are_looked_for_in_their_folder(
        self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Jobs and usage both; what is there as given comes first."""
        folder, here = tmp_path / "traces", tmp_path / "here"
        folder.mkdir()
        here.mkdir()
        (folder / "jobs.csv").write_text(THREE_JOBS)
        rows = [f"2020-05-01 00:{minute:02d}:00,100,50\n" for minute in range(0, 60, 5)]
        usage = "time,total_gpu_num,running_gpu_num\n" + "".join(rows)
        (folder / "usage.csv").write_text(usage)
        monkeypatch.chdir(here)
        given = ("simulate", "--jobs", "jobs.csv", "--servers", 1, "--json")
        loans = ("--inference-servers", 2, "--inference-usage", "usage.csv")
        monkeypatch.delenv("LYRA_OPT_TRACES", raising=False)
        assert_one_line_error(run(*given), "jobs.csv: cannot be read")
        monkeypatch.setenv("LYRA_OPT_TRACES", str(folder))
        record = json.loads(run(*given, *loans)[1])
        assert record["jobs"] == 3
        assert any("covers 0.0417 days" in sentence for sentence in record["assumptions"])
        (here / "jobs.csv").write_text(HEADER + "a,0,100,2\n")
        assert json.loads(run(*given)[1])["jobs"] == 1


class _Links(HTMLParser):
    """Collects what a page would load, and which elements it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "data", "srcset") and value:
                self.loaded.append(value)


class TestBadInput:
    """One line that says what is wrong, and nothing written."""

    @pytest.mark.parametrize(
        ("arguments", "parts"),
        [
            ("", ["--jobs", "--workload", "required"]),
            ("--jobs three.csv --workload lyra-like", ["not allowed with"]),
            ("--jobs three.csv", ["--jobs needs --servers"]),
            ("--jobs none.csv --servers 1", ["none.csv", "cannot be read"]),
            ("--jobs bad.csv --servers 1", ["bad.csv", "row 3", "duration_s", '"soon"']),
            ("--jobs . --servers 1", ["cannot be read", "directory"]),
            ("--jobs big.csv --servers 1", ["big.csv", "job b", "64 GPUs", "--drop-oversized"]),
            ("--jobs three.csv --servers 1 --gpus-per-server 1", ["three.csv", "job a", "2 GPUs"]),
            ("--jobs huge.csv --servers 1 --drop-oversized", ["huge.csv", "no job fits"]),
            ("--jobs three.csv --servers 1 --vc x", ["three.csv", "vc"]),
            ("--jobs three.csv --servers 1 --headroom 0.1", ["--headroom", "--inference-servers"]),
            ("--workload other", ["workload 'other'", "lyra-like", "mix-12", "dally-batch"]),
            ("--workload lyra-like --scheme best", ["scheme 'best'", "least-loss"]),
            ("--workload lyra-like --scenario odd", ["scenario 'odd'", "heterogeneous"]),
            ("--workload lyra-like --servers 0", ["--servers", "'0'"]),
            ("--workload lyra-like --servers -4", ["--servers", "'-4'"]),
            ("--workload lyra-like --inference-servers -1", ["--inference-servers", "'-1'"]),
            ("--workload lyra-like --gpus-per-server 0", ["--gpus-per-server", "'0'"]),
            ("--workload lyra-like --days 0", ["--days", "'0'"]),
            ("--workload lyra-like --days 1.5", ["--days", "'1.5'"]),
            ("--workload lyra-like --seed -1", ["--seed", "'-1'"]),
            ("--workload lyra-like --headroom 1.1", ["--headroom", "from 0 to 1"]),
            ("--workload lyra-like --headroom nan", ["--headroom", "from 0 to 1"]),
            ("--workload lyra-like --days 1 --forecaster luck", ["'luck'", "seasonal"]),
            ("--workload lyra-like --vc x", ["--vc", "--jobs"]),
            (
                "--workload lyra-like --drop-oversized",
                ["--drop-oversized says nothing with --workload lyra-like"],
            ),
            ("--workload lyra-like --days 1 --inference-usage three.csv", ["three.csv", "time"]),
            ("--workload lyra-like --capture three.csv", ["--capture", "is a file"]),
            ("--workload lyra-like --capture three.csv/x", ["--capture", "is a file"]),
            ("--workload lyra-like --out three.csv", ["--out three.csv", "is a file"]),
            ("--workload lyra-like --out three.csv/x", ["--out three.csv/x", "is a file"]),
            ("--workload lyra-like --capture-limit 5", ["--capture-limit", "without --capture"]),
            ("--workload lyra-like --capture x --capture-limit 0", ["--capture-limit", "'0'"]),
        ],
    )
    def test_table(
        self,
        run: Run,
        trace: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        arguments: str,
        parts: list[str],
    ) -> None:
        """Whatever is wrong is found before the first simulation."""
        (tmp_path / "bad.csv").write_text(HEADER + "a,0,100,2\nb,10,soon,1\n")
        (tmp_path / "huge.csv").write_text(HEADER + "a,0,100,200\n")
        (tmp_path / "big.csv").write_text(HEADER + "a,0,100,2\nb,0,100,64\n")
        before = {path.name: path.read_text() for path in tmp_path.iterdir()}
        monkeypatch.chdir(tmp_path)
        result = run("simulate", "--out", "out", *arguments.split(), "--json")
        assert_one_line_error(result, *parts)
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before

    @pytest.mark.parametrize(
        ("content", "parts"),
        [
            ("", ["the file is empty"]),
            (HEADER, ["has a header, but no rows"]),
            ("job_id,submit_time_s,gpus\na,0,1\n", ["lacks the column duration_s"]),
            (HEADER + "a,0,100\n", ["row 2 has 3 fields"]),
            (HEADER + "a,0,100,two\n", ["row 2, column gpus", '"two"']),
            (HEADER + "a,0,100,1.5\n", ["row 2, column gpus", '"1.5"']),
            (HEADER + "a,0,100,0\n", ["row 2, column gpus", '"0"']),
            (HEADER + "a,0,100,-1\n", ["row 2, column gpus", '"-1"']),
            (HEADER + "a,-1,100,1\n", ["row 2, column submit_time_s", '"-1"']),
            (HEADER + "a,0,-100,1\n", ["row 2, column duration_s", '"-100"']),
            (HEADER + "a,0,100,1\nb,nan,100,1\n", ["row 3, column submit_time_s", '"nan"']),
            (HEADER + "a,0,inf,1\n", ["row 2, column duration_s", '"inf"']),
            (HEADER + "a,1e400,100,1\n", ["row 2, column submit_time_s", '"1e400"']),
            (HEADER + "a,0,0,1\n", ["holds no jobs", "ran for no time"]),
            ('[{"jobid": "a"}]', ["[0].vc is missing"]),
            ('[{"jobid"', ["is not valid JSON"]),
        ],
    )
    def test_malformed_jobs(
        self, simulate: Run, trace: Path, tmp_path: Path, content: str, parts: list[str]
    ) -> None:
        """File, row, column, value and rule."""
        trace.write_text(content)
        written = ("--out", tmp_path / "out", "--capture", tmp_path / "capture")
        assert_one_line_error(simulate(*written, "--json"), str(trace), *parts)
        assert [path.name for path in tmp_path.iterdir()] == ["three.csv"]

    def test_failed_check(
        self, simulate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """GPU-seconds that are not conserved are an error, and the run's figures not shown."""

        def refuse(simulation: Any) -> None:
            if simulation.policy.name == "fifo":
                raise AssertionError("jobs held 3 GPU-seconds, but the cluster gave 2")

        monkeypatch.setattr("experiments.simulation.carried_out.require_conserved", refuse)
        exit_code, out, err = simulate("--scheme", "fifo", "--out", tmp_path / "out")
        assert exit_code == 1
        assert out == ""
        assert "scheme fifo: the simulation is wrong: jobs held 3 GPU-seconds" in err
        assert not (tmp_path / "out").exists()
        # Other schemes are shown all the same, still as an array.
        exit_code, out, _ = simulate("--scheme", "fifo", "--scheme", "sjf", "--json")
        assert exit_code == 1
        assert [record["scheme"] for record in json.loads(out)] == ["sjf"]

    def test_interrupt(
        self, simulate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ctrl-C leaves nothing behind."""

        def interrupt(simulation: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("experiments.simulation.carried_out.require_conserved", interrupt)
        written = ("--out", tmp_path / "out", "--capture", tmp_path / "capture")
        exit_code, out, err = simulate("--scheme", "fifo", *written)
        assert exit_code == 130
        assert out == ""
        assert err.endswith("lyra-opt: interrupted\n")
        assert [path.name for path in tmp_path.iterdir()] == ["three.csv"]


def test_help(run: Run) -> None:
    """Schemes, scenarios and examples, without loading what simulates."""
    exit_code, out, _ = run("simulate", "--help")
    assert exit_code == 0
    for part in ("\n  lyra-exact ", "\n  heterogeneous ", "\nexamples:\n", "130 after Ctrl-C"):
        assert part in out
    assert max(map(len, out.splitlines())) <= 100

"""``lyra-opt simulate`` from end to end, on traces that can be followed by hand."""

import json
import os
import re
from collections import Counter
from itertools import product

import pandas as pd
import pytest

from lyra_opt.core.loading import load_instance
from lyra_opt.experiments.frames import load_study
from lyra_opt.experiments.store import table_path
from tests.conftest import assert_one_line_error
from tests.experiments.simulation.conftest import (
    HEADER,
    ONE_SERVER,
    SMALL,
    THREE_JOBS,
    assert_figures,
    changes,
    figures,
    schemes,
)
from tests.tables import tables

TABLES = tables(__file__)
MEASURED = ("wall_time_s", "jobs_per_cpu_s", "decision_mean_s", "decision_p99_s", "decision_max_s")

# Long enough for elastic jobs to be on loan at times.
BUSY = ("lyra-paper", *changes("cluster.servers=20", "jobs.parameters.days=2"))


class TestFigures:
    """The printed figures are right."""

    def test_loans(self, simulate, tmp_path):
        """A usage series is the demand; with the oracle, lent servers are never missed."""
        usage = tmp_path / "usage.csv"
        rows = [
            f"2020-05-01 {minute // 60:02d}:{minute % 60:02d}:00,100,{50 + minute % 40}"
            for minute in range(0, 600, 5)
        ]
        usage.write_text("time,total_gpu_num,running_gpu_num\n" + "\n".join(rows) + "\n")
        given = changes(
            *(f"cluster.loans.usage={usage}", "cluster.loans.forecaster=oracle"),
            "cluster.loans.headroom=0.1",
        )
        record = figures(simulate(*SMALL, *given, "--scheme", "lyra", "--format=json"))
        asked = {"forecaster": "oracle", "headroom": 0.1, "inference_shortfall_share": 0}
        assert_figures(record, asked)
        assert min(record["loans"], record["reclaims"]) > 0
        assert any("measured share of GPUs" in sentence for sentence in record["assumptions"])


class TestRuns:
    """Seeds, axes, processes, and the files of a results folder."""

    def test_seeds(self, simulate):
        """There is a replay per seed, and a table of means; repeated seeds count once."""
        given = (*SMALL, "--scheme", "fifo", "--seed", 4, "--seed", 7, "--seed", 4)
        records = figures(simulate(*given, "--format=json"))
        assert [record["seed"] for record in records] == [4, 7]
        assert records[0]["jct_mean_s"] != records[1]["jct_mean_s"]
        out = simulate(*given)[1]
        assert "on 10x8, means over 2 seeds (least – greatest):" in out
        means_s = sorted(record["jct_mean_s"] for record in records)
        mean_s = sum(means_s) / 2
        spread = " – ".join(f"{each_s / 3600:.2f}" for each_s in means_s)
        assert re.search(
            rf"^JCT, mean \(hours\) +{mean_s / 3600:.2f} \({spread}\)$", out, re.MULTILINE
        )
        assert "Each seed draws its own jobs." in out
        given = (*SMALL, "--scheme", "fifo", *changes("seeds=[4, 7]"), "--format=json")
        of_file = sorted(record["jct_mean_s"] for record in figures(simulate(*given)))
        assert of_file == means_s

    def test_axes(self, three_jobs, tmp_path):
        """The axes are columns of the data frame, and all combinations are rows."""
        given = changes('axes={"cluster.servers" = [1, 2], "jobs.count" = [2, 3]}')
        assert three_jobs(*given, *schemes("fifo", "sjf"), "--out", tmp_path / "out")[0] == 0
        rows = load_study(tmp_path / "out").set_index(["cluster.servers", "jobs.count", "scheme"])
        assert [*rows.index] == [*product((1, 2), (2, 3), ("fifo", "sjf"))]
        assert rows.jct_mean_s[2, 2, "fifo"] == 75  # each job on a server of its own
        assert rows.jct_mean_s[1, 3, "sjf"] == pytest.approx(380 / 3)

    def test_tables(self, three_jobs, tmp_path):
        """The tables of jobs and of the cluster over time are each read by one line of pandas."""
        out = tmp_path / "new" / "folder"
        exit_code, printed, _ = three_jobs(*schemes("fifo", "sjf"), "--out", out)
        assert exit_code == 0
        assert str(out / "report.html") in printed
        jobs = pd.read_csv(out / "runs" / "fifo seed=0" / "jobs.csv.gz")
        columns = TABLES["table_of_jobs"]
        assert jobs[list(columns)].to_dict("list") == columns
        nothing = jobs[["deadline_s", "gpu_types", "missed_deadline", "cost"]]
        assert nothing.isna().to_numpy().all(), "nobody asks for it"
        assert [*pd.read_csv(table_path(out, "sjf seed=0", "jobs")).start_s] == [0, 130, 100]
        series = pd.read_csv(table_path(out, "sjf seed=0", "series"))
        moments = series.iloc[[0, -1]][["time_s", "running_jobs", "own_gpus_held"]]
        assert moments.to_numpy().tolist() == [[0, 1, 2], [180, 0, 0]]
        held_gpu_s = (series.own_gpus_held[:-1] * series.time_s.diff()[1:].to_numpy()).sum()
        assert held_gpu_s == pytest.approx(310)

    def test_same_seed_same_files(self, run, tmp_path):
        """One process and two processes write the same files; another seed gives another run."""

        def files(name, seed, processes):
            out, capture = tmp_path / name / "out", tmp_path / name / "capture"
            named = schemes("lyra", "random")
            written = ("--seed", seed, "--out", out, "--capture", capture, "--format=json")
            given = ("simulate", *SMALL, *named, *written, "--processes", processes)
            exit_code, printed, _ = run(*given)
            assert exit_code == 0
            records = json.loads(printed)
            for record in records:
                for key in MEASURED:
                    record.pop(key, None)
            found = {"figures": json.dumps(records).encode()}
            for path in (*out.glob("runs/*/*"), *capture.iterdir()):
                found[f"{path.parent.name}/{path.name}"] = path.read_bytes()
            return found

        first = files("first", 1, 1)
        assert len(first) > 5
        assert files("again", 1, 2) == first
        assert files("other", 2, 1) != first

    def test_resuming_repeats_nothing(self, three_jobs, tmp_path, monkeypatch):
        """Runs that finished before an interrupt are kept; a store of other jobs is refused."""
        from lyra_opt.experiments.simulation.running import tasks

        ran: list[str] = []

        def counting(setup, scheme, **others):
            ran.append(scheme.name)
            if ran == ["fifo", "sjf"]:
                raise KeyboardInterrupt
            return original(setup, scheme, **others)

        original = tasks.replay
        monkeypatch.setattr(tasks, "replay", counting)
        exit_code, out, err = three_jobs(*schemes("fifo", "sjf", "lyra"))
        assert (exit_code, out) == (130, "")
        assert "interrupted: 1 of 3 runs are done; use --out to keep them" in err
        ran.clear()
        given = (*schemes("fifo", "sjf", "lyra"), "--out", tmp_path / "out")
        exit_code, out, err = three_jobs(*given)
        assert (exit_code, out) == (130, "")
        assert "interrupted: 1 of 3 runs are stored; continue with --resume" in err
        assert_one_line_error(three_jobs(*given), "already exists; add --resume")
        other = (*given, *changes("cluster.servers=2"), "--resume")
        assert_one_line_error(three_jobs(*other), "has results of another study")
        exit_code, out, err = three_jobs(*given, "--resume", "--format=json")
        assert exit_code == 0, err
        assert ran == ["fifo", "sjf", "sjf", "lyra"]
        assert "2 runs to do, 1 already stored" in err
        assert [record["scheme"] for record in json.loads(out)] == ["fifo", "sjf", "lyra"]

    def test_the_store_keeps_the_scenario(self, three_jobs, tmp_path):
        """The text of the scenario is kept word for word, below the changes of the command line."""
        from lyra_opt.experiments.simulation.running.replays import load_replays

        three_jobs("--out", tmp_path / "out")
        text = load_replays(tmp_path / "out").study.text
        assert "# run with cluster.servers = 1\n" in text
        assert f"# run with the jobs of {tmp_path / 'three.csv'}\n" in text
        assert "[cluster]\ngpus_per_server = 8\n" in text


class TestCapture:
    """Decisions of a simulation become instances."""

    def test_captured_decisions_are_instances(self, simulate, tmp_path):
        """Captured decisions are ordinary instance files with unique names."""
        folder = tmp_path / "decisions"
        named = schemes("fifo", "lyra", "least-loss")
        exit_code, _, err = simulate(*BUSY, *named, "--capture", folder)
        assert exit_code == 0
        assert "scheme fifo asks no solver to decide: no decisions captured" in err
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

    def test_how_many_and_which(self, simulate, tmp_path):
        """The limit applies to contested and to easy decisions separately."""
        given = (*SMALL, "--scheme", "lyra", "--capture", tmp_path)
        assert simulate(*given, *changes("capture.most=2", 'capture.kinds=["reclaim"]'))[0] == 0
        kinds = Counter(path.name.split("-lyra-")[0] for path in tmp_path.iterdir())
        assert kinds["reclaim-easy"] == max(kinds.values()) == 2
        assert set(kinds) <= {"reclaim-easy", "reclaim-contested"}

    @pytest.mark.parametrize("axes", ["", '"cluster.servers" = [1, 2]'])
    def test_decisions_of_all_runs_are_kept(self, three_jobs, tmp_path, axes):
        """Runs that differ only in an axis or a seed do not overwrite each other's files."""
        given = (*changes(f"axes={{{axes}}}"), "--scheme", "hadar", "--seed", 0, "--seed", 1)
        exit_code, _, err = three_jobs(*given, "--capture", tmp_path / "kept")
        assert exit_code == 0, err
        counts = re.findall(r"(\d+) of [\d,]+ \w+ heterogeneous decisions", err)
        assert len(counts) >= 2
        assert len(list((tmp_path / "kept").iterdir())) == sum(map(int, counts))


class TestTraces:
    """The folders in which files are looked for."""

    def test_in_their_folder(self, simulate, tmp_path, monkeypatch):
        """Jobs and usage are looked for as given first, then in the folder of traces."""
        folder, here = tmp_path / "traces", tmp_path / "here"
        folder.mkdir()
        here.mkdir()
        (folder / "jobs.csv").write_text(THREE_JOBS)
        rows = [f"2020-05-01 00:{minute:02d}:00,100,50\n" for minute in range(0, 60, 5)]
        usage = "time,total_gpu_num,running_gpu_num\n" + "".join(rows)
        (folder / "usage.csv").write_text(usage)
        monkeypatch.chdir(here)
        given = ("plain", "--jobs", "jobs.csv", *ONE_SERVER, "--format=json")
        loans = changes("cluster.loans.servers=2", "cluster.loans.usage=usage.csv")
        monkeypatch.delenv("LYRA_OPT_TRACES", raising=False)
        assert_one_line_error(simulate(*given), "jobs.csv: does not exist", "LYRA_OPT_TRACES")
        monkeypatch.setenv("LYRA_OPT_TRACES", str(folder))
        record = figures(simulate(*given, *loans))
        assert record["jobs"] == 3
        assert any("covers 0.0417 days" in sentence for sentence in record["assumptions"])
        (here / "jobs.csv").write_text(HEADER + "a,0,100,2\n")
        assert figures(simulate(*given))["jobs"] == 1

    def test_pipes(self, simulate, tmp_path):
        """Pipes are refused at once, because a pipe without a writer would block."""
        pipe = tmp_path / "pipe.toml"
        os.mkfifo(pipe)
        assert_one_line_error(simulate(pipe), str(pipe), "must be a regular file")
        given = ("plain", *ONE_SERVER, "--jobs", pipe)
        assert_one_line_error(simulate(*given), str(pipe), "must be a regular file")


class TestFailures:
    """Errors during a run."""

    def test_failed_check(self, three_jobs, tmp_path, monkeypatch):
        """A run that does not conserve GPU-seconds is a failed row; other runs are reported."""

        def refuse(simulation):
            if simulation.policy.name == "fifo":
                raise AssertionError("jobs held 3 GPU-seconds, but the cluster gave 2")

        monkeypatch.setattr(
            "lyra_opt.experiments.simulation.running.replay.require_conserved", refuse
        )
        exit_code, out, err = three_jobs("--scheme", "fifo", "--format=json")
        assert (exit_code, out) == (1, "")
        assert re.search(r"fifo.*s: error in the simulation: jobs held 3 GPU-s", err)
        given = (*schemes("fifo", "sjf"), "--out", tmp_path / "out", "--format=json")
        exit_code, out, err = three_jobs(*given)
        assert exit_code == 1
        assert [record["scheme"] for record in json.loads(out)] == ["sjf"]
        assert "Traceback" not in err
        frame = load_study(tmp_path / "out").set_index("scheme")
        assert [*frame.status] == ["error", "finished"]
        assert "jobs held 3 GPU-seconds" in frame.message["fifo"]
        assert frame.jct_mean_s.isna().tolist() == [True, False]
        # What failed is run again.
        monkeypatch.undo()
        assert three_jobs(*given, "--resume")[0] == 0
        assert [*load_study(tmp_path / "out").status] == ["finished", "finished"]

    def test_interrupt_leaves_no_empty_folders(self, three_jobs, tmp_path, monkeypatch):
        """An empty folder of decisions would look like a result."""

        def interrupt(simulation):
            raise KeyboardInterrupt

        module = "lyra_opt.experiments.simulation.running.replay"
        monkeypatch.setattr(f"{module}.require_conserved", interrupt)
        exit_code, out, err = three_jobs("--capture", tmp_path / "new" / "capture")
        assert (exit_code, out) == (130, "")
        assert "interrupted: 0 of 1 runs are done" in err
        assert [path.name for path in tmp_path.iterdir()] == ["three.csv"]

    def test_a_folder_that_cannot_be_made_costs_no_simulation(
        self, three_jobs, tmp_path, monkeypatch
    ):
        """The error comes first, and partly created folders are removed."""
        monkeypatch.setattr(
            "lyra_opt.experiments.simulation.running.tasks.replay", None
        )  # none is run
        given = ("--out", tmp_path / "new" / ("x" * 300))  # too long for any file system
        assert_one_line_error(three_jobs(*given), "cannot be created")
        assert not (tmp_path / "new").exists()

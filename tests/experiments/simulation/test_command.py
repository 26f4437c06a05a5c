"""``lyra-opt simulate`` where a session cannot say it: interrupts, failures, many files."""

import json
import re

from lyra_opt.core.loading import load_instance
from lyra_opt.experiments.frames import load_study
from tests.conftest import assert_one_line_error
from tests.experiments.simulation.conftest import SMALL, changes, schemes

MEASURED = ("wall_time_s", "jobs_per_cpu_s", "decision_mean_s", "decision_p99_s", "decision_max_s")

# Long enough for elastic jobs to be on loan at times.
BUSY = ("lyra-paper", *changes("cluster.servers=20", "jobs.parameters.days=2"))


class TestRuns:
    """Seeds, processes, and runs that are continued."""

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

        ran = []

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

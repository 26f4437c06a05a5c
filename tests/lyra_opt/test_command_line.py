"""The command line as a user meets it: output, exit codes, one-line errors."""

import gzip
import io
import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from lyra_opt.core.solver import SOLVERS, solver_names
from tests.conftest import FIGURE_5, assert_one_line_error


class TestSolve:
    """``lyra-opt solve``."""

    @pytest.mark.parametrize("compressed", [False, True])
    def test_the_standard_input_is_a_file(self, run, monkeypatch, tmp_path, compressed):
        """An instance can come from another program, and what is wrong with it is named so."""

        def given(text):
            data = gzip.compress(text.encode()) if compressed else text.encode()
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

        given(FIGURE_5.read_text())
        exit_code, out, _ = run(
            "solve", "-", "--format=json", "--out", tmp_path / "solution.json", "--exact-time", 0
        )
        (answer,) = json.loads(out)
        assert (exit_code, answer["file"], answer["objective"]) == (0, "-", 1)
        given(FIGURE_5.read_text())
        assert run("verify", "-", tmp_path / "solution.json")[0] == 0
        given('{"format": "lyra-opt/reclaim", "version": 1}')
        assert_one_line_error(run("solve", "-"), "the standard input: reclaim_servers is missing")

    @pytest.mark.parametrize("option", ["--out", "--proof"])
    def test_an_instance_is_not_replaced(self, run, write, tmp_path, option):
        """A solution or a proof that would be written over its instance, by any name of it."""
        fleet = write(FIGURE_5.read_bytes(), "fleet.json")
        other_name = tmp_path / "link.json"
        other_name.symlink_to(fleet)
        for path in (fleet, other_name):
            assert_one_line_error(run("solve", fleet, option, path), option, "the instance itself")
        assert fleet.read_bytes() == FIGURE_5.read_bytes()

    def test_line_breaks_in_a_file_name_stay_on_one_line(self, run, tmp_path):
        """Control characters are escaped."""
        assert_one_line_error(run("solve", tmp_path / "two\nlines.json"), "two\\nlines.json")


class TestSolvers:
    """``lyra-opt solvers``."""

    def test_json(self, run):
        """One object for each name and problem."""
        exit_code, out, _ = run("solvers", "--format=json")
        assert exit_code == 0
        assert [(each["problem"], each["name"]) for each in json.loads(out)] == solver_names()

    def test_a_solver_that_cannot_be_loaded_is_listed_with_the_reason(self, run, monkeypatch):
        """Its broken package does not stop the listing, and ``--debug`` shows where it broke."""
        broken = EntryPoint("reclaim.broken", "no_such_package:Solver", "lyra_opt.solvers")
        monkeypatch.setattr(SOLVERS, "_points", {"reclaim.broken": broken})
        exit_code, out, _ = run("solvers", "--format=json")
        record = next(each for each in json.loads(out) if each["name"] == "broken")
        assert exit_code == 0
        assert (record["available"], record["variants"]) == (False, None)
        assert "no_such_package" in record["reason"]
        command = ["solve", FIGURE_5, "--solver", "broken"]
        assert run(*command)[2].count("\n") == 1
        in_full = "ModuleNotFoundError: No module named 'no_such_package'"
        assert in_full in run(*command, "--debug")[2]


class TestWhole:
    """The program as a process."""

    def test_light_commands_load_no_heavy_package(self):
        """Help, lists and heuristics answer at once because these stay out."""
        heavy = {"numba", "scipy", "pulp", "ortools", "highspy", "matplotlib", "pandas"}
        program = (
            "import sys; from lyra_opt.__main__ import main\n"
            "code = main(sys.argv[1:])\n"
            f"print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr); sys.exit(code)"
        )
        for arguments in (["solvers"], ["solve", str(FIGURE_5)]):
            done = subprocess.run(
                [sys.executable, "-c", program, *arguments], capture_output=True, text=True
            )
            assert (done.returncode, done.stderr) == (0, "[]\n")

    @pytest.mark.parametrize(
        ("redirection", "reason"),
        [
            (">&-", "the standard output is closed"),
            ("> /dev/full", "the standard output: cannot be written: the disk is full"),
        ],
    )
    @pytest.mark.parametrize("command", ["solvers --format json", f"solve {FIGURE_5}"])
    def test_an_output_that_cannot_be_written(self, command, redirection, reason):
        """One line and exit code 2, as for any other file."""
        done = subprocess.run(
            f"{sys.executable} -m lyra_opt {command} {redirection}",
            shell=True,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2
        assert done.stderr.startswith("lyra-opt: error: ")
        assert done.stderr.count("\n") == 1
        assert reason in done.stderr

    def test_json_does_not_depend_on_the_encoding_of_the_output(self, write):
        """Names beyond ASCII arrive whole, and people see them escaped."""
        path = write(FIGURE_5.read_text().replace('"s1"', '"sérvér"'), "accents.json")
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        command = [sys.executable, "-m", "lyra_opt", "solve", str(path)]
        done = subprocess.run([*command, "--format=json"], capture_output=True, env=environment)
        assert json.loads(done.stdout)[0]["servers"] == ["sérvér", "s2"]
        assert subprocess.run(command, capture_output=True, env=environment).returncode == 0

    def test_control_characters_in_names_do_not_reach_the_terminal(self, run, write):
        """A job's name cannot colour the screen or break a line."""
        path = write(FIGURE_5.read_text().replace('"a"', '"a\\u001b[31m\\nb"'), "escape.json")
        _, out, _ = run("solve", path)
        assert "\x1b" not in out
        assert "preempted jobs a\\x1b[31m\\nb" in out

    def test_a_reader_that_leaves_is_no_failure(self):
        """As when the reader is `head`: nothing is said, and the exit code is that of a signal."""
        done = subprocess.run(
            f"{sys.executable} -m lyra_opt solvers | head -n 1; echo ${{PIPESTATUS[0]}}",
            shell=True,
            executable="/bin/bash",
            capture_output=True,
            text=True,
        )
        assert (done.stdout, done.stderr) == ("allocation:\n141\n", "")

    def test_faults_are_one_line_unless_asked(self, run, monkeypatch):
        """A fault of ours, or of a plug-in, tells people what to do, and its mender where it is."""

        def broken(*_):
            raise LookupError("no such thing")

        monkeypatch.setattr("lyra_opt.front_door.files.loaded_instance", broken)
        exit_code, _, errors = run("solve", FIGURE_5)
        assert exit_code == 1
        assert "LookupError: no such thing" in errors
        assert errors.count("\n") == 1
        assert "in broken" in run("solve", FIGURE_5, "--debug")[2]

    def test_an_interrupt_is_one_line(self, run, monkeypatch):
        """At the first moment too, while the commands are put together."""

        def interrupted():
            raise KeyboardInterrupt

        monkeypatch.setattr("lyra_opt.__main__.make_parser", interrupted)
        assert run("solvers") == (130, "", "lyra-opt: interrupted\n")

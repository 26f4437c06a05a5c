"""The command line as a user meets it: output, exit codes, one-line errors."""

import gzip
import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import solver_names
from lyra_opt.core.solving import COMMON_ANSWER_KEYS
from lyra_opt.reclaim.heuristics.greedy import SmallestCountFirst
from tests.conftest import FIGURE_5, assert_one_line_error

RECLAIM_KEYS = {"servers", "preempted_jobs", "collateral_gpus", "scaled_in_workers"}


class TestSolve:
    """``lyra-opt solve``."""

    def test_json_has_every_key_in_order_of_files_then_solvers(self, run):
        """One object for each (file, solver), nothing else on stdout."""
        files = [str(FIGURE_5), os.path.relpath(FIGURE_5)]
        exit_code, out, _ = run(
            "solve", *files, "--solver", "scf", "--solver", "lyra-greedy", "--format=json"
        )
        answers = json.loads(out)
        assert exit_code == 0
        assert [(answer["file"], answer["solver"]) for answer in answers] == [
            (file, solver) for file in files for solver in ("scf", "lyra-greedy")
        ]
        for answer in answers:
            assert set(answer) == {*COMMON_ANSWER_KEYS} | RECLAIM_KEYS
            assert answer["status"] == "feasible"
            assert (answer["dual_bound"], answer["gap"]) == (None, None)
            assert answer["objective"] == 1
            assert answer["servers"] == ["s1", "s2"]
            assert answer["preempted_jobs"] == ["a"]
            assert (answer["collateral_gpus"], answer["scaled_in_workers"]) == (0, 0)
            assert answer["wall_time_s"] > 0

    def test_a_contradiction_is_named(self, run, monkeypatch):
        """A solver that proves that there is no solution, beside one that has found one."""
        claim = SolveResult(status=Status.INFEASIBLE)
        monkeypatch.setattr(SmallestCountFirst, "solve", lambda *_, **__: claim)
        exit_code, out, _ = run("solve", FIGURE_5, "--solver", "scf", "--solver", "exact")
        assert exit_code == 1
        sentence = "exact found objective 1, but scf claims that there is no solution"
        assert f"scf: contradiction: {sentence}" in out
        assert run("solve", FIGURE_5, "--solver", "scf")[0] == 0  # nothing contradicts it

    def test_seed_decides_the_random_choice(self, run):
        """Same seed, same answer; among ten seeds not all answers are equal."""

        def chosen(seed: int) -> list[str]:
            _, out, _ = run(
                "solve", FIGURE_5, "--solver", "random", "--seed", seed, "--format=json"
            )
            return json.loads(out)[0]["servers"]

        assert chosen(3) == chosen(3)
        assert len({tuple(chosen(seed)) for seed in range(10)}) > 1

    def test_reads_gzip(self, run, tmp_path):
        """As the plain file."""
        packed = tmp_path / "figure.json.gz"
        packed.write_bytes(gzip.compress(FIGURE_5.read_bytes()))
        exit_code, out, _ = run("solve", packed, "--format=json")
        assert (exit_code, json.loads(out)[0]["objective"]) == (0, 1)

    @pytest.mark.parametrize("compressed", [False, True])
    def test_the_standard_input_is_a_file(self, run, monkeypatch, tmp_path, compressed):
        """An instance can come from another program, and what is wrong with it is named so."""

        def given(text: str) -> None:
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

    def test_a_failing_solver_is_exit_code_1(self, run, monkeypatch):
        """The failure is an answer among the others, with its message."""
        monkeypatch.setattr(
            "lyra_opt.reclaim.heuristics.greedy.Peeling.choose",
            lambda *_: (_ for _ in ()).throw(RuntimeError("broken")),
        )
        exit_code, out, _ = run(
            "solve", FIGURE_5, "--solver", "peeling", "--solver", "scf", "--format=json"
        )
        assert exit_code == 1
        first, second = json.loads(out)
        assert first["status"] == "error"
        assert first["message"].startswith("RuntimeError: broken (test_command_line.py, line ")
        assert second["status"] == "feasible"

    def test_debug_writes_the_traceback(self, run, monkeypatch):
        """On stderr, and only where it is asked for."""
        from lyra_opt.reclaim.heuristics.greedy import LyraGreedy

        def broken(*_: object) -> None:
            raise ZeroDivisionError("oh")

        monkeypatch.setattr(LyraGreedy, "choose", broken)
        exit_code, out, err = run("solve", FIGURE_5, "--solver", "lyra-greedy", "--debug")
        assert exit_code == 1
        assert "ZeroDivisionError: oh" in out
        assert 'raise ZeroDivisionError("oh")' in err
        exit_code, out, err = run("solve", FIGURE_5, "--solver", "lyra-greedy")
        assert (exit_code, err) == (1, "")
        assert "ZeroDivisionError: oh" in out

    def test_what_solvers_print_goes_to_stderr(self, run, monkeypatch):
        """Python's prints and native code's: stdout holds the JSON array alone."""
        from lyra_opt.reclaim.heuristics.greedy import Peeling

        original = Peeling.choose

        def chatty(self: Peeling, *arguments: Any) -> Any:
            print("hello from Python")
            os.write(1, b"hello from C\n")
            return original(self, *arguments)

        monkeypatch.setattr(Peeling, "choose", chatty)
        _, out, err = run("solve", FIGURE_5, "--solver", "peeling", "--format=json")
        assert len(json.loads(out)) == 1
        assert "hello from Python" in err
        assert "hello from C" in err

    @pytest.mark.parametrize("option", ["--out", "--proof"])
    def test_an_instance_is_not_replaced(self, run, tmp_path, option):
        """A solution or a proof that would be written over its instance, by any name of it."""
        fleet = tmp_path / "fleet.json"
        fleet.write_bytes(FIGURE_5.read_bytes())
        other_name = tmp_path / "link.json"
        other_name.symlink_to(fleet)
        for path in (fleet, other_name):
            assert_one_line_error(run("solve", fleet, option, path), option, "the instance itself")
        assert fleet.read_bytes() == FIGURE_5.read_bytes()

    def test_every_file_is_validated_before_the_first_solve(self, run, tmp_path, monkeypatch):
        """A bad second file stops the first from being solved, and nothing is written."""
        bad = tmp_path / "bad.json"
        bad.write_text("{}")
        monkeypatch.setattr(
            "lyra_opt.core.solving.solve_and_check", lambda *_, **__: pytest.fail("was solved")
        )
        assert_one_line_error(run("solve", FIGURE_5, bad), str(bad), "format")

    def test_line_breaks_in_a_file_name_stay_on_one_line(self, run, tmp_path):
        """Control characters are escaped."""
        assert_one_line_error(run("solve", tmp_path / "two\nlines.json"), "two\\nlines.json")


class TestSolvers:
    """``lyra-opt solvers``."""

    def test_json(self, run):
        """One object for each name and problem, with what the solver can do."""
        exit_code, out, _ = run("solvers", "--format=json")
        records = json.loads(out)
        assert exit_code == 0
        assert [(record["problem"], record["name"]) for record in records] == solver_names()
        by_name = {record["name"]: record for record in records}
        assert by_name["lyra-greedy"] == {
            "name": "lyra-greedy",
            "problem": "reclaim",
            "variants": ["rigid", "interchangeable"],
            "summary": "Repeatedly take the server with the least preemption cost, and preempt its "
            "jobs everywhere",
            "proves_optimality": [],
            "gives_bound": False,
            "available": True,
            "reason": None,
        }
        assert by_name["cpsat"]["proves_optimality"]
        assert by_name["cpsat"]["gives_bound"]

    def test_a_solver_that_cannot_be_loaded_is_listed_with_the_reason(self, run, monkeypatch):
        """Somebody's broken package does not take the listing down."""
        from importlib.metadata import EntryPoint

        from lyra_opt.core.solver import SOLVERS

        broken = EntryPoint("reclaim.broken", "no_such_package:Solver", "lyra_opt.solvers")
        monkeypatch.setattr(SOLVERS, "_points", {"reclaim.broken": broken})
        exit_code, out, _ = run("solvers", "--format=json")
        record = next(each for each in json.loads(out) if each["name"] == "broken")
        assert exit_code == 0
        assert (record["available"], record["variants"]) == (False, None)
        assert "no_such_package" in record["reason"]


class TestWhole:
    """The program as a process."""

    @pytest.mark.parametrize("command", [(), ("generate",), ("scenarios",)])
    def test_no_command(self, run, command):
        """The help, for whoever does not know yet what there is."""
        assert run(*command) == run(*command, "--help")

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

    def test_json_does_not_depend_on_the_encoding_of_the_output(self, tmp_path):
        """Names beyond ASCII arrive whole, and people see them escaped."""
        path = tmp_path / "accents.json"
        path.write_text(FIGURE_5.read_text().replace('"s1"', '"sérvér"'))
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        command = [sys.executable, "-m", "lyra_opt", "solve", str(path)]
        done = subprocess.run([*command, "--format=json"], capture_output=True, env=environment)
        assert json.loads(done.stdout)[0]["servers"] == ["sérvér", "s2"]
        assert subprocess.run(command, capture_output=True, env=environment).returncode == 0

    def test_control_characters_in_names_do_not_reach_the_terminal(self, run, tmp_path):
        """A job's name cannot colour the screen or break a line."""
        path = tmp_path / "escape.json"
        path.write_text(FIGURE_5.read_text().replace('"a"', '"a\\u001b[31m\\nb"'))
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

    @pytest.mark.parametrize("place", [0, 1])
    def test_how_much_is_said_is_a_choice_of_every_command(self, run, tmp_path, place):
        """Before the sub-command or behind it: results alone, remarks, or what is done."""
        generate = ["generate", "reclaim", "--family", "net", "--reclaim", 6, "--out", tmp_path]

        def said(*flags: str) -> tuple[str, str]:
            command = [*generate[:place], *flags, *generate[place:]]
            exit_code, out, errors = run(*command)
            assert exit_code == 0
            return out, errors

        usual, remarks = said()
        assert said("--quiet") == (usual, "")
        out, errors = said("--verbose")
        assert out == usual
        assert remarks in errors
        assert f"writing {usual.splitlines()[0]}" in errors

    def test_faults_are_one_line_unless_asked(self, run, monkeypatch):
        """A fault of ours, or of a plug-in, tells people what to do, and its mender where it is."""

        def broken(*_: object) -> None:
            raise LookupError("no such thing")

        monkeypatch.setattr("lyra_opt.front_door.files.loaded_instance", broken)
        exit_code, _, errors = run("solve", FIGURE_5)
        assert exit_code == 1
        assert "LookupError: no such thing" in errors
        assert errors.count("\n") == 1
        assert "in broken" in run("solve", FIGURE_5, "--debug")[2]

    def test_debug_shows_what_an_error_in_one_line_came_of(self, run, monkeypatch):
        """Where somebody's own solver failed to load: file and line."""
        from importlib.metadata import EntryPoint

        from lyra_opt.core.solver import SOLVERS

        broken = EntryPoint("reclaim.broken", "no_such_package:Solver", "lyra_opt.solvers")
        monkeypatch.setattr(SOLVERS, "_points", {"reclaim.broken": broken})
        command = ["solve", FIGURE_5, "--solver", "broken"]
        assert run(*command)[2].count("\n") == 1
        assert (
            "ModuleNotFoundError: No module named 'no_such_package'" in run(*command, "--debug")[2]
        )

    def test_an_interrupt_is_one_line(self, run, monkeypatch):
        """At the first moment too, while the commands are put together."""

        def interrupted() -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("lyra_opt.__main__.make_parser", interrupted)
        assert run("solvers") == (130, "", "lyra-opt: interrupted\n")

"""A solver's fault costs its own answer and nothing else; limits are enforced from outside."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import lyra_opt as lo
from lyra_opt.core.execution import Execution, execute
from lyra_opt.core.isolation.server import Server
from lyra_opt.core.isolation.workers import Workers, grace_s
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Solver, find_solver, solver_names
from lyra_opt.core.solving import solve_and_check
from lyra_opt.reclaim import Solution
from tests.lyra_opt.core.isolation.faults import EATEN_MIB, SLEEPS, Faulty, first_servers
from tests.tables import tables

TABLES = tables(__file__)


PROBLEM = find_problem("reclaim")
FLEET = lo.generate("reclaim", "messy-dist", servers=20, reclaim_percent=30, seed=1)
LIMIT_S = 0.05


@pytest.fixture
def workers():
    with Workers() as of_test:
        yield of_test


@pytest.fixture(scope="module")
def kept():
    """Workers that load packages once for several tests."""
    with Workers() as of_module:
        yield of_module


def solved(workers, fault, **options):
    """Return the answer of a faulty solver."""
    return solve_and_check(PROBLEM, FLEET, Faulty(fault), executor=workers, **options)


def ended(workers, fault, **options):
    """Return the answer of a faulty solver with a short time limit."""
    return solved(workers, fault, limits=Limits(time_s=LIMIT_S), **options)


def wait_while(is_so):
    """Wait, for two minutes at the most."""
    until_s = time.monotonic() + 120
    while is_so():
        assert time.monotonic() < until_s, "it lives on"
        time.sleep(0.05)


@pytest.mark.parametrize(("fault", "said"), TABLES["faults"])
def test_a_fault_is_an_error_that_names_it(workers, fault, said):
    """And the next call of the same workers is none the worse."""
    answer = solved(workers, fault)
    assert answer.status is Status.ERROR
    assert re.fullmatch(said, answer.message), answer.message
    assert (answer.cpu_time_s is None) == ("its process" in said)
    assert solved(workers, "prints").status is Status.FEASIBLE


def test_a_crash_says_where(workers):
    """In Python's lines, for ``--debug``."""
    trace = solved(workers, "crashes").traceback
    assert "faults.py" in trace
    assert "in crashes" in trace


def test_a_solver_that_looks_at_no_clock_is_ended(workers):
    """After its limit and the grace, in compiled or other code that never returns."""
    answer = ended(workers, "hangs")
    assert (answer.status, answer.stopped_by) == (Status.UNKNOWN, StoppedBy.TIME)
    assert answer.message == "exceeded its time limit and was killed"
    assert answer.wall_time_s >= LIMIT_S + grace_s(LIMIT_S)
    assert "in hangs" in answer.traceback


def test_half_a_message_is_not_waited_for(workers):
    """A solver may be stopped as it sends, or write into descriptors that are not its own."""
    answer = ended(workers, "writes-where-it-should-not-and-hangs")
    assert (answer.status, answer.stopped_by) == (Status.UNKNOWN, StoppedBy.TIME)


def test_what_it_told_of_is_kept(workers):
    """The solution, checked, and the bound; and when it told of them."""
    solution, objective = first_servers(FLEET)
    answer = ended(workers, "tells-and-hangs", record=True)
    assert (answer.status, answer.stopped_by) == (Status.FEASIBLE, StoppedBy.TIME)
    assert (answer.solution, answer.objective, answer.dual_bound) == (solution, objective, 0)
    assert [point.value for point in answer.trajectory if not point.is_checked] == [objective, 0]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("tells-too-much-and-hangs", "contradicts a valid solution"),
        ("tells-nonsense-and-hangs", "dual_bound must be an int or a finite float, not nan"),
    ],
)
def test_what_it_told_of_is_not_believed(workers, fault, said):
    """A bound beyond a valid solution, or that is none, is its error, told or returned."""
    answer = ended(workers, fault)
    assert answer.status is Status.ERROR
    assert said in answer.message


@pytest.mark.parametrize("fault", ["hangs", "tells-and-hangs"])
def test_the_start_is_kept_where_nothing_better_was_told(workers, fault):
    """A run that is ended has at least what it began with."""
    best = lo.solve(FLEET, "exact")
    answer = ended(workers, fault, warm_start=best.solution)
    assert (answer.solution, answer.objective) == (best.solution, best.objective)
    assert answer.stopped_by is StoppedBy.TIME


def test_memory_is_limited(workers):
    """A solver that takes ever more is ended, whatever its time limit."""
    answer = solved(workers, "eats", limits=Limits(memory_mib=100))
    assert answer.stopped_by is StoppedBy.MEMORY
    assert answer.peak_memory_mib > 100


def test_packages_are_not_the_solvers_memory(workers):
    """What a process loads once counts neither as time nor as memory."""
    assert solved(workers, "loads", limits=Limits(memory_mib=100)).status is Status.FEASIBLE


@pytest.mark.parametrize(
    "fault",
    [
        *("starts-others-and-hangs", "starts-a-session-and-hangs", "starts-a-daemon-and-hangs"),
        *("starts-a-session-and-crashes", "starts-a-bare-session-and-crashes"),
        "starts-a-session-and-returns",
    ],
)
def test_what_a_solver_starts_ends_with_it(workers, fault):
    """No process outlives a run, not even one that left its process group."""
    answer = solved(workers, fault, limits=Limits(time_s=2.0))
    assert (answer.stopped_by is StoppedBy.TIME) == fault.endswith("hangs"), answer
    workers.end()
    processes = Path("/proc")
    wait_while(lambda: any(_command(each) == SLEEPS for each in processes.glob("[0-9]*")))


def _command(process):
    try:
        return tuple((process / "cmdline").read_text().split("\0")[:-1])
    except OSError:
        return ()


def test_memory_counts_what_a_solver_starts(workers):
    """As CBC is, which is a process of its own."""
    answer = solved(workers, "has-one-that-eats")
    assert answer.peak_memory_mib > EATEN_MIB


class Speaker(Solver):
    """Tells its observer of bounds, and hangs with its second instance."""

    name, problem, variants = "speaker", "reclaim", ("rigid", "interchangeable")
    gives_bound = True

    def __init__(self):
        self.earlier = None

    def solve(self, instance, *, observer=None, **_):
        if self.earlier is None:
            self.earlier = observer
            for bound in (1, 0, 1):
                observer("dual_bound", bound)
            return SolveResult(status=Status.UNKNOWN, dual_bound=1)
        self.earlier("dual_bound", 10**6)
        while True:
            time.sleep(1)


def test_bounds_of_a_call_that_is_over_are_no_bounds_of_the_next(workers):
    """A thread of a solver may speak late: of another instance, whose bound may be beyond."""
    asked = {"problem": PROBLEM, "instance": FLEET, "solver": Speaker(), "executor": workers}
    assert solve_and_check(**asked).dual_bound == 1
    late = solve_and_check(**asked, limits=Limits(time_s=LIMIT_S))
    assert (late.stopped_by, late.dual_bound) == (StoppedBy.TIME, None)


def test_what_was_told_before_an_end_improves(workers):
    """A trajectory has improvements alone, also of a run that is ended from outside."""
    told = []

    class Hanging(Speaker):
        def solve(self, instance, **given):
            super().solve(instance, **given)
            while True:
                time.sleep(1)

    answer = solve_and_check(
        *(PROBLEM, FLEET, Hanging()),
        executor=workers,
        limits=Limits(time_s=LIMIT_S),
        observer=lambda _kind, value, _solution=None: told.append(value),
        record=True,
    )
    assert told == [1, 0, 1]
    assert [(point.value, point.is_checked) for point in answer.trajectory] == [
        (1, False),
        (1, True),
    ]


def test_an_answer_in_time_counts_however_late_it_is_read(workers, monkeypatch, tmp_path):
    """A machine under load, or Ctrl-Z, may keep the one who asked from reading."""
    is_sent, send = tmp_path / "sent", Server.send

    def noted(self, message, number):
        send(self, message, number)
        if isinstance(message, Execution):
            is_sent.touch()

    def dawdles(*_):
        while not is_sent.exists():
            time.sleep(0.01)
        time.sleep(LIMIT_S + grace_s(LIMIT_S))

    monkeypatch.setattr(Server, "send", noted)
    answer = solve_and_check(
        PROBLEM, FLEET, Speaker(), executor=workers, limits=Limits(time_s=LIMIT_S), observer=dawdles
    )
    assert (answer.stopped_by, answer.dual_bound) == (None, 1)


def test_temporary_files_of_a_solver_that_is_ended_go(workers, monkeypatch, tmp_path):
    """As those of a model that CBC was solving."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert ended(workers, "leaves-files-and-hangs").stopped_by is StoppedBy.TIME
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_isolated", [False, True])
def test_what_is_raised_need_be_no_exception(workers, is_isolated):
    """Panics of compiled extensions are none, and end no other run."""

    class PanicError(BaseException):
        pass

    class Panicking(Speaker):
        def solve(self, *_, **__):
            raise PanicError("all is lost")

    executor = workers if is_isolated else execute
    answer = solve_and_check(PROBLEM, FLEET, Panicking(), executor=executor)
    assert answer.status is Status.ERROR
    assert (answer.message or "").startswith("PanicError: all is lost")


def test_nothing_to_read(workers):
    """A solver that reads what people type gets nothing, instead of waiting for ever."""
    assert solved(workers, "reads", limits=Limits(time_s=60.0)).status is Status.FEASIBLE


def test_children_end_with_the_workers():
    """One serves all solvers of the toolkit; every other has its own."""
    greedy, marginal = (find_solver("reclaim", name) for name in ("lyra-greedy", "marginal"))
    other = Faulty("prints")
    with Workers() as workers:
        for solver in (greedy, marginal, other):
            solve_and_check(PROBLEM, FLEET, solver, executor=workers)
        children = [workers.child_of(PROBLEM, solver) for solver in (greedy, marginal, other)]
    assert children[0] == children[1] != children[2]
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


def test_ctrl_c_ends_a_child_that_hears_nothing():
    """Whatever native code runs there."""

    def told(*_):
        raise KeyboardInterrupt  # as Python raises it while the parent waits

    with pytest.raises(KeyboardInterrupt), Workers() as workers:
        solved(workers, "tells-and-hangs", observer=told)


@pytest.mark.parametrize("name", [name for of, name in solver_names("reclaim")])
def test_own_solvers_answer_as_in_this_process(kept, name):
    """Where a solver runs makes no difference to what it says."""
    solver = find_solver("reclaim", name)
    there = solve_and_check(PROBLEM, FLEET, solver, seed=3, executor=kept)
    here = solve_and_check(PROBLEM, FLEET, solver, seed=3)
    compared = ("status", "stopped_by", "solution", "objective", "dual_bound", "message")
    assert [getattr(there, each) for each in compared] == [getattr(here, each) for each in compared]


def test_instances_follow_one_another():
    """A child that is kept gets each new instance, also one that is equal but for its name."""
    other = lo.generate("reclaim", "messy-dist", servers=20, reclaim_percent=30, seed=2)
    solver = find_solver("reclaim", "lyra-greedy")
    with Workers() as workers:
        for instance in (FLEET, other, FLEET, other, other):
            there = solve_and_check(PROBLEM, instance, solver, executor=workers)
            assert there.solution == solve_and_check(PROBLEM, instance, solver).solution


def test_a_thread_of_its_own_may_have_workers():
    """As those of other engines do."""
    found = []

    def work():
        with Workers() as workers:
            found.append(solved(workers, "prints"))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0].solution == Solution(first_servers(FLEET)[0].servers)


@pytest.mark.parametrize(
    "does", ["while True: pass", "try: connection.recv()\n    except EOFError: pass"]
)
def test_a_child_ends_with_its_parent(tmp_path, does):
    """Also when that is killed: it leaves no solver behind that runs for ever, and no files."""
    script, files = tmp_path / "parent.py", tmp_path / "files"
    files.mkdir()
    script.write_text(
        "import sys\n"
        "from lyra_opt.core.isolation.child import Child\n"
        "def serve(connection):\n"
        f"    {does}\n"
        "child = Child(serve)\n"
        "print(child.process, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(files)},
    ) as parent:
        child = int(parent.stdout.readline())
        parent.kill()

    def is_alive():
        status = Path(f"/proc/{child}/stat")
        return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"

    wait_while(is_alive)
    assert not list(files.iterdir())

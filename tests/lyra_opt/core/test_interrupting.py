"""Ctrl-C ends a run with what it knows; a second one ends it at once; handlers come back."""

import os
import signal
import threading
import time

import pytest

import lyra_opt as lo
from lyra_opt.core.interrupting import heeding_signals
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import SolveResult, Status, StoppedBy
from lyra_opt.core.solver import Solver
from lyra_opt.core.stopwatch import OutOfTimeError, is_out_of_time
from lyra_opt.reclaim.instance import Semantics, Solution

FLEET = lo.generate("reclaim", "messy-dist", servers=20)
SERVERS = [server.id for server in FLEET.servers if server.on_loan][: FLEET.reclaim_servers]
SOLUTION = Solution(servers=SERVERS)
OBJECTIVE = find_problem("reclaim").check(FLEET, SOLUTION).objective


class Sleeps(Solver):
    """A stranger's solver: tells what it has, has Ctrl-C pressed, and looks at no clock."""

    name, problem, variants = "sleeps", "reclaim", tuple(Semantics)
    presses = 1
    ids: tuple[int, ...] = ()

    def solve(self, instance, *, observer, **_):
        observer("objective", OBJECTIVE, SOLUTION)
        observer("dual_bound", 1)
        for _ in range(self.presses):
            os.kill(self.process, signal.SIGINT)
            time.sleep(0.3)  # two at once would be one
        return self.go_on()

    process = os.getpid()

    def go_on(self):
        time.sleep(600)
        raise AssertionError


class Unheeding(Sleeps):
    """One of the toolkit's that looks at no clock all the same: it is cut off."""


class Heeds(Sleeps):
    """One of the toolkit's, which ends itself as at a time limit."""

    def go_on(self):
        while not is_out_of_time():
            time.sleep(0.01)
        return SolveResult(
            status=Status.FEASIBLE,
            stopped_by=StoppedBy.TIME,
            solution=SOLUTION,
            objective=OBJECTIVE,
            dual_bound=1,
        )


class Fails(Sleeps):
    """One that makes an error of Ctrl-C."""

    def go_on(self):
        while not is_out_of_time():
            time.sleep(0.01)
        raise OutOfTimeError


Unheeding.__module__ = Heeds.__module__ = Fails.__module__ = "lyra_opt.of_tests"


pytestmark = pytest.mark.usefixtures("heard")


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("solver", [Sleeps, Unheeding, Heeds, Fails])
def test_the_first_ctrl_c_returns_what_is_known(solver, isolated):
    answer = lo.solve(FLEET, solver, isolated=isolated)
    assert answer.stopped_by is StoppedBy.INTERRUPT
    assert answer.status is Status.FEASIBLE
    assert (answer.objective, answer.dual_bound) == (OBJECTIVE, 1)
    assert answer.solution == SOLUTION


@pytest.mark.parametrize("isolated", [False, True])
def test_the_second_one_raises(isolated):
    class Impatient(Unheeding):
        __module__, presses = "lyra_opt.of_tests", 2

    with pytest.raises(KeyboardInterrupt):
        lo.solve(FLEET, Impatient, isolated=isolated)


def test_a_run_that_was_interrupted_before_does_not_begin():
    with heeding_signals(signal.SIGINT):
        os.kill(os.getpid(), signal.SIGINT)
        answer = lo.solve(FLEET, Sleeps, start=SOLUTION)
    assert answer.stopped_by is StoppedBy.INTERRUPT
    assert (answer.solution, answer.dual_bound) == (SOLUTION, None)


def test_a_comparison_ends_with_the_run_that_is_interrupted():
    table = lo.compare(FLEET, ["scf", Heeds, "peeling"], certify=True)
    assert table.stopped_by.fillna("").to_dict() == {"scf": "", "sleeps": "interrupt"}


def test_signals_that_are_ignored_and_other_threads_stay_as_they_are():
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    class Ignored(Heeds):
        def go_on(self):
            assert not is_out_of_time()
            return SolveResult(status=Status.UNKNOWN)

    assert lo.solve(FLEET, Ignored).stopped_by is None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    found = []
    thread = threading.Thread(target=lambda: found.append(lo.solve(FLEET, "scf")))
    thread.start()
    thread.join()
    assert found[0].stopped_by is None

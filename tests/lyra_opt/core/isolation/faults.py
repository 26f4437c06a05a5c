"""A solver with whatever fault is asked for."""

import ctypes
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from lyra_opt.core.result import SolveResult, Status
from lyra_opt.core.solver import Solver
from lyra_opt.core.stopwatch import loading
from lyra_opt.reclaim import Solution
from lyra_opt.reclaim.checker import check

EATEN_MIB = 300
SLEEPS = ("sleep", "97531")


def first_servers(instance):
    """Return the first servers of the file, and what they cost."""
    chosen = [server.id for server in instance.servers if server.on_loan]
    solution = Solution(tuple(chosen[: instance.reclaim_servers]))
    objective = check(instance, solution).objective
    return solution, objective


class Faulty(Solver):
    """Has the fault of its name."""

    problem = "reclaim"
    variants = ("rigid", "interchangeable")

    def __init__(self, fault):
        self.name = fault

    def solve(self, instance, *, observer=None, **_):
        solution, objective = first_servers(instance)
        if self.name in ("tells-and-hangs", "tells-too-much-and-hangs"):
            observer("objective", objective, solution)
            observer("dual_bound", 0 if self.name == "tells-and-hangs" else objective + 1)
        if self.name == "tells-nonsense-and-hangs":
            observer("dual_bound", float("nan"))
        fault = getattr(self, self.name.replace("-", "_"), self.hangs)
        returned = fault(instance)
        if returned is not None:
            return returned
        return SolveResult(status=Status.FEASIBLE, solution=solution, objective=objective)

    def hangs(self, instance):
        while True:
            pass

    def starts_others_and_hangs(self, instance):
        subprocess.Popen(SLEEPS)
        self.hangs(instance)

    def starts_a_session_and_hangs(self, instance):
        subprocess.Popen(SLEEPS, start_new_session=True)
        self.hangs(instance)

    def starts_a_session_and_crashes(self, instance):
        subprocess.Popen(SLEEPS, start_new_session=True)
        self.crashes(instance)

    def starts_a_bare_session_and_crashes(self, instance):
        """Its environment does not say whose it is: it was seen before the crash."""
        subprocess.Popen(SLEEPS, env={}, start_new_session=True)
        time.sleep(1)
        self.crashes(instance)

    def starts_a_session_and_returns(self, instance):
        subprocess.Popen(SLEEPS, process_group=0)

    def starts_a_daemon_and_hangs(self, instance):
        """As daemons do: the one that starts it is gone, and its environment is its own."""
        program = f"import subprocess as s; s.Popen({SLEEPS}, env={{}}, start_new_session=True)"
        subprocess.run([sys.executable, "-c", program], check=True)
        self.hangs(instance)

    def prints(self, instance):
        print("printed by Python")
        os.write(1, b"printed by native code\n")

    def reads(self, instance):
        assert os.read(0, 1) == b""

    def leaves_files_and_hangs(self, instance):
        Path(tempfile.mkdtemp(), "left").touch()
        self.hangs(instance)

    def writes_where_it_should_not_and_hangs(self, instance):
        for descriptor in range(3, 64):
            with suppress(OSError):
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                    os.write(descriptor, b"a message of which more never comes")
        self.hangs(instance)

    def closes_descriptors_and_hangs(self, instance):
        """As programs do that become daemons."""
        os.closerange(3, 64)
        self.hangs(instance)

    def exits(self, instance):
        sys.exit(5)

    def leaves(self, instance):
        os._exit(3)

    def crashes(self, instance):
        ctypes.string_at(0)

    def kills_itself(self, instance):
        os.kill(os.getpid(), signal.SIGKILL)

    def interrupts(self, instance):
        raise KeyboardInterrupt

    def returns_nonsense(self, instance):
        return lambda: "what no pickle can carry"

    def returns_more_than_a_pickle_can_carry(self, instance):
        return SolveResult(status=Status.FEASIBLE, solution=lambda: None, objective=1)

    def changes(self, instance):
        object.__setattr__(instance, "reclaim_servers", 1)

    def has_one_that_eats(self, instance):
        program = f"x = bytearray({EATEN_MIB} * 2**20); x[::4096] = x[::4096]"
        subprocess.run([sys.executable, "-c", program], check=True)

    def loads(self, instance):
        with loading():
            self.loaded = bytearray(150 * 2**20)
        time.sleep(0.2)

    def eats(self, instance):
        eaten = []
        while True:
            eaten.append(bytearray(4 * 2**20))
            time.sleep(0.001)

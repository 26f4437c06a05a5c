"""Ctrl-C is heard while a backend's machine code runs."""

import importlib
import os
import signal
import threading

import pytest

from lyra_opt.core.interrupting import heeding_signals
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.core.stopwatch import OutOfTimeError, limited_to, remaining_s
from lyra_opt.formulations.backends.backend import interruptible
from lyra_opt.instances.family import generate


@pytest.mark.usefixtures("heard")
def test_ctrl_c_interrupts_what_looks_at_nothing():
    is_interrupted, has_ended = threading.Event(), threading.Event()

    def run():
        os.kill(os.getpid(), signal.SIGINT)
        is_interrupted.wait()
        has_ended.set()

    with pytest.raises(KeyboardInterrupt):
        interruptible(run, is_interrupted.set)
    assert has_ended.wait(60)


@pytest.mark.usefixtures("heard")
def test_ctrl_c_does_not_wait_for_what_cannot_be_interrupted():
    never = threading.Event()

    def run():
        os.kill(os.getpid(), signal.SIGINT)
        never.wait()

    with pytest.raises(KeyboardInterrupt):
        interruptible(run)
    never.set()


@pytest.mark.usefixtures("heard")
def test_an_interrupted_run_returns_what_it_has():
    is_interrupted = threading.Event()

    def run():
        os.kill(os.getpid(), signal.SIGINT)
        is_interrupted.wait()
        return "incumbent"

    with heeding_signals(signal.SIGINT) as interruption:
        assert interruptible(run, is_interrupted.set) == "incumbent"
        assert not interruption.listeners
    with heeding_signals(signal.SIGINT), pytest.raises(OutOfTimeError):
        interruptible(lambda: (os.kill(os.getpid(), signal.SIGINT), threading.Event().wait(600)))


def test_results_errors_and_the_time_left_are_those_of_the_run():
    def fail():
        raise RuntimeError("of the backend")

    with limited_to(Limits(time_s=1000)):
        left_s = interruptible(remaining_s)
    assert 0 < left_s <= 1000
    with pytest.raises(RuntimeError, match="of the backend"):
        interruptible(fail)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("cpsat", "cpsat"),
        ("mathopt-gscip", "mathopt"),
        ("mathopt-highs", "mathopt"),
        ("pulp-highs", "pulp"),
    ],
)
def test_machine_code_of_each_backend_is_interruptible(monkeypatch, name, module):
    def interrupted(*_):
        raise KeyboardInterrupt

    backend = importlib.import_module(f"lyra_opt.formulations.backends.{module}")
    monkeypatch.setattr(backend, "interruptible", interrupted)
    instance = generate("reclaim", family="hyp8", servers=30, semantics="rigid")
    with pytest.raises(KeyboardInterrupt):
        solve_and_check(find_problem("reclaim"), instance, find_solver("reclaim", name))

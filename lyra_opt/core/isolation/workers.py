"""Call solvers in child processes, which are ended where a solver does not end by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from lyra_opt.core.execution import failed
from lyra_opt.core.isolation.child import Child, ChildDiedError
from lyra_opt.core.isolation.messages import Request
from lyra_opt.core.isolation.run import Run
from lyra_opt.core.isolation.server import Server
from lyra_opt.core.solver import is_own, is_registered

if TYPE_CHECKING:
    from resource import struct_rusage

    from lyra_opt.core.execution import Call, Execution
    from lyra_opt.core.instance import ProblemInstance
    from lyra_opt.core.problem import Problem
    from lyra_opt.core.solver import Solver


MOST_LAST_WORDS = 1_000
"""Messages of a child that is about to be ended: more than wait in a pipe at any time."""


class Workers:
    """Child processes that call solvers; use as a context manager and as an `Executor`.

    One child serves all solvers of the toolkit, so that packages are loaded once; each other solver
    has one of its own, made when it is first called. A solver that is over its time limit by more
    than `grace_s`, or over its memory limit at all, is ended with its child, and the best that it
    told of is its result. One that ends its process is an error. Either way the next call gets a
    new child. Calls are made in turn, not by several threads at once.
    """

    def __init__(self) -> None:
        self._workers: dict[tuple[str, int], _Worker] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End all children; the next call makes new ones."""
        for worker in self._workers.values():
            worker.end()
        self._workers.clear()

    def child_of(self, problem: Problem, solver: Solver) -> int | None:
        """Return the process that will call a solver next; None if that is still to be made."""
        return self._worker(problem, solver).process

    def __call__(
        self, problem: Problem, instance: ProblemInstance, solver: Solver, call: Call
    ) -> Execution:
        """Call a solver in a child; Ctrl-C and other exceptions here end that."""
        return self._worker(problem, solver).execution(instance, solver, call)

    def _worker(self, problem: Problem, solver: Solver) -> _Worker:
        is_shared = is_own(solver) and is_registered(solver)
        key = (problem.name, 0 if is_shared else id(solver))
        return self._workers.setdefault(key, _Worker(problem, None if is_shared else solver))


class _Worker:
    """A child for some solvers of a problem, made anew where it has ended.

    Parameters
    ----------
    solver
        The only one that it is for; None for all that are found by name.
    """

    def __init__(self, problem: Problem, solver: Solver | None) -> None:
        self._problem, self._solver = problem, solver
        self._child: Child | None = None
        self._instance: ProblemInstance | None = None
        self._calls = 0

    @property
    def process(self) -> int | None:
        return None if self._child is None else self._child.process

    def end(self) -> struct_rusage | None:
        child, self._child, self._instance = self._child, None, None
        return None if child is None else child.end()

    def execution(self, instance: ProblemInstance, solver: Solver, call: Call) -> Execution:
        run = Run(self._problem, instance, call)
        try:
            child = self._asked(instance, solver, call)
            try:
                while run.execution is None and run.is_over is None:
                    self._hear(child, run, run.next_look_s)
                    run.look(child.process)
                # This process may have been kept from looking for longer than the solver took.
                for _ in range(MOST_LAST_WORDS):
                    if run.execution is not None or not self._hear(child, run, until_s=0.0):
                        break
            except ChildDiedError as died:
                stack = self._stack()
                run.kill_left_behind()
                self.end()
                return run.as_error(str(died), stack)
            except Exception as error:  # what was sent cannot be read here
                self.end()
                return run.as_error(f"its answer cannot be read: {failed(error).error}")
        except BaseException:  # Ctrl-C above all
            self.end()
            raise
        if run.execution is not None:
            return run.execution
        stack = self._stack()
        return run.ended_from_outside(self.end(), stack)

    def _hear(self, child: Child, run: Run, until_s: float) -> bool:
        """Take the next message; return whether there was one until then."""
        received = child.receive(until_s)
        if received is None:
            return False
        number, message = received
        if number == self._calls:
            run.take(message)
        return True

    def _stack(self) -> str:
        return "" if self._child is None else self._child.stack()

    def _asked(self, instance: ProblemInstance, solver: Solver, call: Call) -> Child:
        """Send a call to a child that has what no pickle can carry from its birth."""
        self._calls += 1
        request = Request(
            number=self._calls,
            solver=solver.name if self._solver is None else None,
            instance=None if instance is self._instance else instance,
            call=replace(call, observer=None),
        )
        if self._child is not None:
            try:
                self._child.connection.send(request)
            except Exception:  # it is gone, or the request is such that it must be inherited
                self.end()
                request = replace(request, instance=instance)
        if self._child is None:
            server = Server(self._problem, self._solver, request)
            self._child = Child(server.serve)
        self._instance = instance
        return self._child

"""A Dask scheduler and workers as processes without a shared folder, as on several machines."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from lyra_opt.instances.traces import TRACES_VARIABLE

LONGEST_START_S = 600.0


class Cluster:
    """Dask processes on this machine, each with its own process group and folder."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self._folder = folder
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int) -> None:
        """Start a scheduler and workers, and wait until all workers are connected."""
        self.scheduler = self._started("scheduler", "--port", str(self.port), "--host", "127.0.0.1")
        from distributed import Client

        self.add(workers)
        with Client(self.address, timeout=LONGEST_START_S, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=LONGEST_START_S)

    def add(self, workers: int) -> None:
        """Start further workers with one thread each."""
        for _ in range(workers):
            self.workers.append(self._started("worker", self.address, "--nthreads", "1"))

    def stop(self) -> None:
        """Kill all processes."""
        for process in (self.scheduler, *self.workers):
            if process is not None:
                kill(process)

    def _started(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        home = self._folder / f"machine-{time.monotonic_ns()}"
        home.mkdir(parents=True)
        local = ("--local-directory", str(home)) if what == "worker" else ()
        environment = {name: each for name, each in os.environ.items() if name != TRACES_VARIABLE}
        with (home / "log").open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-P", "-m", "dask", what, *arguments, "--no-dashboard", *local],
                cwd=home,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children without warning, as a power failure would."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

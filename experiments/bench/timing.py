"""Helpers of benchmarks: sizes, timed calls, and commands as processes."""

import os
import subprocess
import sys
from collections.abc import Callable
from tempfile import TemporaryFile
from typing import Any, TypeVar

from pytest_benchmark.fixture import BenchmarkFixture

from lyra_opt.experiments.bench.targets import SMALL_VARIABLE

T = TypeVar("T")


def sized(full: T, small: T) -> T:
    """Return the full size of a benchmark, or the small size for ``bench --small``."""
    return small if SMALL_VARIABLE in os.environ else full


def timed(
    benchmark: BenchmarkFixture,
    function: Callable[..., T],
    *arguments: Any,
    rounds: int = 1,
    warms_up: bool = True,
    **remarks: Any,
) -> T:
    """Time `rounds` calls of a function; return the result of the last call.

    Parameters
    ----------
    warms_up
        Whether to make a first call that is not timed, which may load libraries and compile
        kernels.
    remarks
        Further facts for the results, such as the size of the instance.
    """
    benchmark.extra_info.update(remarks)
    rounds = sized(rounds, 1)
    found: T = benchmark.pedantic(function, arguments, rounds=rounds, warmup_rounds=int(warms_up))
    return found


def usage_of(*words: str) -> tuple[float, float, str]:
    """Run ``lyra-opt WORDS``; return its CPU seconds, peak memory in MiB, and output."""
    with TemporaryFile("w+") as output:
        command = [sys.executable, "-m", "lyra_opt", *words]
        process = subprocess.Popen(command, stdout=output)  # noqa: S603
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{' '.join(words)}: exit code {process.returncode}")
        output.seek(0)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output.read()

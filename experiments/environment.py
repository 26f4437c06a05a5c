"""What a result was measured with: versions of the packages, and the machine."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

MEASURED_PACKAGES = ("lyra-opt", "numpy", "scipy", "numba", "pulp", "highspy", "ortools")


@dataclass(frozen=True, slots=True)
class Environment:
    """Versions and machine of a run.

    Parameters
    ----------
    versions
        Version by package name, "python" among them; None for a package that is not installed.
    cpu
        Model name of the processor.
    cores
        Logical processors that the machine has.
    platform
        Operating system and C library, as Python names them.
    """

    versions: dict[str, str | None]
    cpu: str
    cores: int
    platform: str


@cache
def current_environment() -> Environment:
    """Return the environment of this process."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    versions |= {package: _installed_version(package) for package in MEASURED_PACKAGES}
    return Environment(versions, _cpu_model(), os.cpu_count() or 1, platform.platform())


def _installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"

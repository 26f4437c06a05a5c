"""The version of the toolkit, as it is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("lyra-opt")
except PackageNotFoundError:  # imported from a source tree that was never installed
    VERSION = "0+unknown"

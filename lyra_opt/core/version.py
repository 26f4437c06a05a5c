"""The version of the installed toolkit."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("lyra-opt")
except PackageNotFoundError:  # imported from a source tree without installation
    VERSION = "0+unknown"

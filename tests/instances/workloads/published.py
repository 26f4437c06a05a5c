"""Where the published traces are, for the tests that read them."""

import os
from pathlib import Path

import pytest


def published(file):
    """Return the path of a published trace, or skip the test."""
    folder = os.environ.get("LYRA_OPT_TRACES")
    path = Path(folder or "", file)
    if not folder or not path.is_file():
        pytest.skip(f"needs {file} in the folder that LYRA_OPT_TRACES names")
    return path

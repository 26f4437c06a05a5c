"""What all tests share: how Hypothesis runs, and files made on the fly."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from lyra_opt.loading import load_instance

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.reclaim import ReclaimInstance

FIGURE_5 = Path(__file__).parent.parent / "instances" / "library" / "lyra-figure-5.json"

# No deadlines: a test must not fail because the machine is busy.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def figure_5() -> ReclaimInstance:
    """Lyra's Figure 5: six servers of 8 GPUs, jobs a to d, two servers to reclaim."""
    return load_instance(FIGURE_5).instance


@pytest.fixture
def figure_5_document() -> dict[str, Any]:
    """The same as a document that a test may change."""
    return json.loads(FIGURE_5.read_text())


@pytest.fixture
def write_json(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Return a function that writes a JSON file into a fresh folder."""

    def write(name: str, value: Any) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(value))
        return path

    return write

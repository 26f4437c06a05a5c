"""JSON Schemas (2020-12) of the file formats, for editors and for programs in other languages.

They state what a schema can: the parsers of `lyra_opt` also refuse ids that are not unique or
not known, servers with more workers than GPUs, keys that occur twice, and integers written as
8.0, which JSON Schema cannot tell from 8.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def load_schema(name: str) -> dict[str, Any]:
    """Return a schema by name, such as ``reclaim`` or ``reclaim-solution``.

    Raises
    ------
    FileNotFoundError
        If there is no such schema.
    """
    text = (files(__name__) / f"{name}.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema

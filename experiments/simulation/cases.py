"""Scenarios that one scenario replays in turn, with schemes, seeds and axes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import parse_toml
from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.experiments.simulation.sources import scenario_text

if TYPE_CHECKING:
    from collections.abc import Mapping

OF_CASE = ("cluster", "gpu_types", "jobs", "speed", "tenure")
"""Keys that a case brings along."""


def with_case(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what a scenario says with one of its cases.

    Parameters
    ----------
    document
        Of the scenario: what it says itself comes before what the case says.
    name
        Of the case: a scenario by name, or a TOML file.

    Raises
    ------
    FieldError
        If there is no such scenario, or it has cases itself.
    """
    try:
        text, source, _ = scenario_text(name)
        case = parse_toml(text, source, "a scenario")
    except UserError as error:
        raise FieldError("cases", name, f"is none: {error}") from None
    if "cases" in case:
        raise FieldError("cases", name, "must be no scenario that has cases itself")
    parts = {part: case[part] for part in OF_CASE if part in case}
    return _merged(parts, document)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return two tables as one; what stands above comes first, key by key."""
    found = dict(below)
    for name, value in above.items():
        inner = found.get(name)
        if isinstance(value, dict) and isinstance(inner, dict):
            found[name] = _merged(inner, value)
        else:
            found[name] = value
    return found

"""Throughputs as Gavel's public code keeps them: one JSON file, of jobs alone and of pairs.

The file is `scheduler/simulation_throughputs.json` of stanford-futuredata/gavel, or one laid out
the same: by type of GPUs (those on several servers end in ``_unconsolidated``), then by model and
number of GPUs, steps a second of the gang alone (``null``), and beside each other one, its own and
the other's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import parse_json
from lyra_opt.core.errors import InputError, show_value
from lyra_opt.core.validation import require_number
from lyra_opt.instances.heterogeneous.throughputs import JobType

if TYPE_CHECKING:
    from lyra_opt.instances.heterogeneous.throughputs import PackedRates

SPREAD = "_unconsolidated"
ALONE = "null"

_KIND = re.compile(r"\('(.+?)(?: \(batch size (\d+)\))?', (\d+)\)")

Kind = tuple[str, int | None, int]
"""Model, batch size and GPUs."""


def read_measurements(
    text: str, source: str
) -> tuple[tuple[str, ...], tuple[JobType, ...], PackedRates]:
    """Return the types of GPUs, the kinds of jobs, and rates of pairs of kinds.

    Raises
    ------
    InputError
        If it is no such file; names the key.
    """
    document = parse_json(text, source)
    if not isinstance(document, dict):
        raise InputError(source, "must be a JSON object")
    types = tuple(name for name in document if not name.endswith(SPREAD))
    alone: dict[Kind, dict[str, float]] = {}
    packed: dict[tuple[Kind, Kind], dict[str, float]] = {}
    for name, of_type in document.items():
        for key, rates in _table(source, name, of_type).items():
            kind = _kind(source, key)
            for beside, rate in _table(source, f"{name}.{key}", rates).items():
                path = f"{name}.{key}.{beside}"
                if beside == ALONE:
                    alone.setdefault(kind, {})[name] = _rate(source, path, rate)
                elif name in types:
                    if not isinstance(rate, list) or len(rate) != 2:
                        rule = "must be a list of two rates"
                        raise InputError(source, f"{path} is {show_value(rate)}: {rule}")
                    pair = kind, _kind(source, beside)
                    packed.setdefault(pair, {})[name] = _rate(source, path, rate[0])
    knows_spread = len(types) < len(document)
    kinds = {
        kind: _job_type(kind, rates, types, knows_spread=knows_spread)
        for kind, rates in alone.items()
    }
    for pair in packed:
        for kind in pair:
            if kind not in kinds:
                raise InputError(source, f"has rates of {kind} beside another, but none alone")
    of_pairs = {
        (kind[2], kinds[kind].name, kinds[beside].name): rates
        for (kind, beside), rates in packed.items()
        if kind[2] == beside[2]
    }
    return types, tuple(kinds.values()), of_pairs


def _table(source: str, path: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(source, f"{path} is {show_value(value)}: must be an object")
    return value


def _kind(source: str, key: str) -> Kind:
    found = _KIND.fullmatch(key)
    if found is None or not int(found[3]):
        rule = "must be such as ('ResNet-18 (batch size 16)', 1)"
        raise InputError(source, f"key {show_value(key)}: {rule}")
    return found[1], int(found[2]) if found[2] else None, int(found[3])


def _rate(source: str, path: str, value: object) -> float:
    try:
        return require_number(path, value, minimum=0)
    except ValueError as error:
        raise InputError(source, str(error)) from None


def _job_type(
    kind: Kind, rates: dict[str, float], types: tuple[str, ...], *, knows_spread: bool
) -> JobType:
    model, batch_size, gang = kind
    spread = {name: rates[name + SPREAD] for name in types if name + SPREAD in rates}
    return JobType(
        model=model,
        batch_size=batch_size,
        gang=gang,
        throughput={name: rates[name] for name in types if name in rates},
        spread_throughput=spread if knows_spread else None,
    )

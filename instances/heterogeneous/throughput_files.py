"""Tables of throughput as files: those that come with the toolkit, by name, and a user's own.

A table is a CSV file with the columns ``model, batch_size, gpus`` and one for each type of GPUs,
with the steps a second of the whole gang on one server, empty or 0 where it does not run. Job types
without a rate on the reference are left out, and results name them. A column
``TYPE_unconsolidated`` has those on several servers, empty or 0 where it does not run so; a table
without any such column says that it makes no difference. In rows with ``beside_model``, and
``beside_batch_size`` where that model has several, the rates are those while a gang of that kind,
as large, runs on the same GPUs.

A JSON file is as Gavel's public code keeps it, of jobs alone and of pairs:
`scheduler/simulation_throughputs.json` of stanford-futuredata/gavel, or one laid out
the same: by type of GPUs (those on several servers end in ``_unconsolidated``), then by model and
number of GPUs, steps a second of the gang alone (``null``), and beside each other one, its own and
the other's.

`lyra_opt.registry` lists the built-in ones; other packages register theirs in the entry-point group
``lyra_opt.throughputs``.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import parse_json, read_text
from lyra_opt.core.errors import FieldError, InputError, UserError, show_value
from lyra_opt.core.own_files import is_reference
from lyra_opt.core.plugins import NamedMaker, Plugins
from lyra_opt.core.reading_memory import ReadingMemory
from lyra_opt.core.rules import require_number
from lyra_opt.core.texts import meant
from lyra_opt.instances.heterogeneous.clusters import known_gpu_types
from lyra_opt.instances.heterogeneous.throughputs import JobType, ThroughputTable
from lyra_opt.instances.rows import Row, require_columns, require_once
from lyra_opt.instances.traces import model_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.instances.heterogeneous.throughputs import PackedRates
    from lyra_opt.simulation.cluster import GpuType

SPREAD = "_unconsolidated"
ALONE = "null"

_KIND = re.compile(r"\('(.+?)(?: \(batch size (\d+)\))?', (\d+)\)")

Kind = tuple[str, int | None, int]
"""Model, batch size and GPUs."""

Measured = tuple[tuple[str, ...], tuple[JobType, ...], "PackedRates"]
"""The types of GPUs, the kinds of jobs, and rates of pairs of kinds."""


def _measurements_in(text: str, source: str) -> Measured:
    """Return what a JSON text has.

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
        for key, rates in _object(source, name, of_type).items():
            kind = _kind_of_key(source, key)
            for beside, rate in _object(source, f"{name}.{key}", rates).items():
                path = f"{name}.{key}.{beside}"
                if beside == ALONE:
                    alone.setdefault(kind, {})[name] = _measured_rate(source, path, rate)
                elif name in types:
                    if not isinstance(rate, list) or len(rate) != 2:
                        rule = "must be a list of two rates"
                        raise InputError(source, f"{path} is {show_value(rate)}: {rule}")
                    pair = kind, _kind_of_key(source, beside)
                    packed.setdefault(pair, {})[name] = _measured_rate(source, path, rate[0])
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


def _object(source: str, path: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(source, f"{path} is {show_value(value)}: must be an object")
    return value


def _kind_of_key(source: str, key: str) -> Kind:
    found = _KIND.fullmatch(key)
    if found is None or not int(found[3]):
        rule = "must be such as ('ResNet-18 (batch size 16)', 1)"
        raise InputError(source, f"key {show_value(key)}: {rule}")
    return found[1], int(found[2]) if found[2] else None, int(found[3])


def _measured_rate(source: str, path: str, value: object) -> float:
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


KEYS = ("model", "batch_size", "gpus")
BESIDE = ("beside_model", "beside_batch_size")
LARGEST_RATE = 1e12

GAVEL_REFERENCE = "v100"
LARGEST_TABLE_BYTES = 16 * 2**20
ROW_BYTES, TYPE_BYTES = 800, 120
"""Memory of a row that was read, and of each type of GPUs in it."""

GAVEL_DATA = "gavel_throughputs_steps_per_s.csv"


class NamedThroughputs(NamedMaker):
    """A table that is known by name; `make()` returns it."""


THROUGHPUTS = Plugins("lyra_opt.throughputs", "table of throughputs", NamedThroughputs)
"""All of them by name."""


def load_throughputs(
    name_or_path: str | Path,
    *,
    reference: str | None = None,
    gpu_types: Mapping[str, GpuType] | None = None,
) -> ThroughputTable:
    """Return a table by its name, or from a CSV or JSON file; see the module for its columns.

    Parameters
    ----------
    name_or_path
        A name of `THROUGHPUTS`, or else a file.
    reference
        Of a file: the type on whose rates those of types rest that were not measured; None for
        the first type of the header.
    gpu_types
        As `known_gpu_types` returns them, for the speed of the reference of a file; None for the
        toolkit's.

    Raises
    ------
    UserError
        If it is neither a name nor a file.
    InputError
        If the file is no table; names row, column, value and rule.
    """
    if isinstance(name_or_path, str) and (
        name_or_path in THROUGHPUTS.names() or is_reference(name_or_path)
    ):
        table: ThroughputTable = THROUGHPUTS.find(name_or_path).make()
        return table
    if not Path(name_or_path).exists():
        hint = meant(name_or_path, THROUGHPUTS.names())
        raise UserError(
            f"throughputs {str(name_or_path)!r}: neither a CSV file nor a known table; {hint}"
        )
    source = str(name_or_path)
    name = Path(source).name.removesuffix(".gz")
    return parse_throughputs(
        read_text(source, LARGEST_TABLE_BYTES),
        source,
        name=name.removesuffix(".csv").removesuffix(".json"),
        reference=reference,
        gpu_types=gpu_types,
        is_json=name.endswith(".json"),
    )


def parse_throughputs(
    text: str,
    source: str,
    *,
    name: str,
    reference: str | None = None,
    gpu_types: Mapping[str, GpuType] | None = None,
    source_in_words: str | None = None,
    is_json: bool = False,
) -> ThroughputTable:
    """Return the table that a CSV or JSON text has.

    Parameters
    ----------
    text
        See the module.
    source
        The file, for errors.
    name
        What the table is called in results.
    reference, gpu_types
        As for `load_throughputs`. Of a JSON text the reference is V100 where that is one of the
        types.
    source_in_words
        Whose its figures are: a clause for results. None for a user's CSV or Gavel's JSON.
    is_json
        Whether it is JSON.

    Raises
    ------
    InputError
        If it is no table; names row, column, value and rule.
    """
    types, kinds, packed = (_measurements_in if is_json else _rates_in)(text, source)
    if source_in_words is None:
        source_in_words = "measured by Gavel's authors" if is_json else "of the user"
    if reference is None:
        reference = next(iter(types), "")
        if is_json and GAVEL_REFERENCE in types:
            reference = GAVEL_REFERENCE
    elif reference not in types and not is_json:
        rule = f"has no column for the reference {reference}; its types are {', '.join(types)}"
        raise InputError(source, f"row 1 {rule}")
    known = known_gpu_types() if gpu_types is None else gpu_types
    left_out = {(kind.name, kind.gang) for kind in kinds if not kind.throughput.get(reference)}
    if len(left_out) == len(kinds) > 0 and reference in types:
        raise InputError(
            source,
            f"no job type has a rate above 0 on {reference}, the reference. Name another one",
        )
    try:
        return ThroughputTable(
            name=name,
            reference=reference,
            reference_speed=known[reference].relative_speed if reference in known else None,
            gpu_types=types,
            job_types=tuple(kind for kind in kinds if (kind.name, kind.gang) not in left_out),
            source=source_in_words,
            packed={
                (gang, one, two): rates
                for (gang, one, two), rates in packed.items()
                if left_out.isdisjoint(((one, gang), (two, gang)))
            },
            left_out=tuple(f"{name} on {gang}" for name, gang in sorted(left_out)),
        )
    except FieldError as error:
        raise InputError(source, str(error)) from None


def _rates_in(text: str, source: str) -> Measured:
    """Return what a CSV text has."""
    rows = csv_rows(source, text.removeprefix("\ufeff"))
    memory = ReadingMemory(source, sys.getsizeof(text))
    header = [column.strip() for column in next(rows, [])]
    places = {column: place for place, column in enumerate(header)}
    types = _types_in(source, header)
    kinds: dict[tuple[str, int], JobType] = {}
    packed: dict[tuple[int, str, str], Mapping[str, float]] = {}
    for number, values in enumerate(rows, start=2):
        if not values:
            continue
        row = Row(source, number, places, values)
        row.require_width(len(header), "the header")
        kind = _kind(row, types)
        memory.add(ROW_BYTES + TYPE_BYTES * len(types))
        if BESIDE[0] in places and row.text(BESIDE[0]):
            beside = model_name(row.text(BESIDE[0]), _batch_size(row, BESIDE[1]))
            if (kind.gang, kind.name, beside) in packed:
                raise row.error(BESIDE[0], f"stands twice on {kind.gang} GPUs, as {kind.name}")
            packed[kind.gang, kind.name, beside] = kind.throughput
            continue
        if (kind.name, kind.gang) in kinds:
            raise row.error("model", f"stands twice on {kind.gang} GPUs, as {kind.name}")
        kinds[kind.name, kind.gang] = kind
    if not kinds:
        raise InputError(source, "has a header, but no rows")
    return types, tuple(kinds.values()), packed


def _types_in(source: str, header: Sequence[str]) -> tuple[str, ...]:
    """Return the types of GPUs that a header has, in its order."""
    for column in header:
        if not column:
            raise InputError(source, "row 1 has a column without a name")
    require_once(source, header, header)
    expected = f"a table has {', '.join(KEYS)} and a column for each type of GPUs"
    require_columns(source, header, KEYS, expected)
    if (BESIDE[0] in header) != (BESIDE[1] in header):
        raise InputError(source, f"row 1 has only one of the columns {' and '.join(BESIDE)}")
    types = tuple(
        column
        for column in header
        if column not in (*KEYS, *BESIDE) and not column.endswith(SPREAD)
    )
    if not types:
        raise InputError(source, "row 1 has no column for a type of GPUs")
    for column in header:
        if column.endswith(SPREAD) and column.removesuffix(SPREAD) not in types:
            missing = column.removesuffix(SPREAD)
            raise InputError(source, f"row 1: column {column} has no column {missing} beside it")
    return types


def _kind(row: Row, types: Sequence[str]) -> JobType:
    row.required("gpus")
    gang = row.number_from_1("gpus")
    rates = {name: _rate(row, name) for name in types}
    spread = {name: _rate(row, name + SPREAD) for name in types if name + SPREAD in row.columns}
    return JobType(
        model=row.required("model"),
        batch_size=_batch_size(row, "batch_size"),
        gang=gang,
        throughput={name: rate for name, rate in rates.items() if rate is not None},
        spread_throughput={name: rate for name, rate in spread.items() if rate is not None}
        if spread
        else None,
    )


def _batch_size(row: Row, column: str) -> int | None:
    return row.number_from_1(column) if row.text(column) else None


def _rate(row: Row, column: str) -> float | None:
    """Return steps a second, or None where nothing stands."""
    value = row.text(column)
    if not value:
        return None
    try:
        found = -1.0 if "_" in value else float(value)
    except ValueError:
        found = -1.0
    if not 0 <= found <= LARGEST_RATE:  # no number at all is not, either
        raise row.error(column, f"must be steps a second from 0 to {LARGEST_RATE:g}, or empty")
    return found


@cache
def gavel_throughputs() -> ThroughputTable:
    """Return the 83 kinds of jobs whose throughput Gavel's authors measured.

    The figures are those of the public repository stanford-futuredata/gavel
    (scheduler/simulation_throughputs.json, MIT licence, copyright its authors), alone on the GPUs,
    rounded to three digits.
    """
    text = (files("lyra_opt.instances.heterogeneous") / GAVEL_DATA).read_text(encoding="utf-8")
    return parse_throughputs(
        text,
        GAVEL_DATA,
        name="gavel",
        reference=GAVEL_REFERENCE,
        source_in_words="of Gavel's public repository, rounded to three digits",
    )


GAVEL = NamedThroughputs(
    "gavel",
    "83 kinds of jobs on 1 to 8 V100, P100 and K80 (Gavel's public repository)",
    gavel_throughputs,
)

"""Read throughput tables from files: built-in tables by name, and CSV or JSON files of a user.

A table is a CSV file with the columns ``model, batch_size, gpus`` and one column per GPU type. The
column of a type has the steps per second of the whole gang on one server, and is empty or 0 if the
job does not run on the type. Job types without a rate on the reference type are left out, and
results name them. A column ``TYPE_unconsolidated`` has the rate on several servers, and is empty
or 0 if the job cannot run on several servers. In a table without such columns the number of servers
makes no difference. A row with ``beside_model`` (and ``beside_batch_size`` if that model has
several batch sizes) has the rates of a job that shares its GPUs with such a gang of equal size.

A JSON file has the format of Gavel's public code, `scheduler/simulation_throughputs.json` of
stanford-futuredata/gavel, with jobs alone and in pairs. Its keys are the GPU type (with the ending
``_unconsolidated`` for several servers), then model and number of GPUs. A value is the rate of the
gang alone (key ``null``), or the rates of the gang and of the other gang of a pair, in steps per
second.

`lyra_opt.registry` lists the built-in tables; other packages register tables in the entry-point
group ``lyra_opt.throughputs``.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import parse_json, read_text
from lyra_opt.core.errors import InputError, UserError, in_file, show_value
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.own_files import is_reference
from lyra_opt.core.plugins import NamedMaker, Plugins
from lyra_opt.core.reading_memory import ReadingMemory
from lyra_opt.core.rules import require_number
from lyra_opt.instances.heterogeneous.clusters import known_gpu_types
from lyra_opt.instances.heterogeneous.throughputs import JobType, PackedRates, ThroughputTable
from lyra_opt.instances.rows import Row, require_columns, require_once, rows_below
from lyra_opt.instances.traces import model_name
from lyra_opt.simulation.cluster import GpuType

SPREAD = "_unconsolidated"
ALONE = "null"

_KIND = re.compile(r"\('(.+?)(?: \(batch size (\d+)\))?', (\d+)\)")

Kind = tuple[str, int | None, int]
"""A job type: model, batch size and number of GPUs."""

Measured = tuple[tuple[str, ...], tuple[JobType, ...], "PackedRates"]
"""The contents of a file: GPU types, job types, and rates of pairs of job types."""


def _measurements_in(text: str, source: str) -> Measured:
    """Return the GPU types, the job types and the rates of job pairs that a JSON text contains.

    Raises
    ------
    InputError
        If the text does not have this format; the error names the key.
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
                raise InputError(source, f"has rates of {kind} in a pair, but no rate alone")
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
"""Memory in bytes that a row needs, and that each GPU type of the row needs in addition."""

GAVEL_DATA = "gavel_throughputs_steps_per_s.csv"


class NamedThroughputs(NamedMaker):
    """A throughput table that is registered under a name; `make()` loads the table."""


THROUGHPUTS = Plugins("lyra_opt.throughputs", "table of throughputs", NamedThroughputs)
"""All registered throughput tables by name."""


def load_throughputs(
    name_or_path: str | Path, *, gpu_types: Mapping[str, GpuType] | None = None
) -> ThroughputTable:
    """Return a throughput table by its registered name, or from a CSV or JSON file.

    Parameters
    ----------
    name_or_path
        A name of `THROUGHPUTS`, or else a file. The first GPU type of a file is its reference, from
        whose rates those on types without measurements are derived; V100 in a JSON file with V100.
    gpu_types
        All GPU types, as `known_gpu_types` returns them, for the speed of the reference; None for
        the built-in ones.

    Raises
    ------
    UserError
        If `name_or_path` is neither a registered name nor a file.
    InputError
        If the file is not a throughput table; the error names row, column, value and rule.
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
        gpu_types=gpu_types,
        is_json=name.endswith(".json"),
    )


def parse_throughputs(
    text: str,
    source: str,
    *,
    name: str,
    gpu_types: Mapping[str, GpuType] | None = None,
    source_in_words: str | None = None,
    is_json: bool = False,
) -> ThroughputTable:
    """Return the throughput table that a CSV or JSON text contains.

    Parameters
    ----------
    text
        A text in a format that the module's docstring describes.
    source
        The file, for errors.
    name
        The name of the table in results.
    gpu_types
        As for `load_throughputs`.
    source_in_words
        The source of the measurements, a phrase for results. None for a user's CSV or Gavel's JSON.
    is_json
        Whether the text is JSON.

    Raises
    ------
    InputError
        If the text is not a throughput table; the error names row, column, value and rule.
    """
    types, kinds, packed = (_measurements_in if is_json else _rates_in)(text, source)
    if source_in_words is None:
        source_in_words = "measured by Gavel's authors" if is_json else "of the user"
    is_of_gavel = is_json and GAVEL_REFERENCE in types
    reference = GAVEL_REFERENCE if is_of_gavel else next(iter(types), "")
    known = known_gpu_types() if gpu_types is None else gpu_types
    left_out = {(kind.name, kind.gang) for kind in kinds if not kind.throughput.get(reference)}
    if len(left_out) == len(kinds) > 0 and reference in types:
        raise InputError(
            source,
            f"no job type has a rate above 0 on the reference type {reference}. "
            "Begin with another type",
        )
    with in_file(source):
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


def _rates_in(text: str, source: str) -> Measured:
    """Return the GPU types, the job types and the rates of job pairs that a CSV text contains."""
    rows = csv_rows(source, text.removeprefix("\ufeff"))
    memory = ReadingMemory(source, sys.getsizeof(text))
    header = [column.strip() for column in next(rows, [])]
    types = _types_in(source, header)
    kinds: dict[tuple[str, int], JobType] = {}
    packed: dict[tuple[int, str, str], Mapping[str, float]] = {}
    for row in rows_below(source, header, rows):
        kind = _kind(row, types)
        memory.add(ROW_BYTES + TYPE_BYTES * len(types))
        if BESIDE[0] in header and row.text(BESIDE[0]):
            beside = model_name(row.text(BESIDE[0]), _batch_size(row, BESIDE[1]))
            if (kind.gang, kind.name, beside) in packed:
                raise row.error(
                    BESIDE[0], f"must not occur twice on {kind.gang} GPUs, with {kind.name}"
                )
            packed[kind.gang, kind.name, beside] = kind.throughput
            continue
        if (kind.name, kind.gang) in kinds:
            raise row.error("model", f"must not occur twice on {kind.gang} GPUs, as {kind.name}")
        kinds[kind.name, kind.gang] = kind
    if not kinds:
        raise InputError(source, "has a header, but no rows")
    return types, tuple(kinds.values()), packed


def _types_in(source: str, header: Sequence[str]) -> tuple[str, ...]:
    """Return the GPU types that the columns of a header name, in order."""
    for column in header:
        if not column:
            raise InputError(source, "row 1 has a column without a name")
    require_once(source, header, header)
    expected = f"a table has {', '.join(KEYS)} and a column for each GPU type"
    require_columns(source, header, KEYS, expected)
    if (BESIDE[0] in header) != (BESIDE[1] in header):
        raise InputError(source, f"row 1 has only one of the columns {' and '.join(BESIDE)}")
    types = tuple(
        column
        for column in header
        if column not in (*KEYS, *BESIDE) and not column.endswith(SPREAD)
    )
    if not types:
        raise InputError(source, "row 1 has no column for a GPU type")
    for column in header:
        if column.endswith(SPREAD) and column.removesuffix(SPREAD) not in types:
            missing = column.removesuffix(SPREAD)
            raise InputError(source, f"row 1: column {column} requires a column {missing}")
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
    """Return the steps per second in a column, or None if the column is empty."""
    value = row.text(column)
    if not value:
        return None
    try:
        found = -1.0 if "_" in value else float(value)
    except ValueError:
        found = -1.0
    if not 0 <= found <= LARGEST_RATE:  # also refuses NaN
        raise row.error(column, f"must be steps per second from 0 to {LARGEST_RATE:g}, or empty")
    return found


@cache
def gavel_throughputs() -> ThroughputTable:
    """Return the table of the 83 job types whose throughput Gavel's authors measured.

    The rates come from the public repository stanford-futuredata/gavel
    (scheduler/simulation_throughputs.json, MIT licence, copyright its authors). They are those of
    jobs alone on their GPUs, rounded to three digits.
    """
    text = (files("lyra_opt.instances.heterogeneous") / GAVEL_DATA).read_text(encoding="utf-8")
    return parse_throughputs(
        text,
        GAVEL_DATA,
        name="gavel",
        source_in_words="of Gavel's public repository, rounded to three digits",
    )


GAVEL = NamedThroughputs(
    "gavel",
    "83 job types on 1 to 8 V100, P100 and K80 (Gavel's public repository)",
    gavel_throughputs,
)

"""Tables of throughput as files: those that come with the toolkit, by name, and a user's own.

A table is a CSV file with the columns ``model, batch_size, gpus`` and one for each type of GPUs,
with the steps a second of the whole gang on one server, empty or 0 where it does not run. Job types
without a rate on the reference are left out, and results name them. A column
``TYPE_unconsolidated`` has those on several servers, empty or 0 where it does not run so; a table
without any such column says that it makes no difference. In rows with ``beside_model``, and
``beside_batch_size`` where that model has several, the rates are those while a gang of that kind,
as large, runs on the same GPUs.

A JSON file is one of Gavel's (`lyra_opt.instances.heterogeneous.gavel_measurements`).

`lyra_opt.registry` lists the built-in ones; other packages register theirs in the entry-point group
``lyra_opt.throughputs``.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.core.nearest import meant
from lyra_opt.core.own_files import is_reference
from lyra_opt.core.plugins import NamedMaker, Plugins
from lyra_opt.core.reading_memory import ReadingMemory
from lyra_opt.instances.heterogeneous.gavel_measurements import read_measurements
from lyra_opt.instances.heterogeneous.gpu_types import gpu_types as all_gpu_types
from lyra_opt.instances.heterogeneous.throughputs import JobType, ThroughputTable
from lyra_opt.instances.traces import bad_value, model_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.instances.heterogeneous.throughputs import PackedRates
    from lyra_opt.simulation.cluster import GpuType

KEYS = ("model", "batch_size", "gpus")
BESIDE = ("beside_model", "beside_batch_size")
SPREAD = "_unconsolidated"
LARGEST_RATE = 1e12
LARGEST_COUNT = 10**9

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
        As `lyra_opt.instances.heterogeneous.gpu_types.gpu_types` returns them, for the speed of the
        reference of a file; None for those of the toolkit.

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
        raise UserError(f"throughputs {str(name_or_path)!r}: no such CSV file or table; {hint}")
    source = str(name_or_path)
    name = Path(source).name.removesuffix(".gz")
    parse = parse_measurements if name.endswith(".json") else parse_throughputs
    return parse(
        read_text(source, LARGEST_TABLE_BYTES),
        source,
        name=name.removesuffix(".csv").removesuffix(".json"),
        reference=reference,
        gpu_types=gpu_types,
    )


def parse_throughputs(
    text: str,
    source: str,
    *,
    name: str,
    reference: str | None = None,
    gpu_types: Mapping[str, GpuType] | None = None,
    source_in_words: str = "of the user",
) -> ThroughputTable:
    """Return the table that a CSV text has.

    Parameters
    ----------
    text
        See the module.
    source
        The file, for errors.
    name
        What the table is called in results.
    reference, gpu_types
        As for `load_throughputs`.
    source_in_words
        Whose its figures are: a clause for results.

    Raises
    ------
    InputError
        If it is no table; names row, column, value and rule.
    """
    rows = csv_rows(source, text.removeprefix("\ufeff"))
    memory = ReadingMemory(source, sys.getsizeof(text))
    header = [column.strip() for column in next(rows, [])]
    types = _types_in(source, header)
    if reference is None:
        reference = types[0]
    elif reference not in types:
        rule = f"has no column for the reference {reference}; its types are {', '.join(types)}"
        raise InputError(source, f"row 1 {rule}")
    kinds: dict[tuple[str, int], JobType] = {}
    packed: dict[tuple[int, str, str], Mapping[str, float]] = {}
    for number, values in enumerate(rows, start=2):
        if not values:
            continue
        row = _Row(source, number, header, values)
        kind = _kind(row, types)
        memory.add(ROW_BYTES + TYPE_BYTES * len(types))
        if BESIDE[0] in row and row.has(BESIDE[0]):
            beside = model_name(row.text(BESIDE[0]), row.count(BESIDE[1]))
            if (kind.gang, kind.name, beside) in packed:
                raise row.error(BESIDE[0], f"stands twice on {kind.gang} GPUs, as {kind.name}")
            packed[kind.gang, kind.name, beside] = kind.throughput
            continue
        if (kind.name, kind.gang) in kinds:
            raise row.error("model", f"stands twice on {kind.gang} GPUs, as {kind.name}")
        kinds[kind.name, kind.gang] = kind
    if not kinds:
        raise InputError(source, "has a header, but no rows")
    return _table(
        source, types, tuple(kinds.values()), packed, (name, reference, gpu_types, source_in_words)
    )


def parse_measurements(
    text: str,
    source: str,
    *,
    name: str,
    reference: str | None = None,
    gpu_types: Mapping[str, GpuType] | None = None,
    source_in_words: str = "measured by Gavel's authors",
) -> ThroughputTable:
    """Return the table that a JSON text has; parameters and errors as of `parse_throughputs`.

    The reference is V100 where it is one of the types, and else the first of them.
    """
    types, kinds, packed = read_measurements(text, source)
    if reference is None:
        reference = GAVEL_REFERENCE if GAVEL_REFERENCE in types else next(iter(types), "")
    return _table(source, types, kinds, packed, (name, reference, gpu_types, source_in_words))


def _table(
    source: str,
    types: tuple[str, ...],
    kinds: tuple[JobType, ...],
    packed: PackedRates,
    of: tuple[str, str, Mapping[str, GpuType] | None, str],
) -> ThroughputTable:
    """Return a table of what was read; `of` has name, reference, known types, whose figures."""
    name, reference, gpu_types, source_in_words = of
    known = all_gpu_types() if gpu_types is None else gpu_types
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


def _types_in(source: str, header: Sequence[str]) -> tuple[str, ...]:
    """Return the types of GPUs that a header has, in its order."""
    for column in header:
        if not column:
            raise InputError(source, "row 1 has a column without a name")
        if header.count(column) > 1:
            raise InputError(source, f"row 1: column {column} occurs more than once")
    for column in KEYS:
        if column not in header:
            expected = f"{', '.join(KEYS)} and a column for each type of GPUs"
            raise InputError(source, f"row 1: column {column} is missing; a table has {expected}")
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


class _Row:
    """A row of a table; knows where it stands."""

    def __init__(
        self, source: str, number: int, header: Sequence[str], values: Sequence[str]
    ) -> None:
        if len(values) != len(header):
            fields = f"{len(values)} field" + "s" * (len(values) != 1)
            raise InputError(source, f"row {number} has {fields}, but the header has {len(header)}")
        self._source, self._number = source, number
        self._values = dict(zip(header, (value.strip() for value in values), strict=True))

    def __contains__(self, column: str) -> bool:
        """Whether there is such a column."""
        return column in self._values

    def error(self, column: str, rule: str) -> InputError:
        return bad_value(self._source, self._number, column, self._values[column], rule)

    def has(self, column: str) -> bool:
        """Whether anything stands there."""
        return bool(self._values[column])

    def text(self, column: str) -> str:
        if not self._values[column]:
            raise self.error(column, "must not be empty")
        return self._values[column]

    def count(self, column: str) -> int | None:
        """Return an integer, or None where nothing stands."""
        value = self._values[column]
        if not value:
            return None
        if not (value.isascii() and value.isdigit() and len(value) <= len(str(LARGEST_COUNT))):
            raise self.error(column, f"must be an integer from 1 to {LARGEST_COUNT}")
        if not 1 <= int(value) <= LARGEST_COUNT:
            raise self.error(column, f"must be an integer from 1 to {LARGEST_COUNT}")
        return int(value)

    def rate(self, column: str) -> float | None:
        """Return steps a second, or None where nothing stands."""
        value = self._values[column]
        if not value:
            return None
        try:
            found = -1.0 if "_" in value else float(value)
        except ValueError:
            found = -1.0
        if not 0 <= found <= LARGEST_RATE:  # no number at all is not, either
            raise self.error(column, f"must be steps a second from 0 to {LARGEST_RATE:g}, or empty")
        return found


def _kind(row: _Row, types: Sequence[str]) -> JobType:
    gang = row.count("gpus")
    if gang is None:
        raise row.error("gpus", "must not be empty")
    rates = {name: row.rate(name) for name in types}
    spread = {name: row.rate(name + SPREAD) for name in types if name + SPREAD in row}
    return JobType(
        model=row.text("model"),
        batch_size=row.count("batch_size"),
        gang=gang,
        throughput={name: rate for name, rate in rates.items() if rate is not None},
        spread_throughput={name: rate for name, rate in spread.items() if rate is not None}
        if spread
        else None,
    )


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

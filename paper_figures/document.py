"""Papers as data: what is published, and which replays stand beside it, as TOML.

Each key is declared once, as those of scenarios are. A paper is a file ``paper_figures/NAME.toml``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from lyra_opt.core.documents import join_path, parse_toml, unknown_key
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.fields import Table, key, parsed
from lyra_opt.core.rules import Anything, Flag, Integer, ListOf, Named, Number, Rule, Text
from lyra_opt.paper_figures.comparison import Judged, Source

PAPERS_FOLDER = Path(__file__).parent
PAPER_FORMAT = "lyra-opt/paper"
PAPER_VERSION = 1

MOST_SEEDS = 100
KINDS = ("table", "figure")
SOURCES = {
    "text": Source.TEXT,
    "abstract": Source.ABSTRACT,
    "others": Source.SECONDARY,
    "code": Source.CODE,
    "artifact": Source.ARTIFACT,
    "memory": Source.MEMORY,
}
JUDGED = tuple(map(str, Judged))
ARITHMETIC, GEOMETRIC = MEANS = ("arithmetic", "geometric")
LESS, MORE = BETTER = ("less", "more")
RUN, OVER = BOUNDED = ("run", "over")
MOST, LEAST = SIDES = ("most", "least")

Changes = Mapping[str, Any]
FunctionT = TypeVar("FunctionT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A function by name.

    Parameters
    ----------
    of
        Its name.
    parameters
        Its arguments by name.
    """

    of: str
    parameters: Mapping[str, Any]


def by_name(*functions: FunctionT) -> Mapping[str, FunctionT]:
    """Return functions that a paper's file may name, by their names."""
    return {getattr(each, "__name__"): each for each in functions}  # noqa: B009 - of all functions


@dataclass(frozen=True, slots=True)
class Calling(Rule):
    """The name of a function, or a table with the name as ``of`` and arguments.

    Parameters
    ----------
    is_sentence
        Whether a text that stands alone is a sentence, and not the name of a function.
    """

    is_sentence: bool = False

    def check(self, path: str, value: object) -> Call | str:
        """See `lyra_opt.core.rules.Rule`."""
        if isinstance(value, str):
            text = Text().check(path, value)
            return text if self.is_sentence else Call(of=text, parameters={})
        if not isinstance(value, dict) or "of" not in value:
            what = "a sentence" if self.is_sentence else "a name"
            raise FieldError(path, value, f"must be {what}, or a table with of")
        return Call(
            of=Text().check(join_path(path, "of"), value["of"]),
            parameters={
                name: Anything().check(join_path(path, name), each)
                for name, each in value.items()
                if name != "of"
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What is measured of a run.

    Parameters
    ----------
    of
        A figure of the replay, or a function of `lyra_opt.paper_figures.results`.
    over
        Figure by which it is divided, both added up over all runs; empty for none.
    times
        Factor.
    where_none
        What stands where a run has no such figure; None makes that an error.
    beside
        A run that the function is given beside the one that is measured; empty for none.
    parameters
        Arguments of the function.
    """

    of: str
    over: str = ""
    times: float = 1.0
    where_none: float | None = None
    beside: str = ""
    parameters: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Measuring(Rule):
    """A `Measure`: a name, or a table."""

    def check(self, path: str, value: object) -> Measure:
        """See `lyra_opt.core.rules.Rule`."""
        call = Calling().check(path, value)
        assert isinstance(call, Call), "a name is that of a measure"
        arguments = dict(call.parameters)
        rules: dict[str, Rule] = {"over": Text(), "times": Number(above=True), "beside": Text()}
        rules["where_none"] = Number(-math.inf)
        own = {
            name: rule.check(join_path(path, name), arguments.pop(name))
            for name, rule in rules.items()
            if name in arguments
        }
        return Measure(of=call.of, parameters=tuple(arguments.items()), **own)


@dataclass(frozen=True, slots=True)
class Printed(Rule):
    """A number as the paper prints it, as text so that its digits are known; empty for none."""

    def check(self, path: str, value: object) -> str:
        """See `lyra_opt.core.rules.Rule`."""
        if not isinstance(value, str):
            raise FieldError(path, value, "must be a number as printed, in quotes")
        try:
            float(value or 0)
        except ValueError:
            raise FieldError(path, value, "must be a number as printed, or empty") from None
        return value


@dataclass(frozen=True, kw_only=True)
class SizeTable:
    """A number that depends on the scale."""

    full: float = key(Number(), "at the paper's size")
    least: float = key(Number(), "at any size", 0.0)
    follows: str | None = key(
        Text(), "a size in proportion to which it is", None, shown="the scale itself"
    )
    below_full: float | None = key(
        Number(), "at every scale below 1", None, shown="in proportion to the scale"
    )
    whole: bool = key(Flag(), "whether it is rounded", True)


@dataclass(frozen=True, kw_only=True)
class ScenarioTable:
    """What is replayed, and where."""

    like: str = key(Text(), "a bundled scenario, or another one of this file")
    changes: Changes = key(
        Named(Anything()), 'its keys that are other; "{SIZE}" stands for a size', {}
    )
    below_full: Changes = key(Named(Anything()), "others at scales below 1", {})
    needs: tuple[str, ...] = key(ListOf(Text()), "traces without which it is not replayed", ())
    called: str = key(Text(), "what tables call it", "")


@dataclass(frozen=True, kw_only=True)
class RunTable:
    """A scheme in a scenario."""

    scenario: str = key(Text(), "one of this file")
    scheme: str = key(Text(), 'by name, see "lyra-opt schemes"')
    parameters: Changes = key(Named(Anything()), "what is other than the scheme has it", {})
    changes: Changes = key(Named(Anything()), "keys of the scenario that are other", {})


@dataclass(frozen=True, kw_only=True)
class DrawsTable:
    """Values of a key of the scenario that take the place of seeds."""

    of: str = key(Text(), "key of the scenario")
    values: tuple[Any, ...] = key(ListOf(Anything()), "that it takes", ())
    count: str | None = key(Text(), 'size that says for how many, from 0 on: "{SIZE}"', None)

    def __post_init__(self) -> None:
        if bool(self.values) == (self.count is not None):
            raise FieldError("values", list(self.values), "must be there, or count, and not both")


@dataclass(frozen=True, kw_only=True)
class ProductTable:
    """Every scheme in every scenario."""

    scenarios: tuple[str, ...] = key(ListOf(Text()), "of this file")
    schemes: tuple[str, ...] = key(ListOf(Text()), "by name")
    changes: Changes = key(Named(Anything()), "keys of the scenarios that are other", {})


@dataclass(frozen=True, kw_only=True)
class BoundTable:
    """What proves what a number cannot be, whatever the scheduler."""

    measure: Measure = key(Measuring(), "what is proved of each run")
    in_place_of: str = key(
        Text(BOUNDED), "whether it stands for the row's run, or for the one over which it is a gain"
    )
    side: str = key(Text(SIDES), "whether the number is then the most or the least that can be")


@dataclass(frozen=True, kw_only=True)
class NotModelledTable:
    """Numbers that are decided by what is not in the simulation."""

    why: str = key(Text(), "a clause, after a colon")
    rows: tuple[str, ...] = key(ListOf(Text()), "of the table", (), shown="all")
    columns: tuple[str, ...] = key(ListOf(Text()), "of the table", (), shown="all")

    def covers(self, row: str, column: str) -> bool:
        """Whether a number is one of them."""
        return row in (self.rows or (row,)) and column in (self.columns or (column,))

    def in_words(self) -> str:
        """Return which numbers, and why, in a sentence."""
        named = [", ".join(names) for names in (self.rows, self.columns) if names]
        return f"Not modelled ({'; '.join(named) or 'all of it'}): {self.why}"


@dataclass(frozen=True, kw_only=True)
class ColumnTable:
    """A column."""

    name: str = key(Text(), "what it is called")
    measure: Measure | None = key(Measuring(), "what is measured", None, shown="the row's")
    better: str = key(Text(BETTER), "whether less or more of it is", LESS)
    yardstick: str | None = key(
        Text(), "row that others are compared with", None, shown="the table's"
    )
    over: str | None = key(Text(), "run over which it is a gain", None, shown="the table's")
    bound: BoundTable | None = key(Table(BoundTable), "proof of what it cannot be", None)
    judged: str | None = key(Text(JUDGED), "by what", None, shown="as the table")
    changes: Changes = key(Named(Anything()), "keys of the scenario that are other", {})


@dataclass(frozen=True, kw_only=True)
class RowTable:
    """A row, and the paper's numbers in it."""

    name: str = key(Text(), "what it is called")
    paper: tuple[str, ...] = key(ListOf(Printed()), "a number for each column")
    run: str | None = key(Text(), "run that is measured", None, shown="the table's")
    measure: Measure | None = key(Measuring(), "what is measured", None, shown="the column's")
    yardstick: str | None = key(
        Text(), "row that it is compared with", None, shown="that of column or table"
    )
    over: str | None = key(Text(), "run over which it is a gain", None, shown="the table's")
    changes: Changes = key(Named(Anything()), "keys of the scenario that are other", {})
    source: str = key(Text(tuple(SOURCES)), "where the paper's numbers are from", "text")
    hidden: bool = key(Flag(), "whether it only serves others as a yardstick", False)


@dataclass(frozen=True, kw_only=True)
class PublicationTable:
    """A table or figure."""

    kind: str = key(Text(KINDS), "of the two")
    number: int = key(Integer(1), "as in the paper, or ours where that is not known")
    title: str = key(Text(), "what is compared")
    judged: str = key(
        Text(JUDGED),
        "whether ours is held against the digits, the value (where there is a yardstick the "
        "gain over that too), the gain or the reduction that the paper prints",
        str(Judged.VALUE),
    )
    columns: tuple[ColumnTable, ...] = key(ListOf(Table(ColumnTable)), "of its numbers", ())
    rows: tuple[RowTable, ...] = key(ListOf(Table(RowTable)), "of its numbers", ())
    run: str | None = key(Text(), "run of rows that name none", None)
    scenario: str | None = key(Text(), "of all its runs", None, shown="that of each run")
    yardstick: str | None = key(Text(), "row that others are compared with", None)
    over: str | None = key(Text(), "run over which gains are", None)
    mean: str = key(Text(MEANS), "of gains over seeds", ARITHMETIC)
    paired: bool = key(
        Flag(), "whether each seed is compared with itself, and not means over all of them", False
    )
    spread: bool = key(Flag(), "whether the least and the greatest are shown", False)
    seeds: int = key(Integer(1, MOST_SEEDS), "of each run", 1)
    most_seeds: int | None = key(
        Integer(1, MOST_SEEDS),
        "of each run, as many as --seeds up to that, in place of seeds",
        None,
    )
    draws: DrawsTable | None = key(Table(DrawsTable), "in place of seeds", None)
    also: tuple[str, ...] = key(ListOf(Text()), "runs beside those of the rows", ())
    products: tuple[ProductTable, ...] = key(
        ListOf(Table(ProductTable)), "more runs beside those of the rows", ()
    )
    computed: Call | None = key(
        Calling(), "what returns ours, or tables and findings beside them", None
    )
    not_modelled: tuple[NotModelledTable, ...] = key(
        ListOf(Table(NotModelledTable)), "numbers that are not judged, and why", ()
    )
    counts_by_0_1_0: bool = key(
        Flag(), "whether verdicts by the rule of version 0.1.0 are counted too", False
    )
    wide: bool = key(Flag(), "whether it is shown as in the paper, ours beside its numbers", False)
    remembered: str = key(Text(), "what of that which is run is from memory", "")
    notes: tuple[str | Call, ...] = key(
        ListOf(Calling(is_sentence=True)),
        'what a reader must know; "{setting}" and "{SIZE}" stand for what was run',
        (),
    )
    plot: str | None = key(Text(), "function that draws it", None)

    def __post_init__(self) -> None:
        for place, row in enumerate(self.rows):
            if len(row.paper) != len(self.columns):
                rule = (
                    f"must have a number, or an empty text, for each of {len(self.columns)} columns"
                )
                raise FieldError(f"rows[{place}].paper", list(row.paper), rule)
        names = [row.name for row in self.rows]
        columns = [column.name for column in self.columns]
        for place, each in enumerate(self.not_modelled):
            for field, given, known in (
                ("rows", each.rows, names),
                ("columns", each.columns, columns),
            ):
                for name in given:
                    _require(f"not_modelled[{place}].{field}", name, known)
        yardsticks = [
            self.yardstick,
            *(column.yardstick for column in self.columns),
            *(row.yardstick for row in self.rows),
        ]
        for yardstick in yardsticks:
            if yardstick is not None and yardstick not in names:
                raise FieldError("yardstick", yardstick, unknown_key(yardstick, names))


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """The whole file."""

    format: str = key(Text((PAPER_FORMAT,)), "of the file")
    version: int = key(Integer(PAPER_VERSION, PAPER_VERSION), "of the format")
    name: str = key(Text(), "on the command line")
    title: str = key(Text(), "of its page")
    citation: str = key(Text(), "what it is")
    remarks: str = key(Text(), "what is simulated, and the meaning of the scale")
    introduction: tuple[str, ...] = key(ListOf(Text()), "what stands first on the page", ())
    scale: float = key(Number(0, 1, above=True), "if not told otherwise")
    seeds: int = key(Integer(1, MOST_SEEDS), "if not told otherwise")
    folder: str = key(Text(), "of the pages if not told otherwise")
    setting: str = key(Text(), 'how much is simulated; "{scale}" and "{SIZE}" stand for it')
    sizes: Mapping[str, SizeTable] = key(Named(Table(SizeTable)), "by name", {})
    called: Mapping[str, str] = key(Named(Text()), "what tables call schemes, by name", {})
    scenarios: Mapping[str, ScenarioTable] = key(Named(Table(ScenarioTable)), "by name", {})
    runs: Mapping[str, RunTable] = key(Named(Table(RunTable)), "by name", {})
    publications: tuple[PublicationTable, ...] = key(
        ListOf(Table(PublicationTable)), "tables and figures, in the order of the page"
    )

    def __post_init__(self) -> None:
        for name, run in self.runs.items():
            _require(f"runs.{name}.scenario", run.scenario, self.scenarios)
        for name, size in self.sizes.items():
            if size.follows is not None:
                _require(f"sizes.{name}.follows", size.follows, self.sizes)
        for place, each in enumerate(self.publications):
            path = f"publications[{place}]"
            if each.scenario is not None:
                _require(f"{path}.scenario", each.scenario, self.scenarios)
            for product in each.products:
                for scenario in product.scenarios:
                    _require(f"{path}.products.scenarios", scenario, self.scenarios)
            named = {"run": each.run, "over": each.over}
            named |= {f"also[{at}]": run for at, run in enumerate(each.also)}
            for at, row in enumerate(each.rows):
                named |= {f"rows[{at}].run": row.run, f"rows[{at}].over": row.over}
            named |= {f"columns[{at}].over": one.over for at, one in enumerate(each.columns)}
            for field, called in named.items():
                if called is not None:
                    _require(f"{path}.{field}", called, self.runs)


def _require(field: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise FieldError(field, name, unknown_key(name, list(known)))


def read_paper(text: str, source: str) -> PaperTable:
    """Return a paper.

    Raises
    ------
    InputError
        If something in it is wrong; names field, value and rule.
    """
    try:
        return parsed(PaperTable, parse_toml(text, source, "a paper"))
    except FieldError as error:
        raise InputError(source, str(error)) from None


@cache
def find_paper(name: str) -> PaperTable:
    """Return a paper by name."""
    file = PAPERS_FOLDER / f"{name}.toml"
    return read_paper(file.read_text(encoding="utf-8"), file.name)


def name_of(paper: str, publication: PublicationTable) -> str:
    """Return the name of the page of a table or figure."""
    return f"{paper}-{publication.kind}-{publication.number}"

"""The TOML format of papers: published numbers, and the simulations compared with them.

Each key is declared once, as in scenarios. A paper is a file ``paper_figures/NAME.toml``.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from lyra_opt.core.documents import join_path, parse_toml, unknown_key
from lyra_opt.core.errors import FieldError, in_file
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
    """A function name with arguments, from a paper's TOML file.

    Parameters
    ----------
    of
        The name of the function.
    parameters
        The arguments by name.
    """

    of: str
    parameters: Mapping[str, Any]


def by_name(*functions: FunctionT) -> Mapping[str, FunctionT]:
    """Return a mapping from function names to the functions that a paper's file may name."""
    return {getattr(each, "__name__"): each for each in functions}  # noqa: B009 - of all functions


@dataclass(frozen=True, slots=True)
class Calling(Rule):
    """The rule for a TOML value that names a function, alone or in a table with arguments.

    In a table, the key ``of`` is the name.

    Parameters
    ----------
    is_sentence
        Whether a plain text is a sentence instead of the name of a function.
    """

    is_sentence: bool = False

    def check(self, path: str, value: object) -> Call | str:
        """Return the function call that a TOML value describes, or a sentence if allowed."""
        if isinstance(value, str):
            text = Text().check(path, value)
            return text if self.is_sentence else Call(of=text, parameters={})
        if not isinstance(value, dict) or "of" not in value:
            what = "a sentence" if self.is_sentence else "the name of a function"
            raise FieldError(path, value, f"must be {what}, or a table with the key of")
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
    """A quantity that is measured in a simulation.

    Parameters
    ----------
    of
        A figure of the replay, or a function of `lyra_opt.paper_figures.results`.
    over
        The figure to divide by, both summed over all runs; empty for none.
    times
        A factor.
    where_none
        The value for a run without such a figure; None makes that an error.
    beside
        Another run that is passed to the function; empty for none.
    parameters
        Further arguments of the function.
    """

    of: str
    over: str = ""
    times: float = 1.0
    where_none: float | None = None
    beside: str = ""
    parameters: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Measuring(Rule):
    """The rule for a TOML value that names a measured quantity, alone or in a table."""

    def check(self, path: str, value: object) -> Measure:
        """Return the measure that a name or table describes."""
        call = Calling().check(path, value)
        assert isinstance(call, Call), "without is_sentence, a rule returns a call"
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
    """The rule for a quoted number in TOML that keeps the digits of the paper, or is empty."""

    def check(self, path: str, value: object) -> str:
        """Return the text if it is a number or empty."""
        if not isinstance(value, str):
            raise FieldError(path, value, "must be a number as printed, in quotes")
        try:
            float(value or 0)
        except ValueError:
            raise FieldError(path, value, "must be a number as printed, or empty") from None
        return value


@dataclass(frozen=True, kw_only=True)
class SizeTable:
    """A number in a paper's file that depends on the scale, such as a number of servers."""

    full: float = key(Number(), "value at the paper's size")
    least: float = key(Number(), "least value at any scale", 0.0)
    follows: str | None = key(
        Text(), "another size to which this size is proportional", None, shown="the scale itself"
    )
    below_full: float | None = key(
        Number(), "value at every scale below 1", None, shown="in proportion to the scale"
    )
    whole: bool = key(Flag(), "whether the value is rounded to an integer", True)


@dataclass(frozen=True, kw_only=True)
class ScenarioTable:
    """A scenario that a paper's simulations use, based on a bundled scenario."""

    like: str = key(Text(), "a bundled scenario, or another scenario of this file")
    changes: Changes = key(
        Named(Anything()), 'scenario keys to replace; "{SIZE}" stands for a size', {}
    )
    below_full: Changes = key(Named(Anything()), "further keys to replace at scales below 1", {})
    needs: tuple[str, ...] = key(ListOf(Text()), "files of traces that the scenario needs", ())
    called: str = key(Text(), "name of the scenario in tables", "")


@dataclass(frozen=True, kw_only=True)
class RunTable:
    """A named run in a paper's file: a scheme in a scenario."""

    scenario: str = key(Text(), "name of a scenario of this file")
    scheme: str = key(Text(), 'name of a scheme, see "lyra-opt schemes"')
    parameters: Changes = key(Named(Anything()), "parameters that replace the scheme's own", {})
    changes: Changes = key(Named(Anything()), "keys that replace those of the scenario", {})


@dataclass(frozen=True, kw_only=True)
class DrawsTable:
    """Values of a scenario key that take the place of seeds, such as bootstrap draws."""

    of: str = key(Text(), "key of the scenario")
    values: tuple[Any, ...] = key(ListOf(Anything()), "values of the scenario key", ())
    count: str | None = key(
        Text(), 'size "{SIZE}" that gives the number of values, which count from 0', None
    )

    def __post_init__(self) -> None:
        if bool(self.values) == (self.count is not None):
            raise FieldError(
                "values",
                list(self.values),
                "must be set if count is not, and cannot be combined with it",
            )


@dataclass(frozen=True, kw_only=True)
class ProductTable:
    """Runs for every combination of the given schemes and scenarios."""

    scenarios: tuple[str, ...] = key(ListOf(Text()), "names of scenarios of this file")
    schemes: tuple[str, ...] = key(ListOf(Text()), "names of schemes")
    changes: Changes = key(Named(Anything()), "keys that replace those of the scenarios", {})


@dataclass(frozen=True, kw_only=True)
class BoundTable:
    """A proved limit on a number that holds for every scheduler."""

    measure: Measure = key(Measuring(), "the proved limit of each run")
    in_place_of: str = key(
        Text(BOUNDED), "whether the limit replaces the row's run, or the run that the gain is over"
    )
    side: str = key(Text(SIDES), "whether the limit is an upper (most) or a lower (least) limit")


@dataclass(frozen=True, kw_only=True)
class NotModelledTable:
    """Rows and columns whose numbers depend on something that the simulation does not model."""

    why: str = key(Text(), "the reason, written after a colon")
    rows: tuple[str, ...] = key(ListOf(Text()), "rows of the table", (), shown="all")
    columns: tuple[str, ...] = key(ListOf(Text()), "columns of the table", (), shown="all")

    def covers(self, row: str, column: str) -> bool:
        """Whether the number in a row and column is listed as not modelled."""
        return row in (self.rows or (row,)) and column in (self.columns or (column,))

    def in_words(self) -> str:
        """Return a sentence that names the numbers not modelled and the reason."""
        named = [", ".join(names) for names in (self.rows, self.columns) if names]
        return f"Not modelled ({'; '.join(named) or 'all of it'}): {self.why}"


@dataclass(frozen=True, kw_only=True)
class ColumnTable:
    """A column of a published table."""

    name: str = key(Text(), "title of the column")
    measure: Measure | None = key(Measuring(), "the measured quantity", None, shown="the row's")
    better: str = key(Text(BETTER), "whether less or more is better", LESS)
    yardstick: str | None = key(
        Text(), "row that other rows are compared with", None, shown="the table's"
    )
    over: str | None = key(Text(), "run that the gain is over", None, shown="the table's")
    bound: BoundTable | None = key(Table(BoundTable), "proved limit on the numbers", None)
    judged: str | None = key(Text(JUDGED), "how numbers are judged", None, shown="as the table")
    changes: Changes = key(Named(Anything()), "keys that replace those of the scenario", {})


@dataclass(frozen=True, kw_only=True)
class RowTable:
    """A row of a published table, with the paper's numbers."""

    name: str = key(Text(), "title of the row")
    paper: tuple[str, ...] = key(ListOf(Printed()), "the paper's number for each column")
    run: str | None = key(Text(), "run that is measured", None, shown="the table's")
    measure: Measure | None = key(Measuring(), "the measured quantity", None, shown="the column's")
    yardstick: str | None = key(
        Text(), "row that this row is compared with", None, shown="that of column or table"
    )
    over: str | None = key(Text(), "run that the gain is over", None, shown="the table's")
    changes: Changes = key(Named(Anything()), "keys that replace those of the scenario", {})
    source: str = key(Text(tuple(SOURCES)), "source of the paper's numbers", "text")
    hidden: bool = key(
        Flag(), "whether the row is only a yardstick for other rows and not shown", False
    )


@dataclass(frozen=True, kw_only=True)
class PublicationTable:
    """A published table or figure, with the runs and measures that compute its numbers."""

    kind: str = key(Text(KINDS), "table or figure")
    number: int = key(Integer(1), "number in the paper, or our own number if that is unknown")
    title: str = key(Text(), "what is compared")
    judged: str = key(
        Text(JUDGED),
        "how numbers are judged: by the printed digits, by the value (and, with a yardstick, by "
        "the gain over it), or as a printed gain or reduction",
        str(Judged.VALUE),
    )
    columns: tuple[ColumnTable, ...] = key(ListOf(Table(ColumnTable)), "columns of the table", ())
    rows: tuple[RowTable, ...] = key(ListOf(Table(RowTable)), "rows of the table", ())
    run: str | None = key(Text(), "run of rows without a run of their own", None)
    scenario: str | None = key(
        Text(), "scenario of all runs of the table", None, shown="that of each run"
    )
    yardstick: str | None = key(Text(), "row that other rows are compared with", None)
    over: str | None = key(Text(), "run that gains are over", None)
    mean: str = key(Text(MEANS), "kind of mean of gains over seeds", ARITHMETIC)
    paired: bool = key(
        Flag(), "whether runs are compared seed by seed, instead of by their means", False
    )
    spread: bool = key(Flag(), "whether the least and the greatest number are shown", False)
    seeds: int = key(Integer(1, MOST_SEEDS), "number of seeds of each run", 1)
    most_seeds: int | None = key(
        Integer(1, MOST_SEEDS),
        "limit on --seeds, the number of seeds of each run; replaces seeds",
        None,
    )
    draws: DrawsTable | None = key(Table(DrawsTable), "values that replace seeds", None)
    also: tuple[str, ...] = key(ListOf(Text()), "further runs, in addition to the rows", ())
    products: tuple[ProductTable, ...] = key(
        ListOf(Table(ProductTable)), "further combinations of schemes and scenarios", ()
    )
    computed: Call | None = key(
        Calling(), "function that returns numbers, or further tables and findings", None
    )
    not_modelled: tuple[NotModelledTable, ...] = key(
        ListOf(Table(NotModelledTable)), "numbers that are not judged, and why", ()
    )
    wide: bool = key(Flag(), "whether the page begins with a table in the paper's layout", False)
    remembered: str = key(Text(), "parts of the simulated setting that are from memory", "")
    notes: tuple[str | Call, ...] = key(
        ListOf(Calling(is_sentence=True)),
        'facts that a reader needs; "{setting}" and "{SIZE}" stand for the simulated size',
        (),
    )
    plot: Call | None = key(
        Calling(), "kind of the panels of a plot of the table, with their settings", None
    )

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
    """A paper's TOML file: its citation, scenarios, runs, tables and figures."""

    format: str = key(Text((PAPER_FORMAT,)), "format of the file")
    version: int = key(Integer(PAPER_VERSION, PAPER_VERSION), "version of the format")
    name: str = key(Text(), "name on the command line")
    title: str = key(Text(), "title of the overview page")
    citation: str = key(Text(), "citation of the paper")
    remarks: str = key(Text(), "what is simulated, and the meaning of the scale")
    introduction: tuple[str, ...] = key(ListOf(Text()), "first paragraphs of the page", ())
    scale: float = key(Number(0, 1, above=True), "default scale")
    seeds: int = key(Integer(1, MOST_SEEDS), "default number of seeds")
    folder: str = key(Text(), "default folder of the pages")
    setting: str = key(Text(), 'the simulated size; "{scale}" and "{SIZE}" stand for numbers')
    sizes: Mapping[str, SizeTable] = key(Named(Table(SizeTable)), "sizes by name", {})
    called: Mapping[str, str] = key(Named(Text()), "titles of schemes in tables, by name", {})
    scenarios: Mapping[str, ScenarioTable] = key(
        Named(Table(ScenarioTable)), "scenarios by name", {}
    )
    runs: Mapping[str, RunTable] = key(Named(Table(RunTable)), "runs by name", {})
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
    """Parse the text of a paper's TOML file.

    Raises
    ------
    InputError
        If something in the file is wrong; names field, value and rule.
    """
    with in_file(source):
        return parsed(PaperTable, parse_toml(text, source, "a paper"))


@cache
def find_paper(name: str) -> PaperTable:
    """Return a bundled paper by name, such as ``lyra``."""
    file = PAPERS_FOLDER / f"{name}.toml"
    return read_paper(file.read_text(encoding="utf-8"), file.name)


def name_of(paper: str, publication: PublicationTable) -> str:
    """Return the name of the page of a table or figure, such as ``lyra-table-1``."""
    return f"{paper}-{publication.kind}-{publication.number}"

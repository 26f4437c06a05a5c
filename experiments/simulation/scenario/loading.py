"""Read a scenario: its file, the changes and objects in place of what it says, and its variants."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import parse_toml
from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.core.fields import parsed, rule_at, with_change
from lyra_opt.core.own_files import stand_in
from lyra_opt.core.rules import Text
from lyra_opt.experiments.pool import SentOnce
from lyra_opt.experiments.simulation.scenario.documents import (
    plain,
    require_no_stream,
    scenario_text,
    shown_value,
    toml_text,
    with_case,
)
from lyra_opt.experiments.simulation.scenario.keys import (
    SCENARIO_FORMAT,
    SCENARIO_VERSION,
    ScenarioTable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lyra_opt.experiments.simulation.scenario.keys import SchemeEntry
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.workload import Workload

NAMED_JOBS = ("trace", "workload", "parameters", "vc")
"""Keys of ``jobs`` that say which jobs there are."""
OF_TRACES = ("days", "count", "sample")
"""Keys of ``jobs`` that choose among those of a trace."""
LENT = ("servers", "gpus_per_server", "gpu_type")
"""Keys of ``cluster.loans`` that say which servers there are."""

NAMELESS = {"format": SCENARIO_FORMAT, "version": SCENARIO_VERSION, "name": "scenario"}
"""What a scenario that is no file need not say."""

CHANGED = "# run with "
"""Begins a line of a scenario's text that says what is other than in the file."""

CASE = "case"
"""What results call the axis of cases."""

POINTS = ("axes", "cases")
"""Keys that a variant of a scenario has no more."""


@dataclass(frozen=True, kw_only=True)
class Given(SentOnce):
    """What is given, none of it by default.

    Parameters
    ----------
    workload
        In place of the scenario's jobs.
    is_trace
        Whether the workload says no more than traces do, so that all holds of it that the scenario
        says of a trace. Else it says all there is to say, and takes the place of that too.
    cluster
        In place of the scenario's, with its loans.
    schemes
        By label; they are run only where they are asked for.
    """

    workload: Workload | None = None
    is_trace: bool = False
    cluster: Cluster | None = None
    schemes: Mapping[str, SchemeEntry] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """What of the scenario is other than in its file."""
        found = [] if self.workload is None else [f"the jobs of {self.workload.name}"]
        return found + ([] if self.cluster is None else [f"the cluster {self.cluster.name}"])

    @cached_property
    def meaning(self) -> str:
        """Which jobs and cluster they are, of which results depend; schemes go by their labels.

        SHA-256 of every field of them, in time linear in the jobs.
        """
        if not self.words:
            return ""
        content = repr(_content((self.workload, self.is_trace, self.cluster)))
        return sha256(content.encode()).hexdigest()

    def put_into(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a scenario's document without what the objects take the place of."""
        changed = dict(document)
        if self.workload is not None:
            kept = document.get("jobs", {}) if self.is_trace else {}
            changed["jobs"] = {name: kept[name] for name in kept if name not in NAMED_JOBS}
        if self.cluster is not None:
            changed["cluster"] = {"servers": len(self.cluster.own_servers)}
            if self.cluster.inference_servers:
                changed["cluster"]["loans"] = {"servers": self.cluster.inference_servers}
        return changed

    def require_alone(self, document: Mapping[str, Any]) -> None:
        """Check that a document that they were put into still says nothing in their place.

        Raises
        ------
        FieldError
            If it was changed, or an axis changes it.
        """
        found: dict[str, Any] = {}
        if self.workload is not None:
            names = NAMED_JOBS if self.is_trace else NAMED_JOBS + OF_TRACES
            jobs = document.get("jobs", {})
            found |= {f"jobs.{name}": jobs[name] for name in names if name in jobs}
        if self.cluster is not None:
            expected, table = self.put_into(document)["cluster"], document["cluster"]
            found |= {
                f"cluster.{name}": value
                for name, value in table.items()
                if name not in ("name", "loans") and value != expected.get(name)
            }
            if "loans" in expected:
                loans = table.get("loans", {})
                found |= {
                    f"cluster.loans.{name}": loans[name]
                    for name in LENT
                    if name in loans and loans[name] != expected["loans"].get(name)
                }
        for path, value in found.items():
            rule = "must not be set: an object is given that says it"
            raise FieldError(path, value, rule)


def _content(value: Any) -> Any:
    """Return all that an object holds, by the names of its fields, for `repr`."""
    if is_dataclass(value):
        held = [(each.name, _content(getattr(value, each.name))) for each in fields(value)]
        return type(value).__name__, held
    if isinstance(value, Mapping):
        return [(_content(name), _content(inner)) for name, inner in value.items()]
    if isinstance(value, list | tuple):
        return [_content(inner) for inner in value]
    if "__dict__" in dir(value) and not callable(getattr(value, "tolist", None)):
        return type(value).__name__, _content(vars(value))
    return value.tolist() if hasattr(value, "tolist") else value


@dataclass(frozen=True, kw_only=True, eq=False)
class Scenario(SentOnce):
    """A scenario that has been read; equal to one of the same source that says the same.

    Parameters
    ----------
    source
        Where it is from, for errors.
    folder
        That of the file, in which files are looked for that it names.
    text
        The file, word for word, below a comment for each change.
    document
        What it says, changes included, as plain tables.
    table
        The same, checked.
    given
        Objects in place of what it names.
    """

    source: str
    folder: Path
    text: str
    document: Mapping[str, Any]
    table: ScenarioTable
    given: Given = field(default_factory=Given)

    @property
    def description(self) -> str:
        """What it is for, and what is other than in the file."""
        changes = [
            line.removeprefix(CHANGED)
            for line in self.text.splitlines()
            if line.startswith(CHANGED)
        ]
        changed = f"Here with {'; '.join(reversed(changes))}." if changes else ""
        return " ".join(filter(None, (self.table.description, changed)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scenario):
            return NotImplemented
        same = (self.source, self.meaning_hash) == (other.source, other.meaning_hash)
        return same and self.given.schemes == other.given.schemes

    def __hash__(self) -> int:
        return hash((self.source, self.meaning_hash))

    @cached_property
    def meaning_hash(self) -> str:
        """SHA-256 of what it says; comments, layout and description do not count.

        Of files that it names and of objects it is that of all that is in them.
        """
        meaning = self._meaning
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), default=str)
        files = "".join(map(_sha256_of, self._files(meaning)))
        return hashlib.sha256(f"{text}{files}{self.given.meaning}".encode()).hexdigest()

    @cached_property
    def _meaning(self) -> dict[str, Any]:
        """What it says, its cases included."""
        meaning = {name: value for name, value in self.document.items() if name != "description"}
        cases = {name: with_case(self.document, name) for name in self.table.cases}
        return meaning | ({"cases": cases} if cases else {})

    @cached_property
    def files(self) -> list[Path]:
        """The files that it names, and those of its cases, as far as they exist."""
        return list(dict.fromkeys(self._files(self._meaning)))

    def _files(self, value: object) -> Iterator[Path]:
        """Yield the files that a part of the document names, in its order, as far as they exist."""
        if isinstance(value, str):
            if Path(value).suffix and (found := self.path_of(value)).is_file():
                yield found
        elif isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                yield from self._files(inner)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let worker processes be sent what it says, which they check again."""
        return _scenario, (self.source, self.folder, self.text, self.document, self.given)

    def path_to_read(self, file: str) -> Path:
        """Return `path_of` a file; `InputError`, which says where else it may be, without one."""
        from lyra_opt.instances.traces import NOT_THERE

        found = self.path_of(file)
        if not found.exists():
            raise InputError(file, f"is no file, {NOT_THERE}")
        return found

    def path_of(self, file: str) -> Path:
        """Return where a file is that it names: beside it, as given, or among the traces."""
        from lyra_opt.instances.traces import locate

        beside = stand_in(self.folder / file)
        found = beside if beside.is_file() else locate(file)
        require_no_stream(found)
        return found


def _sha256_of(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Change:
    """A key that is other than in the file.

    Parameters
    ----------
    path
        Of the key.
    value
        Of the key.
    typed
        The value as it was typed where it is no text in TOML, for keys that must have text: a
        virtual cluster may be called 6214e9, which TOML has for a number.
    """

    path: str
    value: Any
    typed: str | None = None


def load_scenario(
    scenario: str | Mapping[str, Any] | Scenario,
    changes: Iterable[Change] = (),
    *,
    jobs: str | None = None,
    given: Given | None = None,
) -> Scenario:
    """Read and check a scenario.

    Parameters
    ----------
    scenario
        A bundled scenario's name, a TOML file, or what such a file says, ``format``, ``version``
        and ``name`` of which can be left out; or a scenario that was read.
    changes
        Keys that are other than in the file.
    jobs
        Job trace that takes the place of the jobs of the file.
    given
        Objects that take the place of what the file names; changes come after them.

    Raises
    ------
    UserError
        If there is no such scenario, or something in it is wrong; names file, field, value and
        rule.
    """
    document: Mapping[str, Any]
    if isinstance(scenario, Scenario):
        text, source, folder = scenario.text, scenario.source, scenario.folder
        document, given = scenario.document, given or scenario.given
    elif isinstance(scenario, str):
        text, source, folder = scenario_text(scenario)
        document = parse_toml(text, source, "a scenario")
    else:
        document = plain({**NAMELESS, **scenario})
        text, source, folder = toml_text(document), "scenario", Path()
    given = given or Given()
    try:
        if jobs is not None:
            of_trace = {
                name: value
                for name, value in document.get("jobs", {}).items()
                if name not in ("workload", "parameters")
            }
            document = {**document, "jobs": {**of_trace, "trace": jobs}}
            text = f"{CHANGED}the jobs of {jobs}\n{text}"
        document = given.put_into(document)
        text = "".join(f"{CHANGED}{words}\n" for words in given.words) + text
        for change in changes:
            is_text = isinstance(rule_at(ScenarioTable, change.path), Text)
            value = change.typed if is_text and change.typed is not None else change.value
            document = with_change(document, change.path, value)
            text = f"{CHANGED}{change.path} = {shown_value(value)}\n{text}"
    except FieldError as error:
        raise InputError(source, str(error)) from None
    return _scenario(source, folder, text, document, given)


def _scenario(
    source: str, folder: Path, text: str, document: Mapping[str, Any], given: Given
) -> Scenario:
    try:
        # A file of cases need not say where jobs run; checked is the first case then.
        cases = document.get("cases")
        if isinstance(cases, list) and cases and isinstance(cases[0], str):
            table = parsed(ScenarioTable, with_case(document, cases[0]))
        else:
            table = parsed(ScenarioTable, document)
        given.require_alone(document)
    except FieldError as error:
        raise InputError(source, str(error)) from None
    return Scenario(
        source=source, folder=folder, text=text, document=document, table=table, given=given
    )


def variants(scenario: Scenario) -> list[tuple[dict[str, Any], Scenario]]:
    """Return each case of a scenario with each combination of the values of its axes, and these.

    Raises
    ------
    InputError
        If a combination breaks a rule, or no case is there.
    """
    axes = scenario.table.axes
    plain = {name: value for name, value in scenario.document.items() if name not in POINTS}
    documents: list[tuple[dict[str, Any], dict[str, Any]]] = [({}, plain)]
    if scenario.table.cases:
        absent = absent_cases(scenario)
        documents = [
            ({CASE: name}, with_case(plain, name))
            for name in scenario.table.cases
            if name not in absent
        ]
        if not documents:
            raise InputError(scenario.source, f"cases: not there: {', '.join(absent.values())}")
    found = []
    for case, of_case in documents:
        for values in product(*axes.values()):
            named = {path: _of_axis(value) for path, value in zip(axes, values, strict=True)}
            document = of_case
            try:
                for path, value in zip(axes, values, strict=True):
                    as_in_file = list(value) if isinstance(value, tuple) else value
                    document = with_change(document, path, as_in_file)
            except FieldError as error:
                raise InputError(scenario.source, str(error.inside("axes"))) from None
            variant = _scenario(
                scenario.source, scenario.folder, scenario.text, document, scenario.given
            )
            found.append((case | named, variant))
    return found


def absent_cases(scenario: Scenario) -> dict[str, str]:
    """Return the trace of each case of a scenario whose trace is not there, by case."""
    traces = {
        name: with_case(scenario.document, name).get("jobs", {}).get("trace")
        for name in scenario.table.cases
    }
    return {
        name: str(trace)
        for name, trace in traces.items()
        if trace is not None and not scenario.path_of(str(trace)).is_file()
    }


def parse_change(text: str) -> Change:
    """Return a change such as ``cluster.loans.servers=70``; `UserError` if it is none."""
    path, sign, value = text.partition("=")
    path = path.strip()
    if not sign or not path or not all(path.split(".")):
        raise UserError(f"--set {text!r}: must be KEY=VALUE, such as cluster.loans.servers=70")
    try:
        found = tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        if value.lstrip().startswith(("[", "{")):
            rule = """names within [] or {} need quotes, such as schemes=["lyra"]"""
            raise UserError(f"--set {text!r}: is not valid TOML: {rule}") from None
        return Change(path, value.strip())
    return Change(path, found, None if isinstance(found, str) else value.strip())


def _of_axis(value: Any) -> Any:
    """Return what results call a value of an axis; lists and tables by how they are written."""
    return shown_value(value) if isinstance(value, dict | list | tuple) else value

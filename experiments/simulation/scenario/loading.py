"""Read a scenario with its changes, and list its variants."""

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import parse_toml
from lyra_opt.core.errors import FieldError, InputError, UserError, in_file
from lyra_opt.core.fields import parsed, rule_at, with_change
from lyra_opt.core.own_files import stand_in
from lyra_opt.core.rules import Text, located
from lyra_opt.experiments.pool import SentOnce
from lyra_opt.experiments.simulation.scenario.documents import (
    CASE,
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
    SchemeEntry,
)
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.workload import Workload

NAMED_JOBS = ("trace", "workload", "parameters", "vc")
"""Keys of ``jobs`` that name the jobs."""

TRACE_SELECTION = ("days", "count", "sample")
"""Keys of ``jobs`` that select jobs of a trace."""

LENT_SERVERS = ("servers", "gpus_per_server", "gpu_type")
"""Keys of ``cluster.loans`` that describe the servers."""

DICTIONARY_DEFAULTS = {"format": SCENARIO_FORMAT, "version": SCENARIO_VERSION, "name": "scenario"}
"""Keys that a scenario given as a Python dictionary may omit."""

CHANGED = "# run with "
"""Prefix of the comments that record changes in the text of a scenario."""


@dataclass(frozen=True, kw_only=True)
class Given(SentOnce):
    """Python objects that replace parts of a scenario.

    Parameters
    ----------
    workload
        Replaces the scenario's jobs.
    is_trace
        Whether the workload states no more than a trace, so that the scenario's keys for traces
        apply to it. Otherwise it is complete, and these keys are ignored.
    cluster
        Replaces the scenario's cluster and its loans.
    schemes
        Schemes by label, in addition to the scenario's.
    """

    workload: Workload | None = None
    is_trace: bool = False
    cluster: Cluster | None = None
    schemes: Mapping[str, SchemeEntry] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """A clause for each part of the scenario that an object replaces."""
        found = [] if self.workload is None else [f"the jobs of {self.workload.name}"]
        return found + ([] if self.cluster is None else [f"the cluster {self.cluster.name}"])

    @cached_property
    def meaning(self) -> str:
        """SHA-256 of all fields of the given workload and cluster; empty if neither is given.

        Schemes do not count, because their labels identify them.

        Time linear in the number of jobs.
        """
        if not self.words:
            return ""
        content = repr(_content((self.workload, self.is_trace, self.cluster)))
        return hashlib.sha256(content.encode()).hexdigest()

    def put_into(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a scenario's document with its jobs and cluster adapted to the given objects."""
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
        """Raise `FieldError` if a change or an axis sets a key that an object replaces."""
        found: dict[str, Any] = {}
        if self.workload is not None:
            names = NAMED_JOBS if self.is_trace else NAMED_JOBS + TRACE_SELECTION
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
                    for name in LENT_SERVERS
                    if name in loans and loans[name] != expected["loans"].get(name)
                }
        for path, value in found.items():
            raise FieldError(path, value, "must not be set: an object is given that states it")


def _content(value: Any) -> Any:
    """Return an object's fields as nested names and values, for `repr`."""
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
    """A scenario that was read and validated.

    Two scenarios are equal if they have the same source and the same values.

    Parameters
    ----------
    source
        File or name, for error messages.
    folder
        Folder of the file; files that it names are looked for there.
    text
        Text of the file, with a comment for each change.
    document
        Tables of the file as plain data, with all changes applied.
    table
        Tables of the file after validation.
    given
        Python objects that replace parts of the scenario.
    """

    source: str
    folder: Path
    text: str
    document: Mapping[str, Any]
    table: ScenarioTable
    given: Given = field(default_factory=Given)

    @property
    def description(self) -> str:
        """The description of the scenario, followed by the changes made to its file."""
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
        """SHA-256 of all values, and of the content of all named files and given objects.

        Comments, layout and description do not count.
        """
        meaning = self._meaning
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"), default=str)
        digests = []
        for path in self._files(meaning):
            with path.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
        return hashlib.sha256(f"{text}{''.join(digests)}{self.given.meaning}".encode()).hexdigest()

    @cached_property
    def _meaning(self) -> dict[str, Any]:
        """All values that influence results, including the values of the cases."""
        meaning = {name: value for name, value in self.document.items() if name != "description"}
        cases = {name: with_case(self.document, name) for name in self.table.cases}
        return meaning | ({"cases": cases} if cases else {})

    @cached_property
    def files(self) -> list[Path]:
        """The existing files that the scenario or its cases name."""
        return list(dict.fromkeys(self._files(self._meaning)))

    def _files(self, value: object) -> Iterator[Path]:
        """Yield the existing files that a part of the document names, in order."""
        if isinstance(value, str):
            if Path(value).suffix and (found := self.path_of(value)).is_file():
                yield found
        elif isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                yield from self._files(inner)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the unvalidated document; the receiving process validates it again."""
        return _scenario, (self.source, self.folder, self.text, self.document, self.given)

    def path_to_read(self, file: str) -> Path:
        """Return the path of a file that the scenario names; `InputError` if it does not exist."""
        return _path_to_read(self.folder, file)

    def path_of(self, file: str) -> Path:
        """Return the path of a file beside the scenario, as given, or in the folder of traces."""
        return _path_of(self.folder, file)


def _path_to_read(folder: Path, file: str) -> Path:
    from lyra_opt.instances.traces import not_there

    found = _path_of(folder, file)
    if not found.exists():
        raise InputError(file, f"does not exist, {not_there(file)}")
    return found


def _path_of(folder: Path, file: str) -> Path:
    from lyra_opt.instances.traces import locate

    beside = stand_in(folder / file)
    found = beside if beside.is_file() else locate(file)
    require_no_stream(found)
    return found


@dataclass(frozen=True, slots=True)
class Change:
    """A key of a scenario with a new value.

    ``typed`` is the text of a value that is not a text in TOML. Keys that must be a text use it: a
    virtual cluster may be named 6214e9, which TOML reads as a number.
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
    """Read and validate a scenario.

    Parameters
    ----------
    scenario
        A bundled scenario's name, a TOML file, or the content of such a file as a dictionary, which
        may omit ``format``, ``version`` and ``name``; or a scenario that was read before.
    changes
        Keys with new values.
    jobs
        Job trace that replaces the jobs of the file.
    given
        Objects that replace parts of the scenario; changes are applied after them.

    Raises
    ------
    UserError
        If the scenario does not exist or is invalid; names file, field, value and rule.
    """
    document: Mapping[str, Any]
    if isinstance(scenario, Scenario):
        text, source, folder = scenario.text, scenario.source, scenario.folder
        document, given = scenario.document, given or scenario.given
    elif isinstance(scenario, str):
        text, source, folder = scenario_text(scenario)
        document = parse_toml(text, source, "a scenario")
    else:
        document = plain({**DICTIONARY_DEFAULTS, **scenario})
        text, source, folder = toml_text(document), "scenario", Path()
    given = given or Given()
    with in_file(source):
        if jobs is not None:
            _path_to_read(folder, jobs)
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
    return _scenario(source, folder, text, document, given)


def _scenario(
    source: str, folder: Path, text: str, document: Mapping[str, Any], given: Given
) -> Scenario:
    with in_file(source):
        # A scenario with cases may lack a cluster, so it is validated together with its first case.
        cases = document.get("cases")
        if isinstance(cases, list) and cases and isinstance(cases[0], str):
            table = parsed(ScenarioTable, with_case(document, cases[0]))
        else:
            table = parsed(ScenarioTable, document)
        given.require_alone(document)
    return Scenario(
        source=source, folder=folder, text=text, document=document, table=table, given=given
    )


def variants(scenario: Scenario) -> list[tuple[dict[str, Any], Scenario]]:
    """Return all variants of a scenario, each with its value on each axis.

    A variant is one case with one combination of the values of the axes.

    Raises
    ------
    InputError
        If a combination breaks a rule, or the traces of all cases are missing.
    """
    axes = scenario.table.axes
    plain = {
        name: value for name, value in scenario.document.items() if name not in ("axes", "cases")
    }
    documents: list[tuple[dict[str, Any], dict[str, Any]]] = [({}, plain)]
    if scenario.table.cases:
        absent = absent_cases(scenario)
        documents = [
            ({CASE: name}, with_case(plain, name))
            for name in scenario.table.cases
            if name not in absent
        ]
        if not documents:
            raise InputError(
                scenario.source, f"cases: missing traces: {', '.join(absent.values())}"
            )
    found = []
    for case, of_case in documents:
        for values in product(*axes.values()):
            named = {path: _of_axis(value) for path, value in zip(axes, values, strict=True)}
            document = of_case
            with in_file(scenario.source), located("axes"):
                for path, value in zip(axes, values, strict=True):
                    as_in_file = list(value) if isinstance(value, tuple) else value
                    document = with_change(document, path, as_in_file)
            variant = _scenario(
                scenario.source, scenario.folder, scenario.text, document, scenario.given
            )
            found.append((case | named, variant))
    return found


def absent_cases(scenario: Scenario) -> dict[str, str]:
    """Return the trace files that a scenario's cases name but that do not exist, by case."""
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
    """Parse a ``--set`` value such as ``cluster.loans.servers=70``; raise `UserError` if bad."""
    path, sign, value = text.partition("=")
    path = path.strip()
    if not sign or not path or not all(path.split(".")):
        raise UserError(f"--set {text!r}: must be KEY=VALUE, such as cluster.loans.servers=70")
    try:
        found = tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        if value.lstrip().startswith(("[", "{")):
            rule = """texts in [] or {} need quotes, such as schemes=["lyra"]"""
            if missing := _missing_bracket(value):
                rule = f"{missing} is missing"
            raise UserError(f"--set {text!r}: is not valid TOML: {rule}") from None
        return Change(path, value.strip())
    return Change(path, found, None if isinstance(found, str) else value.strip())


def _missing_bracket(text: str) -> str:
    """Return the first brackets that are not closed in a TOML value; empty if all are."""
    wanted = ""
    for sign in re.sub(r""""[^"]*"|'[^']*'""", "", text):
        if sign in "[{":
            wanted = {"[": "]", "{": "}"}[sign] + wanted
        elif sign in "]}" and wanted[:1] != sign:
            return wanted[:1]
        elif sign in "]}":
            wanted = wanted[1:]
    return wanted


def _of_axis(value: Any) -> Any:
    """Return the name of an axis value in results; lists and tables as TOML text."""
    return shown_value(value) if isinstance(value, dict | list | tuple) else value

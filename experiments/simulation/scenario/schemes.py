"""Build the schemes of a scenario, and determine which bounds apply to each scheme."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.core.own_files import content_sha256, is_reference, located, name_in
from lyra_opt.experiments.simulation.scenario.keys import SchemeEntry
from lyra_opt.experiments.simulation.scenario.loading import Scenario
from lyra_opt.experiments.simulation.scenario.setup import Setup
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.policies.composition import OF_SOLVERS
from lyra_opt.simulation.scheme import Scheme, find_scheme


class Abilities(NamedTuple):
    """Properties of one or several schemes that decide which bounds apply to them.

    ``reading`` is the strictest reading whose bounds apply, or None if no bound applies.
    ``has_copies`` says whether several copies of a job may run at once.
    """

    reading: Reading | None
    has_copies: bool

    def as_setting(self) -> dict[str, Any]:
        """Return the scheme's properties as JSON values by name, for the result row of a run."""
        reading = None if self.reading is None else self.reading.value
        return {"reading": reading, "has_copies": self.has_copies}


def abilities_of(scheme: Scheme, setup: Setup) -> Abilities:
    """Return which bounds apply to a scheme in a setup, and whether it runs copies of a job."""
    policy = scheme.policy(setup.cluster, setup.options)
    reading = None if policy.tuned is not None or policy.packs else scheme.reading
    return Abilities(reading, scheme.has_copies or policy.forks)


def common_abilities(by_scheme: Mapping[str, Abilities]) -> Abilities:
    """Return the combined abilities of several schemes: a bound for them applies to each scheme.

    Raises
    ------
    UserError
        If no bound applies to one of the schemes.
    """
    for name, each in by_scheme.items():
        if each.reading is None:
            raise UserError(
                f"no bound applies to scheme {name}: its jobs are tuned while they run, or share "
                "GPUs, so they can run faster than the workload says. Leave this scheme out."
            )
    is_restart = all(each.reading is Reading.RESTART for each in by_scheme.values())
    return Abilities(
        Reading.RESTART if is_restart else Reading.CONSERVED,
        any(each.has_copies for each in by_scheme.values()),
    )


def make_schemes(scenario: Scenario, names: Sequence[str] = ()) -> list[Scheme]:
    """Return the schemes of a scenario, with the labels, tenures and parameters that it sets.

    ``names`` are labels of the scenario's schemes, or names of other schemes; empty for all of the
    scenario's schemes.

    Raises
    ------
    UserError
        If a scheme does not exist, or has no such parameter.
    """
    return [_scheme(entry, scenario) for entry in _entries(scenario, names)]


def files_of_schemes(scenario: Scenario, names: Sequence[str] = ()) -> dict[str, str]:
    """Return the SHA-256 of each of the user's Python files that define schemes or their parts.

    The keys are references such as ``my_file.py:NAME``. Names and errors are as in `make_schemes`.
    """
    found = {}
    for entry in _entries(scenario, names):
        named = [value for _, value in entry.parameters if isinstance(value, str)]
        for text in named if entry.own is not None else [entry.name, *named]:
            name = text.removeprefix(next(filter(text.startswith, OF_SOLVERS), ""))
            if is_reference(name):
                is_in_file = entry in scenario.table.schemes
                source = located(name, scenario.folder) if is_in_file else name
                found[source] = content_sha256(source)
    return found


def _entries(scenario: Scenario, names: Sequence[str]) -> list[SchemeEntry]:
    table = scenario.table
    by_label = {entry.label: entry for entry in table.schemes} | dict(scenario.given.schemes)
    entries = [by_label.get(name, SchemeEntry(name=name, label=name_in(name))) for name in names]
    return list(dict.fromkeys(entries or table.schemes))


def _scheme(entry: SchemeEntry, scenario: Scenario) -> Scheme:
    if entry.own is not None:
        found: Scheme = entry.own
    elif entry in scenario.table.schemes:
        found = find_in(find_scheme, entry.name, "schemes", scenario)
    else:  # named on the command line
        found = find_scheme(entry.name)
    parameters = {name: located_parameter(value, scenario) for name, value in entry.parameters}
    try:
        found = found.with_parameters(parameters)
        found.require_parts()
    except FieldError as error:
        raise InputError(scenario.source, str(error.inside(f"schemes.{entry.name}"))) from None
    except UserError as error:
        raise InputError(scenario.source, f"schemes.{entry.name}: {error}") from error.__cause__
    tenure = entry.tenure or scenario.table.tenure.all or found.tenure
    return replace(found, name=entry.label, tenure=tenure)


def find_in(find: Callable[[str], Any], name: str, path: str, scenario: Scenario) -> Any:
    """Return `find(name)`; if it fails, raise `InputError` with the scenario and the key `path`."""
    try:
        return find(located(name, scenario.folder))
    except UserError as error:
        raise InputError(scenario.source, f"{path}: {error}") from error.__cause__


def located_parameter(value: Any, scenario: Scenario) -> Any:
    """Return a scheme's parameter; the name of a file is replaced by the path of the file."""
    if not isinstance(value, str):
        return value
    prefix = next(filter(value.startswith, OF_SOLVERS), "")
    if prefix or is_reference(value):
        return prefix + located(value.removeprefix(prefix), scenario.folder)
    return str(scenario.path_of(value)) if Path(value).suffix else value

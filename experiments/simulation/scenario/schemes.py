"""The schemes of a scenario, and what the schedules of each may do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.core.own_files import content_sha256, is_reference, located, name_in
from lyra_opt.experiments.simulation.scenario.keys import SchemeEntry
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.policies.composition import OF_SOLVERS
from lyra_opt.simulation.scheme import find_scheme

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lyra_opt.experiments.simulation.scenario.loading import Scenario
    from lyra_opt.experiments.simulation.scenario.setup import Setup
    from lyra_opt.simulation.scheme import Scheme


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the schedules of one scheme, or of several together, may do.

    Parameters
    ----------
    reading
        The strictest reading that covers them; None where no bound applies.
    has_copies
        Whether they may run several copies of a job at once.
    """

    reading: Reading | None
    has_copies: bool

    def as_setting(self) -> dict[str, Any]:
        """Return the keys by which the row of a run carries them."""
        reading = None if self.reading is None else self.reading.value
        return {"reading": reading, "has_copies": self.has_copies}


def abilities_of(scheme: Scheme, setup: Setup) -> Abilities:
    """Return what a scheme may do in a setup; its policy counts, whatever the scheme says."""
    policy = scheme.policy(setup.cluster, setup.options)
    reading = None if policy.tuned is not None or policy.packs else scheme.reading
    return Abilities(reading, scheme.has_copies or policy.forks)


def common_abilities(by_scheme: Mapping[str, Abilities]) -> Abilities:
    """Return what some schemes may do together; a bound for it applies to each of them.

    Raises
    ------
    UserError
        If no bound applies to one of them.
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
    """Return the schemes of a scenario, called by their labels, with their own tenures.

    Parameters
    ----------
    names
        Labels of those of the file that are wanted, or names of others; empty for those of the
        file.

    Raises
    ------
    UserError
        If there is no such scheme, or it has no such parameter.
    """
    return [_scheme(entry, scenario) for entry in _entries(scenario, names)]


def files_of_schemes(scenario: Scenario, names: Sequence[str] = ()) -> dict[str, str]:
    """Return the SHA-256 of each file of a user's own that schemes, or their parts, are from.

    By reference, such as ``my_file.py:NAME``; names and errors as of `make_schemes`.
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
    else:  # asked for beside the file
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
    """Return what is called so; `InputError` that names file and key if there is none."""
    try:
        return find(located(name, scenario.folder))
    except UserError as error:
        raise InputError(scenario.source, f"{path}: {error}") from error.__cause__


def located_parameter(value: Any, scenario: Scenario) -> Any:
    """Return a parameter; what names a file beside the scenario as its path."""
    if not isinstance(value, str):
        return value
    prefix = next(filter(value.startswith, OF_SOLVERS), "")
    if prefix or is_reference(value):
        return prefix + located(value.removeprefix(prefix), scenario.folder)
    return str(scenario.path_of(value)) if Path(value).suffix else value

"""The states of jobs and nodes that Slurm prints, and what each means for a plan.

A job or a node has one base state and any number of flags. The JSON and the text name both.

Sources: ``slurm.h``, ``slurm_protocol_defs.c`` and the data parsers of SchedMD/slurm (v0.0.38 to
v0.0.46), the page "Job State Codes", and the section "Node State Codes" of ``man sinfo``.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files

from lyra_opt.core.errors import show_value
from lyra_opt.core.nearest_names import suggestion

_TABLES = tomllib.loads(
    files("lyra_opt.instances.snapshots").joinpath("slurm_states.toml").read_text("utf-8")
)


def _by_state(table: Mapping[str, list[str]]) -> dict[str, str]:
    return {state: meaning for meaning, states in table.items() for state in states}


JOB_STATES = _by_state(_TABLES["job_states"])
"""Whether a job holds its nodes, waits, has ended, or has ended and still leaves its nodes. A flag
only stands beside another state."""

NODE_STATES = _by_state(_TABLES["node_states"])
"""Why a node takes no new jobs, by its state or a flag of its state; empty if it does."""

SUFFIXES: Mapping[str, str] = _TABLES["suffixes"]
"""The flag that a character after the state of a node stands for."""


def with_flags(given: Iterable[str]) -> Iterator[str]:
    """Yield the states of a node in capitals, with a flag for each character behind a state."""
    for state in given:
        name = state.upper().rstrip("".join(SUFFIXES))
        yield name
        yield from (SUFFIXES[letter] for letter in state[len(name) :])


def meanings(field: str, given: Iterable[str], known: Mapping[str, str]) -> list[str]:
    """Return the meaning of each state in a field; `ValueError` if one is unknown, or for none."""
    found = list(given)
    if not found:
        raise ValueError(f"{field} is empty: must be a state of Slurm")
    for state in found:
        if state not in known:
            hint = suggestion(state, known) or "; its meaning for a plan is unknown"
            raise ValueError(f"{field} {show_value(state)} is not a state of Slurm{hint}")
    return [known[state] for state in found]

"""The states of jobs and nodes that Slurm prints, and what each means for a plan.

A job or a node has one base state and any number of flags. The JSON and the text name both.

Sources: ``slurm.h``, ``slurm_protocol_defs.c`` and the data parsers of SchedMD/slurm (v0.0.38 to
v0.0.46), the page "Job State Codes", and the section "Node State Codes" of ``man sinfo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.errors import show_value
from lyra_opt.core.nearest_names import suggestion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

COMPLETING = "COMPLETING"
"""The state of jobs that have ended and leave their nodes."""

HOLDING = frozenset(
    "RUNNING SUSPENDED STOPPED CONFIGURING POWER_UP_NODE RESIZING SIGNALING".split()
)
"""The states of jobs that hold their nodes."""

WAITING = frozenset(
    "PENDING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT EXPEDITING".split()
)
"""The states of jobs that wait."""

ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT "
    "REVOKED STAGE_OUT".split()
)
"""The states of jobs that hold no nodes and wait for none."""

JOB_FLAGS = frozenset({COMPLETING, "LAUNCH_FAILED", "RECONFIG_FAIL", "UPDATE_DB"})
"""Flags of jobs that only stand beside one of the states above."""

IN_USE = frozenset({"ALLOCATED", "MIXED"})
"""The states of nodes on which jobs run."""

NODE_STATES = {
    **dict.fromkeys(("IDLE", *IN_USE, COMPLETING, "PLANNED", "CLOUD", "DYNAMIC_NORM"), ""),
    **dict.fromkeys(("POWER_UP", "POWERING_UP", "RESUME", "UNDRAIN", "PERFCTRS"), ""),
    **dict.fromkeys(("REBOOT_REQUESTED", "REBOOT_CANCELED", "CANCEL_REBOOT"), ""),
    "BLOCKED": "blocked",
    **dict.fromkeys(("DRAIN", "DRAINED", "DRAINING"), "drained"),
    "DOWN": "down",
    "EXTERNAL": "external",
    **dict.fromkeys(("ERROR", "FAIL", "FAILING"), "failing"),
    **dict.fromkeys(("MAINT", "MAINTENANCE"), "in maintenance"),
    "NOT_RESPONDING": "not responding",
    **dict.fromkeys(("FUTURE", "DYNAMIC_FUTURE", "INVAL", "INVALID"), "not registered"),
    **dict.fromkeys(("INVALID_REG", "UNKNOWN"), "not registered"),
    **dict.fromkeys(("POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN"), "powered down"),
    **dict.fromkeys(("POWER_DRAIN", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE"), "powered down"),
    **dict.fromkeys(("REBOOT", "REBOOT_ISSUED"), "rebooting"),
    "RESERVED": "reserved",
}
"""Why a node takes no new jobs, by its state or a flag of its state; empty if it does."""

SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
"""The flag that a character after the state of a node stands for."""


def job_states(given: Iterable[str]) -> frozenset[str]:
    """Return the states and flags of a job; `ValueError` if one is unknown."""
    known = HOLDING | WAITING | ENDED | JOB_FLAGS
    return frozenset(_known("job_state", given, known))


def node_states(given: Iterable[str]) -> list[str]:
    """Return the states and flags of a node, in order; `ValueError` if one is unknown."""
    return _known("state", _without_suffixes(given), NODE_STATES)


def _without_suffixes(given: Iterable[str]) -> Iterator[str]:
    for state in given:
        name = state.upper().rstrip("".join(SUFFIXES))
        yield name
        yield from (SUFFIXES[letter] for letter in state[len(name) :])


def _known(field: str, given: Iterable[str], known: Collection[str]) -> list[str]:
    found = list(given)
    if not found:
        raise ValueError(f"{field} is empty: must be a state of Slurm")
    for state in found:
        if state not in known:
            hint = suggestion(state, known) or "; its meaning for a plan is unknown"
            raise ValueError(f"{field} {show_value(state)} is not a state of Slurm{hint}")
    return found

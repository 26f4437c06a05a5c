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
    from collections.abc import Iterable, Iterator, Mapping

JOB_STATES = {
    **dict.fromkeys(("RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING"), "holds"),
    **dict.fromkeys(("POWER_UP_NODE", "RESIZING", "SIGNALING"), "holds"),
    **dict.fromkeys(("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"), "waits"),
    **dict.fromkeys(("RESV_DEL_HOLD", "SPECIAL_EXIT", "EXPEDITING"), "waits"),
    **dict.fromkeys(("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED"), "ended"),
    **dict.fromkeys(("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"), "ended"),
    **dict.fromkeys(("REVOKED", "STAGE_OUT"), "ended"),
    **dict.fromkeys(("LAUNCH_FAILED", "RECONFIG_FAIL", "UPDATE_DB"), "flag"),
    "COMPLETING": "leaves",
}
"""Whether a job holds its nodes, waits, has ended, or has ended and still leaves its nodes. A flag
only stands beside another state."""

NODE_STATES = {
    **dict.fromkeys(("IDLE", "ALLOCATED", "MIXED", "COMPLETING", "PLANNED", "CLOUD"), ""),
    **dict.fromkeys(("POWER_UP", "POWERING_UP", "RESUME", "UNDRAIN", "DYNAMIC_NORM"), ""),
    **dict.fromkeys(("REBOOT_REQUESTED", "REBOOT_CANCELED", "CANCEL_REBOOT", "PERFCTRS"), ""),
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

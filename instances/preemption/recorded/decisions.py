"""Read recorded decisions of real schedulers as preemption instances with their victims.

A recording is a file with one JSON object per line, as ``README.md`` explains.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from lyra_opt.core.documents import JsonObject, parse_json, read_text
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.preemption import PROBLEM, Instance, Solution

OBJECTIVE = ["unplaced", "lost:gpu"]
"""The objective of recorded instances: pods without a node, then lost GPUs."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of a real scheduler.

    Parameters
    ----------
    solver
        Name of the solver that imitates the program in this mode.
    instance
        The cluster and the pending gang.
    solution
        The lost pods and the places of the pending pods. A gang that falls below its minimum is
        lost whole, as its users would count it. The real programs do not know the minimum.
    """

    solver: str
    instance: Instance
    solution: Solution


@cache
def recorded_decisions(recording: str) -> tuple[Decision, ...]:
    """Return the bundled decisions of a recording, a member of `RECORDINGS`."""
    folder = files("lyra_opt.instances.preemption.recorded")
    return read_decisions(str(folder / f"{recording}.jsonl.gz"))


def read_decisions(path: str | Path) -> tuple[Decision, ...]:
    """Return the decisions of a file, except those after which the pending gang did not start.

    Raises
    ------
    InputError
        If a line is not a decision.
    """
    found = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        where = f"{path}, line {number}"
        record = parse_json(line, where)
        try:
            if "program" not in record and record["decision"]["started"]:
                found.append(_decision(record))
        except KeyError as missing:
            raise InputError(where, f"the decision lacks the key {missing}") from None
        except FieldError as error:
            raise InputError(where, str(error)) from None
    return tuple(found)


def _decision(record: JsonObject) -> Decision:
    decided = record["decision"]
    instance = PROBLEM.parse_instance({**record["instance"], "objective": OBJECTIVE})
    assert isinstance(instance, Instance)
    group_of = {
        gang.id: [
            instance.index.first_group[position] + group
            for group, pods in enumerate(gang.pods)
            for _ in range(pods.count)
        ]
        for position, gang in enumerate(instance.gangs)
    }
    lost = np.zeros(len(instance.index.group_node), dtype=np.int64)
    for gang, pods in decided["lost"].items():
        np.add.at(lost, [group_of[gang][pod] for pod in pods], 1)
    placed = np.zeros((1, len(instance.nodes)), dtype=np.int64)
    np.add.at(placed[0], [instance.node_position[node] for node in decided["on"]], 1)
    return Decision(
        solver=decided["solver"],
        instance=instance,
        solution=Solution.of_counts(instance, lost=lost.tolist(), placed=placed),
    )

"""The parts that the recording scripts share, such as the command line and the output file."""

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from lyra_opt.core.documents import JsonObject, gzip_bytes, read_json_object
from lyra_opt.core.errors import UserError
from lyra_opt.core.loading import instance_text
from lyra_opt.core.temporary import TemporaryFolder
from lyra_opt.preemption import PROBLEM, Instance, Moves

POLL_S = 0.25


def environment_with(variable: str, programs: str) -> dict[str, str]:
    """Return the environment in which programs run whose folders `variable` lists.

    Raises
    ------
    UserError
        If the variable is not set, or a program is missing from the folders.
    """
    folders = os.environ.get(variable, "")
    for name in programs.split():
        if shutil.which(name, path=folders or ".") is None:
            rule = f"it must list the folders of the programs {programs}, joined by ':'"
            raise UserError(f"{variable} is {folders!r}, where {name} is missing: {rule}")
    return {**os.environ, "PATH": f"{folders}:{os.environ.get('PATH', '')}"}


def until(is_true: Callable[[], bool], timeout_s: float) -> bool:
    """Wait until a condition holds; return False if it does not within the time."""
    ends_s = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > ends_s:
            return False
        time.sleep(POLL_S)
    return True


def main(record: Callable[[Instance, Path, bool], JsonObject]) -> None:
    """Record the decisions on the instances of the command line, and write them to its file.

    `record` returns the decision on an instance. It gets a new folder for each instance, and
    whether gangs are recorded as PodGroups.
    """
    parser = argparse.ArgumentParser(description="Record the preemptions of a real scheduler.")
    parser.add_argument("out", type=Path, help="file for the recording, .jsonl.gz")
    parser.add_argument("instances", nargs="+", type=Path, help="files of preemption instances")
    parser.add_argument(
        "--gangs", action="store_true", help="Kubernetes: run each gang as a PodGroup"
    )
    given = parser.parse_args()
    instances = [_recordable(read_json_object(path)) for path in given.instances]
    lines = []
    for instance in instances:
        with TemporaryFolder() as folder:
            decision = record(instance, folder, given.gangs)
        print(instance.name, json.dumps(decision), flush=True)
        document = json.loads(instance_text(PROBLEM, instance))
        lines.append(json.dumps({"instance": document, "decision": decision}) + "\n")
    given.out.write_bytes(gzip_bytes("".join(lines).encode()))


def _recordable(document: JsonObject) -> Instance:
    instance = PROBLEM.parse_instance(document)
    assert isinstance(instance, Instance)
    demand, index = instance.demand, instance.index
    is_recordable = (
        demand is not None
        and len(demand.shapes) == 1
        and demand.level is None
        and instance.moves is Moves.NONE
        and instance.victims == "lower"
        and not (instance.budgets or instance.empty_nodes)
        and index.may_use.all()
        and not any(gang.is_protected for gang in instance.gangs)
        and all(node.capacity.get("gpu") for node in instance.nodes)
    )
    if not is_recordable:
        rule = (
            "it must have one shape of pending pods, victims of lower priority and usable nodes "
            "with GPUs, but no level, moves, budgets, protected gangs or nodes to empty"
        )
        raise UserError(f"instance {instance.name!r} cannot be recorded: {rule}")
    return instance

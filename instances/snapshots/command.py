"""The command ``lyra-opt cut``, which writes instances from moments of a placement log."""

import argparse
import re
from pathlib import Path
from typing import Any

from lyra_opt.commands.messages import say
from lyra_opt.commands.output import make_folder, require_folder_path
from lyra_opt.core.errors import UserError


def run(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt cut`` and return the exit code."""
    from lyra_opt.core.documents import write_text
    from lyra_opt.core.loading import instance_text
    from lyra_opt.core.problem import find_problem
    from lyra_opt.instances.snapshots.cutting import cut
    from lyra_opt.instances.snapshots.placement_logs import read_moments
    from lyra_opt.instances.traces import name_of

    if not arguments.moments:
        raise UserError("--at is missing: give at least one moment")
    folder = Path(arguments.out)
    require_folder_path("--out", folder)
    instances: list[tuple[str, Any]] = []
    for at, snapshot in zip(
        arguments.moments, read_moments(arguments.files, arguments.moments), strict=True
    ):
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{name_of(arguments.files[0])}-at-{at}")
        found = cut(snapshot, name, reclaim_servers=arguments.reclaim)
        if not snapshot.pending:
            say(f"no job waited at {at}: no network and no preemption instance")
        instances += found.items()
    make_folder(folder)
    for problem, instance in instances:
        path = folder / f"{instance.name}.json"
        write_text(path, instance_text(find_problem(problem), instance))
        print(path)
    return 0

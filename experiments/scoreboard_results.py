"""The stored runs of the scoreboard, with which ``lyra-opt library score`` compares a solver.

``make scoreboard`` writes them: ``python -m lyra_opt.experiments.scoreboard_results FOLDER``.
"""

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import gzip_bytes, read_json_object, write_bytes
from lyra_opt.experiments.records import SolverRecord, decoded, encoded
from lyra_opt.experiments.store import ResultStore

STORED = Path(__file__).with_name("scoreboard_results.json.gz")

NOT_STORED = {
    **dict.fromkeys(("message", "counters", "solution", "peak_memory_mib", "solver_sha256")),
    "solver_seed": 0,
}
"""The columns that rankings do not need, with the values that stand for them."""

DIGITS_OF_TIMES = 4


def stored_runs(problem: str, ids: Collection[str], path: Path = STORED) -> list[SolverRecord]:
    """Return the stored runs of all solvers on instances of a problem."""
    document = read_json_object(path)
    rows = (dict(zip(document["columns"], row, strict=True)) for row in document["runs"])
    runs = (
        decoded(SolverRecord, document["shared"] | NOT_STORED | row)
        for row in rows
        if row["problem"] == problem and row["instance_name"] in ids
    )
    return [run for run in runs if isinstance(run, SolverRecord)]


def store_runs(folder: Path, path: Path = STORED) -> None:
    """Write the runs of a study of the library without `NOT_STORED`; constant columns once."""
    with ResultStore.open(folder) as store:
        rows = [_row(run) for run in store.runs() if isinstance(run, SolverRecord)]
    first = rows[0]
    shared = {name: first[name] for name in first if all(r[name] == first[name] for r in rows)}
    columns = [name for name in first if name not in shared]
    document = {
        "shared": shared,
        "columns": columns,
        "runs": [[row[name] for name in columns] for row in rows],
    }
    write_bytes(path, gzip_bytes(json.dumps(document, separators=(",", ":")).encode()))


def _row(run: SolverRecord) -> dict[str, Any]:
    row = {name: value for name, value in encoded(run).items() if name not in NOT_STORED}
    for name in ("wall_time_s", "cpu_time_s"):
        row[name] = None if row[name] is None else round(row[name], DIGITS_OF_TIMES)
    return row | {"started_at": f"{run.started_at[:16]}:00.000+00:00"}


if __name__ == "__main__":
    store_runs(Path(sys.argv[1]))

"""Rows of results made by hand."""

from lyra_opt.core.result import Status
from lyra_opt.experiments.records import ReplayRecord, ReplayStatus, SolverRecord, StudyRecord


def make_run(cell, configuration, status, **columns):
    """Return a row; what is not given has some plain value."""
    plain = {
        "study": "by-hand",
        "problem": "reclaim",
        "position": 0,
        "key": f"{cell}, {configuration}",
        "cell": cell,
        "configuration": configuration,
        "family_group": "",
        "family": "made",
        "axes": ["servers", "reclaim_percent"],
        "family_parameters": {"servers": 10, "reclaim_percent": 30},
        "size": 10,
        "variant": "rigid",
        "seed": 0,
        "trace_name": None,
        "trace_sha256": None,
        "instance_name": cell,
        "content_sha256": cell,
        "solver": configuration,
        "solver_seed": 1,
        "time_limit_s": None,
        "certify": True,
        "reference": False,
        "status": status,
        "versions": {"python": "3.11.0"},
        "cpu": "a processor",
        "cores": 2,
        "platform": "a platform",
        "started_at": "2024-01-01T00:00:00.000+00:00",
    }
    row = plain | columns
    parameters = row["family_parameters"]
    row["axes"] = {name: parameters[name] for name in row["axes"] if name in parameters}
    return SolverRecord(**row)


def make_runs(rows, **common):
    """Return the runs of a table whose rows are cell, configuration, status and further columns."""
    return [
        make_run(cell, name, Status(status), **{"position": position} | common | dict(*columns))
        for position, (cell, name, status, *columns) in enumerate(rows)
    ]


def make_replay(seed, **columns):
    """Return the row of a simulation; what is not given has some plain value."""
    row = {
        "study": "by-hand",
        "position": seed,
        "axes": {"load": 0.5},
        "seed": seed,
        "status": ReplayStatus.FINISHED,
        "scenario": "basic",
        "scheme": "fifo",
        "workload": "made",
        "cluster": "two servers",
        "versions": {"python": "3.11.0"},
        "cpu": "a processor",
        "cores": 2,
        "platform": "a platform",
        "started_at": "2024-01-01T00:00:00.000+00:00",
    } | columns
    axes = ", ".join(f"{name}={value}" for name, value in row["axes"].items())
    key = f"{row['scheme']}, {axes}, seed={row['seed']}"
    return ReplayRecord(**({"key": key} | row))


MAXIMISING = {"problem": "allocation", "variant": "jct_reduction"}
"""Columns of a row whose objective is maximised."""


def make_study(runs):
    """Return the study of rows made by hand."""
    return StudyRecord(
        name="by-hand",
        kind="solver",
        description="Made <by> hand.",
        text="# the file",
        meaning_hash="0",
        runs=runs,
        settings={"problem": "reclaim", "headline": []},
    )

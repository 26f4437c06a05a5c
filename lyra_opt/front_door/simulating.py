"""Schemes on a simulated cluster, for ``import lyra_opt as lo``."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.messages import Loudness, as_loud_as
from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.core.rules import Integer
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from lyra_opt.experiments.pool import Engine
    from lyra_opt.experiments.simulation.scenario.keys import SchemeEntry
    from lyra_opt.experiments.simulation.scenario.loading import Scenario
    from lyra_opt.experiments.simulation.showing.results import Runs
    from lyra_opt.simulation.scheme import SchemeLike


def simulate(  # noqa: PLR0913 - all but the first are given by name
    scenario: str | Path | Mapping[str, Any] | Scenario = "plain",
    *,
    schemes: Sequence[SchemeLike | Mapping[str, Any]] = (),
    seeds: int | Iterable[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    jobs: str | Path | pd.DataFrame | Workload | None = None,
    cluster: Cluster | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    processes: int = 1,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> Runs:
    """Replay jobs on a simulated cluster under one or more schemes.

    Parameters
    ----------
    scenario
        Cluster, jobs and what is assumed of them: a name that ``lyra-opt scenarios list`` knows, a
        TOML file, what such a file says as a dictionary, or one that was read.
    schemes
        In place of the scenario's: names that ``lyra-opt schemes`` lists, labels of the scenario,
        ``my_file.py:NAME``, schemes and policies of one's own, classes or objects, or dictionaries
        as scenarios have them (``{"name": "lyra", "reclaimer": "exact", "label": "best"}``), in
        which classes and objects can stand for names.
    seeds
        In place of the scenario's: how many from 0 on, or which.
    changes
        Keys of the scenario with other values, such as ``{"cluster.servers": 44,
        "jobs.parameters.days": 2}``; ``lyra-opt scenarios keys`` explains all of them.
    jobs
        In place of the scenario's. A file, or a frame with the columns of a trace (see
        `lyra_opt.instances.workloads.readers.workload_of_frame`), is a trace: what the scenario
        assumes of jobs is assumed of these. A `lyra_opt.simulation.workload.Workload`, or a frame
        that its ``to_frame`` returns, says all of its jobs itself.
    cluster
        In place of the scenario's, with its loans.
    out
        Folder that keeps the replays, for `load_study` and ``lyra-opt report``; without it they are
        there as long as what is returned.
    resume
        Whether to go on with the replays that the folder holds.
    processes
        Replays that run at once, each in a process of its own. A single one runs in this process,
        and so do all where an object that is given cannot be sent to another one, as one cannot
        that is defined in a notebook or in the script that runs.
    scheduler
        Address of a Dask scheduler whose workers do the replays instead, ``"tls://HOST:PORT"``;
        they can be sent objects of any kind. Needs ``lyra-opt[cluster]``.
    progress
        Whether to say on stderr what is asked of the cluster and how far it is; None does so in a
        terminal and in a notebook.

    Returns
    -------
    Runs
        Printed, it is the main measures side by side; ``summary``, ``jobs`` and ``series`` are data
        frames, ``plot()`` a picture. A replay that failed is named on stderr, and a row of
        ``summary``.

    Raises
    ------
    UserError
        If something that is asked for is not there or wrong; names field, value and rule.
    KeyboardInterrupt
        If it was interrupted; replays that finished are in `out`.

    Examples
    --------
    >>> small = {"cluster.servers": 4, "jobs.parameters.days": 1}
    >>> runs = simulate("lyra-paper", schemes=["fifo", "lyra"], changes=small)
    >>> list(runs.summary.scheme), bool(runs.summary.jct_mean_s.gt(0).all())
    (['fifo', 'lyra'], True)
    """
    from lyra_opt.experiments.executor import EXIT_INTERRUPTED
    from lyra_opt.experiments.simulation.running.replays import run_scenario
    from lyra_opt.experiments.simulation.showing.results import Runs

    processes = _checked(processes, out)
    entries = _entries(schemes)
    wanted = _changes(changes) | ({} if seeds is None else {"seeds": seeds})
    found = _scenario(scenario, wanted, jobs, cluster, entries)
    is_told = _is_watched() if progress is None else progress
    with as_loud_as(Loudness.USUAL if is_told else Loudness.QUIET):
        status, replays = run_scenario(
            found,
            list(entries),
            out=None if out is None else Path(out),
            resume=resume,
            engine=_engine(scheduler, processes, found),
        )
    if status == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    return Runs(replays, found, tuple(entries))


def bound(
    scenario: str | Path | Mapping[str, Any] | Scenario | Runs = "plain",
    *,
    readings: str | Sequence[str] = (),
    of: str | Sequence[str] = "all",
    seeds: int | Iterable[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    jobs: str | Path | pd.DataFrame | Workload | None = None,
    cluster: Cluster | None = None,
) -> pd.DataFrame:
    """Prove what no schedule can beat, not even that of somebody who knows the future.

    Parameters
    ----------
    scenario
        As of `simulate`; or the `Runs` that it returned, whose jobs, cluster and schemes are taken.
    readings
        What schedules may do: "restart" (a rigid job without checkpoints that is stopped starts
        from nothing), "conserved" (jobs may be stopped, resized and moved at any moment). By
        default each of the two whose bound applies to all of the schemes.
    of
        Of which jobs the means are, all others being there too: "all", "rigid", "elastic",
        "fungible", or "weighted" for all by their weights.
    seeds, changes, jobs, cluster
        As of `simulate`; not with `Runs`.

    Returns
    -------
    DataFrame
        A row for each variant, seed, class and reading: the axes of the scenario, ``seed``,
        ``reading``, ``has_copies`` (whether it applies to schedules with copies of jobs),
        ``job_class``, ``jct_mean_bound_s``, ``least_run_mean_s``, ``excess_mean_bound_s``,
        ``queue_mean_bound_s``, ``cpu_s``, ``jobs``, ``cell_s``.

    Raises
    ------
    UserError
        If something that is asked for is not there or wrong; names field, value and rule. If no
        bound, or not that of `readings`, applies to a scheme; names the scheme.
    SimulationError
        If one of the `Runs` is better than what is proved; then one of the two is wrong.

    Notes
    -----
    Source: this project; the proof is in `lyra_opt.simulation.bounds.whole`.

    Examples
    --------
    >>> small = {"cluster.servers": 4, "jobs.parameters.days": 1}
    >>> runs = simulate("lyra-paper", schemes=["lyra"], changes=small)
    >>> proved = bound(runs, readings="restart")
    >>> bool(runs.summary.jct_mean_s[0] >= proved.jct_mean_bound_s[0] > 0)
    True
    """
    import pandas as pd

    from lyra_opt.experiments.simulation.measuring.proving import prove
    from lyra_opt.experiments.simulation.showing.results import Runs
    from lyra_opt.simulation.bounds.scope import Reading

    known = {reading.value: reading for reading in Reading}
    names = [readings] if isinstance(readings, str) else list(readings)
    for name in names:
        if name not in known:
            raise FieldError("readings", str(name), f"must be one of: {', '.join(known)}")
    if isinstance(scenario, Runs):
        given = {"seeds": seeds, "changes": changes, "jobs": jobs, "cluster": cluster}
        for name, value in given.items():
            if value is not None:
                raise FieldError(
                    name, str(value), "must be left out for Runs, which have their own"
                )
        found, of_runs = scenario.scenario, scenario
    else:
        wanted = _changes(changes) | ({} if seeds is None else {"seeds": seeds})
        found, of_runs = _scenario(scenario, wanted, jobs, cluster, {}), None
    rows = []
    classes = [of] if isinstance(of, str) else list(of)
    for proved in prove(
        found,
        [known[name] for name in names],
        schemes=of_runs.schemes if of_runs else (),
        runs=of_runs.replays.runs if of_runs else (),
        job_classes=classes,
    ):
        row = proved.as_json_object()
        rows.append({**row.pop("axes", {}), **row})
    return pd.DataFrame(rows)


def _checked(processes: int, out: object) -> int:
    """Return a number of processes; `FieldError` if it or the folder is none."""
    if out is not None and not isinstance(out, str | Path):
        raise FieldError("out", str(out), "must be the path of a folder")
    return Integer(1).check("processes", processes)


def _engine(scheduler: str | None, processes: int, scenario: Scenario) -> Engine:
    from lyra_opt.experiments.pool import LocalProcesses
    from lyra_opt.experiments.settings import checked_address, engine_of

    if scheduler is not None:
        return engine_of(checked_address("scheduler", scheduler), None)
    return LocalProcesses(processes if _can_be_sent(scenario) else 1, spares_one=True)


def _changes(changes: Mapping[str, Any] | None) -> dict[str, Any]:
    if changes is not None and not isinstance(changes, Mapping):
        rule = 'must be a dictionary of keys and values, such as {"cluster.servers": 44}'
        raise FieldError("changes", str(changes), rule)
    return dict(changes or {})


def _entries(schemes: Sequence[SchemeLike | Mapping[str, Any]]) -> dict[str, SchemeEntry | None]:
    """Return what is asked for by label; None for what the scenario or a name says."""
    from lyra_opt.experiments.simulation.scenario.keys import scheme_entry

    is_one = isinstance(schemes, str | type | Mapping) or not isinstance(schemes, Iterable)
    found: dict[str, SchemeEntry | None] = {}
    for scheme in [schemes] if is_one else schemes:
        label, entry = str(scheme), None
        if not isinstance(scheme, str):
            entry = scheme_entry(scheme if isinstance(scheme, Mapping) else {"name": scheme})
            label = entry.label
        if label in found:
            raise UserError(
                f"scheme {label!r} is named twice; give one of them another label: "
                '{"name": ..., "label": "another"}'
            )
        found[label] = entry
    return found


def _scenario(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    changes: Mapping[str, Any],
    jobs: str | Path | pd.DataFrame | Workload | None,
    cluster: Cluster | None,
    entries: Mapping[str, SchemeEntry | None],
) -> Scenario:
    """Return the scenario that is asked for, with the objects that are given."""
    from lyra_opt.experiments.simulation.scenario.documents import plain
    from lyra_opt.experiments.simulation.scenario.loading import (
        Change,
        Given,
        Scenario,
        load_scenario,
    )
    from lyra_opt.instances.workloads.readers import workload_of_frame

    if not isinstance(scenario, str | Path | Mapping | Scenario):
        rule = "must be a name, a TOML file, a dictionary or a Scenario"
        raise FieldError("scenario", str(scenario), rule)
    if cluster is not None and not isinstance(cluster, Cluster):
        rule = (
            "must be a lyra_opt.simulation.cluster.Cluster, such as Cluster.of_servers(4); or say "
            'changes={"cluster.servers": 4}'
        )
        raise FieldError("cluster", str(cluster), rule)
    trace, workload, is_trace = None, None, False
    if isinstance(jobs, Workload):
        workload = jobs
    elif isinstance(jobs, str | Path):
        trace = str(jobs)
    elif jobs is not None:
        if not hasattr(jobs, "columns"):
            raise FieldError("jobs", str(jobs), "must be a file, a data frame or a Workload")
        is_trace = "work_worker_s" not in jobs.columns
        workload = workload_of_frame(jobs) if is_trace else Workload.from_frame(jobs)
    if isinstance(scenario, Mapping) and entries:
        scenario = {"schemes": list(entries)} | dict(scenario)
    return load_scenario(
        str(scenario) if isinstance(scenario, Path) else scenario,
        [Change(path, plain(value)) for path, value in changes.items()],
        jobs=trace,
        given=Given(
            workload=workload,
            is_trace=is_trace,
            cluster=cluster,
            schemes={label: entry for label, entry in entries.items() if entry is not None},
        ),
    )


def _can_be_sent(scenario: Scenario) -> bool:
    """Return whether another process can have a scenario, with the objects that are given."""
    try:
        sent = pickle.dumps(scenario)
    except Exception:  # whatever somebody's own object raises
        return False
    return b"__main__" not in sent  # which other processes do not have


def _is_watched() -> bool:
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return is_terminal or "ipykernel" in sys.modules

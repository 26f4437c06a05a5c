"""Simulate scheduling schemes on a cluster, for ``import lyra_opt as lo``."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.messages import Loudness, as_loud_as
from lyra_opt.core.errors import FieldError, UserError, without_inner_frames
from lyra_opt.core.nearest_names import one_of
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


@without_inner_frames
def simulate(  # noqa: PLR0913 - all arguments but the first are keywords
    scenario: str | Path | Mapping[str, Any] | Scenario = "plain",
    *,
    schemes: Sequence[SchemeLike | Mapping[str, Any]] = (),
    seeds: int | Iterable[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    jobs: str | Path | pd.DataFrame | Workload | None = None,
    cluster: Cluster | None = None,
    out: str | Path | None = None,
    bound: bool = False,
    resume: bool = False,
    processes: int = 1,
    scheduler: str | None = None,
    progress: bool | None = None,
) -> Runs:
    """Replay jobs on a simulated cluster under one or more schemes.

    Parameters
    ----------
    scenario
        The cluster, the jobs and the assumptions: a name that ``lyra-opt scenarios list`` shows, a
        TOML file, the content of such a file as a dictionary, or a `Scenario` object.
    schemes
        Schemes to use instead of the scenario's: names that ``lyra-opt schemes`` lists, labels in
        the scenario, ``my_file.py:NAME``, your own schemes and policies as classes or objects, or
        dictionaries as in scenarios (``{"name": "lyra", "reclaimer": "exact", "label": "best"}``),
        in which classes and objects can replace names.
    seeds
        Seeds to use instead of the scenario's: their number (from seed 0 on), or a list.
    changes
        New values for keys of the scenario, such as ``{"cluster.servers": 44,
        "jobs.parameters.days": 2}``; ``lyra-opt scenarios keys`` explains all keys.
    jobs
        Jobs to use instead of the scenario's. A file, or a data frame with the columns of a trace
        (see `lyra_opt.instances.workloads.readers.workload_of_frame`), is a trace, to which the
        scenario's assumptions about jobs apply. A `lyra_opt.simulation.workload.Workload`, or a
        data frame from its ``to_frame``, describes its jobs completely.
    cluster
        A cluster to use instead of the scenario's, including its loans.
    out
        A folder in which the replays are stored, for `load_study` and ``lyra-opt report``. Without
        it, only the returned object has them.
    bound
        Whether to prove lower bounds on the means, which the results show beside each scheme.
    resume
        Whether to continue with the replays that the folder contains already.
    processes
        The number of replays that run at once, each in its own process. With 1 they run in this
        process. They also run in this process if a given object cannot be sent to another one, for
        example because its class is defined in a notebook or in the running script.
    scheduler
        The address of a Dask scheduler, ``"tls://HOST:PORT"``, whose workers run the replays; they
        accept objects of any kind. Needs ``lyra-opt[cluster]``.
    progress
        Whether to print the demand on the cluster and the progress to stderr; None prints them in
        a terminal and in a notebook.

    Returns
    -------
    Runs
        The replays. Printed, they show the main measures side by side; ``frame``, ``jobs`` and
        ``series`` are data frames, and ``plot()`` is a picture. A replay that failed is named on
        stderr and is a row of ``frame``.

    Raises
    ------
    UserError
        If an argument is not valid, or a file or a name does not exist; names field, value and
        rule.
    KeyboardInterrupt
        After Ctrl-C; replays that finished are in `out`.

    Examples
    --------
    >>> small = {"cluster.servers": 4, "jobs.parameters.days": 1}
    >>> runs = simulate("lyra-paper", schemes=["fifo", "lyra"], changes=small)
    >>> list(runs.frame.scheme), bool(runs.frame.jct_mean_s.gt(0).all())
    (['fifo', 'lyra'], True)
    """
    from lyra_opt.experiments.executor import EXIT_INTERRUPTED
    from lyra_opt.experiments.simulation.running.replays import run_scenario
    from lyra_opt.experiments.simulation.scenario.loading import Change, load_scenario
    from lyra_opt.experiments.simulation.showing.results import Runs

    processes = checked_processes(processes, out)
    entries = _entries(schemes)
    found = given_scenario(scenario, seeds, changes, jobs, cluster, entries)
    if bound:
        found = load_scenario(found, [Change("bounds", True)])
    with as_loud_as(loudness_of(progress)):
        status, replays = run_scenario(
            found,
            list(entries),
            out=None if out is None else Path(out),
            resume=resume,
            engine=given_engine(scheduler, processes if _can_be_sent(found) else 1),
        )
    if status == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    return Runs(replays, found, tuple(entries))


@without_inner_frames
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
    """Prove a lower bound on the mean JCT of every schedule, even of one that knows the future.

    Parameters
    ----------
    scenario
        A scenario as for `simulate`, or the `Runs` that it returned, whose jobs, cluster and
        schemes are used.
    readings
        The schedules that the bound covers: "restart" (a rigid job without checkpoints restarts
        from the beginning when it is stopped), or "conserved" (jobs may be stopped, resized and
        moved at any moment without loss). By default every reading that covers all schemes.
    of
        The jobs whose mean is bounded, among all jobs: "all", "rigid", "elastic", "fungible", or
        "weighted" for all jobs by their weights.
    seeds, changes, jobs, cluster
        As for `simulate`; not allowed with `Runs`.

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
        If an argument is not valid (names field, value and rule), or no bound of these readings
        applies to a scheme (names the scheme).
    SimulationError
        If one of the `Runs` is better than the bound, so that the simulation or the bound is wrong.

    Notes
    -----
    Source: this project; the proof is in `lyra_opt.simulation.bounds.whole`.

    Examples
    --------
    >>> small = {"cluster.servers": 4, "jobs.parameters.days": 1}
    >>> runs = simulate("lyra-paper", schemes=["lyra"], changes=small)
    >>> proved = bound(runs, readings="restart")
    >>> bool(runs.frame.jct_mean_s[0] >= proved.jct_mean_bound_s[0] > 0)
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
            raise FieldError("readings", str(name), one_of(name, known))
    if isinstance(scenario, Runs):
        given = {"seeds": seeds, "changes": changes, "jobs": jobs, "cluster": cluster}
        for name, value in given.items():
            if value is not None:
                raise FieldError(
                    name, str(value), "must be left out for Runs, which have their own"
                )
        found, of_runs = scenario.scenario, scenario
    else:
        found, of_runs = given_scenario(scenario, seeds, changes, jobs, cluster), None
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


def checked_processes(processes: int, out: object) -> int:
    """Check the arguments `processes` and `out` of `simulate`; return the number of processes."""
    if out is not None and not isinstance(out, str | Path):
        raise FieldError("out", str(out), "must be the path of a folder")
    return Integer(1).check("processes", processes)


def given_engine(scheduler: str | None, processes: int) -> Engine:
    """Return the engine that runs simulations, on this machine or through a Dask scheduler."""
    from lyra_opt.experiments.pool import LocalProcesses
    from lyra_opt.experiments.settings import checked_address, engine_of

    if scheduler is not None:
        return engine_of(checked_address("scheduler", scheduler), None)
    return LocalProcesses(processes, spares_one=True)


def _entries(schemes: Sequence[SchemeLike | Mapping[str, Any]]) -> dict[str, SchemeEntry | None]:
    """Return the entries of the given schemes by label; None for a scheme given only by name."""
    from lyra_opt.experiments.simulation.scenario.keys import scheme_entry

    if isinstance(schemes, str):
        names = json.dumps([each.strip() for each in schemes.split(",")])
        raise FieldError("schemes", schemes, f"must be a list; write schemes={names}")
    is_one = isinstance(schemes, type | Mapping) or not isinstance(schemes, Iterable)
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


def given_scenario(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    seeds: int | Iterable[int] | None = None,
    changes: Mapping[str, Any] | None = None,
    jobs: str | Path | pd.DataFrame | Workload | None = None,
    cluster: Cluster | None = None,
    entries: Mapping[str, SchemeEntry | None] | None = None,
) -> Scenario:
    """Load a scenario with the given seeds, changes, jobs, cluster and schemes."""
    from lyra_opt.experiments.simulation.scenario.documents import plain
    from lyra_opt.experiments.simulation.scenario.loading import (
        Change,
        Given,
        Scenario,
        load_scenario,
    )
    from lyra_opt.instances.workloads.readers import workload_of_frame

    if changes is not None and not isinstance(changes, Mapping):
        rule = 'must be a dictionary of keys and values, such as {"cluster.servers": 44}'
        raise FieldError("changes", str(changes), rule)
    changes = dict(changes or {}) | ({} if seeds is None else {"seeds": seeds})
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
            schemes={name: entry for name, entry in (entries or {}).items() if entry is not None},
        ),
    )


def _can_be_sent(scenario: Scenario) -> bool:
    """Return whether a scenario and the objects in it can be pickled for another process."""
    try:
        sent = pickle.dumps(scenario)
    except Exception:  # a user's object may raise anything
        return False
    return b"__main__" not in sent  # other processes do not have the classes of the main module


def loudness_of(progress: bool | None) -> Loudness:
    """Return whether messages and progress are shown; None shows them if somebody watches."""
    if progress is None:
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        progress = is_terminal or "ipykernel" in sys.modules
    return Loudness.USUAL if progress else Loudness.QUIET

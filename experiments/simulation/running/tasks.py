"""The replays of a scenario as tasks for the executor: one per variant, seed and scheme."""

import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from lyra_opt.commands.progress import moment_in_words
from lyra_opt.core.errors import UserError
from lyra_opt.core.isolation.memory import peak_memory_mib, reset_peak_memory
from lyra_opt.core.own_files import files_of, name_in
from lyra_opt.core.run_progress import listening, within_run
from lyra_opt.experiments.random_inputs import ASSUMED_INPUTS, JOB_INPUTS
from lyra_opt.experiments.records import (
    ReplayRecord,
    ReplayStatus,
    StudyRecord,
    current_environment,
)
from lyra_opt.experiments.simulation.measuring.bounds import (
    MEAN_JCT,
    cluster_bound,
    figures_of,
    makespan_bounds,
    require_kept,
)
from lyra_opt.experiments.simulation.measuring.demand import demand_by_type, types_in_words
from lyra_opt.experiments.simulation.running.capture import Capture
from lyra_opt.experiments.simulation.running.replay import input_table, replay, series_table
from lyra_opt.experiments.simulation.scenario.building import make_setup, traces_of_workload
from lyra_opt.experiments.simulation.scenario.loading import Scenario, absent_cases, variants
from lyra_opt.experiments.simulation.scenario.schemes import (
    Abilities,
    abilities_of,
    files_of_schemes,
    make_schemes,
)
from lyra_opt.experiments.simulation.scenario.setup import Setup
from lyra_opt.simulation.scheme import Scheme

SETUPS_KEPT = 2
"""A small cache suffices, because all schemes of one setup run one after another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask:
    """One replay, as it is sent to a worker process.

    Parameters
    ----------
    scenario, point
        A variant of a scenario, and its value on each axis.
    schemes
        Labels of all schemes; every job must be able to run under each of them.
    scheme
        Label of the scheme that is replayed.
    seed
        Seed of all random inputs.
    position
        Index of the run among all runs of the study.
    capture
        Absolute path of the folder for captured decisions; None captures none.
    """

    scenario: Scenario
    point: Mapping[str, Any]
    schemes: tuple[str, ...]
    scheme: str
    seed: int
    position: int
    capture: Path | None = None

    @property
    def key(self) -> str:
        """The key that identifies the run in its store."""
        return f"{name_in(self.scheme)} {self.inputs}"

    @property
    def inputs(self) -> str:
        """The variant and the seed, on which the jobs, the cluster and the bounds depend."""
        axes = [f"{name}={value}" for name, value in self.point.items()]
        return " ".join([*axes, f"seed={self.seed}"])

    def run(self) -> ReplayRecord:
        """Run the replay, and return its result as a row for the store."""
        started_at = datetime.now(UTC)
        reset_peak_memory()
        setup, table = self.setup(), self.scenario.table
        (scheme,) = make_schemes(self.scenario, [self.scheme])
        capture, documents = None, {}
        if self.capture is not None:
            # Each file of decisions is named after its run, so no two runs write the same file.
            is_one_of_many = self.point or len(table.seeds) > 1
            name = self.key if is_one_of_many else name_in(self.scheme)
            capture = Capture(
                workload=setup.workload.name,
                scheme=re.sub(r"[^\w.=+-]+", "-", name),
                seed=self.seed,
                most=table.capture.most,
            )
        finished = replay(
            setup,
            scheme,
            capture=capture,
            captured_kinds=table.capture.kinds,
            progress=partial(self._report_progress, len(setup.workload.jobs)),
        )
        figures, setting = finished.as_json_object(), setting_of(setup, scheme)
        setting["inputs"] = _input_checksums(self.scenario, self.schemes, self.seed)
        if table.bounds:
            abilities = abilities_of(scheme, setup)
            figures |= _bounds(self.scenario, self.schemes, self.seed, abilities)
            figures |= _makespan_bounds(
                self.scenario, self.schemes, self.seed, forking=setting["has_copies"]
            )
            require_kept(figures, scheme=scheme.name, first_s=setup.workload.jobs[0].submit_s)
            bound_s = figures[MEAN_JCT]
            share = figures["jct_mean_s"] / bound_s - 1 if bound_s > 0 else None
            figures["jct_above_bound_share"] = share
        if capture is not None and self.capture is not None:
            kept = capture.documents()
            figures["captured"] = capture.in_words()
            setting["captured_in"] = str(self.capture)
            setting["captured_files"] = list(kept)
            documents = {str(self.capture / name): text for name, text in kept.items()}
        return self._record(
            started_at,
            ReplayStatus.FINISHED,
            workload=setup.workload.name,
            cluster=setup.cluster.name,
            wall_time_s=finished.wall_time_s,
            cpu_time_s=finished.cpu_time_s,
            peak_memory_mib=peak_memory_mib(),
            setting=setting,
            figures=figures,
            assumptions=finished.assumptions,
            tables={"jobs": finished.jobs, "series": series_table(finished.series)},
            documents=documents,
        )

    @property
    def documents_folder(self) -> Path | None:
        """The folder for captured decisions."""
        return self.capture

    @property
    def files(self) -> list[Path]:
        """The files that the run reads: those of its scenario, and the user's own Python files."""
        own = files_of_schemes(self.scenario, self.schemes)
        return [
            *self.scenario.files,
            *traces_of_workload(self.scenario),
            *(path for each in own for path in files_of(each)),
        ]

    def failed(self, started_at: datetime, message: str) -> ReplayRecord:
        """Return the row of a run that failed with an error."""
        return self._record(started_at, ReplayStatus.ERROR, message=message)

    def setup(self) -> Setup:
        """Return the jobs, cluster and options to simulate, cached for consecutive tasks."""
        return _setup(self.scenario, self.schemes, self.seed)

    def _report_progress(self, jobs: int, time_s: float, submitted: int, complete: int) -> None:
        """Report progress by submitted and completed jobs.

        The simulated time does not serve: an overloaded cluster has no known end.
        """
        words = f"{self.key}: {moment_in_words(time_s)}, {complete:,} of {jobs:,} jobs complete"
        within_run((submitted + complete) / (2 * jobs), words)

    def _record(self, started_at: datetime, status: ReplayStatus, **outcome: Any) -> ReplayRecord:
        columns: dict[str, Any] = {
            "study": self.scenario.table.name,
            "position": self.position,
            "key": self.key,
            "axes": {**self.point, "scheme": name_in(self.scheme)},
            "seed": self.seed,
            "status": status,
            "scenario": self.scenario.table.name,
            "scheme": name_in(self.scheme),
            "workload": "",
            "cluster": "",
            "started_at": started_at.isoformat(timespec="milliseconds"),
            **asdict(current_environment()),
        }
        return ReplayRecord(**(columns | outcome))


def setting_of(setup: Setup, scheme: Scheme) -> dict[str, Any]:
    """Return the settings of a replay that its page shows, as JSON values.

    ``demand`` is a sentence; ``own_gpus`` and ``lent_gpus_per_server`` count GPUs by type;
    ``last_submission_s`` is in seconds. ``bootstrap`` says how the days of the jobs were resampled;
    None if they were not. Further keys describe the scheme: ``summary``, ``tenure``,
    the abilities ``reading`` and ``has_copies``, and the name of its ``reclaimer`` or None.
    """
    cluster = setup.cluster
    lent = cluster.lent_type
    reclaimer = getattr(scheme, "reclaimer", None)
    servers = cluster.inference_servers
    return {
        "demand": f"{setup.demand_in_words}{types_in_words(demand_by_type(setup))}",
        "own_gpus": cluster.own_gpus,
        "lent_gpus_per_server": {lent.name: cluster.inference_gpus / servers} if lent else {},
        "last_submission_s": setup.workload.jobs[-1].submit_s,
        "bootstrap": None if setup.resampling is None else asdict(setup.resampling),
        "summary": scheme.summary,
        "tenure": scheme.tenure,
        **abilities_of(scheme, setup).as_setting(),
        "reclaimer": reclaimer if isinstance(reclaimer, str) else None,
    }


@lru_cache(maxsize=SETUPS_KEPT)
def _setup(scenario: Scenario, schemes: tuple[str, ...], seed: int) -> Setup:
    return make_setup(scenario, make_schemes(scenario, schemes), seed)


@lru_cache(maxsize=SETUPS_KEPT)
def _input_checksums(scenario: Scenario, schemes: tuple[str, ...], seed: int) -> Mapping[str, int]:
    """Return a checksum of each input of the jobs, which is the same under every scheme."""
    table = input_table(_setup(scenario, schemes, seed).workload.jobs)
    return {
        name: zlib.crc32(table[name].to_csv(index=False).encode())
        for name in (*JOB_INPUTS, *ASSUMED_INPUTS)
    }


@lru_cache(maxsize=2 * SETUPS_KEPT)
def _bounds(
    scenario: Scenario, schemes: tuple[str, ...], seed: int, abilities: Abilities
) -> Mapping[str, Any]:
    assert abilities.reading is not None, "the setup refuses schemes without bounds"
    setup = _setup(scenario, schemes, seed)
    with listening(lambda _share: None):  # only the progress of the replay is shown
        return figures_of(cluster_bound(setup, abilities.reading, has_copies=abilities.has_copies))


@lru_cache(maxsize=2 * SETUPS_KEPT)
def _makespan_bounds(
    scenario: Scenario, schemes: tuple[str, ...], seed: int, *, forking: bool
) -> Mapping[str, float]:
    return makespan_bounds(_setup(scenario, schemes, seed), forking=forking)


def replay_tasks(
    scenario: Scenario, schemes: Sequence[str] = (), *, capture: Path | None = None
) -> list[ReplayTask]:
    """Return the tasks that simulate a scenario, ordered by variant, then seed, then scheme.

    Parameters
    ----------
    schemes
        Labels of the scenario's schemes, or names of other schemes; empty for all of the scenario.
    capture
        Folder for captured decisions.

    Raises
    ------
    UserError
        If a scheme does not exist, two schemes have the same name, or a variant breaks a rule.
    """
    labels = tuple(dict.fromkeys(schemes)) or tuple(each.label for each in scenario.table.schemes)
    called: dict[str, str] = {}
    for label in labels:
        if (other := called.setdefault(name_in(label), label)) != label:
            raise UserError(
                f"schemes: {other} and {label} are both named {name_in(label)}. Give them labels "
                "in a scenario file."
            )
    make_schemes(scenario, labels)
    runs = [
        (point, variant, seed, label)
        for point, variant in variants(scenario)
        for seed in variant.table.seeds
        for label in labels
    ]
    return [
        ReplayTask(
            scenario=variant,
            point=point,
            schemes=labels,
            scheme=label,
            seed=seed,
            position=position,
            capture=None if capture is None else capture.resolve(),
        )
        for position, (point, variant, seed, label) in enumerate(runs)
    ]


def study_of(
    scenario: Scenario, tasks: Sequence[ReplayTask], *, command: str | None = None
) -> StudyRecord:
    """Return the study record of the store that holds the replays of a scenario.

    ``command`` is the command line, if there is one.
    """
    table = scenario.table
    given = list(dict.fromkeys(task.scheme for task in tasks))
    schemes = [name_in(scheme) for scheme in given]
    files = files_of_schemes(scenario, given)
    meaning = f"{scenario.meaning_hash} {schemes}{list(files.values()) or ''}"
    return StudyRecord(
        name=table.name,
        kind=ReplayRecord.kind,
        description=scenario.description,
        text=scenario.text,
        meaning_hash=hashlib.sha256(meaning.encode()).hexdigest(),
        runs=len(tasks),
        settings={"schemes": schemes, "command": command}
        | ({"files": files} if files else {})
        | ({"left_out": absent} if (absent := absent_cases(scenario)) else {}),
    )

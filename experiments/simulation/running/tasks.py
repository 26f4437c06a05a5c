"""The replays of a scenario as rows of a store: each variant, seed and scheme once."""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.progress import moment_in_words
from lyra_opt.core.errors import UserError
from lyra_opt.core.isolation.memory import peak_memory_mib, reset_peak_memory
from lyra_opt.core.own_files import files_of, name_in
from lyra_opt.core.run_progress import listening, within_run
from lyra_opt.experiments.records import (
    ReplayRecord,
    ReplayStatus,
    StudyRecord,
    current_environment,
)
from lyra_opt.experiments.simulation.measuring.bounds import (
    above_bound,
    cluster_bound,
    figures_of,
    makespan_bounds,
    require_kept,
)
from lyra_opt.experiments.simulation.measuring.demand import demand_by_type, types_in_words
from lyra_opt.experiments.simulation.running.capture import Capture
from lyra_opt.experiments.simulation.running.replay import replay, series_table
from lyra_opt.experiments.simulation.scenario.building import make_setup, traces_of_workload
from lyra_opt.experiments.simulation.scenario.loading import absent_cases, variants
from lyra_opt.experiments.simulation.scenario.schemes import (
    abilities_of,
    common_abilities,
    files_of_schemes,
    make_schemes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lyra_opt.experiments.simulation.scenario.loading import Scenario
    from lyra_opt.experiments.simulation.scenario.setup import Setup
    from lyra_opt.simulation.scheme import Scheme

SETUPS_KEPT = 2
"""Schemes of one setup follow one another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask:
    """One replay: what a worker process is sent.

    Parameters
    ----------
    scenario
        A variant, without axes.
    point
        What the variant has of each axis.
    schemes
        Labels of all schemes, under each of which every job has to be able to run.
    scheme
        The label of the one that is replayed.
    seed
        Of all that is drawn.
    position
        Place of the run among all.
    capture
        Folder that decisions are written to, absolute; None keeps none.
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
        """What identifies the run in its store."""
        axes = [f"{name}={value}" for name, value in self.point.items()]
        return " ".join([name_in(self.scheme), *axes, f"seed={self.seed}"])

    def run(self) -> ReplayRecord:
        """Replay it; every error makes the run a failed one."""
        started_at = datetime.now(UTC)
        reset_peak_memory()
        setup = self.setup()
        (scheme,) = make_schemes(self.scenario, [self.scheme])
        capture, documents = None, {}
        if self.capture is not None:
            capture = Capture(
                workload=setup.workload.name,
                scheme=self._name_of_decisions,
                seed=self.seed,
                most=self.scenario.table.capture.most,
            )
        finished = replay(
            setup,
            scheme,
            capture=capture,
            captured_kinds=self.scenario.table.capture.kinds,
            progress=partial(self._tell, len(setup.workload.jobs)),
        )
        figures, setting = finished.as_json_object(), setting_of(setup, scheme)
        if self.scenario.table.bounds:
            figures |= _bounds(self.scenario, self.schemes, self.seed)
            figures |= _makespan_bounds(
                self.scenario, self.schemes, self.seed, forking=setting["has_copies"]
            )
            first_s = setup.workload.jobs[0].submit_s
            latest_s = first_s + figures["makespan_s"]
            require_kept(figures, scheme=scheme.name, latest_s=latest_s)
            figures |= above_bound(figures)
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
        """Folder that captured decisions are written to."""
        return self.capture

    @property
    def files(self) -> list[Path]:
        """What it reads: what its scenario names, and files of a user's own with their imports."""
        own = files_of_schemes(self.scenario, self.schemes)
        return [
            *self.scenario.files,
            *traces_of_workload(self.scenario),
            *(path for each in own for path in files_of(each)),
        ]

    def failed(self, started_at: datetime, message: str) -> ReplayRecord:
        """Return the row of a run that ended in an error."""
        return self._record(started_at, ReplayStatus.ERROR, message=message)

    def setup(self) -> Setup:
        """Return what is simulated; made once for runs that follow one another."""
        return _setup(self.scenario, self.schemes, self.seed)

    @property
    def _name_of_decisions(self) -> str:
        """What files of decisions are called after, so that no other run has files of the name."""
        is_one_of_many = self.point or len(self.scenario.table.seeds) > 1
        return re.sub(r"[^\w.=+-]+", "-", self.key if is_one_of_many else name_in(self.scheme))

    def _tell(self, jobs: int, time_s: float, submitted: int, complete: int) -> None:
        """Tell how far the replay is: what it costs goes by jobs that come and go.

        How long an overloaded cluster will take in the end nobody knows.
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
    """Return what a page needs of a replay beside its figures, as JSON can say it.

    ``demand`` in words; ``own_gpus`` and ``lent_gpus_per_server`` by name of the GPU type;
    ``last_submission_s``; and of the scheme its ``summary``, ``tenure``, what its schedules may do
    (``reading``, ``has_copies``) and, where it gives servers back, the ``reclaimer`` that chooses
    them, if it can be found by its name.
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
        "summary": scheme.summary,
        "tenure": scheme.tenure,
        **abilities_of(scheme, setup).as_setting(),
        "reclaimer": reclaimer if isinstance(reclaimer, str) else None,
    }


@lru_cache(maxsize=SETUPS_KEPT)
def _setup(scenario: Scenario, schemes: tuple[str, ...], seed: int) -> Setup:
    return make_setup(scenario, make_schemes(scenario, schemes), seed)


@lru_cache(maxsize=SETUPS_KEPT)
def _bounds(scenario: Scenario, schemes: tuple[str, ...], seed: int) -> Mapping[str, Any]:
    made = make_schemes(scenario, schemes)
    setup = _setup(scenario, schemes, seed)
    common = common_abilities({each.name: abilities_of(each, setup) for each in made})
    assert common.reading is not None, "a scheme without bounds is refused"
    with listening(lambda _share: None):  # the share that is shown is that of the replay
        return figures_of(cluster_bound(setup, common.reading, has_copies=common.has_copies))


@lru_cache(maxsize=2 * SETUPS_KEPT)
def _makespan_bounds(
    scenario: Scenario, schemes: tuple[str, ...], seed: int, *, forking: bool
) -> Mapping[str, float]:
    return makespan_bounds(_setup(scenario, schemes, seed), forking=forking)


def replay_tasks(
    scenario: Scenario, schemes: Sequence[str] = (), *, capture: Path | None = None
) -> list[ReplayTask]:
    """Return what a scenario asks for: variant by variant, seed by seed, scheme by scheme.

    Parameters
    ----------
    schemes
        Labels of those of the file that are wanted, or names of others; empty for those of the
        file.
    capture
        Folder that decisions are written to.

    Raises
    ------
    UserError
        If there is no such scheme, two are called the same, or a variant breaks a rule.
    """
    labels = tuple(dict.fromkeys(schemes)) or tuple(each.label for each in scenario.table.schemes)
    called: dict[str, str] = {}
    for label in labels:
        if (other := called.setdefault(name_in(label), label)) != label:
            raise UserError(
                f"schemes: {other} and {label} are both called {name_in(label)}; a scenario file "
                "gives them labels"
            )
    make_schemes(scenario, labels)
    places = [
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
        for position, (point, variant, seed, label) in enumerate(places)
    ]


def study_of(
    scenario: Scenario, tasks: Sequence[ReplayTask], *, command: str | None = None
) -> StudyRecord:
    """Return what a store of these replays belongs to.

    Parameters
    ----------
    command
        The command line that asked for them, where there was one.
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

"""Prove bounds for the variants and seeds of a scenario without replaying a scheme."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from lyra_opt.core.errors import FieldError, UserError, in_file
from lyra_opt.core.run_progress import part_of_run
from lyra_opt.experiments.records import ReplayRecord
from lyra_opt.experiments.simulation.measuring.bounds import (
    cluster_bound,
    copy_efficiency_of,
    figures_of,
    require_kept,
    speed_of,
)
from lyra_opt.experiments.simulation.scenario.building import make_setup
from lyra_opt.experiments.simulation.scenario.loading import Scenario, variants
from lyra_opt.experiments.simulation.scenario.schemes import (
    Abilities,
    abilities_of,
    common_abilities,
    make_schemes,
)
from lyra_opt.experiments.simulation.scenario.setup import Setup
from lyra_opt.simulation.bounds.certificate import (
    JCT,
    QUEUE,
    document_of,
    holds,
    proved_mean_s,
    read_certificate,
)
from lyra_opt.simulation.bounds.scope import ALL, Reading
from lyra_opt.simulation.bounds.whole import ClusterBound
from lyra_opt.simulation.clairvoyant.best import CheckedSchedule, obstacle, schedule_of
from lyra_opt.simulation.scheme import Scheme

BOUND_FIGURES = (
    *("jct_mean_bound_s", "least_run_mean_s", "excess_mean_bound_s", "queue_mean_bound_s"),
    *("cpu_s", "jobs", "cell_s"),
)
"""Attributes of a bound that ``bound --format json`` prints under the same names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """A bound for one variant, seed and class of jobs, under one assumption on preempted work.

    Parameters
    ----------
    point
        The variant's value on each axis.
    seed, setup
        The seed, and the setup that it gives.
    bound
        The proved bound.
    has_copies
        Whether the bound applies to schedules with several copies of a job at once.
    job_class
        The jobs over which the means are taken.
    schedule
        The best schedule found; None if no schedule was searched.
    """

    point: Mapping[str, Any]
    seed: int
    setup: Setup
    bound: ClusterBound
    has_copies: bool = False
    job_class: str = ALL
    schedule: CheckedSchedule | None = None

    @property
    def gap(self) -> float | None:
        """The excess of the schedule's mean JCT over the bound, as a share of the bound."""
        if self.schedule is None:
            return None
        return self.schedule.jct_mean_s / self.bound.jct_mean_bound_s - 1

    def certificates(self) -> dict[str, dict[str, Any]]:
        """Return the proofs as documents, by file name."""
        bound = self.bound
        names = [*map(str, self.point.values()), f"seed{self.seed}"]
        names += [self.job_class] if self.job_class != ALL else []
        found = {}
        for objective, certificate in ((JCT, bound.jct), (QUEUE, bound.queue)):
            if certificate is not None:
                name = "-".join([*names, bound.reading.value, objective])
                file = re.sub(r"[^\w.=+-]+", "-", name)
                found[f"{file}.json"] = document_of(
                    certificate,
                    reading=bound.reading,
                    objective=objective,
                    jobs=bound.jobs,
                    job_class=self.job_class,
                )
        return found

    def as_json_object(self) -> dict[str, Any]:
        """Return the object that ``bound --format json`` prints."""
        found = {}
        if self.schedule is not None:
            found = {
                "jct_mean_found_s": self.schedule.jct_mean_s,
                "found_above_bound_share": self.gap,
                "schedule_cpu_s": self.schedule.cpu_s,
            }
        return {
            **({"axes": dict(self.point)} if self.point else {}),
            "scenario": self.setup.scenario,
            "workload": self.setup.workload.name,
            "cluster": self.setup.cluster.name,
            "seed": self.seed,
            "reading": self.bound.reading.value,
            "has_copies": self.has_copies,
            "job_class": self.job_class,
            **{key: getattr(self.bound, key) for key in BOUND_FIGURES},
            **found,
        }


def prove(
    scenario: Scenario,
    readings: Sequence[Reading] = (),
    *,
    schemes: Sequence[str] = (),
    runs: Sequence[ReplayRecord] = (),
    job_classes: Sequence[str] = (ALL,),
    searches: bool = False,
) -> Iterator[Proved]:
    """Prove and yield the bounds of a scenario for each variant, seed, class of jobs and reading.

    Parameters
    ----------
    scenario
        The scenario with its jobs and cluster.
    readings
        Assumptions about the work of preempted jobs; empty for all whose bounds apply to the
        schemes.
    schemes
        Labels of the scenario's schemes, or names of other schemes, to which the bounds apply; jobs
        that a scheme cannot run are treated as in a replay. Empty for the scenario's schemes.
    runs
        Finished replays of these schemes; each is compared with its bounds.
    job_classes
        Classes of jobs, of `lyra_opt.simulation.bounds.scope.JOB_CLASSES`; each has its own mean.
    searches
        Whether to search a schedule too. It stops no job, so it is valid for all readings.

    Raises
    ------
    UserError
        If an object that the scenario names does not exist or is invalid, no bound applies to a
        scheme, or no schedule can be searched.
    SimulationError
        If a run is better than its bound.
    """
    situations = [
        (point, variant, make_schemes(variant, schemes), seed)
        for point, variant in variants(scenario)
        for seed in variant.table.seeds
    ]
    for number, (point, variant, made, seed) in enumerate(situations):
        setup = make_setup(variant, made, seed)
        speed, schedule = speed_of(setup), None
        of_setup = [run for run in runs if run.point == point and run.seed == seed]
        applicable, has_copies = _scope(setup, made, of_setup, readings)
        if searches and (reason := obstacle(setup.workload, speed)) is not None:
            raise UserError(
                f"scenario {setup.scenario}: --schedule cannot search for a schedule: {reason}"
            )
        parts = list(product(job_classes, applicable))
        for part, (job_class, reading) in enumerate(parts, number * len(parts)):
            try:
                with part_of_run(part, len(situations) * len(parts)):
                    bound = cluster_bound(
                        setup, reading, has_copies=has_copies, job_class=job_class
                    )
            except FieldError as error:
                raise UserError(f"scenario {setup.scenario}: {error}") from None
            if job_class == ALL:
                _require_kept(of_setup, bound, setup)
            if searches and schedule is None:
                price = bound.jct.price if job_class == ALL else None
                schedule = schedule_of(
                    setup.workload, speed, bound.jct.border_s, price, seed=setup.options.seed
                )
            yield Proved(
                point=point,
                seed=seed,
                setup=setup,
                bound=bound,
                has_copies=has_copies,
                job_class=job_class,
                schedule=schedule,
            )


def _scope(
    setup: Setup,
    schemes: Sequence[Scheme],
    runs: Sequence[ReplayRecord] = (),
    wanted: Sequence[Reading] = (),
) -> tuple[Sequence[Reading], bool]:
    """Return the readings (rules on lost work) whose bounds apply, and whether jobs have copies.

    A scheme may have changed since its run, so the abilities recorded in the run take precedence.

    Raises
    ------
    UserError
        If no bound applies to a scheme, or the bound of a wanted reading does not.
    """
    by_scheme = {scheme.name: abilities_of(scheme, setup) for scheme in schemes}
    recorded = {run.scheme: _recorded_abilities(run) for run in runs}
    by_scheme |= {name: each for name, each in recorded.items() if each is not None}
    common = common_abilities(by_scheme)
    if common.reading is Reading.RESTART:
        return wanted or tuple(Reading), common.has_copies
    if Reading.RESTART in wanted:
        name = next(name for name, each in by_scheme.items() if each.reading != Reading.RESTART)
        raise UserError(
            f"reading restart: no such bound applies to scheme {name}, which may stop jobs and "
            "resume them without loss. Use the reading conserved, or leave this scheme out."
        )
    return [Reading.CONSERVED], common.has_copies


def _recorded_abilities(run: ReplayRecord) -> Abilities | None:
    """Return which bounds apply to a run's scheme; None in rows of version 0.2.0 or before."""
    if "has_copies" not in run.setting:
        return None
    reading, has_copies = run.setting.get("reading"), run.setting["has_copies"]
    if not isinstance(has_copies, bool) or reading not in (None, *(each.value for each in Reading)):
        raise UserError(f"run {run.key}: its row is damaged: unknown reading {reading!r}")
    return Abilities(None if reading is None else Reading(reading), has_copies)


def _require_kept(runs: Sequence[ReplayRecord], bound: ClusterBound, setup: Setup) -> None:
    """Check that each run has the number of jobs of a bound and is not better than the bound."""
    for run in runs:
        figures = {**(run.figures or {}), **figures_of(bound)}
        if figures["jobs"] != bound.jobs:
            raise UserError(
                f"run {run.key} has {figures['jobs']:,} jobs, but its scenario now has "
                f"{bound.jobs:,}: the files of its jobs have changed. Run it again."
            )
        require_kept(figures, scheme=run.scheme, first_s=setup.workload.jobs[0].submit_s)


def check(scenario: Scenario, file: str, *, schemes: Sequence[str] = ()) -> dict[str, Any]:
    """Recompute the bound in a saved certificate for a scenario in exact arithmetic.

    Returns
    -------
    dict
        The object that ``bound --check --format json`` prints: claimed and proved mean in seconds,
        and whether the prices prove what the file claims.

    Raises
    ------
    UserError
        If the file is not a certificate or belongs to other jobs or pools, the scenario has several
        variants or seeds, or the file's reading does not apply to a scheme.
    """
    certificate = read_certificate(file)
    found = [(variant, seed) for _, variant in variants(scenario) for seed in variant.table.seeds]
    if len(found) > 1:
        raise UserError("--check: the scenario has several variants or seeds. Choose one of them.")
    ((variant, seed),) = found
    made = make_schemes(variant, schemes)
    setup = make_setup(variant, made, seed)
    _, has_copies = _scope(setup, made, wanted=[Reading(certificate.reading)])
    with in_file(file):
        proved_s = proved_mean_s(
            certificate,
            setup.workload,
            speed_of(setup),
            plan=setup.plan,
            copy_efficiency=copy_efficiency_of(setup, has_copies=has_copies),
        )
    return {
        "file": file,
        "reading": certificate.reading,
        "objective": certificate.objective,
        "job_class": certificate.job_class,
        "claimed_mean_s": certificate.value_s,
        "proved_mean_s": proved_s,
        "holds": holds(certificate, proved_s),
    }

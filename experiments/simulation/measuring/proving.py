"""What is proved of the variants and seeds of a scenario, no scheme being replayed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.core.run_progress import part_of_run
from lyra_opt.experiments.simulation.measuring.bounds import (
    cluster_bound,
    copy_efficiency_of,
    figures_of,
    require_kept,
    speed_of,
)
from lyra_opt.experiments.simulation.scenario.building import make_setup
from lyra_opt.experiments.simulation.scenario.loading import variants
from lyra_opt.experiments.simulation.scenario.schemes import (
    Abilities,
    abilities_of,
    common_abilities,
    make_schemes,
)
from lyra_opt.simulation.bounds.certificate import (
    JCT,
    QUEUE,
    document_of,
    holds,
    proved_mean_s,
    read_certificate,
)
from lyra_opt.simulation.bounds.scope import ALL, Reading
from lyra_opt.simulation.clairvoyant.best import obstacle, schedule_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.scenario.loading import Scenario
    from lyra_opt.experiments.simulation.scenario.setup import Setup
    from lyra_opt.simulation.bounds.certificate import CertificateTable
    from lyra_opt.simulation.bounds.whole import ClusterBound
    from lyra_opt.simulation.clairvoyant.best import CheckedSchedule
    from lyra_opt.simulation.scheme import Scheme

BOUND_FIGURES = (
    *("jct_mean_bound_s", "least_run_mean_s", "excess_mean_bound_s", "queue_mean_bound_s"),
    *("cpu_s", "jobs", "cell_s"),
)
"""Figures of a bound that ``bound --json`` has under their own names."""


def recorded_abilities(run: ReplayRecord) -> Abilities | None:
    """Return what the row of a run says of its scheme; None for rows of version 0.2.0 and before.

    Raises
    ------
    UserError
        If the row says what no version writes.
    """
    if "has_copies" not in run.setting:
        return None
    reading, has_copies = run.setting.get("reading"), run.setting["has_copies"]
    if not isinstance(has_copies, bool) or reading not in (None, *(each.value for each in Reading)):
        raise UserError(f"run {run.key}: its row is damaged: reading {reading!r} is not known")
    return Abilities(None if reading is None else Reading(reading), has_copies)


def applicable_readings(
    by_scheme: Mapping[str, Abilities], wanted: Sequence[Reading] = ()
) -> Sequence[Reading]:
    """Return the readings whose bounds apply to all of some schemes.

    Parameters
    ----------
    wanted
        Those that are asked for; empty for all that apply.

    Raises
    ------
    UserError
        If no bound applies to one of the schemes, or not that of a reading that is asked for.
    """
    common = common_abilities(by_scheme)
    if common.reading is Reading.CONSERVED:
        if Reading.RESTART in wanted:
            name = next(name for name, each in by_scheme.items() if each.reading != Reading.RESTART)
            raise UserError(
                f"reading restart: no such bound applies to scheme {name}, which may stop jobs and "
                "resume them without loss. Use the reading conserved, or leave this scheme out."
            )
        return [Reading.CONSERVED]
    return wanted or tuple(Reading)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """What is proved of a variant of a scenario with a seed, by a reading.

    Parameters
    ----------
    point
        What the variant has of each axis.
    seed
        Of all that is drawn.
    setup
        What it is proved of.
    bound
        The bound.
    has_copies
        Whether it holds for schedules with several copies of a job at once.
    job_class
        Of which jobs the means are.
    schedule
        The best schedule found; None where none was asked for, or searched.
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
        """How far the schedule is above the bound, as a share of the latter; None without one."""
        if self.schedule is None:
            return None
        return self.schedule.jct_mean_s / self.bound.jct_mean_bound_s - 1

    def certificates(self) -> dict[str, dict[str, Any]]:
        """Return the proofs as documents by the names of their files."""
        bound = self.bound
        several = [f"{value}" for value in self.point.values()]
        several += [f"seed{self.seed}"]
        several += [self.job_class] if self.job_class != ALL else []
        found = {}
        for objective, certificate in ((JCT, bound.jct), (QUEUE, bound.queue)):
            if certificate is not None:
                name = "-".join([*several, bound.reading.value, objective])
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
        """Return the object of ``bound --json``."""
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
    """Yield what is proved: variant by variant, seed by seed, reading by reading.

    Parameters
    ----------
    scenario
        What is submitted, and where it runs.
    readings
        What schedules may do; empty for all readings whose bounds apply to the schemes.
    schemes
        Labels of the scenario's schemes, or names of others, to which the bounds apply: jobs that
        one of them cannot run are treated as in a replay. Empty for those of the scenario.
    runs
        Replays of these schemes that finished; each is compared with its bounds.
    job_classes
        Of which jobs the means are, each by itself, of
        `lyra_opt.simulation.bounds.scope.JOB_CLASSES`.
    searches
        Whether to search a schedule too, one in which no job is stopped: so it is one of all
        readings.

    Raises
    ------
    UserError
        If something that the scenario names is not there or wrong, no bound applies to one of the
        schemes, or no schedule can be searched.
    SimulationError
        If one of the runs is better than what is proved.
    """
    places = [
        (point, variant, make_schemes(variant, schemes), seed)
        for point, variant in variants(scenario)
        for seed in variant.table.seeds
    ]
    for place, (point, variant, made, seed) in enumerate(places):
        setup = make_setup(variant, made, seed)
        speed, schedule = speed_of(setup), None
        of_setup = [run for run in runs if run.point == point and run.seed == seed]
        by_scheme = _abilities(setup, made, of_setup)
        applicable = applicable_readings(by_scheme, readings)
        has_copies = common_abilities(by_scheme).has_copies
        if searches and (reason := obstacle(setup.workload, speed)) is not None:
            raise UserError(f"scenario {setup.scenario}: no schedule is searched where {reason}")
        parts = list(product(job_classes, applicable))
        for part, (job_class, reading) in enumerate(parts, place * len(parts)):
            try:
                with part_of_run(part, len(places) * len(parts)):
                    bound = cluster_bound(
                        setup, reading, has_copies=has_copies, job_class=job_class
                    )
            except FieldError as error:
                raise UserError(f"scenario {setup.scenario}: {error}") from None
            if job_class == ALL:
                _require_kept(of_setup, bound, setup)
            if searches and schedule is None:
                schedule = schedule_of(
                    setup.workload, speed, bound.jct.border_s, seed=setup.options.seed
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


def _abilities(
    setup: Setup, schemes: Sequence[Scheme], runs: Sequence[ReplayRecord]
) -> dict[str, Abilities]:
    """Return what each scheme may do: as its run has recorded it, else as the scheme says now."""
    found = {scheme.name: abilities_of(scheme, setup) for scheme in schemes}
    recorded = {run.scheme: recorded_abilities(run) for run in runs}
    return found | {name: each for name, each in recorded.items() if each is not None}


def _require_kept(runs: Sequence[ReplayRecord], bound: ClusterBound, setup: Setup) -> None:
    """Check that runs have the jobs of a bound, and are not better than what it proves."""
    for run in runs:
        figures = {**(run.figures or {}), **figures_of(bound)}
        if figures["jobs"] != bound.jobs:
            raise UserError(
                f"run {run.key} has {figures['jobs']:,} jobs, but its scenario now has "
                f"{bound.jobs:,}: the files of its jobs have changed. Run it again."
            )
        latest_s = setup.workload.jobs[0].submit_s + figures["makespan_s"]
        require_kept(figures, scheme=run.scheme, latest_s=latest_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPrices:
    """What saved prices prove.

    Parameters
    ----------
    file
        That holds them.
    certificate
        What it says.
    proved_s
        What follows from the prices, in exact arithmetic, rounded down.
    """

    file: str
    certificate: CertificateTable
    proved_s: float

    @property
    def holds(self) -> bool:
        """Whether the file claims no more than that."""
        return holds(self.certificate, self.proved_s)

    def in_words(self) -> str:
        """Return it as a line."""
        claimed = self.certificate
        says = "no less than" if self.holds else "LESS than"
        of_class = f" of {claimed.job_class} jobs" if claimed.job_class != ALL else ""
        return (
            f"{self.file}: {claimed.objective}{of_class} under {claimed.reading} is proved to be "
            f"at least {self.proved_s:,.3f} s, {says} the file claims: {claimed.value_s:,.3f} s"
        )

    def as_json_object(self) -> dict[str, Any]:
        """Return the object of ``bound --check --json``."""
        return {
            "file": self.file,
            "reading": self.certificate.reading,
            "objective": self.certificate.objective,
            "job_class": self.certificate.job_class,
            "claimed_mean_s": self.certificate.value_s,
            "proved_mean_s": self.proved_s,
            "holds": self.holds,
        }


def check(scenario: Scenario, file: str, *, schemes: Sequence[str] = ()) -> CheckedPrices:
    """Return what saved prices prove of a scenario of one variant and seed.

    Parameters
    ----------
    schemes
        As of `prove`.

    Raises
    ------
    UserError
        If the file is no certificate, one of other jobs or pools, the scenario has several
        variants or seeds, or the reading of the file does not apply to one of the schemes.
    """
    certificate = read_certificate(file)
    found = [(variant, seed) for _, variant in variants(scenario) for seed in variant.table.seeds]
    if len(found) > 1:
        raise UserError("--check: the scenario has several variants or seeds; ask for one of them")
    ((variant, seed),) = found
    made = make_schemes(variant, schemes)
    setup = make_setup(variant, made, seed)
    by_scheme = _abilities(setup, made, ())
    applicable_readings(by_scheme, [Reading(certificate.reading)])
    has_copies = common_abilities(by_scheme).has_copies
    try:
        proved_s = proved_mean_s(
            certificate,
            setup.workload,
            speed_of(setup),
            plan=setup.plan,
            copy_efficiency=copy_efficiency_of(setup, has_copies=has_copies),
        )
    except FieldError as error:
        raise InputError(file, str(error)) from None
    return CheckedPrices(file=file, certificate=certificate, proved_s=proved_s)

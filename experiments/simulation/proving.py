"""What is proved of the variants and seeds of a scenario, no scheme being replayed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.experiments.simulation.bounds import (
    cluster_bound,
    copy_efficiency_of,
    speed_of,
)
from lyra_opt.experiments.simulation.building import make_schemes, make_setup
from lyra_opt.experiments.simulation.scenario import variants
from lyra_opt.simulation.bounds.certificate import (
    JCT,
    QUEUE,
    CertificateTable,
    document_of,
    holds,
    proved_mean_s,
    read_certificate,
)
from lyra_opt.simulation.bounds.job_classes import ALL
from lyra_opt.simulation.bounds.reading import Reading
from lyra_opt.simulation.clairvoyant.of_workload import obstacle, schedule_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.experiments.simulation.scenario import Scenario
    from lyra_opt.experiments.simulation.setup import Setup
    from lyra_opt.simulation.bounds.whole import ClusterBound
    from lyra_opt.simulation.clairvoyant.best import CheckedSchedule
    from lyra_opt.simulation.scheme import Scheme


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
    job_class
        Of which jobs the means are.
    schedule
        The best schedule found; None where none was asked for, or searched.
    """

    point: Mapping[str, Any]
    seed: int
    setup: Setup
    bound: ClusterBound
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
        bound, schedule = self.bound, self.schedule
        found = {}
        if schedule is not None:
            found = {
                "jct_mean_found_s": schedule.jct_mean_s,
                "found_above_bound_share": self.gap,
                "schedule_cpu_s": schedule.cpu_s,
            }
        return {
            **({"axes": dict(self.point)} if self.point else {}),
            "scenario": self.setup.scenario,
            "workload": self.setup.workload.name,
            "cluster": self.setup.cluster.name,
            "seed": self.seed,
            "reading": bound.reading.value,
            "job_class": self.job_class,
            "jct_mean_bound_s": bound.jct_mean_bound_s,
            "least_run_mean_s": bound.least_run_mean_s,
            "excess_mean_bound_s": bound.excess_mean_bound_s,
            "queue_mean_bound_s": bound.queue_mean_bound_s,
            "cpu_s": bound.cpu_s,
            "jobs": bound.jobs,
            "cell_s": bound.cell_s,
            **found,
        }


def prove(
    scenario: Scenario,
    readings: Sequence[Reading] = tuple(Reading),
    *,
    job_classes: Sequence[str] = (ALL,),
    searches: bool = False,
) -> Iterator[Proved]:
    """Yield what is proved: variant by variant, seed by seed, reading by reading.

    Parameters
    ----------
    scenario
        What is submitted, where it runs, and by which schemes: jobs under which one of them cannot
        run are treated as in a replay.
    readings
        What schedules may do.
    job_classes
        Of which jobs the means are, each by itself, of
        `lyra_opt.simulation.bounds.job_classes.JOB_CLASSES`.
    searches
        Whether to search a schedule too, one in which no job is stopped: so it is one of all
        readings.

    Raises
    ------
    UserError
        If something that the scenario names is not there or wrong, or no schedule can be searched.
    """
    for point, variant in variants(scenario):
        schemes = make_schemes(variant)
        for seed in variant.table.seeds:
            setup = make_setup(variant, schemes, seed)
            speed, schedule = speed_of(setup), None
            if searches and (reason := obstacle(setup.workload, speed)) is not None:
                raise UserError(
                    f"scenario {setup.scenario}: no schedule is searched where {reason}"
                )
            for job_class, reading in product(job_classes, readings):
                bound = _bound(setup, schemes, reading, job_class)
                if searches and schedule is None:
                    schedule = schedule_of(
                        setup.workload, speed, bound.jct.border_s, seed=setup.options.seed
                    )
                yield Proved(
                    point=point,
                    seed=seed,
                    setup=setup,
                    bound=bound,
                    job_class=job_class,
                    schedule=schedule,
                )


def _bound(
    setup: Setup, schemes: Sequence[Scheme], reading: Reading, job_class: str
) -> ClusterBound:
    try:
        return cluster_bound(setup, schemes, reading, job_class=job_class)
    except FieldError as error:
        raise UserError(f"scenario {setup.scenario}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
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


def check(scenario: Scenario, file: str) -> Checked:
    """Return what saved prices prove of a scenario of one variant and seed.

    Raises
    ------
    UserError
        If the file is no certificate, one of other jobs or pools, or the scenario has several
        variants or seeds.
    """
    certificate = read_certificate(file)
    found = [(variant, seed) for _, variant in variants(scenario) for seed in variant.table.seeds]
    if len(found) > 1:
        raise UserError("--check: the scenario has several variants or seeds; ask for one of them")
    ((variant, seed),) = found
    schemes = make_schemes(variant)
    setup = make_setup(variant, schemes, seed)
    try:
        proved_s = proved_mean_s(
            certificate,
            setup.workload,
            speed_of(setup),
            plan=setup.plan,
            copy_efficiency=copy_efficiency_of(setup, schemes),
        )
    except FieldError as error:
        raise InputError(file, str(error)) from None
    return Checked(file=file, certificate=certificate, proved_s=proved_s)

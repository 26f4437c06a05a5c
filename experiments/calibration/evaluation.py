"""What a candidate's jobs come to: on a compiled schedule, and by the simulated cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.experiments.calibration.figures import figures
from lyra_opt.experiments.simulation.building import make_cluster, make_setup
from lyra_opt.experiments.simulation.carried_out import carry_out
from lyra_opt.experiments.simulation.scenario import Change, load_scenario
from lyra_opt.instances.workloads.named import find_workload, gangs_of
from lyra_opt.simulation.clairvoyant.gangs import MICROSECONDS, Capacity
from lyra_opt.simulation.clairvoyant.lists import ListScheduler
from lyra_opt.simulation.queues import OVERTAKING
from lyra_opt.simulation.scheme import find_scheme, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.experiments.calibration.document import CalibrationTable
    from lyra_opt.experiments.simulation.scenario import Scenario
    from lyra_opt.simulation.clairvoyant.gangs import Gangs

Candidate = dict[str, int]
"""Values of keys of the scenario."""


class Evaluation:
    """A calibration's scenario, with any values of its parameters.

    Parameters
    ----------
    table
        What is calibrated.
    source
        Where that is from, for errors.

    Raises
    ------
    UserError
        If there is no such scenario, or its jobs are not generated.
    """

    def __init__(self, table: CalibrationTable, source: str) -> None:
        self._table, self._source = table, source
        self._names = [target.measure for target in table.targets]
        scenario = self.scenario({})
        if scenario.table.jobs.workload is None:
            rule = "must be a scenario of generated jobs"
            raise InputError(source, f"scenario is {table.scenario!r}: {rule}")
        self._cluster = make_cluster(scenario)
        self._workload = find_workload(scenario.table.jobs.workload)

    def scenario(self, candidate: Candidate) -> Scenario:
        """Return the scenario with a candidate's values."""
        changes = {**self._table.changes, **candidate}
        return load_scenario(
            self._table.scenario, [Change(path, value) for path, value in changes.items()]
        )

    def scheduled(self, candidate: Candidate, seed: int) -> dict[str, float]:
        """Return the figures on the compiled list schedule by submission.

        Jobs hold their base demand of GPUs that are only counted, so that the simulated cluster
        gives the same (`replayed`), but for moments that coincide in whole microseconds and are
        apart by rounding there: who starts first may then be another, and jobs that wait for days
        may wait for other ones.

        Raises
        ------
        InputError
            If a value breaks a rule of the generator.
        """
        gangs = self._gangs(candidate, seed)
        scheduler = ListScheduler.of(gangs, Capacity.constant(self._cluster.gpus))
        start_us = scheduler.schedule(gangs.release_s, backfills=self._table.queue == OVERTAKING)
        return figures(
            self._names,
            submit_s=gangs.release_s,
            wait_s=start_us / MICROSECONDS - gangs.release_s,
            run_s=gangs.run_s,
            gpus=gangs.gpus,
            cluster_gpus=self._cluster.gpus,
        )

    def replayed(self, candidate: Candidate, seed: int) -> dict[str, float]:
        """Return the figures by the simulated cluster: scheme fifo with the queue, no loans."""
        scheme = find_scheme("fifo").with_parameters({"queue": self._table.queue})
        setup = make_setup(self.scenario(candidate), [scheme], seed)
        simulation = prepare(setup.workload, setup.cluster, scheme, options=setup.options)
        carry_out(simulation, scheme=scheme.name)
        rows = np.array(
            [
                (run.job.submit_s, run.queued_s, run.jct_s - run.queued_s, run.job.min_gpus)
                for run in simulation.runs
            ]
        )
        submit_s, wait_s, run_s, gpus = rows.T
        return figures(
            self._names,
            submit_s=submit_s,
            wait_s=wait_s,
            run_s=run_s,
            gpus=gpus.astype(np.int64),
            cluster_gpus=setup.cluster.gpus,
        )

    def _gangs(self, candidate: Candidate, seed: int) -> Gangs:
        table = self.scenario(candidate).table.jobs
        parameters: Mapping[str, Any] = table.parameters
        try:
            if self._workload.gangs is not None:
                return self._workload.gangs(self._cluster, seed, **parameters)
            return gangs_of(self._workload.make(self._cluster, seed, **parameters))
        except FieldError as error:
            raise InputError(self._source, str(error.inside("jobs.parameters"))) from None

"""Store a share instance as arrays, and build the linear programmes of its objectives."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lyra_opt.core.arithmetic import product
from lyra_opt.core.arrays import BoolArray, FloatArray, IntArray
from lyra_opt.heterogeneous.exact.shares.programme import (
    DATA_ROUNDING,
    TOLERANCE,
    JobSets,
    SharePrices,
    ShareProgramme,
)
from lyra_opt.heterogeneous.instance import Instance, Objective, TimeShares, pairs_of
from lyra_opt.heterogeneous.utility import Deadline

MOST_HALVINGS = 200


@dataclass(frozen=True, kw_only=True)
class ShareArrays:
    """An instance with a time-share objective, stored as arrays over jobs and GPU types.

    Parameters
    ----------
    job_ids, type_names
        Ids of jobs and names of types, in file order.
    usable
        Shape (jobs, types): whether the job runs on the type and its gang fits into all GPUs of the
        type.
    rate
        Shape (jobs, types): steps per second on one server; 0 where not usable.
    gang, weight, steps, elapsed_s, isolated_elapsed_s
        Shape (jobs,): the fields of the jobs.
    gpus, price_per_hour
        Shape (types,): number of GPUs and price of one GPU.
    equal_rate, isolated_rate
        Shape (jobs,): steps per second if each type's share is its part of all GPUs (X_eq), and on
        an equal part of the cluster (X_iso).
    least_rate
        Shape (jobs,): steps per second needed to meet the deadline; 0 without a deadline, infinite
        if it has passed.
    sets
        The single jobs, and the pairs of jobs that may share GPUs.
    kind
        Shape (jobs,): index of the job's kind; -1 without a kind.
    pair_rate
        Shape (pairs, 2, types): steps per second of each job of a pair; 0 where the pair cannot
        run.
    """

    job_ids: tuple[str, ...]
    type_names: tuple[str, ...]
    usable: BoolArray
    rate: FloatArray
    gang: FloatArray
    weight: FloatArray
    steps: FloatArray
    elapsed_s: FloatArray
    isolated_elapsed_s: FloatArray
    gpus: FloatArray
    price_per_hour: FloatArray
    equal_rate: FloatArray
    isolated_rate: FloatArray
    least_rate: FloatArray
    sets: JobSets
    kind: IntArray
    pair_rate: FloatArray

    @classmethod
    def of(cls, instance: Instance) -> "ShareArrays":
        """Return the arrays of an instance; O((jobs + pairs) types)."""
        names = tuple(instance.gpus_of_type)
        jobs = instance.jobs
        gang = np.array([job.gang for job in jobs], dtype=np.float64)
        gpus = np.array(list(instance.gpus_of_type.values()), dtype=np.float64)
        rate = np.array([[job.throughput.get(name, 0.0) for name in names] for job in jobs])
        usable = (rate > 0) & (gang[:, None] <= gpus[None, :])
        rate = np.where(usable, rate, 0.0)
        parts = len(jobs) * gang
        scale = np.maximum(1.0, gpus.sum() / parts)
        pairs = pairs_of(jobs, instance.packed, instance.gpus_of_type)
        pair_rate = [
            [[of_types.get(name, 0.0) for name in names] for of_types in pair.rates]
            for pair in pairs
        ]
        number: dict[str | None, int] = {None: -1}
        return cls(
            job_ids=tuple(job.id for job in jobs),
            type_names=names,
            usable=usable,
            rate=rate,
            gang=gang,
            weight=np.array([job.weight for job in jobs]),
            steps=np.array([job.steps for job in jobs]),
            elapsed_s=np.array([job.elapsed_s for job in jobs]),
            isolated_elapsed_s=np.array([job.isolated_elapsed_s for job in jobs]),
            gpus=gpus,
            price_per_hour=np.array([kind.price_per_hour for kind in instance.gpu_types]),
            equal_rate=product(rate, gpus) / gpus.sum(),
            isolated_rate=product(rate, gpus) / (parts * scale),
            least_rate=np.array(
                [_least_rate(job.steps, job.utility, job.elapsed_s) for job in jobs]
            ),
            sets=JobSets.of(
                len(jobs), np.array([pair[:2] for pair in pairs], dtype=np.int64).reshape(-1, 2)
            ),
            kind=np.array([number.setdefault(job.kind, len(number) - 1) for job in jobs]),
            pair_rate=np.array(pair_rate).reshape(len(pairs), 2, len(names)),
        )

    def solution(self, shares: FloatArray) -> TimeShares:
        """Convert time shares from an array of shape (sets, types) to a solution.

        A set is one job, or two jobs on the same GPUs. Zero shares are left out.
        """
        names, ids = self.type_names, self.job_ids
        alone: dict[str, dict[str, float]] = {}
        packed: dict[str, dict[str, dict[str, float]]] = {}
        of_set, kind = np.nonzero(shares > 0)
        entries = zip(of_set.tolist(), kind.tolist(), shares[of_set, kind].tolist(), strict=True)
        for number, place, share in entries:
            if number < len(ids):
                alone.setdefault(ids[number], {})[names[place]] = share
            else:
                first, second = self.sets.pairs[number - len(ids)]
                of_pair = packed.setdefault(ids[first], {}).setdefault(ids[second], {})
                of_pair[names[place]] = share
        return TimeShares(alone, packed)

    def shares(self, solution: TimeShares) -> FloatArray:
        """Convert a solution to an array of time shares, ignoring unknown jobs and GPU types.

        The shape is (sets, types); a set is one job, or two jobs on the same GPUs.
        """
        rows = [solution.shares.get(job, {}) for job in self.job_ids]
        found = [[row.get(name, 0.0) for name in self.type_names] for row in rows]
        for first, second in self.sets.pairs.tolist():
            one, other = self.job_ids[first], self.job_ids[second]
            both = [
                solution.packed.get(job, {}).get(beside, {})
                for job, beside in ((one, other), (other, one))
            ]
            found.append([sum(row.get(name, 0.0) for row in both) for name in self.type_names])
        return np.array(found)

    @cached_property
    def member_rate(self) -> FloatArray:
        """Steps per second of each job in each set of jobs, shape (members, types)."""
        return np.concatenate([self.rate, self.pair_rate.reshape(-1, len(self.type_names))])

    @property
    def best_rate(self) -> FloatArray:
        """The most steps per second of each job, alone or beside another job; shape (jobs,)."""
        best: FloatArray = self.sets.most_of_job(self.member_rate).max(axis=1)
        return best

    def throughput(self, shares: FloatArray) -> FloatArray:
        """Return the steps per second of each job at given time shares, shape (jobs,)."""
        return self.sets.of_job((self.member_rate * shares[self.sets.of_set]).sum(axis=1))

    @property
    def share_value(self) -> FloatArray:
        """Gavel's normalised throughput of each job in each set if its time share is 1.

        The shape is (members, types).
        """
        return (
            self.member_rate * (self.gang / self.weight / self.equal_rate)[self.sets.job][:, None]
        )

    @property
    def isolated_s(self) -> FloatArray:
        """Completion time in seconds of each job on an equal part of the cluster, shape (jobs,)."""
        return self.isolated_elapsed_s + self.steps / self.isolated_rate

    def objective(self, objective: Objective, shares: FloatArray) -> float:
        """Return the objective of feasible shares in float arithmetic.

        For finish_time_fairness it is infinite if a job has no share. The checker computes it
        exactly.
        """
        if objective is Objective.MAX_MIN_SHARE:
            value = (self.share_value * shares[self.sets.of_set]).sum(axis=1)
            return float(self.sets.of_job(value).min())
        throughput = self.throughput(shares)
        if objective in (Objective.FINISH_TIME_FAIRNESS, Objective.MAKESPAN_SHARE):
            with np.errstate(divide="ignore"):
                left_s = self.steps / throughput
            if objective is Objective.MAKESPAN_SHARE:
                return float(left_s.max())
            return float(((self.elapsed_s + left_s) / self.isolated_s).max())
        return math.fsum((self.gain(objective) * shares).sum(axis=1))

    def gain(self, objective: Objective) -> FloatArray:
        """Return the objective coefficients of ``throughput`` or ``cost``, shape (sets, types)."""
        gain = self.sets.of_sets(self.weight[self.sets.job][:, None] * self.member_rate)
        return gain / self.price_per_hour[None, :] if objective is Objective.COST else gain

    def max_min_share(self) -> ShareProgramme:
        """Return the linear programme that maximises v, the least normalised throughput (Gavel)."""
        return self.level_programme(self.share_value, np.ones(len(self.gang)))

    def completions(self) -> ShareProgramme:
        """Return the linear programme that maximises v = 1 / makespan."""
        return self.level_programme(self.member_rate, self.steps)

    def total(self, objective: Objective) -> ShareProgramme:
        """Return the linear programme for ``throughput``, or for ``cost`` with its deadlines."""
        asks = (
            self.least_rate > 0 if objective is Objective.COST else np.zeros(len(self.gang), bool)
        )
        return self._programme(
            gain=self.gain(objective),
            value=self.member_rate,
            need=np.where(asks, self.least_rate, 0.0),
            has_need=asks,
        )

    def deadlines(self) -> ShareProgramme:
        """Return a linear programme whose optimal v is at least 1 if all deadlines can be met."""
        asks = self.least_rate > 0
        return self._programme(
            value=self.member_rate,
            level=np.where(asks, self.least_rate, 0.0),
            has_need=asks,
            has_level=True,
        )

    def finish_times(self, ratio: float) -> ShareProgramme:
        """Return the linear programme of finish-time fairness, linearised at a given ratio.

        v is minus the ratio. `ratio` must be above `least_ratio`.
        """
        need, slope = self._need_and_slope(ratio)
        return self._programme(
            value=self.member_rate,
            level=-slope,
            need=need - slope * ratio,
            has_need=np.ones(len(self.gang), bool),
            has_level=True,
        )

    def level_programme(
        self, value: FloatArray, level: FloatArray, *, need: FloatArray | None = None
    ) -> ShareProgramme:
        """Return the programme that maximises v if each job gets at least level * v + need."""
        need = np.zeros(len(self.gang)) if need is None else need
        return self._programme(
            value=value, level=level, need=need, has_need=(level > 0) | (need > 0), has_level=True
        )

    def _programme(
        self,
        *,
        value: FloatArray,
        has_need: BoolArray,
        gain: FloatArray | None = None,
        level: FloatArray | None = None,
        need: FloatArray | None = None,
        has_level: bool = False,
    ) -> ShareProgramme:
        jobs = len(self.gang)
        usable = np.concatenate([self.usable, (self.pair_rate > 0).all(axis=1)])
        return ShareProgramme(
            sets=self.sets,
            usable=usable,
            gain=np.zeros(usable.shape) if gain is None else gain,
            value=value,
            level=np.zeros(jobs) if level is None else level,
            need=np.zeros(jobs) if need is None else need,
            has_need=has_need,
            gang=np.concatenate([self.gang, self.gang[self.sets.pairs[:, 0]]]),
            gpus=np.maximum(self.gpus, 1.0),
            has_level=has_level,
            group=np.zeros(len(self.gpus), dtype=np.int64),
            limit=np.ones(1),
            kind=np.where(self.sets.is_paired, self.kind, -1),
        )

    @property
    def least_ratio(self) -> float:
        """Lower bound on the finish-time ratio, reached if all jobs always had their best type."""
        best_s = self.elapsed_s + self.steps / self.best_rate
        return float((best_s / self.isolated_s).max())

    def _need_and_slope(self, ratio: float) -> tuple[FloatArray, FloatArray]:
        left_s = ratio * self.isolated_s - self.elapsed_s
        need = self.steps / left_s
        return need, -need * self.isolated_s / left_s

    def ratio_bound(self, prices: SharePrices) -> float:
        r"""Return a lower bound on the optimal finish-time ratio that holds for any dual prices.

        A ratio rho needs throughputs :math:`n_j(\rho) = R_j / (\rho D_j - t_j)`. So
        :math:`\sum_j y_j n_j(\rho)` is at most the greatest value of any shares at the prices y.
        The sum falls in rho. The bound is the lower end of an interval around the rho at which the
        sum meets that value. O(jobs) for each halving of the interval.
        """
        prices = prices.cleaned()
        low = self.least_ratio * (1 - TOLERANCE) * (1 - DATA_ROUNDING)
        programme = self.finish_times(2 * self.least_ratio)
        most = programme.most(prices)
        if not prices.need.any():
            return low

        def is_below(ratio: float) -> bool:
            left_s = ratio * self.isolated_s - self.elapsed_s
            if (left_s <= 0).any():
                return bool((prices.need[left_s <= 0] > 0).any())
            return math.fsum(prices.need * self.steps / left_s) * (1 - 1e-12) > most

        if not is_below(low):
            return low
        high = 2 * low
        while is_below(high):
            low, high = high, 2 * high
            if not math.isfinite(high):
                return low
        for _ in range(MOST_HALVINGS):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (middle, high) if is_below(middle) else (low, middle)
        return low


def _least_rate(steps: float, utility: object, elapsed_s: float) -> float:
    if not isinstance(utility, Deadline):
        return 0.0
    left_s = utility.deadline_s - elapsed_s
    return steps / left_s if left_s > 0 else math.inf

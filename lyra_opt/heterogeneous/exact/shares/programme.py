r"""The linear programmes over shares of time, and bounds that any prices prove.

All objectives of shares become programmes of one form, over the shares :math:`x_{jk} \ge 0` of job
j on type k and, where there is one, a level v:

.. math::
    \max\ \sum_{jk} g_{jk} x_{jk} + [v] \quad\text{s.t.}\quad
    \sum_{k \in K_i} x_{jk} \le m_i,\quad \sum_j n_j x_{jk} \le C_k,\quad
    \sum_k a_{jk} x_{jk} \ge q_j v + d_j .

For shares of time there is one group :math:`K_1` of all types and :math:`m_1 = 1`; where copies of
a job run at once, a group for each kind of server.

For *any* prices y of the last rows and p of the GPUs, at least 0,

.. math::
    \sum_{jk} w_{jk} x_{jk} \le \sum_{ji} m_i \max(0, \max_{k \in K_i} (w_{jk} - n_j p_k))
    + \sum_k C_k p_k , \qquad w_{jk} = g_{jk} + y_j a_{jk} ,

so that what a solver says of its own optimality need not be believed. See
`formulations/heterogeneous/shares/README.md`, where the proofs are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.heterogeneous.instance import Objective, TimeShares
from lyra_opt.heterogeneous.share_checker import SHARE_TOLERANCE
from lyra_opt.heterogeneous.utility import Deadline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lyra_opt.heterogeneous.instance import Instance

    FloatArray = NDArray[np.float64]
    BoolArray = NDArray[np.bool_]
    IntArray = NDArray[np.int64]

TOLERANCE = float(SHARE_TOLERANCE)
"""By how much the checker lets a rule be broken; bounds hold for all that it accepts."""
SMALLEST_SHARE = 1e-13
"""What engines leave of a share that is 0."""
DATA_ROUNDING = 1e-14
"""Relative error of the coefficients, each the result of a few operations on doubles."""
MOST_EVEN = 1e-5
"""The largest part of even shares that repairs shares; more would cost more than the proof gap."""
MOST_HALVINGS = 200


@dataclass(frozen=True, slots=True)
class SharePrices:
    """Multipliers of a programme, in its own units; any values of at least 0 prove a bound.

    Parameters
    ----------
    need
        Shape (jobs,).
    gpus
        Shape (types,): of one GPU.
    """

    need: FloatArray
    gpus: FloatArray

    def cleaned(self) -> SharePrices:
        """Return the same with what is negative or no number set to 0."""
        return SharePrices(
            *(
                np.where(np.isfinite(values), np.maximum(values, 0.0), 0.0)
                for values in (self.need, self.gpus)
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareProgramme:
    """The numbers of a programme; symbols as above.

    Parameters
    ----------
    usable
        Shape (jobs, types): where x may be above 0.
    gain
        g, shape (jobs, types); 0 where there is a level.
    value
        a, shape (jobs, types).
    level
        q, shape (jobs,): above 0 where there is a level, else 0.
    need
        d, shape (jobs,).
    has_need
        Shape (jobs,): which jobs have the last row at all.
    gang
        n, shape (jobs,).
    gpus
        C, shape (types,), above 0 (a type without GPUs is usable to nobody: there it is 1).
    has_level
        Whether v is a variable, which is then all that is maximised.
    group
        Shape (types,): which group a type belongs to, from 0; one at least.
    limit
        m, shape (groups,), above 0.
    """

    usable: BoolArray
    gain: FloatArray
    value: FloatArray
    level: FloatArray
    need: FloatArray
    has_need: BoolArray
    gang: FloatArray
    gpus: FloatArray
    has_level: bool
    group: IntArray
    limit: FloatArray

    @property
    def member(self) -> FloatArray:
        """Shape (types, groups): 1 where a type belongs to a group, else 0."""
        member: FloatArray = (self.group[:, None] == np.arange(len(self.limit))[None, :]) * 1.0
        return member

    def merged(self) -> tuple[ShareProgramme, IntArray, FloatArray]:
        """Return the programme with jobs alike made one, the job of each, and how many each is.

        A job of the merged programme stands for some that differ in nothing: its x is that of each
        of them, its gang is that of all together. The optimum stays: the mean of the x of jobs
        alike is as good. O(jobs types log jobs).
        """
        rows = np.column_stack(
            [
                *(self.usable, self.gain, self.value),
                *(self.level, self.need, self.has_need, self.gang),
            ]
        )
        first, job, alike = rows_alike(rows)
        merged = ShareProgramme(
            usable=self.usable[first],
            gain=self.gain[first] * alike[:, None],
            value=self.value[first],
            level=self.level[first],
            need=self.need[first],
            has_need=self.has_need[first],
            gang=self.gang[first] * alike,
            gpus=self.gpus,
            has_level=self.has_level,
            group=self.group,
            limit=self.limit,
        )
        return merged, job, alike

    def most(
        self, worth: FloatArray, gpu_price: FloatArray, *, tolerance: float = TOLERANCE
    ) -> float:
        """Return an upper bound on sum_jk worth_jk x_jk over all shares that the checker accepts.

        Parameters
        ----------
        worth
            w, shape (jobs, types).
        gpu_price
            Shape (types,), at least 0.
        tolerance
            By how much rules may be broken.
        """
        worth = np.where(self.usable, worth, 0.0)
        paid = np.where(self.usable, self.gang[:, None] * gpu_price[None, :], 0.0)
        left = np.where(self.usable, worth - paid, 0.0)
        most = math.fsum(self.gpus * gpu_price)
        # Differences lose digits: what they are made of is what the rounding is relative to.
        size = float(self.gpus @ gpu_price)
        for group, limit in enumerate(self.limit.tolist()):
            inside = self.group == group
            most += limit * math.fsum(np.maximum(left[:, inside].max(axis=1), 0.0))
            size += limit * float((np.abs(worth) + paid)[:, inside].max(axis=1).sum())
        return (most + DATA_ROUNDING * size) * (1 + tolerance)

    def dual_bound(self, prices: SharePrices, *, tolerance: float = TOLERANCE) -> float:
        """Return what no valid shares exceed; infinite where these prices prove nothing."""
        prices = prices.cleaned()
        need_price = np.where(self.has_need, prices.need, 0.0)
        worth = self.gain + need_price[:, None] * self.value
        most = self.most(worth, prices.gpus, tolerance=tolerance)
        needed = need_price[self.has_need] * self.need[self.has_need]
        # A need may be missed by the checker's tolerance too.
        most -= math.fsum(needed) - tolerance * math.fsum(np.abs(needed))
        if not self.has_level:
            return most
        priced = math.fsum(need_price * self.level)
        return most / priced if priced > 0 else math.inf

    def repaired(self, shares: FloatArray, level: float = 0.0) -> FloatArray:
        """Return nearly feasible shares as feasible ones.

        Each row of jobs, then of types, is cut; what a job needs may be missed then by about as
        much as the rows were exceeded. Engines also lose needs that are small beside what a job
        could have, by coefficients and tolerances of 1e-9: where a job misses more than 1e-6 of its
        need, all get a part of `even_shares`, at which none loses more than that part.

        Parameters
        ----------
        shares
            Shape (jobs, types).
        level
            v, as the engine has it.
        """
        is_there = self.usable & np.isfinite(shares) & (shares > SMALLEST_SHARE)
        kept = np.where(is_there, shares, 0.0)
        kept /= np.maximum(1.0, kept @ self.member / self.limit)[:, self.group]
        held = self.gang @ kept
        kept /= np.maximum(1.0, held / self.gpus)[None, :]
        if not self.has_need.any():
            return kept
        even = self.even_shares()
        got, spare = (np.where(self.usable, self.value * x, 0.0).sum(axis=1) for x in (kept, even))
        due = self.need + (self.level * level if self.has_level else 0.0)
        late = self.has_need & (got < due * (1.0 - TOLERANCE)) & (due < spare)
        parts = (due - got)[late] / (spare - got)[late]
        part = float(parts[parts <= MOST_EVEN].max(initial=0.0))
        return (1.0 - part) * kept + part * even

    def even_shares(self) -> FloatArray:
        """Return feasible shares: of all that a job can have of its best type an equal part."""
        jobs = np.arange(len(self.gang))
        most = np.minimum(self.limit[self.group], self.gpus / self.gang[:, None])
        best = np.where(self.usable, self.value * most, 0.0).argmax(axis=1)
        even = np.zeros_like(self.value)
        even[jobs, best] = np.where(self.usable, most, 0.0)[jobs, best] / len(jobs)
        return even

    def needs_met(self, shares: FloatArray) -> float:
        """Return the least part of its need that a job gets; 1 where nobody needs anything."""
        asked = self.has_need & (self.need > 0)
        if not asked.any():
            return 1.0
        got = (self.value * shares).sum(axis=1)[asked]
        return float((got / self.need[asked]).min())


def rows_alike(rows: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the first row of each kind, kinds in order, the kind of each row, and how many it has.

    Kinds are sorted, and not all rows: of 2,048 jobs of Gavel's some hundred differ.
    """
    width = rows.itemsize * rows.shape[1]
    text = np.ascontiguousarray(rows).tobytes()
    seen: dict[bytes, int] = {}
    found = [
        seen.setdefault(text[start : start + width], len(seen))
        for start in range(0, len(text), width)
    ]
    firsts = np.unique(found, return_index=True)[1]
    kinds = np.unique(rows[firsts], axis=0, return_index=True, return_inverse=True)[1:]
    kind = kinds[1].reshape(-1)[found]
    return firsts[kinds[0]], kind, np.bincount(kind).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareArrays:
    """An instance of a share objective as arrays, made once.

    Parameters
    ----------
    job_ids, type_names
        In file order.
    usable
        Shape (jobs, types): the job runs there, and its gang fits into all GPUs of the type.
    rate
        Shape (jobs, types), steps a second on one server; 0 where not usable.
    gang, weight, steps, elapsed_s, isolated_elapsed_s
        Shape (jobs,).
    gpus, price_per_hour
        Shape (types,).
    equal_rate, isolated_rate
        Shape (jobs,): on each type's part of all GPUs (X_eq), and on an equal part of the cluster
        (X_iso).
    least_rate
        Shape (jobs,): what a deadline asks for, 0 without one, infinite if it is over.
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

    @classmethod
    def of(cls, instance: Instance) -> ShareArrays:
        """Return the arrays of an instance; O(jobs types)."""
        names = tuple(instance.gpus_of_type)
        jobs = instance.jobs
        gang = np.array([job.gang for job in jobs], dtype=np.float64)
        gpus = np.array(list(instance.gpus_of_type.values()), dtype=np.float64)
        rate = np.array([[job.throughput.get(name, 0.0) for name in names] for job in jobs])
        usable = (rate > 0) & (gang[:, None] <= gpus[None, :])
        rate = np.where(usable, rate, 0.0)
        parts = len(jobs) * gang
        scale = np.maximum(1.0, gpus.sum() / parts)
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
            equal_rate=rate @ gpus / gpus.sum(),
            isolated_rate=rate @ gpus / (parts * scale),
            least_rate=np.array(
                [_least_rate(job.steps, job.utility, job.elapsed_s) for job in jobs]
            ),
        )

    def solution(self, shares: FloatArray) -> TimeShares:
        """Return shares of shape (jobs, types) by the names of jobs and types, zeros left out."""
        names = self.type_names
        return TimeShares(
            {
                job: {name: share for name, share in zip(names, row, strict=True) if share > 0}
                for job, row in zip(self.job_ids, shares.tolist(), strict=True)
                if any(row)
            }
        )

    def shares(self, solution: TimeShares) -> FloatArray:
        """Return a solution as an array of shape (jobs, types); what is unknown is left out."""
        return np.array(
            [
                [solution.shares.get(job, {}).get(name, 0.0) for name in self.type_names]
                for job in self.job_ids
            ]
        )

    @property
    def share_value(self) -> FloatArray:
        """Gavel's normalised throughput for all of a job's time on a type: shape (jobs, types)."""
        return self.rate * (self.gang / self.weight / self.equal_rate)[:, None]

    @property
    def isolated_s(self) -> FloatArray:
        """What a job takes in all on an equal part of the cluster."""
        return self.isolated_elapsed_s + self.steps / self.isolated_rate

    def objective(self, objective: Objective, shares: FloatArray) -> float:
        """Return what feasible shares are worth; finish_time_fairness infinite if a job has none.

        In doubles; the checker computes it in rational numbers.
        """
        if objective is Objective.MAX_MIN_SHARE:
            return float((self.share_value * shares).sum(axis=1).min())
        throughput = (self.rate * shares).sum(axis=1)
        if objective in (Objective.FINISH_TIME_FAIRNESS, Objective.MAKESPAN_SHARE):
            with np.errstate(divide="ignore"):
                left_s = self.steps / throughput
            if objective is Objective.MAKESPAN_SHARE:
                return float(left_s.max())
            return float(((self.elapsed_s + left_s) / self.isolated_s).max())
        return math.fsum((self.gain(objective) * shares).sum(axis=1))

    def gain(self, objective: Objective) -> FloatArray:
        """Return what a job's whole time on a type adds to ``throughput`` or ``cost``."""
        gain = self.weight[:, None] * self.rate
        return gain / self.price_per_hour[None, :] if objective is Objective.COST else gain

    # Programmes

    def max_min_share(self) -> ShareProgramme:
        """Return Gavel's fairness: v is the least normalised throughput."""
        return self.level_programme(self.share_value, np.ones(len(self.gang)))

    def completions(self) -> ShareProgramme:
        """Return: all jobs done soonest; v is 1 over the time."""
        return self.level_programme(self.rate, self.steps)

    def total(self, objective: Objective) -> ShareProgramme:
        """Return Gavel's sums, ``throughput`` or ``cost``; deadlines, if finite, are kept."""
        asks = (
            self.least_rate > 0 if objective is Objective.COST else np.zeros(len(self.gang), bool)
        )
        return self._programme(
            gain=self.gain(objective),
            value=self.rate,
            need=np.where(asks, self.least_rate, 0.0),
            has_need=asks,
        )

    def deadlines(self) -> ShareProgramme:
        """Return how much of what all deadlines ask for can be had: v at least 1 if all of it."""
        asks = self.least_rate > 0
        return self._programme(
            value=self.rate,
            level=np.where(asks, self.least_rate, 0.0),
            has_need=asks,
            has_level=True,
        )

    def finish_times(self, ratio: float) -> ShareProgramme:
        """Return finish-time fairness with what jobs need replaced by its tangents at a ratio.

        v is minus the ratio. `ratio` must be above `least_ratio`.
        """
        need, slope = self._need_and_slope(ratio)
        return self._programme(
            value=self.rate,
            level=-slope,
            need=need - slope * ratio,
            has_need=np.ones(len(self.gang), bool),
            has_level=True,
        )

    def level_programme(
        self, value: FloatArray, level: FloatArray, *, need: FloatArray | None = None
    ) -> ShareProgramme:
        """Return: maximise v such that each job's value is at least v times its level, + need."""
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
        return ShareProgramme(
            usable=self.usable,
            gain=np.zeros_like(self.rate) if gain is None else gain,
            value=value,
            level=np.zeros(jobs) if level is None else level,
            need=np.zeros(jobs) if need is None else need,
            has_need=has_need,
            gang=self.gang,
            gpus=np.maximum(self.gpus, 1.0),
            has_level=has_level,
            group=np.zeros(len(self.gpus), dtype=np.int64),
            limit=np.ones(1),
        )

    # Finish-time fairness

    @property
    def least_ratio(self) -> float:
        """The largest ratio of a job that has the best type all the time: a lower bound."""
        best_s = self.elapsed_s + self.steps / self.rate.max(axis=1)
        return float((best_s / self.isolated_s).max())

    def _need_and_slope(self, ratio: float) -> tuple[FloatArray, FloatArray]:
        left_s = ratio * self.isolated_s - self.elapsed_s
        need = self.steps / left_s
        return need, -need * self.isolated_s / left_s

    def ratio_bound(self, prices: SharePrices) -> float:
        r"""Return a lower bound on the ratio of ``finish_time_fairness`` from any prices.

        A ratio rho needs throughputs :math:`n_j(\rho) = R_j / (\rho D_j - t_j)`, so that
        :math:`\sum_j y_j n_j(\rho)` is at most what any shares are worth at the prices y. The sum
        falls in rho; the bound is the lower end of an interval around where it meets that value.
        O(jobs) for each halving of the interval.
        """
        prices = prices.cleaned()
        low = self.least_ratio * (1 - TOLERANCE) * (1 - DATA_ROUNDING)
        programme = self.finish_times(2 * self.least_ratio)
        most = programme.most(prices.need[:, None] * self.rate, prices.gpus)
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

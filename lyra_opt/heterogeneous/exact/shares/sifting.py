r"""Solve share programmes with many jobs through small ones over jobs with uncertain GPU types.

If a sum is maximised, most jobs may get nothing. It is then enough to prove that they cannot pay
for their GPUs. In a programme with a level, each job gets a share. At the optimal GPU prices and
level, each job is at its cheapest vertex (`lyra_opt.heterogeneous.exact.shares.vertices`). Of
thousands of jobs, all but some dozens keep that vertex for all nearby prices. Such a job is merely
a demand for GPUs that is linear in the level.

So prices are guessed from a programme with a few averaged jobs, and then corrected. Each programme
contains the jobs that may change their vertex at prices within a *margin* of the last ones; all
other jobs are fixed. GPUs can be bought and sold at the ends of the margin, which keeps prices
within it. If no GPU is traded and no fixed job prefers another vertex, the result is optimal for
all jobs, whatever the guess was. Section 7 of `formulations/heterogeneous/shares/README.md` has
the proof.

Jobs whose rates are proportional, such as jobs of one model with different weights, prefer the same
types at all prices. They are merged into one job, unless their time is scarce.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lyra_opt.core.arithmetic import product
from lyra_opt.core.arrays import BoolArray, FloatArray, IntArray
from lyra_opt.heterogeneous.exact.shares.programme import JobSets, SharePrices, ShareProgramme
from lyra_opt.heterogeneous.exact.shares.solver import SharePoint
from lyra_opt.heterogeneous.exact.shares.vertices import JobVertices, Vertices

Engine = Callable[[ShareProgramme], SharePoint]

MOST_TYPES = 8
"""Most types for sifting, because a job has a vertex for each pair of types."""
ATTEMPTS = 4
"""Number of price vectors tried for a level that one job limits."""
LEAST_USE, CHANGE = 0.1, 0.25
"""A price is multiplied by its type's utilisation, at least LEAST_USE, to the power CHANGE."""
LEAST_MEAN_JOBS, MOST_MEAN_JOBS, JOBS_OF_MEAN = 16, 40, 8
"""Number of averaged jobs, and of jobs in each; more guess better but take longer."""
IN_DOUBT = 24
"""Number of uncertain families at first; doubled after each programme that trades GPUs."""
MANY_JOBS = 1_000
"""Least number of jobs for which a descent on the prices pays off before the first programme."""
DESCENT_STEPS, LEVEL_STEPS, LEVEL_STEP = 30, 8, 1e-7
"""Steps of that descent, and of Newton's method for the level at each of its prices."""
MOST_PROGRAMMES = 10
LARGEST_MARGIN = 0.5
LEAST_PRICE = 1e-3
"""Fraction of the highest price; the margin of a lower price is that of this fraction."""
NOTHING = 1e-10
"""Trades and relative cost differences below this count as 0."""
LEVEL_GAP = 1e-8
"""Largest relative gap between the level and the bound that the prices prove."""
TRIED = 1.0
"""For each type, a sum tries jobs until they would hold this fraction of all GPUs."""
MOST_KEPT = 0.8
"""Largest fraction of jobs in a small programme; a larger one saves no time."""
AMPLE = 0.99
"""A job's time is not scarce if any of its types meets its need in this fraction of its time."""


def is_for_sifting(programme: ShareProgramme) -> bool:
    """Return whether `sifted` applies to a programme, which must maximise a level v alone.

    The programme must have few GPU types, in one group, a usable type for each job, and no pairs.
    """
    runs = programme.usable & (programme.value[: len(programme.usable)] > 0)
    return (
        programme.has_level
        and len(programme.limit) == 1
        and len(programme.gpus) <= MOST_TYPES
        and len(programme.sets) == programme.sets.jobs
        and not programme.gain.any()
        and bool(runs.any(axis=1).all())
    )


def limited(programme: ShareProgramme) -> SharePoint | None:
    """Return the optimum if no job but one, at its best possible value, limits the level.

    The result is None if this is not so, or if a few attempts find no shares that prove it. The
    programme must satisfy `is_for_sifting`. O(jobs types^2) for each attempt.
    """
    return _Sifting(programme).limited()


def sifted(programme: ShareProgramme, engine: Engine) -> SharePoint | None:
    """Return the optimum of a programme that maximises a level v; None if it was not found.

    Usually two to five programmes of some 50 jobs, plus O(jobs (types^2 + log jobs)).

    Parameters
    ----------
    programme
        A programme that satisfies `is_for_sifting`.
    engine
        Function that solves a programme.
    """
    return _Sifting(programme, engine).point()


def is_sum_for_sifting(programme: ShareProgramme) -> bool:
    """Return whether `sifted_sum` applies to a programme, which must maximise a plain sum.

    The programme must have no level, no needs and no pairs of jobs.
    """
    return (
        not programme.has_level
        and not programme.has_need.any()
        and len(programme.sets) == programme.sets.jobs
    )


def sifted_sum(programme: ShareProgramme, engine: Engine) -> SharePoint | None:
    """Solve a programme that maximises a sum, through programmes of jobs that may get a share.

    For each type, the jobs with the largest gain per GPU are chosen, until they would hold all GPUs
    of all types. Further programmes add the jobs that can pay at the prices found. If no other job
    can pay, the result is optimal for all jobs (section 7 of
    `formulations/heterogeneous/shares/README.md`). Usually one programme, plus O(types jobs log
    jobs).

    Parameters
    ----------
    programme
        A programme that satisfies `is_sum_for_sifting`.
    engine
        Function that solves a programme.

    Returns
    -------
    SharePoint or None
        None if the engine finds no optimum or hardly any job can be left out.
    """
    jobs, gang = len(programme.gang), programme.gang
    gain = np.where(programme.usable, programme.gain, 0.0)
    enough = TRIED * programme.gpus.sum() / programme.limit.min()
    kept = np.zeros(jobs, dtype=np.bool_)
    for rate in (gain / gang[:, None]).T:
        order = np.argsort(-rate, kind="stable")
        kept[order[: np.searchsorted(np.cumsum(gang[order]), enough) + 1]] = True
    iterations = 0
    for _ in range(MOST_PROGRAMMES):
        few = np.flatnonzero(kept)
        if len(few) > MOST_KEPT * jobs:
            return None
        point = engine(of_jobs(programme, few))
        iterations += point.iterations
        if point.shares is None or point.prices is None:
            return None
        prices = point.prices.cleaned().gpus
        paid = gang[:, None] * prices
        pays = ~kept & ((gain - paid) > NOTHING * paid).any(axis=1)
        if not pays.any():
            shares = np.zeros(gain.shape)
            shares[few] = point.shares
            return SharePoint(shares, SharePrices(np.zeros(jobs), prices), iterations)
        kept |= pays
    return None


def of_jobs(programme: ShareProgramme, jobs: IntArray) -> ShareProgramme:
    """Return the programme restricted to some of its jobs, none of which is in a pair."""
    return replace(
        programme,
        sets=JobSets.of(len(jobs)),
        usable=programme.usable[jobs],
        gain=programme.gain[jobs],
        value=programme.value[jobs],
        level=programme.level[jobs],
        need=programme.need[jobs],
        has_need=programme.has_need[jobs],
        gang=programme.gang[jobs],
        kind=programme.kind[jobs],
    )


def _sums(numbers: IntArray, values: FloatArray, count: int) -> FloatArray:
    """Return, for each index below `count`, the sum of the values with this index."""
    return np.bincount(numbers, values, count).astype(np.float64)


@dataclass(frozen=True, slots=True)
class _Reduced:
    """A small share programme of the uncertain jobs, with columns that represent all other jobs.

    Its jobs are, in this order: the single jobs, one job per family, and, for each type, the GPUs
    used by fixed jobs, GPUs that can be bought and GPUs that can be sold.

    Parameters
    ----------
    programme
        The reduced programme.
    alone, in_family
        Positions of single jobs, and of jobs that are merged into families.
    family
        Shape (jobs in families,): index of each job's family in the reduced programme, from 0.
    fixed
        Shape (jobs,): whether the job is fixed, that is neither single nor in a family.
    """

    programme: ShareProgramme
    alone: IntArray
    in_family: IntArray
    family: IntArray
    fixed: BoolArray

    def has_bought(self, shares: FloatArray) -> bool:
        """Return whether the small programme buys GPUs, so that some GPU price is too low."""
        types = shares.shape[1]
        return bool(shares[len(shares) - 2 * types : len(shares) - types].max() > NOTHING)

    def has_sold(self, shares: FloatArray) -> bool:
        """Return whether the small programme sells GPUs, so that some GPU price is too high."""
        return bool(shares[len(shares) - shares.shape[1] :].max() > NOTHING)


class _Sifting:
    """State of the sifting method while it solves one linear programme."""

    def __init__(self, programme: ShareProgramme, engine: Engine | None = None) -> None:
        self._programme, self._engine = programme, engine
        self._jobs = JobVertices(programme)
        self._limiting = int(self._jobs.highest.argmin())
        self._highest = float(self._jobs.highest[self._limiting])
        self._iterations = 0

    def limited(self) -> SharePoint | None:
        """Return the optimum if one job's best rate limits the level; None if this is unproved."""
        programme, jobs = self._programme, self._jobs
        if not math.isfinite(self._highest):
            return None
        need = programme.level * self._highest + programme.need
        if product(programme.gang, need / jobs.best_value) > programme.gpus.sum():
            return None
        # At prices proportional to mean relative rates, all GPU types are about equally attractive.
        prices = jobs.ratio.mean(axis=1)
        for _ in range(ATTEMPTS):
            now = jobs.at(prices, self._highest)
            point = self._limited_point(now)
            # If meeting the needs costs more than all GPUs are worth, no prices can make them fit.
            if point is not None or now.cost.sum() > product(prices, programme.gpus):
                return point
            use = product(programme.gang, self._shares(now, self._highest)) / programme.gpus
            prices = prices * np.maximum(use, LEAST_USE) ** CHANGE
        return None

    def point(self) -> SharePoint | None:
        """Return the optimum of a programme that maximises a level v; None if it was not found."""
        guess = self._guess()
        if guess is None:
            return None
        prices, level = guess
        if len(self._programme.level) >= MANY_JOBS and level < self._highest:
            prices, level = self._refined(prices, level)
        is_at_limit = level >= self._highest
        now = self._jobs.at(prices, min(level, self._highest))
        if is_at_limit:
            point = self._limited_point(now)
            if point is not None:
                return point
        now = self._in_units_of_level(now)
        alone = np.zeros(len(now.need), dtype=np.bool_)
        alone[self._limiting] = True
        in_doubt = IN_DOUBT
        for _ in range(MOST_PROGRAMMES):
            reduced = self._reduced(now, alone, in_doubt, may_fall=is_at_limit)
            point = self._solved(reduced.programme)
            if point.shares is None or point.prices is None:
                return None
            later = self._jobs.at(point.prices.gpus, point.level)
            wants_other = reduced.fixed & self._wants_other(now, later)
            has_bought = reduced.has_bought(point.shares)
            # A sale of GPUs shows that their price is too high, unless the price is 0.
            has_traded = has_bought or (not is_at_limit and reduced.has_sold(point.shares))
            if not has_traded and not wants_other.any():
                return self._proved(self._whole(reduced, now, later, point))
            alone |= wants_other
            in_doubt *= 2 if has_traded else 1
            is_high = self._highest - point.level <= NOTHING * abs(self._highest)
            is_at_limit = is_high and not has_bought
            if is_high and has_bought:
                # These prices value the time of the limiting job, so the old GPU prices are kept.
                now = self._in_units_of_level(self._jobs.at(now.prices, point.level))
            else:
                # Price margins are fractions of prices, so a price of 0 would have no margin.
                prices = np.maximum(point.prices.gpus, LEAST_PRICE * now.prices)
                now = self._jobs.at(prices, point.level)
        return None

    def _solved(self, programme: ShareProgramme) -> SharePoint:
        assert self._engine is not None
        point = self._engine(programme)
        self._iterations += point.iterations
        return point

    def _guess(self) -> tuple[FloatArray, float] | None:
        """Guess GPU prices and the level from a programme of averaged jobs; None if that fails."""
        programme, jobs = self._programme, self._jobs
        best = np.where(jobs.best_value > 0, jobs.best_value, 1.0)
        order = jobs.order
        weight = (programme.gang * (programme.level + np.abs(programme.need)) / best)[order]
        sums = np.cumsum(weight)
        mean_jobs = min(MOST_MEAN_JOBS, max(LEAST_MEAN_JOBS, len(order) // JOBS_OF_MEAN))
        number = ((sums - weight / 2) * (mean_jobs / sums[-1])).astype(np.int64)
        is_new = np.append(True, number[1:] != number[:-1])
        firsts = np.flatnonzero(is_new)
        middle = order[(firsts + np.append(firsts[1:], len(order))) // 2]
        mean = self._merged(order, np.cumsum(is_new) - 1, middle)
        # Gangs are enlarged so that no job is short of time. Otherwise, some GPUs might get no
        # price.
        plenty = mean.gang + 2 * programme.gpus.sum() / jobs.time
        value = mean.value / mean.gang[:, None] * plenty[:, None]
        point = self._solved(replace(mean, value=value, gang=plenty))
        if point.prices is None or not np.isfinite(point.level):
            return None
        prices = point.prices.cleaned().gpus
        return (prices, point.level) if prices.any() else None

    def _refined(self, prices: FloatArray, level: float) -> tuple[FloatArray, float]:
        """Improve a guess of GPU prices by descent on the level that they leave possible.

        At prices p, the level is at most the v at which all jobs' cheapest vertices cost what all
        GPUs are worth. With many jobs, the least such v over all p is almost smooth. A few dozen
        evaluations, O(jobs types^2) each, then bring the prices so close that few jobs remain
        uncertain. The averaged jobs of the first guess miss them by up to 15 %.
        """
        from scipy.optimize import minimize

        gpus = self._programme.gpus
        everyone = np.ones(len(self._programme.level), dtype=np.bool_)
        used = prices > LEAST_PRICE * prices.max()

        def possible(logarithms: FloatArray) -> tuple[float, FloatArray]:
            nonlocal level
            at = np.where(used, np.exp(logarithms), prices)
            for _ in range(LEVEL_STEPS):
                use, slope = self._use(self._jobs.at(at, level), everyone)
                left, per_level = float(product(at, gpus - use)), float(product(at, slope))
                before, level = level, min(self._highest, level + left / per_level)
                if abs(level - before) <= LEVEL_STEP * abs(level):
                    break
            return math.log(level), np.where(used, at * (gpus - use) / (per_level * level), 0.0)

        start = np.log(np.maximum(prices, LEAST_PRICE * prices.max()))
        found = minimize(
            possible, start, method="L-BFGS-B", jac=True, options={"maxiter": DESCENT_STEPS}
        )
        return np.where(used, np.exp(found.x), prices), level

    def _merged(self, jobs: IntArray, number: IntArray, models: IntArray) -> ShareProgramme:
        """Return a programme in which jobs with an equal `number` are merged into one job.

        The merged job has the rate ratios of a model job.

        The share of a merged job is the mean of its jobs' shares, weighted by gangs.
        """
        programme, count = self._programme, len(models)
        best = np.where(self._jobs.best_value > 0, self._jobs.best_value, 1.0)[jobs]
        gang = programme.gang[jobs]
        together = _sums(number, gang, count)
        value = self._jobs.ratio[:, models].T * together[:, None]
        return replace(
            programme,
            sets=JobSets.of(count),
            usable=value > 0,
            gain=np.zeros(value.shape),
            value=value,
            level=_sums(number, gang / best * programme.level[jobs], count),
            need=_sums(number, gang / best * programme.need[jobs], count),
            has_need=np.ones(count, dtype=np.bool_),
            gang=together,
            kind=np.full(count, -1),
        )

    def _in_units_of_level(self, now: Vertices) -> Vertices:
        """Return the vertices with GPU prices scaled so that raising the level v by 1 costs 1."""
        by_job = self._jobs.need_price(now, now.prices) * self._programme.level
        costs = float(by_job[now.cost < np.inf].sum())
        return now._replace(prices=now.prices / costs) if costs > 0 else now

    def _reduced(
        self, now: Vertices, alone: BoolArray, in_doubt: int, *, may_fall: bool
    ) -> _Reduced:
        """Return the reduced programme of the uncertain jobs.

        Parameters
        ----------
        now
            Current prices, and the vertices of the fixed jobs.
        alone
            Jobs that must be single jobs of the reduced programme.
        in_doubt
            Least number of uncertain families.
        may_fall
            Whether prices may fall to 0; at the highest level prices have no unit.
        """
        programme, jobs = self._programme, self._jobs
        types = len(programme.gpus)
        margin = self._margin(now, in_doubt)
        free = alone | (now.doubt <= margin)
        is_alone = alone | (free & (now.need > AMPLE * jobs.enough))
        lonely, in_family = np.flatnonzero(is_alone), np.flatnonzero(free & ~is_alone)
        _, lead, family = np.unique(jobs.family[in_family], return_index=True, return_inverse=True)
        families = self._merged(in_family, family, in_family[lead])
        start, slope = self._use(now, ~free)
        # This number of GPUs is so large that no time constraint binds.
        many = 4 * np.maximum(programme.gpus, np.abs(start)) / jobs.time
        change = margin * np.maximum(now.prices, LEAST_PRICE * now.prices.max())
        ask = now.prices + change
        bid = np.maximum(0.0, 0.0 if may_fall else now.prices - change)
        each, none = np.eye(types), np.zeros(types)
        blank = np.zeros((len(lonely) + len(families.gang) + types, types))
        gang = np.concatenate([programme.gang[lonely], families.gang, many, -many, many])
        nothing = np.zeros((types, types))
        small = replace(
            programme,
            sets=JobSets.of(len(gang)),
            usable=np.concatenate([programme.usable[lonely], families.usable, *[each > 0] * 3]),
            gain=np.concatenate([blank, -each * (many * ask), each * (many * bid)]),
            value=np.concatenate(
                [programme.value[lonely], families.value, each * many, nothing, nothing]
            ),
            level=np.concatenate([programme.level[lonely], families.level, slope, none, none]),
            need=np.concatenate(
                [programme.need[lonely], families.need, start - slope * now.level, none, none]
            ),
            has_need=np.arange(len(gang)) < len(gang) - 2 * types,
            gang=gang,
            kind=np.full(len(gang), -1),
        )
        return _Reduced(small, lonely, in_family, family, ~free)

    def _margin(self, now: Vertices, in_doubt: int) -> float:
        """Return the relative price change within which `in_doubt` families may change GPU types.

        A family is a set of jobs with equal rate ratios.
        """
        families = self._jobs.family[self._jobs.order]
        leads = self._jobs.order[np.append(True, families[1:] != families[:-1])]
        if len(leads) <= in_doubt:
            return LARGEST_MARGIN
        doubts = np.partition(now.doubt[leads], in_doubt)
        return min(LARGEST_MARGIN, float(doubts[in_doubt]))

    def _use(self, now: Vertices, who: BoolArray) -> tuple[FloatArray, FloatArray]:
        """Return the GPUs of each type that the jobs `who` use, and their growth with the level."""
        types, gang = len(now.prices), self._programme.gang
        one = np.flatnonzero(who)
        more = gang * self._programme.level * now.per_need
        use = _sums(now.first[one], (gang * now.share)[one], types)
        slope = _sums(now.first[one], more[one], types)
        two = np.flatnonzero(who & (now.second >= 0))
        second = now.second[two]
        use += _sums(second, (gang * (self._jobs.time - now.share))[two], types)
        slope -= _sums(second, more[two], types)
        return use, slope

    def _wants_other(self, now: Vertices, later: Vertices) -> BoolArray:
        """Return which jobs must or should change their vertex at new prices and a new level.

        A vertex is a mix of one or two GPU types.
        """
        share, rest = self._both(now, later.level)
        second = np.where(now.second >= 0, later.prices[now.second], 0.0)
        paid = self._programme.gang * (share * later.prices[now.first] + rest * second)
        slack = NOTHING * self._jobs.time
        is_out = (share < -slack) | (share > self._jobs.time + slack)
        return is_out | ~(paid <= later.cost * (1 + NOTHING))

    def _both(self, now: Vertices, level: float) -> tuple[FloatArray, FloatArray]:
        """Return each job's shares of the first and second type of its vertex at a level."""
        share = self._jobs.share_at(now, level)
        return share, np.where(now.second >= 0, self._jobs.time - share, 0.0)

    def _shares(self, now: Vertices, level: float) -> FloatArray:
        """Return the shares of all jobs at their vertices at a level, shape (jobs, types)."""
        share, rest = self._both(now, level)
        shares = np.zeros(self._programme.usable.shape)
        two = np.flatnonzero(now.second >= 0)
        shares[two, now.second[two]] = rest[two]
        shares[np.arange(len(share)), now.first] = share
        return shares

    def _limited_point(self, now: Vertices) -> SharePoint | None:
        """Return the optimum at the level that one job limits; None if the GPUs do not suffice.

        All GPU prices are then 0.
        """
        programme = self._programme
        shares = self._shares(now, now.level)
        is_enough = (product(programme.gang, shares) <= programme.gpus).all()
        if not (is_enough and (now.cost < np.inf).all()):
            return None
        need_price = np.zeros(len(shares))
        need_price[self._limiting] = 1.0 / programme.level[self._limiting]
        prices = SharePrices(need_price, np.zeros(len(programme.gpus)))
        return SharePoint(shares, prices, self._iterations, now.level)

    def _whole(
        self, reduced: _Reduced, now: Vertices, later: Vertices, point: SharePoint
    ) -> SharePoint:
        """Convert the solution of a reduced programme to one of all jobs."""
        assert point.shares is not None
        assert point.prices is not None
        programme, jobs = self._programme, self._jobs
        shares = self._shares(now, later.level)
        need_price = jobs.need_price(now, later.prices)
        alone, members, lonely = reduced.alone, reduced.in_family, len(reduced.alone)
        shares[alone] = point.shares[:lonely]
        need_price[alone] = point.prices.need[:lonely]
        of_family = lonely + reduced.family
        # Within a family, each GPU type gives every job the same fraction of its need.
        given = reduced.programme.value[of_family] * point.shares[of_family]
        total = given.sum(axis=1, keepdims=True)
        part = np.divide(given, total, out=np.zeros_like(given), where=total > 0)
        per_value = np.where(jobs.value > 0, jobs.per_value, 0.0)[:, members].T
        shares[members] = part * per_value * later.need[members, None]
        best = jobs.best_value[members]
        need_price[members] = point.prices.need[of_family] * programme.gang[members] / best
        return SharePoint(
            shares, SharePrices(need_price, later.prices), self._iterations, later.level
        )

    def _proved(self, point: SharePoint) -> SharePoint | None:
        """Return the solution if its dual prices prove its level, else None."""
        assert point.prices is not None
        bound = self._programme.dual_bound(point.prices, tolerance=0.0)
        return point if bound - point.level <= LEVEL_GAP * abs(point.level) else None

r"""Proved upper bounds for the network problem, from a knapsack and from dual prices.

With prices for places, every placement is bounded by the gains of gangs after paying for their
places, plus the largest income that each rack can earn from its GPUs.

*Prices.* :math:`\mu_s` is the price of a place for a gang of s on one machine, :math:`\rho_s` that
of a place in one rack, and :math:`\pi` that of a GPU for gangs that cross the network. Let x say
which gangs start at which tier. Let every rack choose a pattern: gangs on its machines, gangs
across its machines, and GPUs for the network. A placement uses as many places as gangs, so for any
prices

.. math::
    \sum_{j, t} v_{jt} x_{jt}
    \le \sum_j \max(0, v_{jM} - \mu_{n_j}, v_{jR} - \rho_{n_j}, v_{jN} - n_j \pi)
    + \sum_r \max_{\text{patterns of } r}
      \Big(\sum_s a_s \mu_s + \sum_s b_s \rho_s + w \pi - \text{penalties}\Big).

The right side is computed in integers from values rounded up. So it is a bound for any prices of at
least 0 (places may stay empty). If partly free machines cost something, all GPUs passed on are used
up, and then :math:`\pi` may be negative.

*Best prices.* They are the dual of the linear programme over all patterns (Dantzig and Wolfe 1960;
Gilmore and Gomory 1961). Patterns that earn more than the current prices are added until none are
left. The optimum of the programme keeps gangs on a machine and in a rack whole. Only gangs between
racks, and GPUs for the network, may be split.

*Whole gangs.* Gangs together use at most the free GPUs. Given this constraint, a GPU of the network
needs no price. A place then costs only its excess over the network price,
:math:`\max(0, \mu_s - s \pi)` or :math:`\max(0, \rho_s - s \pi)`. Choosing the gangs that gain most
is a knapsack, solved exactly (`fill_cluster`). At the best prices its relaxation is at most the
bound above.

If racks are too large for this, each machine counts as a rack, and gangs on several machines pay
:math:`\pi` per GPU.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lyra_opt.core.arithmetic import float_up
from lyra_opt.core.stopwatch import within_time
from lyra_opt.network.bounds.rack_pattern_kernel import (
    Demand,
    Fills,
    Passing,
    Racks,
    fill_cluster,
    fill_racks,
)
from lyra_opt.network.checker import value_of
from lyra_opt.network.instance import COUNTING_OBJECTIVES, Instance, Objective
from lyra_opt.network.links import Tier

MOST_WORK = 20_000_000
"""Most elementary steps of the dynamic programmes with whole racks; beyond, racks are split."""
MOST_KNAPSACK_WORK = 50_000_000
"""Most elementary steps of the knapsack over all gangs; beyond, the knapsack is skipped."""
MOST_VARIABLES = 20_000
MOST_ROUNDS = 80
TIME_LIMIT_S = 10.0
PROVED = 1e-9
"""Relative gap to the linear programme's optimum at which prices are good enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Dual prices: of a gang's place on a machine or in a rack, and of a GPU across racks.

    Parameters
    ----------
    machine, rack
        Price of a place for a gang, by gang size, at least 0.
    network
        Price of a GPU for gangs that span racks; at least 0 except for ``least_fragmentation``.
    """

    machine: Mapping[int, float]
    rack: Mapping[int, float]
    network: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPriceBound:
    """An upper bound on the value of every placement, with the prices that prove it.

    Parameters
    ----------
    value
        Upper bound on the value of every placement.
    prices
        The prices that prove the bound.
    rounds
        Number of times that patterns were added.
    """

    value: Fraction
    prices: Prices
    rounds: int

    def times(self, scale: Fraction) -> "PlacementPriceBound":
        """Return the bound and its prices for gang values multiplied by `scale`."""

        def scaled(price: float) -> float:
            return float(Fraction(price) * scale)

        prices = self.prices
        return PlacementPriceBound(
            value=self.value * scale,
            prices=Prices(
                machine={size: scaled(price) for size, price in prices.machine.items()},
                rack={size: scaled(price) for size, price in prices.rack.items()},
                network=scaled(prices.network),
            ),
            rounds=self.rounds,
        )


@dataclass(frozen=True, slots=True)
class Offer:
    """The size of a gang and its value at each network tier, 0 where it must not start."""

    gang: int
    values: tuple[Fraction, Fraction, Fraction]


def price_bound(instance: Instance, offers: Sequence[Offer]) -> PlacementPriceBound | None:
    """Return an upper bound on the value of every placement; None if the instance is too large.

    Parameters
    ----------
    instance
        The instance, of which only the machines are read.
    offers
        The gangs that may start, with values of at least 0. The value is 0 for tiers at which a
        gang could not start even alone.

    Notes
    -----
    At most `MOST_ROUNDS` rounds. Each round solves a linear programme with (3 gangs + patterns)
    variables, and a dynamic programme of O(machines GPUs-of-a-machine GPUs-of-a-rack) steps for
    each kind of rack.
    """
    if not offers or 3 * len(offers) > MOST_VARIABLES:
        return None
    is_penalised = instance.objective is Objective.LEAST_FRAGMENTATION
    # Values are scaled so that, as floats, they are neither huge nor denormal.
    scale = Fraction(1) if is_penalised else max(max(offer.values) for offer in offers)
    scaled = [_scaled(offer, 1 / scale) for offer in offers]
    for is_whole in (True, False):
        relaxation = _Relaxation(instance, scaled, racks_are_whole=is_whole)
        # A partly free machine costs 1, so the cost 1 must be at least one integer unit.
        if relaxation.work <= MOST_WORK and (relaxation.units >= 1 or not is_penalised):
            return relaxation.solve().times(scale)
    return None


def _scaled(offer: Offer, scale: Fraction) -> Offer:
    near, rack, network = offer.values
    return Offer(offer.gang, (near * scale, rack * scale, network * scale))


class _Relaxation:
    """The linear programme over patterns of racks, and the exact bound at given prices."""

    def __init__(
        self, instance: Instance, offers: Sequence[Offer], *, racks_are_whole: bool
    ) -> None:
        self.is_penalised = instance.objective is Objective.LEAST_FRAGMENTATION
        merged: dict[Offer, int] = {}
        for offer in offers:
            if not racks_are_whole:
                near, rack, network = offer.values
                offer = Offer(offer.gang, (near, Fraction(0), max(rack, network)))
            merged[offer] = merged.get(offer, 0) + 1
        self.offers = list(merged)
        self.copies = np.array(list(merged.values()), np.int64)
        self.gang = np.array([offer.gang for offer in self.offers], np.int64)
        self.sizes, self.size_of = np.unique(self.gang, return_inverse=True)
        self._group_racks(instance, racks_are_whole=racks_are_whole)
        kinds = len(self.sizes)
        counts = np.zeros((2, kinds), np.int64)
        for tier in (Tier.MACHINE, Tier.RACK):
            offered = np.array([offer.values[tier] > 0 for offer in self.offers])
            np.add.at(counts[tier], self.size_of[offered], self.copies[offered])
        self.counts = counts
        free = instance.free_gpus
        dearest = max(max(offer.values) for offer in self.offers)
        if self.is_penalised:
            dearest = max(dearest, Fraction(1))
        # The unit is chosen so that sums of values, and prices times GPUs, fit into 62 bits.
        self.free_gpus = free
        self.work_of_knapsack = int(self.copies.sum()) * free
        largest = dearest * 2 * (free + 1)
        bits = largest.numerator.bit_length() - largest.denominator.bit_length() + 1
        self.units = Fraction(2) ** (60 - bits)
        self.integer_values = np.array(
            [[math.ceil(value * self.units) for value in offer.values] for offer in self.offers],
            np.int64,
        )
        self.largest = max((int(self.free[group].max()) for group in self._groups()), default=0)
        self.reach = max((int(self.free[group].sum()) for group in self._groups()), default=0)
        self.work = self._estimate_work()

    def _groups(self) -> list[slice]:
        pairs = zip(self.first_machine[:-1], self.first_machine[1:], strict=True)
        return [slice(int(begin), int(end)) for begin, end in pairs]

    def _group_racks(self, instance: Instance, *, racks_are_whole: bool) -> None:
        """Group and count the racks whose machines have equal numbers of free GPUs."""
        found: dict[tuple[tuple[int, int], ...], int] = {}
        for positions in instance.racks.values():
            machines = sorted(
                (machine.free_gpus, machine.gpus if self.is_penalised else 0)
                for machine in (instance.machines[position] for position in positions)
                if machine.free_gpus
            )
            parts = [tuple(machines)] if racks_are_whole else [(machine,) for machine in machines]
            for part in parts:
                if part:
                    found[part] = found.get(part, 0) + 1
        groups = sorted(found)
        self.racks = np.array([found[group] for group in groups], np.int64)
        self.first_machine = np.cumsum([0, *(len(group) for group in groups)])
        self.free = np.array([free for group in groups for free, _ in group], np.int64)
        self.gpus = np.array([gpus for group in groups for _, gpus in group], np.int64)
        self.spans = np.array([len(group) > 1 for group in groups], np.int64)

    def _estimate_work(self) -> int:
        def of_fill(room: int, counts: np.ndarray) -> int:
            return sum(
                (room + 1) * (1 + min(int(count), room // int(size)))
                for size, count in zip(self.sizes, counts, strict=True)
            )

        work = of_fill(self.largest, self.counts[0]) + of_fill(self.reach, self.counts[1])
        for group in self._groups():
            reach = int(self.free[group].sum())
            work += reach * int((self.free[group] + 1).sum()) + reach * reach // 2
        return work

    def solve(self) -> PlacementPriceBound:
        """Return the best bound, by adding rack patterns until no pattern improves the prices."""
        columns: list[tuple[int, ...]] = []
        known: set[tuple[int, ...]] = set()
        best: tuple[int, Prices] | None = None
        prices, least = self._first_prices(), 0.0
        rounds = 0
        while True:
            value, patterns, rounded = self._bound_at(prices)
            if best is None or value < best[0]:
                best = value, rounded
            new = [pattern for pattern in patterns if pattern not in known]
            reached = float(Fraction(best[0]) / self.units)
            if not new or rounds == MOST_ROUNDS or reached - least <= PROVED * abs(reached):
                break
            known.update(new)
            columns += new
            solved = self._master(columns)
            if solved is None:
                break
            prices, least = solved
            rounds += 1
        least_units = best[0]
        if self.work_of_knapsack <= MOST_KNAPSACK_WORK:
            least_units = min(least_units, self._whole_gangs_bound(best[1]))
        return PlacementPriceBound(value=least_units / self.units, prices=best[1], rounds=rounds)

    def _first_prices(self) -> Prices:
        """Return initial prices: one price per GPU at which demand meets the free GPUs."""
        best = np.array([float(max(offer.values)) for offer in self.offers]) / self.gang
        order = np.argsort(-best, kind="stable")
        asked = np.cumsum((self.gang * self.copies)[order])
        free = int((self.free * np.repeat(self.racks, np.diff(self.first_machine))).sum())
        place = int(np.searchsorted(asked, free))
        price = float(best[order[place]]) if place < len(order) else 0.0
        by_size = {int(size): price * int(size) for size in self.sizes}
        return Prices(machine=by_size, rack=by_size, network=price)

    def _bound_at(self, prices: Prices) -> tuple[int, list[tuple[int, ...]], Prices]:
        """Return the bound at given prices in integer units, with patterns and rounded prices."""
        own, network = self._whole_units(prices)
        gains = self._gains(own, network)
        patterns = self._patterns(own, network)
        total = sum(
            gain * copies for gain, copies in zip(gains.tolist(), self.copies.tolist(), strict=True)
        )
        by_size = [
            {
                int(size): float(Fraction(int(price)) / self.units)
                for size, price in zip(self.sizes, row, strict=True)
            }
            for row in own
        ]
        rounded = Prices(
            machine=by_size[0], rack=by_size[1], network=float(Fraction(network) / self.units)
        )
        keys = [(group, *pattern[:-1]) for group, pattern in enumerate(patterns)]
        return total + self._earned(patterns), keys, rounded

    def _whole_gangs_bound(self, prices: Prices) -> int:
        """Return the bound, in integer units, from a knapsack of whole gangs over all free GPUs."""
        own, network = self._whole_units(prices)
        own = np.maximum(own - self.sizes * network, 0)
        gains = self._gains(own, 0)
        knapsack = fill_cluster.run(
            self.free_gpus,
            self.gang,
            gains,
            self.copies,
            np.zeros(self.free_gpus + 1, np.int64),
            work=self.work_of_knapsack,
            largest=2**61,
        )
        return int(knapsack) + self._earned(self._patterns(own, 0))

    def _whole_units(self, prices: Prices) -> tuple[np.ndarray, int]:
        """Round prices to integer units: prices of places by tier and size, and of network GPUs."""
        dearest = np.zeros((2, len(self.sizes)), np.int64)
        for tier in (Tier.MACHINE, Tier.RACK):
            np.maximum.at(dearest[tier], self.size_of, self.integer_values[:, tier])
        own = np.array(
            [
                [round(Fraction(of[int(size)]) * self.units) for size in self.sizes]
                for of in (prices.machine, prices.rack)
            ],
            dtype=object,
        )
        # A price above the highest value of any gang cannot improve the bound.
        own = np.minimum(np.maximum(own, 0), dearest).astype(np.int64)
        most = int(np.max(-(-self.integer_values[:, Tier.NETWORK] // self.gang), initial=0))
        least = -math.ceil(self.units) if self.is_penalised else 0
        return own, min(max(round(Fraction(prices.network) * self.units), least), most)

    def _gains(self, own: np.ndarray, network: int) -> np.ndarray:
        """Return each gang's value minus its price at the best tier, at least 0."""
        paid = np.stack((own[0][self.size_of], own[1][self.size_of], self.gang * network), axis=1)
        gains = np.where(self.integer_values > 0, self.integer_values - paid, 0).max(axis=1)
        return np.asarray(np.maximum(gains, 0), np.int64)

    def _earned(self, patterns: Sequence[tuple[int, ...]]) -> int:
        return sum(
            pattern[-1] * racks
            for pattern, racks in zip(patterns, self.racks.tolist(), strict=True)
        )

    def _patterns(self, own: np.ndarray, network: int) -> list[tuple[int, ...]]:
        kinds, groups = len(self.sizes), len(self.racks)
        machines = int(np.diff(self.first_machine).max(initial=0))
        row, near = self.reach + 1, self.largest + 1

        def scratch(length: int) -> np.ndarray:
            return np.zeros(length, np.int64)

        columns = fill_racks.run(
            Racks(
                first_machine=self.first_machine.astype(np.int64),
                free=self.free,
                gpus=self.gpus,
                spans=self.spans,
            ),
            Demand(
                sizes=self.sizes,
                counts=self.counts.ravel(),
                prices=own.ravel(),
                network_price=network,
                penalty=math.ceil(self.units) if self.is_penalised else 0,
            ),
            Fills(
                machine_best=scratch(near),
                machine_taken=scratch(kinds * near),
                most_within=scratch(near),
                where_within=scratch(near),
                rack_best=scratch(row),
                rack_taken=scratch(kinds * row),
            ),
            Passing(
                best=scratch(row), before=scratch(row), passed_by=scratch(max(machines, 1) * row)
            ),
            scratch(groups * (2 * kinds + 3)),
            work=self.work,
            largest=2**61,
        )
        table = np.asarray(columns, np.int64).reshape(groups, 2 * kinds + 3)
        return [tuple(line) for line in table.tolist()]

    def _master(self, columns: Sequence[tuple[int, ...]]) -> tuple[Prices, float] | None:
        """Solve the master programme over given patterns; return its dual prices and its value.

        None if the backend does not solve it.

        Rows: each gang at most once; places on machines, then in racks, by size; GPUs of the
        network; one pattern per rack.
        """
        from scipy.optimize import linprog
        from scipy.sparse import csr_array

        kinds, jobs, groups = len(self.sizes), len(self.offers), len(self.racks)
        values = np.array([[float(value) for value in offer.values] for offer in self.offers])
        job, tier = np.nonzero(values > 0)
        gangs = len(job)
        table = np.array(columns, float)
        group = table[:, 0].astype(np.int64)
        supply = table[:, 1 : 2 * kinds + 2]
        pattern, place = np.nonzero(supply)
        is_network = tier == Tier.NETWORK
        demand_row = jobs + np.where(is_network, 2 * kinds, tier * kinds + self.size_of[job])
        chosen = np.arange(len(columns))
        rows = np.concatenate((job, demand_row, jobs + place, jobs + 2 * kinds + 1 + group))
        places = np.concatenate(
            (np.arange(gangs), np.arange(gangs), gangs + pattern, gangs + chosen)
        )
        entries = np.concatenate(
            (
                np.ones(gangs),
                np.where(is_network, self.gang[job], 1.0),
                -supply[pattern, place],
                np.ones(len(columns)),
            )
        )
        right = np.concatenate((self.copies, np.zeros(2 * kinds + 1), self.racks)).astype(float)
        scale = float(values.max())
        cost = np.concatenate((-values[job, tier] / scale, table[:, -1] / scale))
        matrix = csr_array(
            (entries, (rows, places)), shape=(jobs + 2 * kinds + 1 + groups, len(cost))
        )
        equal = np.zeros(matrix.shape[0], bool)
        if self.is_penalised:
            # Each rack has exactly one pattern, and all GPUs that the patterns pass on are used.
            equal[jobs + 2 * kinds :] = True
        result = linprog(
            cost,
            A_ub=matrix[~equal],
            b_ub=right[~equal],
            A_eq=matrix[equal] if equal.any() else None,
            b_eq=right[equal] if equal.any() else None,
            method="highs",
            options={"time_limit": TIME_LIMIT_S},
        )
        if result.status != 0:
            return None
        dual = np.zeros(len(right))
        dual[~equal] = -result.ineqlin.marginals
        if equal.any():
            dual[equal] = -result.eqlin.marginals
        dual *= scale
        prices = [
            {int(size): float(price) for size, price in zip(self.sizes, part, strict=True)}
            for part in (dual[jobs : jobs + kinds], dual[jobs + kinds : jobs + 2 * kinds])
        ]
        network = float(dual[jobs + 2 * kinds])
        return Prices(machine=prices[0], rack=prices[1], network=network), -result.fun * scale


def dual_bound(instance: Instance) -> int | float:
    """Return a proved upper bound on the optimum, an integer for counting objectives.

    The better of `knapsack_bound` and `price_bound`. It does not depend on the file order.
    """
    offers = offers_of(instance)
    least = knapsack_bound(instance, offers)
    if not offers and instance.objective is Objective.LEAST_FRAGMENTATION:
        # If no gang can start, machines that are partly free stay partly free.
        least -= sum(0 < machine.free_gpus < machine.gpus for machine in instance.machines)
    priced = price_bound(instance, offers)
    if priced is not None:
        least = min(least, priced.value)
    if instance.objective in COUNTING_OBJECTIVES:
        return math.floor(least)
    return float_up(least)


def offers_of(instance: Instance) -> list[Offer]:
    """Return the sizes and values of all gangs that could start alone, in sorted order."""
    rooms = _rooms(instance)
    offers = []
    for job in within_time(instance.jobs):
        values = [Fraction(0)] * len(Tier)
        for tier in instance.tiers_of(job):
            if job.gang <= rooms[tier] and (tier is Tier.MACHINE or job.gang > 1):
                values[tier] = value_of(instance, job, tier)
        if any(value > 0 for value in values):
            offers.append(Offer(job.gang, (values[0], values[1], values[2])))
    return sorted(offers, key=lambda offer: (offer.gang, offer.values))


def _rooms(instance: Instance) -> dict[Tier, int]:
    """Return, by tier, the size of the largest gang that fits and spans the tier."""
    racks = [
        [instance.machines[position].free_gpus for position in positions]
        for positions in instance.racks.values()
    ]
    several = [sum(rack) for rack in racks if sum(free > 0 for free in rack) > 1]
    return {
        Tier.MACHINE: max(machine.free_gpus for machine in instance.machines),
        Tier.RACK: max(several, default=0),
        Tier.NETWORK: instance.free_gpus if sum(any(rack) for rack in racks) > 1 else 0,
    }


def knapsack_bound(instance: Instance, offers: Sequence[Offer]) -> Fraction:
    """Return the value of a fractional knapsack of gangs over all free GPUs.

    Gangs are taken by value per GPU until the free GPUs are used up, the last gang in part.
    """
    free, total = instance.free_gpus, Fraction(0)
    best = [(max(offer.values), offer.gang) for offer in offers]
    for value, gang in sorted(best, key=lambda offer: offer[0] / offer[1], reverse=True):
        used = min(free, gang)
        total += value * Fraction(used, gang)
        free -= used
    return total

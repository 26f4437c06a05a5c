"""What a job pays at least is the least: by linear programmes, and by a scan over all starts."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import linprog

from lyra_opt.pricing.ascent import Pricer, Room
from lyra_opt.pricing.kernel import PricedJobs

TOLERANCE = 1e-7
QUICK, SLOW = 150, 10_000


class Case(NamedTuple):
    """A job, and prices of whole quarters of a second."""

    border_s: np.ndarray
    price: np.ndarray
    release_s: float
    weight: float
    pool: np.ndarray
    gpus: np.ndarray
    rate: np.ndarray
    adds: bool
    is_queue: bool

    @property
    def cells(self):
        return len(self.border_s) - 1

    @property
    def cell(self):
        """That of the release; the one after the last border has the number `cells`."""
        return int(np.searchsorted(self.border_s, self.release_s, side="right")) - 1

    def price_of(self, way, cell):
        """What a second of a way costs in a cell."""
        if cell == self.cells:
            return 0.0
        return float(self.gpus[way] * self.price[self.pool[way], cell])

    def least_idle(self, cell):
        """What a second without work costs at least where waiting is what counts."""
        return min(self.weight, *(self.price_of(way, cell) for way in range(len(self.gpus))))

    def priced(self, *, in_one_piece, price=None):
        """Return who prices it."""
        jobs = PricedJobs(
            release_s=np.array([self.release_s]),
            weight=np.array([self.weight]),
            is_contiguous=np.array([int(in_one_piece)]),
            adds=np.array([int(self.adds and not in_one_piece)]),
            first=np.array([0, len(self.gpus)]),
            pool=self.pool,
            gpus=self.gpus,
            rate=self.rate,
            cell=np.array([self.cell]),
        )
        room = Room(border_s=self.border_s, gpu_s=np.ones_like(self.price))
        return Pricer(jobs, room, is_queue=self.is_queue)

    def pays(self, *, in_one_piece, price=None):
        """Return what it pays at these prices, or at others, and what it uses then."""
        pricer = self.priced(in_one_piece=in_one_piece)
        found = pricer.at(self.price if price is None else price)
        return float(pricer.scratch.paid[0]), found


def draw(seed):
    """Draw a case; prices of nothing, of much, and releases after all prices among them."""
    rng = np.random.default_rng(seed)
    cells, pools = int(rng.integers(1, 7)), int(rng.integers(1, 3))
    border_s = np.cumsum(np.append(0, rng.integers(1, 4, cells))).astype(float)
    price = rng.integers(0, 5, (pools, cells)) / 2.0 * (rng.random((pools, cells)) < 0.7)
    if rng.random() < 0.1:
        price *= rng.choice([0.0, 1e6])
    ways = int(rng.integers(1, 4))
    latest_s = border_s[-1] * (1.3 if rng.random() < 0.1 else 1.0)
    release_s = rng.random() * latest_s
    if rng.random() < 0.5:
        release_s = np.floor(release_s)
    return Case(
        border_s=border_s,
        price=price,
        release_s=float(release_s),
        weight=float(rng.integers(0, 4)) / 2,
        pool=rng.integers(0, pools, ways),
        gpus=rng.integers(1, 4, ways).astype(float),
        rate=rng.integers(1, 8, ways) / rng.choice([3.0, 20.0]),
        adds=bool(rng.random() < 0.3),
        is_queue=bool(rng.random() < 0.5),
    )


def states(case, cell):
    """Return all that may be held in a cell, one thing or several, as cost and work a second."""
    ways = range(len(case.gpus))
    found = [(case.weight, 0.0)]
    for count in range(1, len(ways) + 1 if case.adds else 2):
        for chosen in combinations(ways, count):
            cost = sum(case.price_of(way, cell) for way in chosen)
            cost += 0.0 if case.is_queue else case.weight
            found += [(cost, float(case.rate[list(chosen)].sum())), (cost, 0.0)]
    return found


def least_by_programmes(case):
    """Return what parts cost at least: a programme for each cell in which they may be complete."""
    best = np.inf
    ends_s = np.append(case.border_s[1:], np.inf)
    for last in range(case.cell, case.cells + 1):
        cells = range(case.cell, last + 1)
        columns = [(cell, *each) for cell in cells for each in states(case, cell)]
        cost = [each for _, each, _ in columns]
        work = [each for _, _, each in columns]
        lengths_s = [ends_s[cell] - max(case.border_s[cell], case.release_s) for cell in cells]
        there = [[float(column[0] == cell) for column in columns] for cell in cells]
        has_end = np.isfinite(lengths_s[-1])
        found = linprog(
            cost,
            A_ub=there[-1:] if has_end else None,
            b_ub=lengths_s[-1:] if has_end else None,
            A_eq=[*there[:-1], work],
            b_eq=[*lengths_s[:-1], 1.0],
        )
        if found.status == 0:
            best = min(best, found.fun)
    return float(best)


def integral(values, border_s, until_s):
    """Return the integral from 0 of what is constant in cells, and nothing after them."""
    length_s = np.diff(border_s)
    spent_s = np.clip(until_s[:, None] - border_s[None, :-1], 0.0, length_s[None, :])
    return spent_s @ values


def least_by_scan(case, steps=400):
    """Return what a run in one piece costs at least over many starts, borders among them."""
    idle = np.array([case.least_idle(cell) for cell in range(case.cells)])
    best = np.inf
    for way in range(len(case.gpus)):
        run_s = 1.0 / case.rate[way]
        border_s = case.border_s
        grid = np.linspace(case.release_s, max(border_s[-1], case.release_s) + 1.0, steps)
        starts_s = np.concatenate((grid, border_s, border_s - run_s))
        starts_s = starts_s[starts_s >= case.release_s]
        price = case.price[case.pool[way]]
        paid = integral(price, border_s, starts_s + run_s) - integral(price, border_s, starts_s)
        cost = case.gpus[way] * paid
        if case.is_queue:
            released = np.array([case.release_s])
            cost += integral(idle, border_s, starts_s) - integral(idle, border_s, released)
        else:
            cost += case.weight * (starts_s + run_s - case.release_s)
        best = min(best, float(cost.min()))
    return best


def require_least(case, expected, *, in_one_piece):
    """Check what it pays, and that what it uses says how that changes with prices."""
    paid, at = case.pays(in_one_piece=in_one_piece)
    assert paid == pytest.approx(expected, rel=TOLERANCE, abs=TOLERANCE)
    rng = np.random.default_rng(int(1000 * case.release_s) + case.cells)
    other = np.maximum(0.0, case.price + rng.normal(size=case.price.shape) * 0.2)
    would_pay, _ = case.pays(in_one_piece=in_one_piece, price=other)
    most = paid + float((at.use_gpu_s * (other - case.price)).sum())
    assert would_pay <= most + TOLERANCE * (1 + abs(most) + float(other.max()))


def require_right(seed):
    case = draw(seed)
    try:
        require_least(case, least_by_programmes(case), in_one_piece=False)
        require_least(case, least_by_scan(case), in_one_piece=True)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {case}") from error


def test_what_a_job_pays_is_the_least_of_all_that_it_may_do():
    """Protects the minimum over the ways of a job, on which the validity of every bound rests.

    Too much is no bound, too little a weak one. The use is a supergradient: ascent goes uphill.
    """
    for seed in range(QUICK):
        require_right(seed)


def test_the_likely_start_of_an_earlier_pass_changes_nothing():
    """A pass begins at the starts of the pass before, which were chosen at other prices."""
    for seed in range(QUICK):
        case = draw(seed)
        pricer = case.priced(in_one_piece=True)
        alone = pricer.at(case.price)
        for other in (0.0 * case.price, case.price[:, ::-1], case.price):
            pricer.at(other)
            again = pricer.at(case.price)
            assert (again.value, again.start_s) == (alone.value, alone.start_s), seed
            assert (again.use_gpu_s == alone.use_gpu_s).all(), seed


@pytest.mark.slow
def test_what_a_job_pays_is_the_least_in_many_cases():
    """The same in 10,000 cases (three minutes)."""
    for seed in range(QUICK, QUICK + SLOW):
        require_right(seed)


def one_job(**changes):
    """Return a job of 2 s on a GPU, with prices of 1 in two cells of a second."""
    case = Case(
        border_s=np.array([0.0, 1.0, 2.0]),
        price=np.ones((1, 2)),
        release_s=0.0,
        weight=1.0,
        pool=np.array([0]),
        gpus=np.array([1.0]),
        rate=np.array([0.5]),
        adds=False,
        is_queue=False,
    )
    return case._replace(**changes)


@pytest.mark.parametrize("in_one_piece", [False, True])
def test_a_job_at_prices_by_hand(in_one_piece):
    """Protects what is minimised: completion and price of GPUs, or waiting and price of GPUs."""
    assert one_job().pays(in_one_piece=in_one_piece)[0] == 4
    assert one_job(is_queue=True).pays(in_one_piece=in_one_piece)[0] == 2
    assert one_job(price=np.zeros((1, 2))).pays(in_one_piece=in_one_piece)[0] == 2
    dear = one_job(price=np.full((1, 2), 1e9))
    assert dear.pays(in_one_piece=in_one_piece)[0] == 4  # after the prices end
    # Without weight it waits until GPUs are free of charge.
    assert one_job(weight=0.0).pays(in_one_piece=in_one_piece)[0] == 0
    late = one_job(release_s=7.0)
    assert late.pays(in_one_piece=in_one_piece)[0] == 2


def test_a_cheap_second_is_held_in_vain_rather_than_waited():
    """Protects the bound on queuing: who holds a GPU does not wait, though it does nothing."""
    cheap = np.array([[0.25, 5.0]])
    job = one_job(price=cheap, rate=np.array([1.0]), is_queue=True)
    # A second of work in the first cell.
    assert job.pays(in_one_piece=True)[0] == 0.25
    longer = one_job(price=cheap, rate=np.array([0.5]), is_queue=True)
    # The first second in vain, the second one waited, and then free of charge.
    assert longer.pays(in_one_piece=True)[0] == 1.25
    # What the first second did is not lost.
    assert longer.pays(in_one_piece=False)[0] == 1.25


def test_of_ways_that_add_up_a_small_one_is_held_alone():
    """Protects the bound on queuing of copies: whoever holds the smallest one does not wait.

    Three ways at once do half of the work in the third second, which is free of charge. In the two
    before, at a half for a GPU, the other half is done by the second way for 1.5 s, and by the
    third one, whose work is dearer, for as long as nothing else is needed.
    """
    job = one_job(
        border_s=np.array([0.0, 2.0, 3.0]),
        price=np.array([[0.5, 0.0]]),
        weight=1.5,
        pool=np.zeros(3, dtype=np.int64),
        gpus=np.array([3.0, 2.0, 1.0]),
        rate=np.array([0.1, 0.3, 0.1]),
        adds=True,
        is_queue=True,
    )
    # After the third second all is free of charge; to hold the third way until then costs 1.
    assert job.pays(in_one_piece=False)[0] == pytest.approx(1.0)
    dear = job._replace(border_s=np.array([0.0, 2.0, 3.0, 9.0]), price=np.array([[0.5, 0.0, 9.0]]))
    assert dear.pays(in_one_piece=False)[0] == pytest.approx(1.75)

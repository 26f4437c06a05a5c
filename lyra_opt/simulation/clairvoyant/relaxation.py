"""Start times that jobs would choose at the GPU prices of a slightly smaller cluster.

At prices at which demand equals capacity, no GPU is idle on average. But real gangs, which run
uninterrupted, always leave some GPUs idle. Then the many small jobs are delayed, which cost most.
So the prices are those of a cluster with some slack. The slack grows if delays cost more than idle
GPUs, and shrinks otherwise. Both costs are known exactly. For any prices, a schedule costs more
than the bound by

- what each job pays at its start beyond what it pays at its cheapest start (*delays*), and
- the price of the GPU-seconds that no job holds (*idle*).

For one vector of prices, a job has one start among many that are nearly as cheap. The median over
the last passes is close to the starts of a fractional schedule that respects the capacity, as
averages over passes are (Nedic and Ozdaglar 2009), but it is not affected by rare starts far away.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice

import numpy as np

from lyra_opt.core.arrays import FloatArray, IntArray
from lyra_opt.core.stopwatch import within_time
from lyra_opt.pricing.ascent import Pricer, Room, first_prices, steps
from lyra_opt.pricing.kernel import PricedJobs
from lyra_opt.simulation.bounds.whole import step_integral
from lyra_opt.simulation.clairvoyant.gangs import MICROSECONDS, Capacity, Gangs

FIRST_SLACK = 0.025
LEAST_SLACK, MOST_SLACK = 0.002, 0.2
BLOCKS = 20
"""Number of equal periods up to the last release, each with its own slack."""
RATE = 0.2
"""Largest change of the logarithm of a slack in one update."""
NOTHING = 0.01
"""A block that loses less than this share of the total loss hardly changes."""
WORTH = 60
"""Number of passes that good prices are worth: from there on, steps are at most a third as long."""
KEPT = (8, 16, 32)
"""Numbers of last passes over which medians are taken."""


class Relaxation:
    """Computes GPU prices over time, and the start time that each job would choose at them.

    Parameters
    ----------
    gangs, capacity
        The jobs, and the number of GPUs over time.
    border_s : array of cells + 1
        Begins of the time intervals (cells) with constant prices, from 0, and the horizon.
    price : array of (1, cells)
        Good prices; None if none are known.
    """

    def __init__(
        self,
        gangs: Gangs,
        capacity: Capacity,
        border_s: FloatArray,
        price: FloatArray | None = None,
    ) -> None:
        self._gangs = gangs
        self._border_s = border_s
        there = step_integral(capacity.since_s, capacity.gpus, border_s)
        self._there_gpu_s = np.diff(there)
        jobs = len(gangs)
        cells = len(border_s) - 1
        priced = PricedJobs(
            release_s=gangs.release_s,
            weight=np.ones(jobs),
            is_contiguous=np.ones(jobs, dtype=np.int64),
            adds=np.zeros(jobs, dtype=np.int64),
            first=np.arange(jobs + 1),
            pool=np.zeros(jobs, dtype=np.int64),
            gpus=gangs.gpus.astype(np.float64),
            rate=1.0 / gangs.run_s,
            cell=np.minimum(np.searchsorted(border_s, gangs.release_s, side="right") - 1, cells),
        )
        last_s = gangs.release_s.max()
        self._slack = np.full(BLOCKS, FIRST_SLACK)
        self._middle_s = (np.arange(BLOCKS) + 0.5) * last_s / BLOCKS
        self._block_s = np.arange(1, BLOCKS) * last_s / BLOCKS
        self._pricer = Pricer(priced, self._room())
        self._recent: deque[FloatArray] = deque(maxlen=max(KEPT))
        after = 0 if price is None else WORTH
        first = first_prices(priced, self._pricer.room) if price is None else price
        self._passes = steps(self._pricer, self._pricer.at(first), first, after=after)
        self._price, self._paid = np.zeros(cells), np.zeros(cells + 1)

    def _room(self) -> Room:
        """Return the GPU-seconds of the cluster in each time interval, less the capacity slack."""
        slack = np.interp(self._border_s[:-1], self._middle_s, self._slack)
        return Room(border_s=self._border_s, gpu_s=(self._there_gpu_s * (1 - slack))[None])

    def advance(self, passes: int) -> None:
        """Update the prices in `passes` more passes; raise `OutOfTimeError` at a time limit."""
        for priced in within_time(islice(self._passes, passes)):
            self._recent.append(priced.start_s)
            self._price = priced.price[0]
        paid = np.cumsum(self._price * np.diff(self._border_s))
        self._paid = np.concatenate(([0.0], paid))

    def medians_us(self) -> Iterator[IntArray]:
        """Yield each job's median start, in microseconds, over the last 8, 16 and 32 passes."""
        recent = list(self._recent)
        for passes in KEPT:
            if passes <= len(recent):
                median = np.median(np.array(recent[-passes:]), axis=0)
                yield np.floor(median * MICROSECONDS).astype(np.int64)

    def paid_until(self, time_s: FloatArray) -> FloatArray:
        """Return the integral of the price of a GPU up to each time."""
        found: FloatArray = np.interp(time_s, self._border_s, self._paid)
        return found

    def balance(self, start_us: IntArray) -> None:
        """Adjust the capacity slack of each period to a schedule's delays and idle GPUs.

        Parameters
        ----------
        start_us
            Starts of the schedule in microseconds.
        """
        gangs = self._gangs
        start_s = start_us / MICROSECONDS

        def pays(from_s: FloatArray) -> FloatArray:
            held = self.paid_until(from_s + gangs.run_s) - self.paid_until(from_s)
            return from_s + gangs.gpus * held

        delays = np.bincount(
            np.searchsorted(self._block_s, start_s, side="right"),
            pays(start_s) - pays(self._recent[-1]),
            BLOCKS,
        )
        unused_gpu_s = self._there_gpu_s - self._held_gpu_s(start_s)
        idle = np.bincount(
            np.searchsorted(self._block_s, self._border_s[:-1], side="right"),
            self._price * unused_gpu_s,
            BLOCKS,
        )
        lost = np.maximum(delays + idle, NOTHING * (delays + idle).sum())
        wanted = np.divide(delays - idle, lost, out=np.zeros(BLOCKS), where=lost > 0)
        changed = self._slack * np.exp(RATE * np.clip(wanted, -1, 1))
        self._slack = np.clip(changed, LEAST_SLACK, MOST_SLACK)
        self._pricer.room = self._room()

    def _held_gpu_s(self, start_s: FloatArray) -> FloatArray:
        """Return the GPU-seconds that jobs hold in each time interval."""
        gangs = self._gangs
        moment_s = np.concatenate((start_s, start_s + gangs.run_s))
        order = np.argsort(moment_s)
        gpus = np.cumsum(np.concatenate((gangs.gpus, -gangs.gpus))[order])
        moment_s = moment_s[order]
        held = np.concatenate(([0.0], np.cumsum(gpus[:-1] * np.diff(moment_s))))
        found: FloatArray = np.diff(np.interp(self._border_s, moment_s, held))
        return found

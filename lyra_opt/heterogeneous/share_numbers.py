"""Shares of time in exact arithmetic, without a fraction to reduce.

Each double is an integer over a power of two, so that doubles of one kind are integers over a
common power, and their sums and products too. Ratios are pairs of integers, compared by cross
products: reducing fractions took some ten times as long as all else.
"""

from __future__ import annotations

from fractions import Fraction
from operator import mul
from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.packing import pairs_of
from lyra_opt.heterogeneous.utility import Deadline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lyra_opt.heterogeneous.instance import GangJob, Instance

    Ratio = tuple[int, int]
    """Numerator and denominator, the latter above 0, with common factors or not."""


NO_STEPS = Fraction(0)


def whole_numbers(values: Iterable[float]) -> tuple[dict[float, int], int]:
    """Return doubles as integers over a power of two, by double, and that; O(values)."""
    ratios = {value: value.as_integer_ratio() for value in set(values)}
    power = max([denominator for _, denominator in ratios.values()], default=1)
    whole = {
        value: numerator * (power // denominator)
        for value, (numerator, denominator) in ratios.items()
    }
    return whole, power


def over_power_of_two(values: Iterable[float]) -> tuple[list[int], int]:
    """Return doubles as integers over a power of two, in order, and that; O(values)."""
    doubles = list(values)
    whole, power = whole_numbers(doubles)
    return [whole[value] for value in doubles], power


def least(ratios: Iterable[Ratio]) -> Ratio:
    """Return the least ratio, of at least one."""
    numbers = iter(ratios)
    best, best_over = next(numbers)
    for number, over in numbers:
        if number * best_over < best * over:
            best, best_over = number, over
    return best, best_over


def greatest(ratios: Iterable[Ratio]) -> Ratio:
    """Return the greatest ratio, of at least one."""
    number, over = least((-number, over) for number, over in ratios)
    return -number, over


class ShareNumbers:
    """The numbers of an instance that shares of time are worth something by.

    Parameters
    ----------
    instance
        With an objective whose answer is shares.

    Attributes
    ----------
    rates
        By job, then type in file order: steps a second on one server, times `rate_over`; 0 where
        the job does not run, or its gang does not fit into all GPUs of the type.
    packed_rates
        By the positions of two jobs that may share GPUs, ascending: the same of each beside the
        other, by type.
    rate_over
        A power of two.
    equal_over
        What `on_all` is over on the part of all GPUs that each type has.
    """

    def __init__(self, instance: Instance) -> None:
        self._jobs = jobs = instance.jobs
        self._gpus = tuple(instance.gpus_of_type.values())
        there = instance.gpus_of_type.items()
        width, names = len(self._gpus), tuple(instance.gpus_of_type)
        pairs = pairs_of(jobs, instance.packed, instance.gpus_of_type)
        all_rates: list[float] = []
        for job in jobs:
            rate_on, gang = job.throughput.get, job.gang
            all_rates += [rate_on(name, 0.0) if gang <= gpus else 0.0 for name, gpus in there]
        all_rates += [
            of_types.get(name, 0.0) for pair in pairs for of_types in pair.rates for name in names
        ]
        rates, self.rate_over = over_power_of_two(all_rates)
        self._all_gpus = sum(self._gpus)
        self.equal_over = self.rate_over * self._all_gpus
        rows = [rates[start : start + width] for start in range(0, len(rates), width)]
        self.rates = rows[: len(jobs)]
        both = zip(rows[len(jobs) :: 2], rows[len(jobs) + 1 :: 2], strict=True)
        self.packed_rates = {
            (pair.first, pair.second): found for pair, found in zip(pairs, both, strict=True)
        }

    def best_rates(self) -> list[list[int]]:
        """Return `rates` where each job is fastest, alone or beside another."""
        best = self.rates.copy()
        for pair, of_both in self.packed_rates.items():
            for place, of_types in zip(pair, of_both, strict=True):
                best[place] = list(map(max, best[place], of_types))
        return best

    def equal_throughput(self, place: int) -> Ratio:
        """Return a job's steps a second on each type by its part of all GPUs (Gavel's X_eq)."""
        return self.on_all(place), self.equal_over

    def isolated_throughput(self, place: int) -> Ratio:
        """Return a job's steps a second on an equal part of the cluster (Gavel's X_iso).

        Of each type the GPUs over jobs times gang, scaled down to a sum of 1 where it exceeds that.
        """
        parts = len(self._jobs) * self._jobs[place].gang
        return self.on_all(place), self.rate_over * max(parts, self._all_gpus)

    def on_all(self, place: int) -> int:
        """Return a job's steps a second on each type by all its GPUs, times `rate_over`."""
        return sum(map(mul, self.rates[place], self._gpus))

    def finish_time_ratio(self, place: int, throughput: Ratio) -> Ratio:
        """Return the finish time of a job at a throughput over that on an equal part."""
        job = self._jobs[place]
        (elapsed, isolated_elapsed, steps), _ = over_power_of_two(
            (job.elapsed_s, job.isolated_elapsed_s, job.steps)
        )
        rate, rate_over = throughput
        alone, alone_over = self.isolated_throughput(place)
        # (elapsed + steps / throughput) / (isolated elapsed + steps / isolated throughput)
        return (
            (elapsed * rate + steps * rate_over) * alone,
            (isolated_elapsed * alone + steps * alone_over) * rate,
        )


def least_throughput(job: GangJob) -> Fraction | None:
    """Return the steps a second that the deadline of a job asks for (objective ``cost``).

    0 without a deadline, None if it is over.
    """
    if not isinstance(job.utility, Deadline):
        return NO_STEPS
    left_s = Fraction(job.utility.deadline_s) - Fraction(job.elapsed_s)
    return Fraction(job.steps) / left_s if left_s > 0 else None

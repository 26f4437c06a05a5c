"""Recompute what shares of time are worth; see `lyra_opt.heterogeneous.checker`.

Each double is an integer over a power of two, so that doubles of one kind are integers over a
common power, and their sums and products too. Ratios are pairs of integers, compared by cross
products: reducing fractions took some ten times as long as all else.
"""

from __future__ import annotations

from fractions import Fraction
from operator import mul
from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.instance import Objective, pairs_of
from lyra_opt.heterogeneous.utility import Deadline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lyra_opt.heterogeneous.instance import GangJob, Instance

    Ratio = tuple[int, int]
    """Numerator and denominator, the latter above 0, with common factors or not."""
    from collections.abc import Mapping

    from lyra_opt.heterogeneous.instance import TimeShares


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


SHARE_TOLERANCE = Fraction(1, 10**6)


class CheckedShares:
    """Shares of time of an instance, with what they break and what they are worth.

    Parameters
    ----------
    instance
        With an objective whose answer is shares.
    solution
        Any shares.
    """

    def __init__(self, instance: Instance, solution: TimeShares) -> None:
        self._instance = instance
        self._numbers = ShareNumbers(instance)
        self._place_of_type = {name: place for place, name in enumerate(instance.gpus_of_type)}
        packed = [shares for others in solution.packed.values() for shares in others.values()]
        self._whole, self._over = whole_numbers(
            [share for shares in (*solution.shares.values(), *packed) for share in shares.values()]
        )
        self._faults: list[str] = []
        # In integers, over `_over` or `_rate_over`: the shares of each job, what gangs hold of each
        # type, the steps a second of each job, and these by job and type.
        self._rate_over = self._numbers.rate_over * self._over
        self._of_job = [0] * len(instance.jobs)
        self._held = [0] * len(self._place_of_type)
        self._throughputs = [0] * len(instance.jobs)
        self._parts: list[tuple[int, int, int]] = []
        for job, shares in solution.shares.items():
            self._add((job,), shares)
        for job, others in solution.packed.items():
            for other, shares in others.items():
                self._add((job, other), shares)

    def _add(self, ids: tuple[str, ...], shares: Mapping[str, float]) -> None:
        """Count shares of a job alone, or of two on the same GPUs."""
        places = []
        for job in ids:
            place = self._instance.job_position.get(job)
            if place is None:
                self._faults.append(f"job {job!r} is not in the instance")
                return
            places.append(place)
        if len(places) == 1:
            members = [(places[0], self._numbers.rates[places[0]])]
        else:
            places.sort()
            rates_of_pair = self._numbers.packed_rates.get((places[0], places[1]))
            if rates_of_pair is None:
                if any(shares.values()):
                    self._faults.append(f"jobs {_names(ids)} cannot share GPUs")
                return
            members = list(zip(places, rates_of_pair, strict=True))
        gang = self._instance.jobs[places[0]].gang
        for name, share in shares.items():
            whole = self._whole[share]
            for place in places:
                self._of_job[place] += whole
            kind = self._place_of_type.get(name)
            if kind is None:
                self._faults.append(f"{_whose(ids)}: GPU type {name!r} is not in the instance")
                continue
            self._held[kind] += gang * whole
            runs = True
            for place, rates in members:
                steps = rates[kind] * whole
                self._throughputs[place] += steps
                self._parts.append((place, kind, steps))
                runs = runs and rates[kind] > 0
            if share and not runs:
                verb, who = ("has", "it") if len(ids) == 1 else ("have", "they")
                self._faults.append(
                    f"{_whose(ids)} {verb} a share of {name!r}, where {who} cannot run"
                )

    def violations(self) -> list[str]:
        """Return the rules that the shares break, deadlines among them; O(jobs + types)."""
        return self._broken_rules() or self._jobs_too_slow()

    def objective(self) -> float:
        """Return what valid shares are worth, exact until it is rounded; O(jobs types)."""
        jobs, objective, numbers = self._instance.jobs, self._instance.objective, self._numbers
        if objective in (Objective.THROUGHPUT, Objective.COST):
            return self._sum()
        rates, rate_over = self._throughputs, self._rate_over
        if objective is Objective.FINISH_TIME_FAIRNESS:
            number, over = greatest(
                numbers.finish_time_ratio(place, (rate, rate_over))
                for place, rate in enumerate(rates)
            )
            return number / over
        if objective is Objective.MAKESPAN_SHARE:
            steps, steps_over = over_power_of_two([job.steps for job in jobs])
            number, over = greatest(zip(steps, rates, strict=True))
            return number * rate_over / (over * steps_over)
        weights, weight_over = over_power_of_two([job.weight for job in jobs])
        number, over = least(
            [
                (job.gang * rate, weight * numbers.on_all(place))
                for place, (job, weight, rate) in enumerate(zip(jobs, weights, rates, strict=True))
            ]
        )
        return number * weight_over * numbers.equal_over / (over * rate_over)

    def _sum(self) -> float:
        """Return the weighted throughput of all jobs, over prices where these are the objective."""
        weights, weight_over = over_power_of_two([job.weight for job in self._instance.jobs])
        of_type = [0] * len(self._held)
        for job, kind, steps in self._parts:
            of_type[kind] += weights[job] * steps
        price = [Fraction(1)] * len(of_type)
        if self._instance.objective is Objective.COST:
            price = [Fraction(kind.price_per_hour) for kind in self._instance.gpu_types]
        total = sum((steps / of for steps, of in zip(of_type, price, strict=True)), Fraction(0))
        return float(total / (weight_over * self._rate_over))

    def _broken_rules(self) -> list[str]:
        """Return which shares are no shares of this instance, and what has more than there is."""
        violations = list(self._faults)
        most = (1 + SHARE_TOLERANCE) * self._over
        numerator, denominator = most.as_integer_ratio()
        for job, total in zip(self._instance.jobs, self._of_job, strict=True):
            if total * denominator > numerator:
                violations.append(
                    f"job {job.id!r}: its shares sum to {total / self._over:.12g}, above 1"
                )
        for there, gpu_s in zip(self._instance.gpus_of_type.items(), self._held, strict=True):
            name, gpus = there
            if gpu_s > gpus * most:
                violations.append(
                    f"GPU type {name!r}: gangs hold {gpu_s / self._over:.12g} GPUs on average, but "
                    f"there are {gpus}"
                )
        return violations

    def _jobs_too_slow(self) -> list[str]:
        """Return which jobs never finish, or not by their deadlines, where that is a rule."""
        jobs, objective = self._instance.jobs, self._instance.objective
        if objective in (Objective.FINISH_TIME_FAIRNESS, Objective.MAKESPAN_SHARE):
            return [
                f"job {job.id!r} has no share, so that it never finishes"
                for job, rate in zip(jobs, self._throughputs, strict=True)
                if not rate
            ]
        if objective is not Objective.COST:
            return []
        violations = []
        over = self._rate_over
        for job, rate in zip(jobs, self._throughputs, strict=True):
            needed = least_throughput(job)
            if needed is None:
                violations.append(f"job {job.id!r}: its deadline is over")
            elif needed and rate < needed * (1 - SHARE_TOLERANCE) * over:
                violations.append(
                    f"job {job.id!r} does {rate / over:.12g} steps/s, but its deadline asks for "
                    f"{float(needed):.12g}"
                )
        return violations


def _names(ids: Iterable[str]) -> str:
    return " and ".join(map(repr, ids))


def _whose(ids: tuple[str, ...]) -> str:
    return f"job{'s' * (len(ids) - 1)} {_names(ids)}"

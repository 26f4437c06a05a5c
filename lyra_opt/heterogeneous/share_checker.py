"""Recompute the feasibility and objective of time shares, in integers.

Each float is an integer over a power of two, so floats of one kind are integers over a common
power, and so are their sums and products. Ratios are pairs of integers, compared by cross products:
reducing fractions took about ten times as long as all other work. `lyra_opt.heterogeneous.checker`
lists the tolerances.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from operator import mul

from lyra_opt.heterogeneous.instance import GangJob, Instance, Objective, TimeShares, pairs_of
from lyra_opt.heterogeneous.utility import Deadline

Ratio = tuple[int, int]
"""Numerator and denominator; the denominator is above 0, and common factors may remain."""


NO_STEPS = Fraction(0)


def whole_numbers(values: Iterable[float]) -> tuple[dict[float, int], int]:
    """Return the numerator of each float over a common power of two, and that power; O(values)."""
    ratios = {value: value.as_integer_ratio() for value in set(values)}
    power = max([denominator for _, denominator in ratios.values()], default=1)
    whole = {
        value: numerator * (power // denominator)
        for value, (numerator, denominator) in ratios.items()
    }
    return whole, power


def over_power_of_two(values: Iterable[float]) -> tuple[list[int], int]:
    """Return the floats, in order, as numerators over a common power of two, and that power."""
    doubles = list(values)
    whole, power = whole_numbers(doubles)
    return [whole[value] for value in doubles], power


def least(ratios: Iterable[Ratio]) -> Ratio:
    """Return the smallest of one or more ratios."""
    numbers = iter(ratios)
    best, best_over = next(numbers)
    for number, over in numbers:
        if number * best_over < best * over:
            best, best_over = number, over
    return best, best_over


def greatest(ratios: Iterable[Ratio]) -> Ratio:
    """Return the greatest of one or more ratios."""
    number, over = least((-number, over) for number, over in ratios)
    return -number, over


class ShareNumbers:
    """Integer rates of an instance, from which throughputs of time shares are computed.

    Parameters
    ----------
    instance
        An instance with one of the `SHARE_OBJECTIVES`.

    Attributes
    ----------
    rates
        Steps per second on one server, times `rate_over`, by job and by type in file order; 0 where
        the job cannot run or the type has fewer GPUs than the gang.
    packed_rates
        For each pair of jobs that may share GPUs, keyed by ascending positions: the rates of both
        jobs beside each other, by type, times `rate_over`.
    rate_over
        The power of two by which rates are scaled.
    equal_over
        The denominator that turns `on_all` into the throughput on an equal part of all GPUs.
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
        """Return each job's best scaled rate by type, alone or beside another job."""
        best = self.rates.copy()
        for pair, of_both in self.packed_rates.items():
            for place, of_types in zip(pair, of_both, strict=True):
                best[place] = list(map(max, best[place], of_types))
        return best

    def equal_throughput(self, place: int) -> Ratio:
        """Return a job's steps per second on equal shares (Gavel's X_eq).

        The share of each type is its fraction of all GPUs.
        """
        return self.on_all(place), self.equal_over

    def isolated_throughput(self, place: int) -> Ratio:
        """Return a job's steps per second on an equal part of the cluster (Gavel's X_iso).

        The job's share of a type is the GPUs of the type over (jobs times gang). If the shares sum
        to more than 1, they are scaled down to 1.
        """
        parts = len(self._jobs) * self._jobs[place].gang
        return self.on_all(place), self.rate_over * max(parts, self._all_gpus)

    def on_all(self, place: int) -> int:
        """Return the sum over types of a job's scaled rate times the number of GPUs of the type."""
        return sum(map(mul, self.rates[place], self._gpus))

    def finish_time_ratio(self, place: int, throughput: Ratio) -> Ratio:
        """Return a job's finish time divided by that on an equal part of the cluster."""
        job = self._jobs[place]
        (elapsed, isolated_elapsed, steps), _ = over_power_of_two(
            (job.elapsed_s, job.isolated_elapsed_s, job.steps)
        )
        rate, rate_over = throughput
        alone, alone_over = self.isolated_throughput(place)
        # The result is (elapsed + steps / rate) / (isolated elapsed + steps / isolated rate).
        return (
            (elapsed * rate + steps * rate_over) * alone,
            (isolated_elapsed * alone + steps * alone_over) * rate,
        )


def least_throughput(job: GangJob) -> Fraction | None:
    """Return the steps per second that a job needs to meet its deadline (objective ``cost``).

    Returns 0 for a job without a deadline, None if the deadline has passed.
    """
    if not isinstance(job.utility, Deadline):
        return NO_STEPS
    left_s = Fraction(job.utility.deadline_s) - Fraction(job.elapsed_s)
    return Fraction(job.steps) / left_s if left_s > 0 else None


SHARE_TOLERANCE = Fraction(1, 10**6)


class CheckedShares:
    """Time shares of an instance, with their violations and their objective.

    Parameters
    ----------
    instance
        An instance with one of the `SHARE_OBJECTIVES`.
    solution
        Time shares, valid or not.
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
        # `_of_job` (total shares) and `_held` (GPUs by type) are numerators over `_over`.
        # `_throughputs` and `_parts` (steps per second) are numerators over `_rate_over`.
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
        """Add the time shares of one job, or of two jobs on the same GPUs, to the totals."""
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
                    self._faults.append(
                        f"jobs {_names(ids)} cannot share GPUs: no GPU type has rates for both"
                    )
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
                    f"{_whose(ids)} {verb} a share of {name!r}, but {who} cannot run on it"
                )

    def violations(self) -> list[str]:
        """Return one message per broken rule, including missed deadlines; O(jobs + types)."""
        return self._broken_rules() or self._jobs_too_slow()

    def objective(self) -> float:
        """Return the objective of valid shares, exact until the final rounding; O(jobs types)."""
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
        """Return the weighted throughput, or throughput per price for the objective cost."""
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
        """Return one message per invalid share, and per overfull job or GPU type."""
        violations = list(self._faults)
        most = (1 + SHARE_TOLERANCE) * self._over
        numerator, denominator = most.as_integer_ratio()
        for job, total in zip(self._instance.jobs, self._of_job, strict=True):
            if total * denominator > numerator:
                violations.append(
                    f"job {job.id!r}: its shares sum to {total / self._over:.12g}, which is above 1"
                )
        for kind, gpu_s in zip(self._instance.gpus_of_type.items(), self._held, strict=True):
            name, gpus = kind
            if gpu_s > gpus * most:
                violations.append(
                    f"GPU type {name!r}: gangs hold {gpu_s / self._over:.12g} GPUs on average, but "
                    f"the cluster has {gpus}"
                )
        return violations

    def _jobs_too_slow(self) -> list[str]:
        """Return one message per job that never finishes or misses a required deadline."""
        jobs, objective = self._instance.jobs, self._instance.objective
        if objective in (Objective.FINISH_TIME_FAIRNESS, Objective.MAKESPAN_SHARE):
            return [
                f"job {job.id!r} has no share, so it never finishes"
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
                violations.append(f"job {job.id!r}: its deadline has passed")
            elif needed and rate < needed * (1 - SHARE_TOLERANCE) * over:
                violations.append(
                    f"job {job.id!r} does {rate / over:.12g} steps/s, but its deadline requires "
                    f"{float(needed):.12g}"
                )
        return violations


def _names(ids: Iterable[str]) -> str:
    return " and ".join(map(repr, ids))


def _whose(ids: tuple[str, ...]) -> str:
    return f"job{'s' * (len(ids) - 1)} {_names(ids)}"

"""Draw instances, have them solved and hold the answers against brute force."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from lyra_opt.core.errors import UserError
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, Status
from lyra_opt.core.solver import Solver, find_solver, solver_names
from lyra_opt.core.solving import refute_claims, solve_and_check
from tests.fuzz.damage import DamagedFile, at_the_edge, readers
from tests.fuzz.judging import Truth, faults
from tests.reference import PROBLEMS
from tests.reference.drawing import UNKNOWN, Draw

SHARES_OF_ENGINES = {"": 0.4, "brute-force": 0.2, "cpsat": 0.1, "gscip": 0.06, "cbc": 0.03}
"""Of the instances that a solver is asked of, by its engine; one exact solver always is."""
SHARE_OF_OTHERS = 0.15
LIMITED = 0.15
"""The share of instances that are solved with limits so short that they count."""
WITH_START = 0.15
"""The share of runs that are given another solver's solution to start from."""
FILES = "files"
"""What stands for the name of a problem where files are read."""
AT_THE_EDGE = 0.08
"""The share of instances in which numbers are at the edges of their rules."""
RECORDED = 0.2
"""The share of runs that are asked to tell what they find on the way."""
MOST_DRAWS = 20
SHORT_TIME_S = 0.05


@dataclass(frozen=True)
class Failure:
    """A fault of one solver, or of how a damaged file is read.

    Parameters
    ----------
    of
        The problem, or `FILES`.
    by
        The solver, or the kind of file.
    text
        What is wrong; it begins with the kind of fault.
    name
        The name of the instance or file, which ends with seed and number.
    """

    of: str
    by: str
    text: str
    name: str

    @property
    def kind(self) -> tuple[str, str, str]:
        """What failures of one kind have in common."""
        return self.of, self.by, self.text.partition(":")[0]

    @property
    def command(self) -> str:
        """The command that shows the fault again."""
        seed, number = self.name.rsplit("-", 2)[1:]
        return f"python -m tests.fuzz --seed {seed} --of {self.of} --number {number}"


@dataclass
class Tally:
    """What was tried and what came of it, by problem and variant; tallies can be added."""

    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take in another one."""
        self.counts += other.counts
        self.failures += other.failures

    def total(self, what: str) -> int:
        """Return a count over all variants."""
        return sum(count for (_, _, of), count in self.counts.items() if of == what)


@cache
def solvers_of(problem: str, variant: str) -> tuple[Solver, ...]:
    """Return every registered solver that takes a variant and can run here."""
    found = (find_solver(problem, name) for _, name in solver_names(problem))
    return tuple(each for each in found if variant in each.variants and not each.availability())


def variant_of(problem: str, number: int) -> str:
    """Return the variant of the instance of a number: they take turns."""
    variants = PROBLEMS[problem].VARIANTS
    return str(variants[number % len(variants)])


def asked(draw: Draw, problem: str, variant: str) -> list[Solver]:
    """Return the solvers to ask: some of all kinds, and an exact one in any case."""
    solvers = solvers_of(problem, variant)
    found = [
        solver
        for solver in solvers
        if draw.sometimes(SHARES_OF_ENGINES.get(solver.engine, SHARE_OF_OTHERS))
    ]
    if not any(variant in solver.exact_variants for solver in found):
        quick = [
            solver
            for solver in solvers
            if variant in solver.exact_variants and solver.engine not in ("cbc", "gscip")
        ]
        found.append(draw.choice(quick))
    return found


def limits_of(draw: Draw) -> Limits:
    """Return limits: mostly none, else so few milliseconds or nodes that they count."""
    if not draw.sometimes(LIMITED):
        return Limits()
    if draw.sometimes(0.2):
        return Limits(nodes=draw.pick(0, 1, 3))
    return Limits(time_s=draw.pick(0.0, 1e-4, 1e-3, draw.uniform(0.0, 0.05)))


def try_instance(seed: int, problem: str, number: int) -> Tally:
    """Draw one instance and return what came of it."""
    draw = Draw(f"{seed} {problem} {number}")
    variant = variant_of(problem, number)
    document = PROBLEMS[problem].drawn(draw, variant, f"fuzz-{problem}-{seed}-{number}")
    tally = Tally()

    def count(what: str, many: int = 1) -> None:
        tally.counts[problem, variant, what] += many

    limits, start = limits_of(draw), None
    edged = edged_instance(draw, problem, document) if draw.sometimes(AT_THE_EDGE) else None
    if edged is None:
        truth = Truth.of(problem, document)
        instance = find_problem(problem).parse_instance(document)
    else:  # for which brute force might take for ever
        truth, instance = edged
        limits = Limits(time_s=SHORT_TIME_S)
        count("at the edge")
    variant = truth.variant
    count("instances")
    count("with a known optimum", truth.optimum != UNKNOWN)
    count("with a limit", limits != Limits())  # whether it stops a solver depends on the machine
    answers = []
    for solver in asked(draw, problem, variant):
        is_given = start is not None and draw.sometimes(WITH_START)
        given = start if is_given else None
        record = draw.sometimes(RECORDED)
        answer, found = attempt(truth, instance, solver, limits, given, record=record)
        answers.append(answer)
        count("runs")
        count("declined", answer.status is Status.UNSUPPORTED)
        is_proof = answer.status in (Status.OPTIMAL, Status.INFEASIBLE)
        count("optima confirmed", is_proof and truth.optimum != UNKNOWN and not found)
        count("bounds checked", answer.dual_bound is not None and truth.optimum != UNKNOWN)
        count("stopped by a limit", answer.stopped_by is not None)
        is_exact = variant in solver.exact_variants and answer.status is Status.FEASIBLE
        count("unproved, with a reason", is_exact and answer.stopped_by is None)
        tally.failures += found
        start = start or answer.solution
    if not tally.failures:
        for answer, after in zip(answers, refute_claims(answers), strict=True):
            if after is not answer:
                known = (problem, answer.solver, str(after.message), document["name"])
                tally.failures.append(Failure(*known))
    count("faults", len(tally.failures))
    return tally


def edged_instance(draw, problem, document):
    """Return an instance like another one but for some numbers, None if its rules allow none."""
    for _ in range(MOST_DRAWS):
        found = at_the_edge(draw, deepcopy(document))
        with suppress(UserError):
            instance = find_problem(problem).parse_instance(found)
            return Truth(problem, found, UNKNOWN), instance
    return None


def attempt(truth, instance, solver, limits, start, *, record=True):
    """Return a solver's answer and what is wrong with it, on its way too if it is recorded."""
    problem = find_problem(truth.problem)
    answer = solve_and_check(
        problem, instance, solver, limits=limits, warm_start=start, record=record
    )
    texts = list(faults(truth, solver, answer, limits))
    if start is not None and answer.status not in (Status.ERROR, Status.UNSUPPORTED):
        value = problem.check(instance, start).objective
        if answer.solution is None or truth.excess(value, answer.objective) > truth.slack:
            texts.append(f"worse: {answer.objective}, though it was given a start of {value}")
    name = truth.document["name"]
    return answer, [Failure(truth.problem, solver.name, text, name) for text in texts]


def try_many(seed, problem, numbers):
    """Draw instances by number, or damaged files, and return what came of all."""
    tally = Tally()
    with TemporaryDirectory() as folder:
        for number in numbers:
            if problem == FILES:
                tally.add(try_file(seed, number, Path(folder)))
            else:
                tally.add(try_instance(seed, problem, number))
    return tally


def try_file(seed: int, number: int, folder: Path) -> Tally:
    """Damage one file and return what came of reading it; kinds take turns."""
    kinds = list(readers())
    file = DamagedFile(seed, kinds[number % len(kinds)], number)
    said = file.read_in(folder)
    is_fault = said not in ("read", "refused")
    what = "faults" if is_fault else said
    counts = Counter({(FILES, file.kind, "files"): 1, (FILES, file.kind, what): 1})
    return Tally(
        counts, [Failure(FILES, file.kind, said, file.name.partition(".")[0])] if is_fault else []
    )

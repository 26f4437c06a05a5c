"""Base classes of decision problems: the problem, its instances, variants and checker reports.

`lyra_opt.core.plugins.PROBLEMS` finds a problem by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self

from lyra_opt.core.described import Described, described
from lyra_opt.core.documents import Record, require_format
from lyra_opt.core.errors import (
    FieldError,
    MissingFieldError,
    UserError,
    show_value,
    without_inner_frames,
)
from lyra_opt.core.fields import (
    Key,
    declared,
    format_schema,
    key,
    keys_of,
    parsed,
    schema_of,
    written,
)
from lyra_opt.core.nearest_names import one_of
from lyra_opt.core.plugins import PROBLEMS
from lyra_opt.core.representations import sizes_of
from lyra_opt.core.result import RELATIVE_TOLERANCE, Number
from lyra_opt.core.rules import Named, Text
from lyra_opt.core.terms import ONE_NUMBER
from lyra_opt.core.texts import words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import networkx
    import pandas as pd

    from lyra_opt.core.documents import JsonObject
    from lyra_opt.core.pictures import Drawing
    from lyra_opt.core.terms import Terms

Sense = Literal["min", "max"]


class Variant(StrEnum):
    """Base class for the variants of a problem, such as its objectives.

    A member consists of its name in files, its sense and, for objectives in floats, its proof gap.
    """

    sense: Sense
    """Whether the objective is minimised or maximised."""
    proof_gap: float
    """The relative gap within which a bound in floats proves an objective."""

    def __new__(
        cls, name: str, sense: Sense = "min", proof_gap: float = RELATIVE_TOLERANCE
    ) -> Self:
        """Create a variant called `name`, with its sense (min or max) and its proof gap."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.sense = sense
        member.proof_gap = proof_gap
        return member

    def is_better(self, value: Number, than: Number) -> bool:
        """Return whether `value` is better than `than`, which is an objective or a dual bound."""
        return value < than if self.sense == "min" else value > than


MOST_VIOLATIONS = 20
"""The number of violations that a report lists one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Base class for the result of checking a solution: violated rules, objective and measures.

    Each field that a subclass adds is a measure.

    Parameters
    ----------
    violations
        One line for each rule that the solution breaks, at most 20; empty for a valid solution. All
        other fields are None if the solution is not valid.
    objective
        The objective of the solution, recomputed.
    """

    violations: tuple[str, ...] = ()
    objective: Number | None = None

    @classmethod
    def invalid(cls, violations: Sequence[str]) -> Self:
        """Return the report of a solution that breaks rules."""
        shown = tuple(violations[:MOST_VIOLATIONS])
        if len(violations) > MOST_VIOLATIONS:
            shown += (f"{len(violations) - MOST_VIOLATIONS} more violations",)
        return cls(violations=shown)

    @classmethod
    def measure_keys(cls) -> tuple[str, ...]:
        """Return the names of the measures that the checker computes besides the objective."""
        common = {each.name for each in fields(CheckReport)}
        return tuple(each.name for each in fields(cls) if each.name not in common)

    def measures(self) -> Mapping[str, Any]:
        """Return the measures except the objective, by their keys in ``solve --format json``."""
        values = ((name, getattr(self, name)) for name in self.measure_keys())
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}


if TYPE_CHECKING:
    from typing_extensions import TypeVar  # with defaults, which Python has from 3.13 on

    SolutionT = TypeVar("SolutionT", default=Any)
else:
    from typing import TypeVar

    SolutionT = TypeVar("SolutionT")

UNNAMED = "unnamed"
"""The name of an instance for which no name is given."""


@declared(slots=False)
class ProblemInstance(ABC, Generic[SolutionT]):
    """Base class for problem instances, which contain the data of one decision.

    `SolutionT` is the type of the solutions.
    """

    problem: ClassVar[str]
    """The name of the problem, such as ``reclaim``."""

    name: str = key(
        Text(), "its name, used to match solutions", default=UNNAMED, always_written=True
    )
    assumptions: str = key(
        Text(may_be_empty=True),
        "sentences on what was assumed to make the instance",
        default="",
        shown="nothing",
    )

    def __str__(self) -> str:
        """Return the sizes and the question on one line."""
        return sizes_of(self)

    @property
    @abstractmethod
    def variant(self) -> Variant:
        """The variant of the instance: its objective or, for reclaiming, its semantics."""

    @abstractmethod
    def to_networkx(self) -> networkx.Graph:
        """Return the instance as a graph, for analysis and drawing."""

    def to_frames(self) -> dict[str, pd.DataFrame]:
        """Return each list in the instance, such as its jobs, as a data frame, by name.

        `from_frames` accepts these data frames.

        A row is an entry, and a column is a field. An inner list, such as the workers of a job, has
        its own data frame, whose first column names the outer entry. Time O(entries times fields).
        """
        from lyra_opt.core.frames import frames_of

        return frames_of(self)

    @classmethod
    @without_inner_frames
    def from_frames(cls, **fields: Any) -> Self:
        """Build an instance from its fields, where a data frame can replace a list.

        A missing cell gets the default of its field. A whole float becomes an integer if the field
        is an integer, because pandas turns a column of integers with missing values into floats. A
        column such as ``gpus.V100`` is an entry of a mapping, and an index with the name of a field
        is a column. An inner list, such as the workers of a job, is a data frame with a column that
        names the outer entry of each row, or a column of lists. Time O(cells).

        >>> import pandas as pd
        >>> import lyra_opt as lo
        >>> lo.reclaim.Instance.from_frames(
        ...     servers=pd.DataFrame({"id": ["a", "b"], "gpus": 8}),
        ...     jobs=pd.DataFrame({"id": ["j"], "weight": [5]}),
        ...     workers=pd.DataFrame({"job": ["j", "j"], "server": ["a", "b"], "base": [1, 2]}),
        ...     reclaim_servers=1,
        ... ).jobs[0].base_workers
        3

        Parameters
        ----------
        fields
            The fields of the class, with data frames for lists, such as `to_frames` returns.

        Raises
        ------
        FieldError
            If a rule is broken; names frame, row (from 0) and column: ``workers[3].server``.
        """
        from lyra_opt.core.frames import of_frames

        return of_frames(cls, fields)


VERSION = 1
"""The version of all formats of instances and solutions."""


class Problem(ABC):
    """A decision problem: it reads instances, checks solutions and computes dual bounds.

    Instances and solutions are classes made by `lyra_opt.core.fields.declared`, whose fields are
    the keys of the files.
    """

    size_name: str
    """The name of the field whose length is the size of an instance, such as ``servers``."""
    variants: type[Variant]
    """The variants that an instance can have."""
    default_solvers: Mapping[str, str]
    """The default solver for each variant."""
    witnesses: Sequence[str]
    """The solvers for independent proofs, with several engines, the fastest first."""
    instance_format: str
    """The value of ``format`` in instance files; solution files append ``-solution``."""
    instance_class: type[ProblemInstance]
    """The class of instances, which has the name of the problem."""
    solution_classes: tuple[type[Any], ...]
    """The classes of solutions in files; the first field of each identifies the class."""
    variants_in_s: Collection[Variant] = ()
    """The variants whose objective is a time in seconds."""
    other_solution_classes: tuple[type[Any], ...] = ()
    """The classes of solutions that exist only as objects, not in files."""
    report_class: type[CheckReport]
    """The class of checker reports; its fields are the measures in ``solve --format json``."""
    detail_keys: tuple[str, ...] = ()
    """The keys of answers that tables omit, and that texts omit if they are empty."""

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same problem, as they are after pickling."""
        return type(self) is type(other)

    def __hash__(self) -> int:
        """Return the hash of the class, which identifies the problem."""
        return hash(type(self))

    @property
    def name(self) -> str:
        """The name of the problem on the command line, such as ``reclaim``."""
        return self.instance_class.problem

    @property
    def measure_keys(self) -> tuple[str, ...]:
        """The keys of the measures that the checker computes besides the objective."""
        return self.report_class.measure_keys()

    @property
    def answer_keys(self) -> tuple[str, ...]:
        """The keys that the problem adds to an object of ``solve --format json``, in order."""
        return (*self._solution_keys(), *self._further_keys(), *self.measure_keys)

    def _solution_keys(self) -> dict[str, list[tuple[type[Any], Key]]]:
        """Return the solution classes and their first fields, by the first field's key in files."""
        found: dict[str, list[tuple[type[Any], Key]]] = {}
        for solution_class in self.solution_classes:
            first = next(iter(keys_of(solution_class)))
            found.setdefault(first.in_documents, []).append((solution_class, first))
        return found

    def _further_keys(self) -> dict[str, tuple[type[Any], Key]]:
        """Return the optional fields of all solution classes with their class, by key in files."""
        return {
            each.in_documents: (solution_class, each)
            for solution_class in self.solution_classes
            for each in list(keys_of(solution_class))[1:]
        }

    @property
    def all_solution_classes(self) -> tuple[type[Any], ...]:
        """All classes of solutions, including those that exist only as objects."""
        return (*self.solution_classes, *self.other_solution_classes)

    def wrong_type_message(self, given: object, others: str = "") -> str:
        """Return the error message for an object that is not a solution of this problem.

        Parameters
        ----------
        others
            Other kinds of objects that the caller accepts, such as ``"an answer or "``.
        """
        names = " or ".join(
            f"{each.__module__}.{each.__qualname__}" for each in self.all_solution_classes
        )
        return f"a solution of {self.name} must be {others}a {names}, not {show_value(given)}"

    @property
    def formats(self) -> tuple[str, str]:
        """The values of the key ``format`` for instances and for solutions."""
        return self.instance_format, self._solution_format

    def default_solver_of(self, variant: str) -> str:
        """Return the name of the default solver for a variant."""
        return self.default_solvers[variant]

    def parse_instance(self, document: JsonObject) -> ProblemInstance:
        """Return the validated instance of a document; raise `FieldError` if a rule is broken."""
        require_format(document, self.instance_format, VERSION)
        return parsed(self.instance_class, document, beside=("format", "version"))

    def instance_document(self, instance: ProblemInstance) -> JsonObject:
        """Return the instance as the JSON object that `parse_instance` reads."""
        return {"format": self.instance_format, "version": VERSION, **written(instance)}

    def size(self, instance: ProblemInstance) -> int:
        """Return the size of an instance: the number of entries of the field `size_name`."""
        return len(getattr(instance, self.size_name))

    def parse_solution(self, document: JsonObject) -> tuple[Any, Mapping[str, Any]]:
        """Return the solution in a document, and the claims about it.

        The document is a solution file, or one object of ``solve --format json`` reduced to
        instance name, solution and claims.

        Raises
        ------
        FieldError
            If a rule is broken.
        """
        own, further = self._solution_keys(), self._further_keys()
        is_file = "format" in document
        known = ("format", "version") if is_file else self.measure_keys
        if is_file:  # checked first: the keys of another format would only cause unclear errors
            require_format(document, self._solution_format, VERSION)
        record = Record(document, "", (*known, "instance", "objective", *own, *further))
        Text().check("instance", record.required("instance"))
        claims = record.chosen("instance", "objective", *self.measure_keys)
        for each in keys_of(self.report_class):
            if each.name in claims:
                each.rule.check(each.name, claims[each.name])
        given = [name for name in own if name in record]
        if not given:
            raise MissingFieldError(" or ".join(own))
        if len(given) > 1:
            other = f"cannot be combined with {given[0]}"
            raise FieldError(given[1], record.required(given[1]), other)
        value = record.required(given[0])
        is_object = isinstance(value, dict)
        fitting = (each for each in own[given[0]] if isinstance(each[1].rule, Named) == is_object)
        solution_class, _ = next(fitting, own[given[0]][0])
        solution = {given[0]: value}
        for name, (of_class, _) in further.items():
            if name in record:
                solution[name] = record.required(name)
                if of_class is not solution_class:
                    raise FieldError(
                        name, solution[name], f"cannot be combined with this {given[0]}"
                    )
        return parsed(solution_class, solution), claims

    @property
    def _solution_format(self) -> str:
        return f"{self.instance_format}-solution"

    def solution_document(
        self, instance: ProblemInstance, solution: Any, objective: Number
    ) -> JsonObject:
        """Return a solution with its objective as the JSON object that `parse_solution` reads."""
        return {
            "format": self._solution_format,
            "version": VERSION,
            "instance": instance.name,
            **self.answer(instance, solution),
            "objective": objective,
        }

    @abstractmethod
    def answer(self, instance: Any, solution: Any) -> Mapping[str, Any]:
        """Return a solution as JSON values, by their keys in ``solve --format json``."""

    @abstractmethod
    def check(self, instance: Any, solution: Any) -> CheckReport:
        """Recompute feasibility and objective of a solution from the instance alone."""

    def terms_of(self, instance: Any) -> Terms:  # noqa: ARG002
        """Return the terms that the objective of an instance encodes as one integer.

        By default an objective is one number. Texts show the values of several terms instead of the
        integer, and the first term in which two solutions differ instead of a percentage.
        """
        return ONE_NUMBER

    def objective_in_words(self, instance: Any) -> str:
        """Return the name and unit of an instance's objective in words, for a picture's axis."""
        unit = ", s" if instance.variant in self.variants_in_s else ""
        return words(str(instance.variant)) + unit

    @abstractmethod
    def dual_bound(self, instance: Any) -> Number:
        """Return a proved dual bound on the optimum, for ``--certify``."""

    def solver_of(self, policy: Any) -> Any:
        """Return a solver that solves instances by following the decisions of a policy."""
        raise NotImplementedError

    def proof_hints(self, instance: Any) -> Mapping[str, Any]:
        """Return hints that shorten optimality proofs, by keys of proof files.

        `lyra_opt.proofs.stand_alone` checks hints before it uses them.
        """
        del instance
        return {}

    def proof_point(self, instance: Any, solution: Any) -> Mapping[str, float] | None:
        """Return the values of a proof's non-zero variables for a valid solution, by name.

        None if the proof has no solution.
        """
        raise NotImplementedError

    def proof_slack(self, instance: Any) -> float:
        """Return the relative gap that a proof may leave between its bound and the proved value.

        It only applies if the values are not integers.
        """
        del instance
        return RELATIVE_TOLERANCE

    @abstractmethod
    def drawing_of(self, instance: Any, solutions: Mapping[str, Any]) -> Drawing:
        """Return a drawing of the instance, with valid solutions (by name) if any are given."""

    def keys(self, format_name: str) -> Iterator[Described]:
        """Yield the description of each key of the instance format or of the solution format."""
        yield Described("format", f'"{format_name}"', "required", "of the file")
        yield Described("version", str(VERSION), "required", "of the format")
        if format_name == self.instance_format:
            yield from described(self.instance_class)
            return
        yield Described("instance", "text", "required", "name of the instance")
        for solution_class in self.solution_classes:
            yield from described(solution_class)
        objective = next(described(self.report_class))
        yield replace(objective, default="none", meaning=f"claimed: {objective.meaning}")

    def schemas(self) -> dict[str, JsonObject]:
        """Return the JSON schemas of instances and of solutions, by format."""
        instance, solution = self.formats
        properties: dict[str, Any] = {"instance": {**Text().schema(), "description": "its name"}}
        for name, each in self._solution_keys().items():
            kinds = [{**only.rule.schema(), "description": only.meaning} for _, only in each]
            properties[name] = kinds[0] if len(kinds) == 1 else {"oneOf": kinds}
        for name, (_, other) in self._further_keys().items():
            properties[name] = {**other.rule.schema(), "description": other.meaning}
        objective = next(each for each in keys_of(self.report_class) if each.name == "objective")
        properties["objective"] = {
            **objective.rule.schema(),
            "description": f"claimed: {objective.meaning}",
        }
        return {
            instance: format_schema(
                instance,
                VERSION,
                (self.instance_class.__doc__ or "").partition("\n")[0],
                schema_of(self.instance_class, **_head(instance)),
            ),
            solution: format_schema(
                solution,
                VERSION,
                f"A solution of an instance with the format {instance}.",
                {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {**_head(solution), **properties},
                    "required": ["format", "version", "instance"],
                    "oneOf": [{"required": [name]} for name in self._solution_keys()],
                },
            ),
        }


def _head(format_name: str) -> dict[str, Any]:
    return {"format": {"const": format_name}, "version": {"type": "integer", "const": VERSION}}


def problems() -> dict[str, Problem]:
    """Return every registered problem by name, in alphabetical order."""
    return PROBLEMS.all()


def find_problem(name: str) -> Problem:
    """Return the problem called `name`; an unknown name is a `UserError`."""
    problem: Problem = PROBLEMS.find(name)
    return problem


def problem_of_instance(instance: ProblemInstance) -> Problem:
    """Return the problem of an instance; raise `UserError` for any other object."""
    if not isinstance(instance, ProblemInstance):
        raise UserError(
            f"instance must be an instance of a decision problem, not {show_value(instance)}; "
            "lo.load(path) reads one from a file"
        )
    return find_problem(instance.problem)


def problem_of_format(document: JsonObject) -> Problem:
    """Return the problem whose instance format a decoded JSON document names.

    Raises
    ------
    FieldError
        If the key is missing, or is not the format of instances of a problem.
    """
    known = {problem.instance_format: problem for problem in problems().values()}
    if "format" not in document:
        raise MissingFieldError("format")
    given = document["format"]
    if given in [problem.formats[1] for problem in known.values()]:
        rule = (
            "must be the format of an instance, not of a solution; pass a solution with its "
            "instance to `lyra-opt verify`, lo.verify, or lo.solve as start"
        )
        raise FieldError("format", given, rule)
    if not isinstance(given, str) or given not in known:
        raise FieldError("format", given, one_of(given, known))
    return known[given]

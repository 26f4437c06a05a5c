"""Read and write files of instances and solutions of any problem."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import (
    JsonObject,
    format_document,
    parse_json,
    read_json_object,
    read_text,
    source_name,
    write_text,
)
from lyra_opt.core.errors import FieldError, InputError, in_file, show_value
from lyra_opt.core.problem import Problem, ProblemInstance, problem_of_format
from lyra_opt.core.result import Number, Status
from lyra_opt.core.rules import require_choice, require_number


@dataclass(frozen=True, slots=True)
class LoadedInstance:
    """An instance with its problem, the name of its file as the user typed it, and its document.

    The document is None if the instance was generated, or belongs to the library.
    """

    file: str
    problem: Problem
    instance: Any
    document: JsonObject | None = None

    def proved_document(self) -> JsonObject:
        """Return the document to which proofs of the instance refer."""
        return self.document or self.problem.instance_document(self.instance)


def load_instance(path: str | Path) -> LoadedInstance:
    """Read and validate an instance file (JSON, which may be compressed).

    Raises
    ------
    InputError
        If the file is not a valid instance; names file, field, value and rule.
    """
    document = read_json_object(path)
    with in_file(source_name(path)):
        problem = problem_of_format(document)
        return LoadedInstance(str(path), problem, problem.parse_instance(document), document)


def load_solution(path: str | Path, problem: Problem) -> tuple[Any, Mapping[str, Any]]:
    """Read a solution file or the output of ``solve --format json``; return solution and claims.

    From several answers to one instance, the best answer is taken. The solution is None if the
    answer of a solver contains none.

    Raises
    ------
    InputError
        If the file is not valid; names file, field, value and rule.
    """
    document = parse_json(read_text(path), str(path))
    if isinstance(document, list) and _are_of_one_instance(document):  # of `solve --format json`
        best = (answer for answer in document if answer.get("gap_to_best") == 0)
        document = next(best, document[0])
    if not isinstance(document, dict):
        raise InputError(
            str(path),
            "must be a solution file or one object of solve --format json, not "
            f"{show_value(document)}",
        )
    with in_file(str(path)):
        if "format" in document:
            return problem.parse_solution(document)
        return _solution_of_answer(document, problem)


def _are_of_one_instance(answers: list[Any]) -> bool:
    return all(isinstance(each, dict) for each in answers) and (
        len({(str(each.get("file")), str(each.get("instance"))) for each in answers}) == 1
    )


def _solution_of_answer(answer: JsonObject, problem: Problem) -> tuple[Any, Mapping[str, Any]]:
    """Return solution and claims of an object of ``solve --format json``, without null values."""
    from lyra_opt.core.solving import COMMON_ANSWER_KEYS

    known = {*COMMON_ANSWER_KEYS, *problem.answer_keys}
    if "solver" not in answer or "problem" not in answer:
        raise FieldError(
            "format", None, "is missing; only an object of solve --format json may lack it"
        )
    if answer["problem"] != problem.name:
        raise FieldError("problem", answer["problem"], f'must be "{problem.name}"')
    for key, value in answer.items():
        if key not in known:
            raise FieldError(key, value, "unknown key in an object of solve --format json")
    if answer.get("objective") is None:
        return None, {"instance": answer.get("instance")}
    claimed = ("instance", "objective", *problem.answer_keys)
    solution, claims = problem.parse_solution(
        {key: answer[key] for key in claimed if answer.get(key) is not None}
    )
    return solution, {**claims, **_proof_claims(answer)}


def _proof_claims(answer: JsonObject) -> JsonObject:
    """Return the status, dual bound and gap that an answer claims, without null values."""
    claims: JsonObject = {}
    if "status" in answer:
        claims["status"] = require_choice("status", answer["status"], list(map(str, Status)))
    for key in ("dual_bound", "gap"):
        if answer.get(key) is not None:
            require_number(key, answer[key], minimum=-math.inf)
            claims[key] = answer[key]
    return claims


def instance_text(problem: Problem, instance: ProblemInstance) -> str:
    """Return the text of an instance file with one server or job per line."""
    return format_document(problem.instance_document(instance))


def save_solution(
    path: str | Path, problem: Problem, instance: ProblemInstance, solution: Any, objective: Number
) -> None:
    """Write a solution file, completely or not at all."""
    write_text(path, format_document(problem.solution_document(instance, solution, objective)))


def content_hash(problem: Problem, instance: ProblemInstance) -> str:
    """Return the SHA-256 of an instance's content, whatever the layout of its file."""
    document = problem.instance_document(instance)
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()

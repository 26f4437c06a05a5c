"""The answer of a worker as JSON: a row with its files, or an error.

Workers are not trusted. The receiving machine therefore accepts only values for the row of the
task, and files at paths that the task may have.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from lyra_opt.experiments.pool import Task, in_words
from lyra_opt.experiments.records import RunRecord, decoded, encoded
from lyra_opt.experiments.store import table_path

SAME_COLUMNS = ("study", "position", "key", "axes", "seed")
"""Columns that are known before the task runs."""


def answer_of(record: RunRecord, beside: Mapping[str, bytes]) -> bytes:
    """Encode a row and its files as a worker's answer in JSON."""
    files = {name: b64encode(content).decode() for name, content in beside.items()}
    return json.dumps({"row": encoded(record), "beside": files}).encode()


def error_answer(error: Exception) -> bytes:
    """Encode an error as a worker's answer in JSON."""
    return json.dumps({"error": in_words(error)}).encode()


class WorkerError(Exception):
    """The error that a worker sent instead of a row."""


def read_answer(task: Task, answer: bytes) -> tuple[RunRecord, dict[str, bytes]]:
    """Return the row of a task and its files from an answer.

    Raises
    ------
    WorkerError
        If the worker answers with an error.
    ValueError, LookupError, TypeError
        If the answer is malformed, belongs to another task or names a file that the task may not
        have.
    """
    expected = task.failed(datetime.now(UTC), "")
    document = json.loads(answer)
    if "error" in document:
        raise WorkerError(str(document["error"]))
    record = decoded(type(expected), document["row"])
    for column in SAME_COLUMNS:
        if getattr(record, column) != getattr(expected, column):
            raise ValueError(f"{column} of the answer differs from that of the task")
    folders = {table_path(Path(), task.key, "").parent: ".csv.gz"}
    if task.documents_folder is not None:
        folders[task.documents_folder] = ".json"
    beside = {}
    for name, content in document["beside"].items():
        path = Path(name)
        suffix = folders.get(path.parent)
        if suffix is None or not path.name.endswith(suffix):
            raise ValueError(f"the answer names a file that does not belong to the task: {name}")
        beside[name] = b64decode(content, validate=True)
    return record, beside

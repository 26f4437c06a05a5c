"""Studies: which solvers run on which generated instances, within which limits.

A study is a TOML file; ``experiments/studies`` holds examples, and ``lyra-opt study --keys``
explains every key.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import parse_toml, read_text
from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.core.fields import parsed
from lyra_opt.core.problem import problems
from lyra_opt.core.validation import require_choice, require_choices
from lyra_opt.experiments.study_cells import blocks_of, cells_of
from lyra_opt.experiments.study_file import StudyTable
from lyra_opt.experiments.study_solvers import configurations_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.experiments.study_cells import Cell
    from lyra_opt.experiments.study_solvers import Configuration
    from lyra_opt.experiments.trace import Trace

LARGEST_STUDY_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A validated study; its runs are every cell with every configuration for its group.

    Parameters
    ----------
    source
        The file, as given.
    text
        Its content, word for word, below a comment for each key that was changed.
    name, problems, description, headline
        As in the file; without a headline that is empty.
    cells
        The instances, in the order of the file.
    configurations
        The solvers, in the order of the file.
    trace
        The job trace for the cells that read one.
    """

    source: str
    text: str
    name: str
    problems: tuple[str, ...]
    description: str
    headline: Sequence[str]
    cells: tuple[Cell, ...]
    configurations: tuple[Configuration, ...]
    trace: Trace | None

    def runs(self) -> Iterator[tuple[Cell, Configuration]]:
        """Yield every run, cell by cell."""
        for cell, configuration in product(self.cells, self.configurations):
            if configuration.runs_on(cell):
                yield cell, configuration

    def meaning_hash(self) -> str:
        """Return the SHA-256 of what is run; comments, layout and description do not count."""
        meaning = {
            "name": self.name,
            "trace_sha256": None if self.trace is None else self.trace.sha256,
            "cells": [asdict(cell) for cell in self.cells],
            "configurations": [asdict(configuration) for configuration in self.configurations],
        }
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def read_study(
    path: str | Path,
    trace: Trace | None = None,
    *,
    changes: Mapping[str, int | float] | None = None,
    solvers: Sequence[str] = (),
) -> Study:
    """Read and validate a study file.

    Parameters
    ----------
    trace
        For the families that read one.
    changes
        What to put in place of the file's own keys ``seeds`` or ``time_limit_s``, or to add;
        blocks that have keys of their own keep them.
    solvers
        To run on all instances beside those of the file: names, or ``my_file.py:NAME``.

    Raises
    ------
    InputError
        Naming file, field, value and rule.
    UserError
        If a trace is given that no family of the study reads.
    """
    source = str(path)
    text = read_text(path, LARGEST_STUDY_BYTES)
    document = parse_toml(text, source, "a study")
    for key, value in (changes or {}).items():
        document[key] = value
        text = f"# run with {key} = {value!r} in place of the file's\n{text}"
    if solvers and isinstance(document.get("solvers"), list):
        document["solvers"].append({"names": list(solvers)})
        text = f"# run with {', '.join(solvers)} beside the file's solvers\n{text}"
    try:
        study = _parse_study(document, source, text, trace)
    except FieldError as error:
        raise InputError(source, str(error)) from None
    if trace is not None and not any(cell.reads_trace for cell in study.cells):
        raise UserError(
            f"--trace is {trace.path}: no family of the study {study.name} reads a trace"
        )
    return study


def _parse_study(document: dict[str, Any], source: str, text: str, trace: Trace | None) -> Study:
    table = parsed(StudyTable, document)
    for problem in table.problem:
        require_choice("problem", problem, problems())
    folder = Path(source).parent
    blocks = blocks_of(table, folder)
    configurations = configurations_of(table, {block.group for block in blocks}, folder)
    require_choices("headline", table.headline, [each.solver for each in configurations])
    return Study(
        source=source,
        text=text,
        name=table.name,
        problems=table.problem,
        description=table.description,
        headline=table.headline,
        cells=cells_of(blocks, len(configurations), trace),
        configurations=configurations,
        trace=trace,
    )

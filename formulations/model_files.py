"""Write exact models to files (LP, MPS, CP-SAT protocol buffers) that other solvers read."""

from typing import Any

import numpy as np

from lyra_opt.core.temporary import TemporaryFolder

LP_SECTIONS = {b"bin": [b"binaries"], b"gen": [b"generals"], b"semi": []}
"""New section headings for HiGHS' LP files: CBC ignores the old ones and solves the relaxation."""

OBJECTIVE_CONSTANT = "constant"
"""The variable of LP files whose cost is the constant term of the objective."""


def linear_bytes(model: Any, suffix: str) -> bytes:
    """Return a MathOpt model as an MPS or LP file whose numbers have 15 digits.

    HiGHS writes the file. The MPS files of OR-Tools have 6 digits, and those of PuLP lose the sense
    and the constant of the objective. CBC ignores the constant in LP files. In LP files it is
    therefore the cost of a variable ``constant``, which is fixed at 1.

    Parameters
    ----------
    model
        A linear model with integer and continuous variables.
    suffix
        ``.mps`` or ``.lp``.
    """
    import highspy

    stated = model.export_model()
    variables, rows, objective = stated.variables, stated.linear_constraints, stated.objective
    matrix = stated.linear_constraint_matrix  # row by row
    programme = highspy.HighsLp()
    programme.num_col_, programme.num_row_ = len(variables.ids), len(rows.ids)
    programme.col_lower_ = np.array(variables.lower_bounds)
    programme.col_upper_ = np.array(variables.upper_bounds)
    cost = np.zeros(len(variables.ids))
    column_of = {identifier: k for k, identifier in enumerate(variables.ids)}
    terms = objective.linear_coefficients
    cost[[column_of[identifier] for identifier in terms.ids]] = terms.values
    programme.col_cost_, programme.offset_ = cost, objective.offset
    senses = highspy.ObjSense
    programme.sense_ = senses.kMaximize if objective.maximize else senses.kMinimize
    programme.row_lower_ = np.array(rows.lower_bounds)
    programme.row_upper_ = np.array(rows.upper_bounds)
    programme.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    ends = np.searchsorted(np.array(matrix.row_ids), np.array(rows.ids), side="right")
    programme.a_matrix_.start_ = np.array([0, *ends])
    programme.a_matrix_.index_ = np.array([column_of[each] for each in matrix.column_ids])
    programme.a_matrix_.value_ = np.array(matrix.coefficients)
    kinds = highspy.HighsVarType
    programme.integrality_ = [
        kinds.kInteger if is_integer else kinds.kContinuous for is_integer in variables.integers
    ]
    programme.col_names_, programme.row_names_ = list(variables.names), list(rows.names)
    highs = highspy.Highs()
    highs.silent()
    if highs.passModel(programme) == highspy.HighsStatus.kError:
        raise RuntimeError("HiGHS rejects the model")
    if suffix == ".lp" and objective.offset:
        highs.addCol(objective.offset, 1.0, 1.0, 0, np.array([], dtype=np.int32), np.array([]))
        highs.passColName(len(variables.ids), OBJECTIVE_CONSTANT)
        highs.changeObjectiveOffset(0.0)
    text = _content_written_by(
        lambda file: highs.writeModel(file) != highspy.HighsStatus.kError, suffix
    )
    if suffix == ".lp":
        lines = text.splitlines()
        text = b"\n".join(new for line in lines for new in LP_SECTIONS.get(line, [line])) + b"\n"
    return text


def cpsat_bytes(model: Any, suffix: str) -> bytes:
    """Return a CP-SAT model as a protocol buffer: binary for ``.pb``, text for ``.txtpb``."""
    if suffix == ".txtpb":
        return f"{model.proto}".encode()
    return _content_written_by(model.export_to_file, suffix)


def _content_written_by(write: Any, suffix: str) -> bytes:
    with TemporaryFolder() as directory:
        file = directory / f"model{suffix}"
        if not write(str(file)):
            raise RuntimeError("the model could not be written")
        return file.read_bytes()

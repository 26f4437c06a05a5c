"""Errors that users can mend: one line, wherever they come from."""

import pickle

import pytest

from lyra_opt.core.errors import FieldError, InputError, MissingFieldError, UserError, failure_of

ERRORS = (
    UserError("said"),
    FieldError("jobs[0].gpus", 3, "must be less"),
    MissingFieldError("name").inside("jobs[1]"),
    InputError("file.json", "is empty"),
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_cross_processes(error):
    """One whose arguments are not those of its class broke the pool that it crossed."""
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_errors_are_one_line_whatever_they_name():
    """Names may hold line breaks, in the rule too, where it lists what there is."""
    field = FieldError("gpus", "a\nb", "must be one of: c\nd")
    for error in (field, field.inside("jobs\n"), InputError("file\n.json", str(field))):
        assert str(error).isprintable()
    with pytest.raises(ValueError, match="b") as caught:
        raise ValueError("a\nb")
    assert failure_of(caught.value).startswith(r"ValueError: a\nb (test_errors.py, line ")

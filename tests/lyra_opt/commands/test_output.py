"""Tables as files, pipes and terminals get them."""

import io
import re
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.commands.messages import complain
from lyra_opt.commands.output import print_line, print_meanings, print_table
from lyra_opt.core.table import table_of_texts

NAMES = st.sampled_from(["fast", "mathopt-gscip-strengthened", "a/b.json", "feasible (time limit)"])
NUMBERS = st.floats(-1e6, 1e6).map(lambda value: f"{value:.6g}") | st.sampled_from(
    ["17 of 18", "16.7 (10.0 to 20.0)", "0.25 %", "12.34 ms", ""]
)


@contextmanager
def terminal(columns):
    """Make stdout a terminal of so many columns, without styles; yield what it shows."""
    screen = io.StringIO()
    screen.isatty = lambda: True
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "dumb")
        monkeypatch.setattr(sys, "stdout", screen)
        yield screen


def words_of(text):
    """Return the words of a text however it is folded: parts of one name stay apart."""
    return re.findall(r"[^\s/_-]+", text)


def test_table_without_a_terminal_is_neither_cut_nor_wrapped(capsys):
    """Protects names that differ at their end alone, such as those of files in one folder."""
    files = [f"{'a/folder with words/' * 30}{number}.json" for number in range(2)]
    print_table(
        table_of_texts(
            ["File", "Objective", "Dual bound"], [[file, "1", "0"] for file in files], {1, 2}
        )
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line.startswith(file) for line, file in zip(lines[2:], files, strict=True))
    assert len(lines[2]) < len(files[0]) + 40
    assert lines[0].split() == ["File", "Objective", "Dual", "bound"]


@pytest.mark.parametrize("columns", [40, 80, 120])
@given(data=st.data())
def test_on_a_terminal_nothing_is_cut_and_numbers_stay_whole(data, columns):
    """Protects all that a table says, each number on one line, from a narrow terminal."""
    numbers = data.draw(st.integers(1, 9))
    row = st.tuples(NAMES, *[NUMBERS] * numbers)
    rows = data.draw(st.lists(row, min_size=1, max_size=4))
    headers = ["solver", *(f"measured value {letter}" for letter in "abcdefghi"[:numbers])]
    with terminal(columns) as screen:
        print_table(table_of_texts(headers, rows, range(1, len(headers))), None)
    text = screen.getvalue()
    assert max(map(len, text.splitlines())) <= columns
    for name, *cells in rows:
        assert all(part in text for cell in cells for part in re.split(r" (?=\()", cell))
        assert set(words_of(name)) <= set(words_of(text))


def test_columns_that_are_elsewhere_go_in_order_of_importance():
    """Protects the columns that matter, and says which others there are and where."""
    headers = ["solver", "objective", "preempted", "collateral", "time"]
    row = ["lyra", "17", "4", "123456789012", "0.44 ms"]
    with terminal(40) as screen:
        table = table_of_texts(headers, [row], range(1, 5))
        print_table(replace(table, least=["collateral"]))
    header, _, shown, *said = screen.getvalue().splitlines()
    assert header.split() == ["solver", "objective", "preempted", "time"]
    assert shown.split() == ["lyra", "17", "4", "0.44", "ms"]
    assert " ".join(said) == "columns that do not fit: collateral. Show them with --format csv"


def test_sentences_and_meanings_are_folded_at_words():
    """Protects prose on a narrow terminal from a break within a word."""
    sentence = "- the cluster is empty at hour 0, and all servers of 8 GPUs are alike"
    with terminal(30) as screen:
        print_line(sentence, indent="  ")
        print_line("written: results/lyra-greedy.json")
        print_meanings({"lyra": sentence, "fifo": "first come"}, indent=2)
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 30
    assert " ".join(lines[:3]).split() == sentence.split()
    assert lines[3:5] == ["written:", "results/lyra-greedy.json"]
    assert lines[-1] == "  fifo  first come"


def test_remarks_and_errors_are_folded_in_a_terminal_alone(monkeypatch, capsys):
    """Protects the one line that programs read, and people from lines broken within words."""
    sentence = "error: fleet.json: jobs[3].weight is -1: must be an integer of at least 1"
    complain(sentence)
    assert capsys.readouterr().err == f"lyra-opt: {sentence}\n"
    with terminal(40) as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        complain(sentence)
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(lines).split() == f"lyra-opt: {sentence}".split()

"""The prose check of `make lint`: the texts that it finds, and the phrases that it rejects."""

from pathlib import Path

import pytest

from tests.prose.__main__ import complaints, read_rules
from tests.prose.extraction import Text, page_texts, python_texts, toml_texts
from tests.tables import tables

TABLES = tables(__file__)


@pytest.mark.parametrize(("kind", "words", "part"), TABLES["rejected"])
def test_bad_phrases_are_rejected(kind, words, part):
    """Each phrase of the style guide is found in the kinds of text to which its rule applies."""
    text = Text(Path("a.py"), 1, kind, words)
    assert any(part in complaint for complaint in complaints(text, read_rules()))


@pytest.mark.parametrize(("kind", "words"), TABLES["accepted"])
def test_good_phrases_are_accepted(kind, words):
    """Ordinary sentences that resemble a rejected phrase pass."""
    assert not list(complaints(Text(Path("a.py"), 1, kind, words), read_rules()))


def test_texts_are_found():
    """Docstrings, comments, strings, TOML texts, paragraphs and cells are found with their line."""
    source = '"""A module."""\n# A comment.\nMESSAGE = "three plain words"\n'
    found = [(text.line, text.kind, text.words) for text in python_texts(Path("a.py"), source)]
    assert found == [
        (1, "docstring", "A module."),
        (3, "string", "three plain words"),
        (2, "comment", "A comment."),
    ]
    toml = '# A comment.\ndescription = "A study."\nname = "not a text"\n'
    found = [(text.kind, text.words) for text in toml_texts(Path("a.toml"), toml)]
    assert found == [("comment", "A comment."), ("toml", "A study.")]
    page = "A paragraph.\n\n```\ncode\n```\n\n| a cell | another |\n"
    found = [(text.line, text.kind, text.words) for text in page_texts(Path("a.md"), page)]
    assert found == [(1, "page", "A paragraph."), (7, "cell", "a cell"), (7, "cell", "another")]

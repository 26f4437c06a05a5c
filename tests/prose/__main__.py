"""Print every text that holds a rejected phrase, and end with 1 if there are any."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.prose.extraction import Text, texts

PATTERNS = Path(__file__).with_name("patterns.toml")
LONGEST_SENTENCE = 45
"""Words. Style asks for about 25; a sentence this long is never understood at first reading."""
QUOTED = re.compile(r"`[^`]*`|\$[^$]*\$|\"[^\"]*\"")


class Rule(NamedTuple):
    """A rejected phrase, the kinds of text it applies to (None: all), and the wording to use."""

    pattern: re.Pattern[str]
    kinds: tuple[str, ...] | None
    write: str


def read_rules() -> list[Rule]:
    """Return the rules of `patterns.toml`."""
    rules = tomllib.loads(PATTERNS.read_text(encoding="utf-8"))["rule"]
    return [Rule(re.compile(rule["pattern"]), rule.get("kinds"), rule["write"]) for rule in rules]


def complaints(text: Text, rules: list[Rule]) -> Iterator[str]:
    """Yield each rejected phrase of a text and each sentence that is too long."""
    for rule in rules:
        if rule.kinds is None or text.kind in rule.kinds:
            for match in rule.pattern.finditer(text.words):
                yield f"{match[0]!r}: write {rule.write}"
    if text.kind in ("docstring", "paragraph", "page", "cell", "toml"):
        for sentence in re.split(r"(?<=[.:;?!]) ", QUOTED.sub("x", text.words)):
            if (count := len(sentence.split())) > LONGEST_SENTENCE:
                yield f"a sentence of {count} words: at most {LONGEST_SENTENCE}"


def main() -> int:
    """Check every text below the working directory."""
    root, rules, count = Path.cwd(), read_rules(), 0
    for text in texts(root):
        for complaint in complaints(text, rules):
            print(f"{text.file.relative_to(root)}:{text.line}: {complaint}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

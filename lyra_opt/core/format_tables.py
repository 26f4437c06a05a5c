"""Tables of the keys of file formats in a page of Markdown, made from what is declared of them.

A table stands between ``<!-- keys of FORMAT -->`` and ``<!-- end of keys -->``. ``make docs`` runs
this module on the page that it is given.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from lyra_opt.core.described import markdown_table
from lyra_opt.core.formats import formats

_TABLE = re.compile(r"(<!-- keys of (\S+) -->\n).*?(<!-- end of keys -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """Return a page with its tables of keys as they are declared now; KeyError without a format."""

    def table(found: re.Match[str]) -> str:
        return f"{found[1]}\n{markdown_table(known[found[2]].keys())}\n\n{found[3]}"

    known = formats()
    return _TABLE.sub(table, page)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")

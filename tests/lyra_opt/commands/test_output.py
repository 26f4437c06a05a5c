"""Tables as files and pipes get them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.commands.output import print_table

if TYPE_CHECKING:
    import pytest


def test_table_without_a_terminal_is_neither_cut_nor_wrapped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Protects names that differ at their end alone, such as those of files in one folder."""
    files = [f"{'a/folder with words/' * 30}{number}.json" for number in range(2)]
    print_table(["File", "Objective"], [[file, "1"] for file in files], right=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line.startswith(file) for line, file in zip(lines[2:], files, strict=True))
    assert len(lines[2]) < len(files[0]) + 20

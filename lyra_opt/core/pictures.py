"""How pictures look, and how one becomes a file; the problems draw them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.core.documents import write_bytes
from lyra_opt.core.errors import UserError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matplotlib.figure import Figure

# Okabe and Ito's palette, made to be told apart by colour-blind readers; yellow, too pale for
# lines on white, is left out.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

FORMATS = {".svg": "svg", ".png": "png"}
"""What a picture is written as, by the suffix of its file."""

PNG_DOTS_PER_INCH = 150


def house_style() -> AbstractContextManager[None]:
    """Return a context in which figures are drawn as this project's are."""
    import matplotlib as mpl

    return mpl.rc_context(
        {
            "svg.fonttype": "none",  # text stays text: small files that can be searched
            "svg.hashsalt": "lyra-opt",  # ids that are the same on every day
            "font.family": "sans-serif",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
            "axes.grid": True,
            "grid.color": "#e4e4e4",
            "grid.linewidth": 0.6,
            "legend.frameon": False,
        }
    )


def as_written(text: str) -> str:
    """Return text so that a dollar sign in it stays one, and starts no formula."""
    return text.replace("$", r"\$")


def require_picture_path(option: str, path: str) -> None:
    """Raise `UserError` if `path`, which `option` gave, has no suffix of a picture."""
    if Path(path).suffix.lower() not in FORMATS:
        raise UserError(f"{option} {path}: the file must end in {' or '.join(FORMATS)}")


def save_picture(path: str | Path, figure: Figure) -> None:
    """Write a figure as its suffix says, whole or not at all; the same bytes for the same figure.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    stream = io.BytesIO()
    kind = FORMATS[Path(path).suffix.lower()]
    metadata = {"svg": dict.fromkeys(("Creator", "Date")), "png": {"Software": None}}[kind]
    with house_style():
        figure.savefig(stream, format=kind, dpi=PNG_DOTS_PER_INCH, metadata=metadata)
    write_bytes(path, stream.getvalue())

"""Figures that notebooks show by themselves, also where nobody imported pyplot."""

from __future__ import annotations

import io
import warnings

from matplotlib.figure import Figure

DOTS_PER_INCH = 144


class ShownFigure(Figure):
    """A figure of matplotlib with the representation that notebooks ask for."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        with warnings.catch_warnings():  # of letters that the font lacks
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
            self.savefig(stream, format="png", dpi=DOTS_PER_INCH)
        return stream.getvalue()

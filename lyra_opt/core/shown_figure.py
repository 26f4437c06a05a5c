"""Matplotlib figures that notebooks display, even if pyplot was never imported."""

from __future__ import annotations

import io
import warnings

from matplotlib.figure import Figure

DOTS_PER_INCH = 144


class ShownFigure(Figure):
    """A matplotlib figure that notebooks display as a PNG picture."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        with warnings.catch_warnings():  # the font may lack some letters
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
            self.savefig(stream, format="png", dpi=DOTS_PER_INCH)
        return stream.getvalue()

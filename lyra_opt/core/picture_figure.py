"""Matplotlib figures with a style and data, which notebooks display without pyplot."""

from typing import Any

from matplotlib.figure import Figure

from lyra_opt.core.picture_styles import picture_bytes

SCREEN_DOTS_PER_INCH = 96


class PictureFigure(Figure):
    """A matplotlib figure that notebooks display as a PNG picture.

    Parameters
    ----------
    style
        The name of the style in which the figure is drawn.
    options
        Options of matplotlib's figure.
    """

    def __init__(self, style: str, **options: Any) -> None:
        super().__init__(**options)
        self.style = style
        self.data: dict[str, list[Any]] = {}
        """The rows of data that are saved with the picture, by the name of their table."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the picture and its size in a notebook, where an inch has 96 pixels."""
        width, height = (round(SCREEN_DOTS_PER_INCH * inches) for inches in self.get_size_inches())
        return picture_bytes(self, "png"), {"width": width, "height": height}

"""Pictures of the gallery: the figure that a block of a script ends with.

Figures of this project are made without pyplot, which sphinx-gallery would ask for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from lyra_opt.core.picture_styles import picture_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

_RST = """
.. image:: /{path}
   :alt: {alt}
   :class: sphx-glr-single-img

"""


def _scrape(_block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    from pathlib import Path

    figure = block_vars["example_globals"].get("___")
    if not isinstance(figure, Figure) or getattr(figure, "shown_in_gallery", False):
        return ""
    figure.shown_in_gallery = True  # type: ignore[attr-defined]
    path = Path(next(block_vars["image_path_iterator"]))
    path.write_bytes(picture_bytes(figure, "png"))
    page = Path(path).relative_to(gallery_conf["src_dir"]).as_posix()
    return _RST.format(path=page, alt=alternative_text(figure))


def alternative_text(figure: Figure) -> str:
    """Return the titles and axes of a figure in one line, for those who do not see it."""
    said = []
    for axes in figure.axes:
        along = " over ".join(filter(None, (axes.get_ylabel(), axes.get_xlabel())))
        title = axes.get_title() or axes.get_title(loc="left")
        said.append(": ".join(filter(None, (title, along))))
    lines = filter(None, [figure.get_suptitle(), *dict.fromkeys(said)])
    return " ".join("; ".join(lines).split()) or "figure"


def _get_sg_image_scraper() -> Callable[..., str]:
    """Return what sphinx-gallery calls after each block."""
    return _scrape

"""An empty figure to draw in, wherever it is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fossil.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float = 7, height: float = 6) -> Figure:
    """Return an empty figure of so many inches that no window belongs to.

    Raises:
        SettingError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SettingError(
            "A picture needs matplotlib, which is not installed.", remedy="pip install 'fossil-gnn[plot]'"
        ) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure

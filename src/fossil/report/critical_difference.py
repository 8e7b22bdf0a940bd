"""A picture of mean ranks: methods on a line, a bar over those that few graphs cannot tell apart, and the warning."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fossil.evaluation.comparison import Ranks
from fossil.printable import shortened
from fossil.report.figure import new_figure
from fossil.report.lettering import TITLE, write_literally

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOUR = "#0072B2"  # of all that belongs to the critical difference: told from grey and black by everybody
_WIDTH = 8.0  # inches, as wide as a page; more where names are long
_RANKS = 4.2  # inches for the line of ranks at least
_SIGN = 0.074  # inches for a sign
_LINE = 0.27  # inches for a name
_BAR = 0.13  # inches for a bar
_EDGE = 0.005  # where text begins that stands above or beneath, as a share of the width
_MOST_TICKS = 16  # with a number each


def critical_difference(ranks: Ranks, title: str = "", notes: Sequence[str] = ()) -> Figure:
    """Return the picture of mean ranks: the better half of the names on the left, the others on the right.

    Args:
        ranks: of at least two methods.
        title: what stands above it.
        notes: what stands beneath it.

    Raises:
        SettingError: matplotlib is not installed.
    """
    names, groups = list(ranks.mean), ranks.groups
    methods, half = len(names), (len(names) + 1) // 2
    beside = _SIGN * (8 + max(len(shortened(name)) for name in names))  # inches for a name and its rank
    width = max(_WIDTH, _RANKS + 2 * beside)
    said = [line for note in notes for line in textwrap.wrap(note, int(width / _SIGN * 1.2))]
    # Down from the line of ranks in inches, so that nothing moves together however many methods there are.
    above, first_name = 0.62, 0.25 + _BAR * len(groups)
    deep = first_name + _LINE * half
    figure = new_figure(width, above + deep + 0.17 * len(said) + (0.6 if title else 0.4))
    axes = figure.subplots()
    reach = methods - 1
    margin = reach * beside / (width - 2 * beside)
    axes.set_xlim(1 - margin, methods + margin)
    axes.set_ylim(deep, -above)
    axes.axis("off")

    axes.plot([1, methods], [0, 0], color="black", linewidth=1)
    for tick in range(1, methods + 1, -(-methods // _MOST_TICKS)):
        axes.plot([tick, tick], [-0.05, 0], color="black", linewidth=1)
        axes.text(tick, -0.08, str(tick), ha="center", va="bottom", fontsize="small")
    long = min(reach, ranks.critical_difference)
    axes.plot([1, 1 + long], [-0.36, -0.36], color=_COLOUR, linewidth=2)
    for end in (1, 1 + long):
        axes.plot([end, end], [-0.41, -0.31], color=_COLOUR, linewidth=2)
    shown = f"critical difference {ranks.critical_difference:.2f}"
    axes.text(1, -0.43, shown, fontsize="small", va="bottom", color=_COLOUR)

    for number, name in enumerate(names):
        left = number < half
        height = first_name + _LINE * (number if left else methods - 1 - number)
        side = 1 - 0.03 * reach if left else methods + 0.03 * reach
        rank = ranks.mean[name]
        axes.plot([rank, rank, side], [0, height, height], color="0.55", linewidth=0.8)
        axes.plot([rank], [0], color="black", marker="o", markersize=3.5)
        text = axes.text(side, height, "", ha="right" if left else "left", va="center", fontsize="small")
        write_literally(text, name, f"  {rank:.2f} ")
        if not left:
            text.set_text(f" {text.get_text()}")
    for number, group in enumerate(groups):
        height = 0.12 + _BAR * number
        ends = [ranks.mean[group[0]] - 0.003 * reach, ranks.mean[group[-1]] + 0.003 * reach]
        axes.plot(ends, [height, height], color=_COLOUR, linewidth=3.5, solid_capstyle="butt")
    test = "" if ranks.p_value is None else f"; Friedman's test p = {ranks.p_value:.2g}"
    axes.set_title(f"mean ranks over {ranks.graphs} graphs, 1 is best{test}", fontsize="small", loc="left")
    if title:
        write_literally(figure.suptitle("", fontsize="medium", x=_EDGE, ha="left"), title, longest=TITLE)
    if said:
        figure.supxlabel("\n".join(said), fontsize="small", x=_EDGE, ha="left")
    return figure

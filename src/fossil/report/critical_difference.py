"""A picture of mean ranks: methods on a line, a bar over those that few graphs cannot tell apart, and the warning."""

from __future__ import annotations

import textwrap
from pathlib import Path

from fossil.evaluation.comparison import Ranks
from fossil.report.lettering import write_literally
from fossil.report.map import new_figure, picture_kind
from fossil.storage import write_atomically


def draw_critical_difference(path: Path, ranks: Ranks) -> None:
    """Draw mean ranks with Nemenyi's critical difference, and beneath it the warning where graphs are few.

    Args:
        path: `.png`, `.pdf` or `.svg`; what stands there is replaced.
        ranks: of at least two methods.

    Raises:
        SettingError: matplotlib is not installed, or the suffix is none of a picture.
        RunError: the file cannot be written.
    """
    kind = picture_kind(path)
    names, groups = list(ranks.mean), ranks.groups
    warning = textwrap.wrap(ranks.warning or "", 95)
    figure = new_figure(8, 1.8 + 0.28 * len(names) / 2 + 0.14 * len(groups) + 0.2 * len(warning))
    axes = figure.subplots()
    methods, half = len(names), (len(names) + 1) // 2
    axes.set_xlim(1 - 0.45 * (methods - 1), methods + 0.45 * (methods - 1))
    deepest = half + 0.5 + 0.5 * len(groups)
    axes.set_ylim(deepest + 0.6, -1.8)
    axes.axis("off")

    axes.plot([1, methods], [0, 0], color="black", linewidth=1)
    for tick in range(1, methods + 1):
        axes.plot([tick, tick], [-0.12, 0], color="black", linewidth=1)
        axes.text(tick, -0.25, str(tick), ha="center", va="bottom", fontsize="small")
    reach = min(methods - 1, ranks.critical_difference)
    axes.plot([1, 1 + reach], [-1.15, -1.15], color="C3", linewidth=2)
    axes.text(1, -1.3, f"critical difference {ranks.critical_difference:.2f}", fontsize="small", va="bottom")

    for number, group in enumerate(groups):
        height = 0.35 + 0.5 * number
        ends = [ranks.mean[group[0]] - 0.04, ranks.mean[group[-1]] + 0.04]
        axes.plot(ends, [height, height], color="C3", linewidth=3, solid_capstyle="butt")
    below = 0.5 + 0.5 * len(groups)
    for number, name in enumerate(names):
        left = number < half
        height = below + (number if left else methods - 1 - number)
        side = 1 - 0.05 * (methods - 1) if left else methods + 0.05 * (methods - 1)
        rank = ranks.mean[name]
        axes.plot([rank, rank, side], [0, height, height], color="0.4", linewidth=0.8)
        text = axes.text(side, height, "", ha="right" if left else "left", va="center", fontsize="small")
        write_literally(text, name, f"  {rank:.2f} ")
        text.set_text(f" {text.get_text()}")  # clear of its line
    test = "" if ranks.p_value is None else f"; Friedman's test p = {ranks.p_value:.2g}"
    axes.set_title(f"mean ranks over {ranks.graphs} graphs, 1 is best{test}", fontsize="medium", loc="left")
    if warning:
        figure.supxlabel("\n".join(warning), fontsize="small", color="C3", x=0.02, ha="left")
    write_atomically(path, lambda stream: figure.savefig(stream, format=kind, dpi=130))

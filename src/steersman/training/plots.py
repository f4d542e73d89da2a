"""The pictures of a fit, as PNG bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from itertools import product
from textwrap import wrap
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from steersman.errors import MissingExtraError
from steersman.training.baselines import rank_actions
from steersman.training.evidence import ORACLE, Evidence
from steersman.training.fit import PolicyFitResult
from steersman.training.learners import predicts_gains
from steersman.training.metrics import choices, regrets
from steersman.training.pareto import ParetoLine, ParetoPoint, join_equal

__all__ = [
    "check_can_draw",
    "draw_confusion",
    "draw_losses",
    "draw_pareto",
    "draw_predictions",
    "draw_regrets",
    "draw_scenes",
]

_BLUE, _GREY, _RED, _LIGHT = "#1f5f99", "#8a929b", "#b8432f", "#dfe4ea"
_MOST_SCENES = 40
_MOST_POINTS = 2000
_HEAVY = 20.0  # how much larger than the median the largest number is where tails are heavy
_AWAY = (8.0, 16.0, 28.0, 44.0, 64.0)  # points from a mark to its label
_AROUND = tuple(math.radians(angle) for angle in (40, -40, 140, -140, 75, -75, 105, -105))


def check_can_draw() -> None:
    """Raise MissingExtraError when matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("plots", purpose="drawing a report")


def draw_regrets(evidence: Evidence) -> bytes:
    """Return held-out regret with its baselines, least first, as horizontal bars with 95 % intervals."""
    rows = [*evidence.fixed, evidence.uniform, evidence.policy]
    rows.sort(key=lambda row: row.regret, reverse=True)
    figure = _figure(7.5, 1.2 + 0.36 * len(rows))
    axes = figure.subplots()
    places = np.arange(len(rows))
    colours = [_BLUE if row is evidence.policy else _GREY for row in rows]
    axes.barh(places, [row.regret for row in rows], color=colours, height=0.65)
    for place, row in zip(places, rows, strict=True):
        if row.interval is not None:
            axes.plot([row.interval.low, row.interval.high], [place, place], color="black", linewidth=1.2)
    labels = [f"{_short(row.name)} (fixed)" if row in evidence.fixed else row.name for row in rows]
    axes.set_yticks(places, labels)
    axes.set_xlabel("mean regret on held-out rows (the oracle has 0)")
    axes.set_xlim(left=0.0)
    return _png(figure)


def draw_losses(result: PolicyFitResult) -> bytes:
    """Return the training loss over the epochs."""
    figure = _figure(7.5, 3.2)
    axes = figure.subplots()
    axes.plot(np.arange(1, len(result.losses) + 1), result.losses, color=_BLUE)
    axes.set_xlabel("epoch")
    axes.set_ylabel(f"training loss ({result.settings.loss})")
    if min(result.losses) > 0.0 and max(result.losses) > 20.0 * min(result.losses):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0.0)
    return _png(figure)


def draw_predictions(result: PolicyFitResult) -> bytes:
    """Return predicted against true gain on held-out rows, a panel for each action, all on the same axes.

    Values that estimate no gains are compared by rank among the rows of the action, from 0 to 1.
    """
    rows, by_rank = result.heldout, not predicts_gains(result.settings)
    values = result.policy.batch_values(rows.features) * result.target_scale + result.target_mean
    actions = rows.catalogue.ids
    pairs: list[NDArray[np.float64]] = []  # of each action [2, n], true and predicted
    for position in range(len(actions)):
        shown = np.flatnonzero(rows.feasible[:, position])
        pair = np.stack([rows.gains[shown, position], values[shown, position]])
        pair = np.apply_along_axis(_rank_shares, 1, pair) if by_rank else pair
        pairs.append(pair[:, :: max(1, len(shown) // _MOST_POINTS)])
    columns = min(4, len(actions))
    lines = math.ceil(len(actions) / columns)
    figure = _figure(7.5, 0.6 + 1.9 * lines)
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True).ravel()
    every = np.concatenate(pairs, axis=1)
    ends = [every.min(initial=0.0), every.max(initial=0.0)]
    for panel, action, pair in zip(panels, actions, pairs, strict=False):
        panel.plot(ends, ends, color=_GREY, linewidth=0.8)
        panel.scatter(*pair, s=6, color=_BLUE, alpha=0.45, linewidths=0)
        panel.set_title(_on_lines(action), fontsize=6.5)
        panel.tick_params(labelsize=7)
        panel.locator_params(nbins=3)
    scale = _scale_axes(panels[0], every[0])
    for panel in panels[len(actions) - columns : len(actions)]:
        panel.tick_params(labelbottom=True)  # nothing stands below these
    for panel in panels[len(actions) :]:
        panel.set_axis_off()
    gain = "advantage less costs" if result.cost_weight else "advantage"
    by = "by rank: 0 the lowest row of an action, 1 the highest" if by_rank else f"grey: the same{scale}"
    figure.supxlabel(f"true {gain} ({by})", fontsize=9)
    figure.supylabel("value, by rank" if by_rank else "predicted", fontsize=9)
    return _png(figure)


def _scale_axes(panel: Any, true: NDArray[np.float64]) -> str:
    """Give a panel, and those that share its axes, symlog axes where the tails of [n] true gains are heavy.

    Returns words about the axes; none about linear ones.
    """
    sizes = np.abs(true[true != 0.0])
    if not sizes.size or sizes.max() < _HEAVY * np.median(sizes):
        return ""
    small = float(np.quantile(sizes, 0.25))  # what is smaller lies on the linear part
    panel.set_xscale("symlog", linthresh=small)
    panel.set_yscale("symlog", linthresh=small)
    far = 10.0 ** math.floor(math.log10(sizes.max()))
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_ticks([-far, 0.0, far], [f"{-far:g}", "0", f"{far:g}"])
        axis.set_ticks([], minor=True)
    return f"; axes are logarithmic beyond ±{small:.2g}"


def _rank_shares(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank of each of [n] values from 0, the lowest, to 1; equal ones share their mean rank."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts + 1) / 2.0
    shares: NDArray[np.float64] = ranks[index] / max(1, len(values) - 1)
    return shares


def draw_confusion(result: PolicyFitResult) -> bytes:
    """Return how often each action was chosen where each was best: shares of held-out rows by best action.

    Where several are best within the tie tolerance, the chosen one among them counts as the best.
    """
    rows = result.heldout
    chosen = choices(result.policy.batch_values(rows.features), rows.feasible)
    tied = regrets(rows.gains, rows.feasible, chosen) <= result.settings.tie_tolerance
    best = np.where(tied, chosen, choices(rows.gains, rows.feasible))
    actions = [_short(action, 32) for action in rows.catalogue.ids]
    counts = np.zeros((len(actions), len(actions)))
    np.add.at(counts, (best, chosen), 1.0)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    cells = len(actions) * min(0.6, 4.6 / len(actions))  # inches; the page is no wider
    names = min(2.2, 0.4 + 0.07 * max(map(len, actions)))
    figure = _figure(min(7.5, cells + names + 1.9), cells + 0.75 * names + 0.5)
    axes = figure.subplots()
    shades = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    bar = figure.colorbar(shades, ax=axes, shrink=0.8)
    bar.set_label("share of the rows with this best action", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    for row in range(len(actions)):
        for column in range(len(actions)):
            if counts[row, column]:
                dark = shares[row, column] > 0.55
                text = f"{counts[row, column]:.0f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=8, color="w" if dark else "k")
    axes.set_xticks(range(len(actions)), actions, rotation=45, ha="right", fontsize=8)
    axes.set_yticks(range(len(actions)), actions, fontsize=8)
    axes.set_xlabel("chosen (numbers: held-out rows; colours: shares of each line)", fontsize=9)
    axes.set_ylabel("best", fontsize=9)
    return _png(figure, grid=False)


def draw_scenes(result: PolicyFitResult) -> bytes:
    """Return mean regret by held-out scene, of the policy and of the best fixed action; the worst 40 scenes."""
    rows = result.heldout
    ranking = rank_actions(result.training)
    ours = regrets(
        rows.gains, rows.feasible, choices(result.policy.batch_values(rows.features), rows.feasible)
    )
    fixed = regrets(rows.gains, rows.feasible, ranking.choose(rows.feasible, ranking.best))
    present, index = np.unique(rows.scenes, return_inverse=True)
    count = np.bincount(index)
    means = [np.bincount(index, weights=column) / count for column in (ours, fixed)]
    order = np.argsort(means[0])[::-1][:_MOST_SCENES][::-1]
    figure = _figure(7.5, 1.7 + 0.24 * len(order))
    axes = figure.subplots()
    places = np.arange(len(order))
    best = _short(rows.catalogue.ids[ranking.best])
    axes.barh(places, means[0][order], color=_BLUE, height=0.6, label="policy")
    axes.plot(means[1][order], places, "d", color=_RED, markersize=5, label=f"always {best}", clip_on=False)
    axes.set_yticks(places, [_short(rows.scene_ids[present[scene]]) for scene in order], fontsize=8)
    axes.set_xlabel("mean regret")
    axes.set_xlim(left=0.0)
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    return _png(figure)


def draw_pareto(points: tuple[ParetoPoint, ...]) -> bytes:
    """Return held-out regret against mean cost: the fits of the sweep with their weights, fixed actions, the oracle.

    The picture is as large as fits, front and oracle need; fixed actions beyond it are named below.
    """
    lines = join_equal(points)
    near = [line for line in lines if line.weights or line.on_front or ORACLE in line.others]
    far = [line for line in lines if line not in near and not _within(line, near)]
    shown = [line for line in lines if line not in far]
    figure = _figure(7.5, 4.8)
    axes = figure.subplots()
    front = sorted((line for line in lines if line.on_front), key=lambda line: line.mean_cost)
    place = ([line.mean_cost for line in front], [line.regret for line in front])
    axes.plot(*place, color="black", linewidth=1.0, linestyle="--", drawstyle="steps-post", label="front")
    for name, marker, colour in (
        ("fit, by cost weight", "o", _BLUE),
        ("fixed action", "s", _GREY),
        ("oracle", "*", _RED),
    ):
        if not (group := [line for line in shown if _kind(line) == name]):
            continue
        axes.scatter(
            [line.mean_cost for line in group],
            [line.regret for line in group],
            marker=marker,
            color=colour,
            s=45,
            label=name,
            zorder=3,
        )
    beyond = ", ".join(
        f"{_short(line.label, 30)} ({line.mean_cost:.5g}, {line.regret:.5g})" for line in far[:4]
    )
    more = f" and {len(far) - 4} more" if len(far) > 4 else ""
    note = f"beyond the picture: {beyond}{more}" if far else ""
    axes.set_xlabel("\n".join(["mean cost", *wrap(note, 100)]), fontsize=9)
    axes.set_ylabel("mean regret on held-out rows", fontsize=9)
    axes.margins(0.12)
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    _label(
        figure, axes, sorted(shown, key=lambda line: (not line.on_front, not line.weights, line.mean_cost))
    )
    return _png(figure)


def _kind(line: ParetoLine) -> str:
    if line.weights:
        return "fit, by cost weight"
    return "oracle" if ORACLE in line.others else "fixed action"


def _within(line: ParetoLine, near: Sequence[ParetoLine]) -> bool:
    """Return whether `line` lies so close to `near` that the picture need not grow much to show it."""
    costs, highest = [other.mean_cost for other in near], max(other.regret for other in near)
    spare = 0.25 * (max(costs) - min(costs))
    return line.regret <= 1.25 * highest and min(costs) - spare <= line.mean_cost <= max(costs) + spare


def _label(figure: Any, axes: Any, lines: Sequence[ParetoLine]) -> None:
    """Write the label of each line beside its mark, none over another, the first ones nearest to theirs."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    figure.draw_without_rendering()  # only now is it known where marks are
    marks = axes.transData.transform([(line.mean_cost, line.regret) for line in lines])
    taken = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in marks]
    frame, canvas = axes.get_window_extent(), cast(Any, FigureCanvasAgg(figure))
    for line, mark in zip(lines, marks, strict=True):
        label = axes.annotate(
            _short(line.label.removeprefix("weight ").removeprefix("always "), 40),
            (line.mean_cost, line.regret),
            (0.0, 0.0),
            textcoords="offset points",
            fontsize=8,
            arrowprops={"arrowstyle": "-", "color": _GREY, "linewidth": 0.6, "shrinkB": 3},
        )
        label.set_in_layout(False)
        for away, angle in product(_AWAY, _AROUND):
            x, y = away * math.cos(angle), away * math.sin(angle)
            label.set(position=(x, y), ha="left" if x > 0 else "right", va="bottom" if y > 0 else "top")
            label.arrow_patch.set_visible(away > _AWAY[0])
            label.update_positions(canvas.get_renderer())
            box = Text.get_window_extent(label)  # an annotation's own has the line to its mark in it
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            own = away > _AWAY[0] or _apart(box, mark) <= min(_apart(box, other) for other in marks)
            if inside and own and not box.count_overlaps(taken):
                break
        taken.append(Text.get_window_extent(label))


def _apart(box: Any, mark: NDArray[np.float64]) -> float:
    """Return how far a mark, [2], lies from the nearest point of a box."""
    return math.hypot(*np.maximum(0.0, np.maximum(box.min - mark, mark - box.max)))


def _figure(width: float, height: float) -> Any:
    check_can_draw()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _png(figure: Any, *, grid: bool = True) -> bytes:
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        if grid:
            axes.grid(axis="x", color=_LIGHT, linewidth=0.6)
            axes.set_axisbelow(True)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()


def _short(text: str, most: int = 36) -> str:
    """Return a name from the data as a label: not too long, and its dollar signs no formulas."""
    return _cut(text, most).replace("$", r"\$")


def _on_lines(text: str) -> str:
    """Return a name from the data as a title of a narrow panel, broken after hyphens and underscores."""
    return "\n".join(_short(line.replace("_ ", "_")) for line in wrap(_cut(text, 56).replace("_", "_ "), 30))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"…{text[1 - most :]}"

"""The pictures of a fit, as PNG bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from typing import Any

import numpy as np

from steersman.errors import MissingExtraError
from steersman.training.baselines import rank_actions
from steersman.training.evidence import ORACLE, Evidence
from steersman.training.fit import PolicyFitResult
from steersman.training.learners import predicts_gains
from steersman.training.metrics import choices, regrets
from steersman.training.pareto import ParetoPoint

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
_LABEL_WIDTH, _LABEL_HEIGHT = 0.1, 0.06  # shares of the picture that a label takes


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
    """Return predicted against true gain on held-out rows, a panel for each action."""
    rows = result.heldout
    values = result.policy.batch_values(rows.features)
    label = "value"
    if predicts_gains(result.settings):
        values, label = values * result.target_scale + result.target_mean, "predicted"
    actions = rows.catalogue.ids
    columns = min(4, len(actions))
    lines = math.ceil(len(actions) / columns)
    figure = _figure(7.5, 0.5 + 2.0 * lines)
    panels = np.atleast_1d(figure.subplots(lines, columns, squeeze=False)).ravel()
    for panel in panels[len(actions) :]:
        panel.set_axis_off()
    for position, action in enumerate(actions):
        panel, shown = panels[position], np.flatnonzero(rows.feasible[:, position])
        shown = shown[:: max(1, len(shown) // _MOST_POINTS)]
        true, predicted = rows.gains[shown, position], values[shown, position]
        panel.scatter(true, predicted, s=6, color=_BLUE, alpha=0.45, linewidths=0)
        if label == "predicted" and len(shown):
            ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
            panel.plot(ends, ends, color=_GREY, linewidth=0.8)
        panel.set_title(_short(action, 20), fontsize=8)
        panel.tick_params(labelsize=7)
    figure.supxlabel("true advantage" if not result.cost_weight else "true advantage less costs", fontsize=9)
    figure.supylabel(label, fontsize=9)
    return _png(figure)


def draw_confusion(result: PolicyFitResult) -> bytes:
    """Return how often each action was chosen where each was best: shares of held-out rows by best action.

    Where several are best within the tie tolerance, the chosen one among them counts as the best.
    """
    rows = result.heldout
    chosen = choices(result.policy.batch_values(rows.features), rows.feasible)
    tied = regrets(rows.gains, rows.feasible, chosen) <= result.settings.tie_tolerance
    best = np.where(tied, chosen, choices(rows.gains, rows.feasible))
    actions = [_short(action) for action in rows.catalogue.ids]
    counts = np.zeros((len(actions), len(actions)))
    np.add.at(counts, (best, chosen), 1.0)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    size = 2.4 + 0.55 * len(actions)
    figure = _figure(max(4.2, size + 0.8), max(3.2, size))
    axes = figure.subplots()
    axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    for row in range(len(actions)):
        for column in range(len(actions)):
            if counts[row, column]:
                dark = shares[row, column] > 0.55
                text = f"{counts[row, column]:.0f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=8, color="w" if dark else "k")
    axes.set_xticks(range(len(actions)), actions, rotation=45, ha="right", fontsize=8)
    axes.set_yticks(range(len(actions)), actions, fontsize=8)
    axes.set_xlabel("chosen")
    axes.set_ylabel("best")
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
    """Return held-out regret against mean cost: the fits of the sweep, the fixed actions and the oracle."""
    figure = _figure(7.5, 4.2)
    axes = figure.subplots()
    fitted = [point for point in points if point.weight is not None]
    fixed = [point for point in points if point.name.startswith("fixed:")]
    oracle = [point for point in points if point.name == ORACLE]
    front = sorted((point for point in points if point.on_front), key=lambda point: point.mean_cost)
    axes.plot(
        [point.mean_cost for point in front],
        [point.regret for point in front],
        color=_LIGHT,
        linewidth=4,
        zorder=0,
        label="front",
    )
    for group, marker, colour, name in (
        (fitted, "o", _BLUE, "fit, by cost weight"),
        (fixed, "s", _GREY, "fixed action"),
        (oracle, "*", _RED, "oracle"),
    ):
        axes.scatter(
            [point.mean_cost for point in group],
            [point.regret for point in group],
            marker=marker,
            color=colour,
            s=45,
            label=name,
        )
    axes.set_xlabel("mean cost")
    axes.set_ylabel("mean regret on held-out rows")
    axes.margins(x=0.08)
    axes.set_ylim(bottom=-0.03 * max(point.regret for point in points))
    _label(axes, [*oracle, *fixed, *fitted])
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, frameon=False)
    return _png(figure)


def _label(axes: Any, points: Sequence[ParetoPoint]) -> None:
    """Write names and weights beside `points`, the first ones first, but none over another; the table has all."""
    taken: list[tuple[float, float]] = []  # places in shares of the picture
    to_share = axes.transData + axes.transAxes.inverted()
    for point in points:
        x, y = to_share.transform((point.mean_cost, point.regret)).tolist()
        if any(abs(x - left) < _LABEL_WIDTH and abs(y - low) < _LABEL_HEIGHT for left, low in taken):
            continue
        taken.append((x, y))
        text = (
            f"{point.weight:.2g}"
            if point.weight is not None
            else _short(point.name.removeprefix("fixed:"), 14)
        )
        place = (point.mean_cost, point.regret)
        axes.annotate(text, place, textcoords="offset points", xytext=(6, 5), fontsize=8)


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
    shown = text if len(text) <= most else f"…{text[1 - most :]}"
    return shown.replace("$", r"\$")

"""The learning curves of a tournament, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steersman.errors import MissingExtraError
from steersman.integrations.negmas.results import (
    CompanyResult,
    NewcomerResult,
    TournamentResult,
    fifth,
    moving_mean,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["check_can_draw", "draw_curves"]

_HEIGHT = 4.2  # inches
_LINES = {"learned, greedily": "tab:blue", "best single card": "tab:orange", "uniform choice": "tab:grey"}


def check_can_draw() -> None:
    """Raise MissingExtraError when matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("plots", purpose="drawing learning curves")


def draw_curves(result: TournamentResult, path: Path) -> None:
    """Write a PNG: a panel for each company, and one for the newcomer. Raises MissingExtraError."""
    check_can_draw()
    from matplotlib.figure import Figure

    panels = len(result.companies) + 1
    figure = Figure(figsize=(_HEIGHT * panels, _HEIGHT * 1.25), layout="constrained")
    axes: Sequence[Any] = figure.subplots(1, panels, sharey=True)
    for place, company in zip(axes, result.companies, strict=False):
        _draw_company(place, company)
    _draw_newcomer(axes[-1], result.newcomer)
    axes[0].set_ylabel("outcome: 0 walking away, 1 best")
    figure.savefig(path, format="png", dpi=120)


def _draw_company(place: Axes, company: CompanyResult) -> None:
    _draw_curve(place, company.outcomes, "while learning", "tab:blue")
    best = company.cards[company.best_card]
    for (label, colour), level in zip(_LINES.items(), (company.learned, best, company.uniform), strict=True):
        place.axhline(level, label=f"{label} (fresh)", color=colour, linestyle="--", linewidth=1)
    _finish(place, f"{company.name}: best card {company.best_card}")


def _draw_newcomer(place: Axes, newcomer: NewcomerResult) -> None:
    _draw_curve(place, newcomer.warm, "started from the base", "tab:red")
    _draw_curve(place, newcomer.cold, "started empty", "tab:blue")
    _draw_curve(place, newcomer.usual, "usual card, same negotiations", "tab:orange")
    _finish(place, f"{newcomer.name}: warm and cold")


def _draw_curve(place: Axes, outcomes: Sequence[float], label: str, colour: str) -> None:
    window = max(1, fifth(outcomes) // 2)
    means = moving_mean(outcomes, window=window)
    place.plot(range(window, window + len(means)), means, label=f"{label} (mean of {window})", color=colour)


def _finish(place: Axes, title: str) -> None:
    place.set_title(title)
    place.set_xlabel("negotiations")
    place.legend(fontsize="x-small", loc="upper center", bbox_to_anchor=(0.5, -0.16))

"""The pictures of a fit: they are drawn, whatever the names and the numbers; how they look is for people."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from itertools import combinations

import numpy as np
import pytest

from steersman.domain.catalogue import ActionCatalogue
from tests.support.teaching import draw_examples, draw_rows

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from PIL import Image

from steersman.training import plots
from steersman.training.examples import Examples
from steersman.training.fit import PolicyFitResult, fit_action_policy
from steersman.training.learners import fit_decided
from steersman.training.pareto import ParetoPoint, join_equal, mark_front
from steersman.training.plots import draw_confusion, draw_pareto, draw_predictions, draw_scenes
from steersman.training.settings import FitSettings

PAGE = 975  # pixels that 7.5 inches of a page have


def result_of(examples: Examples, **settings: object) -> PolicyFitResult:
    """A result whose policy was fitted to `examples` and is looked at on the same."""
    decided = FitSettings(**({"epochs": 2} | settings))  # type: ignore[arg-type]
    whole = fit_action_policy(draw_rows(scenes=3, rows=2), epochs=1)
    policy = fit_decided(examples, decided).policy
    return replace(whole, policy=policy, settings=decided, training=examples, heldout=examples)


def named(examples: Examples, names: list[str]) -> Examples:
    return replace(examples, catalogue=ActionCatalogue.of(names))


def heavy_tailed(examples: Examples) -> Examples:
    return replace(examples, gains=np.sinh(6.0 * examples.gains))


def nowhere_feasible(examples: Examples) -> Examples:
    """The first action may be played in no row."""
    feasible = examples.feasible.copy()
    feasible[:, 0], feasible[:, 1] = False, True
    return replace(examples, feasible=feasible)


FEW = ["a_$x$", "$", "[b]", "é"]
MANY = [f"minisathack_solver_with_a_long_name_{number}_2011-03-02_fixed_" for number in range(18)]
CASES = {
    "one action": named(draw_examples(actions=1, masked=0.0), ["only"]),
    "few": named(draw_examples(actions=4), FEW),
    "many, with heavy tails": heavy_tailed(named(draw_examples(actions=18), MANY)),
    "one that never may": nowhere_feasible(draw_examples(actions=3)),
    "equal gains": replace(draw_examples(actions=3), gains=np.zeros((120, 3))),
    "one row": draw_examples(scenes=1, rows=1),
}


@pytest.mark.parametrize("loss", ["squared", "mixed"])
@pytest.mark.parametrize("case", CASES)
def test_choices_are_drawn_whatever_the_rows(case: str, loss: str) -> None:
    result = result_of(CASES[case], loss=loss)
    for draw in (draw_predictions, draw_confusion, draw_scenes):
        with Image.open(BytesIO(draw(result))) as picture:
            assert picture.format == "PNG"
            assert picture.width <= PAGE, "wider than the page, so that its letters would shrink"


def point(name: str, weight: float | None, regret: float, cost: float) -> ParetoPoint:
    return ParetoPoint(name, weight, regret, cost)


@pytest.mark.parametrize(
    "points",
    [
        [point("weight 0", 0.0, 0.0, 0.0), point("oracle", None, 0.0, 0.0)],
        [
            *(point(f"weight {w}", float(w), 1.0 + w / 1e3, 0.2 - w / 1e4) for w in range(8)),
            *(point(f"fixed:{name}", None, 80.0 + place, 5.0) for place, name in enumerate(MANY)),
            point("oracle", None, 0.0, 0.1),
        ],
    ],
    ids=["all in one place", "all fits close together and fixed actions far away"],
)
def test_a_sweep_is_drawn_wherever_its_points_lie(points: list[ParetoPoint]) -> None:
    with Image.open(BytesIO(draw_pareto(mark_front(points)))) as picture:
        assert (picture.format, picture.width) == ("PNG", PAGE)


def test_no_weight_is_written_over_another() -> None:
    crowd = [point(f"weight {w}", float(w), 1.0 + w / 30, 0.2 - w / 1e3) for w in range(8)]
    lines = join_equal([*crowd, point("fixed:a", None, 0.0, 1.0), point("fixed:b", None, 9.0, 0.0)])
    figure = Figure(figsize=(7.5, 4.8), dpi=100)
    axes = figure.subplots()
    axes.scatter([line.mean_cost for line in lines], [line.regret for line in lines])
    plots._label(figure, axes, lines)
    figure.savefig(BytesIO(), format="png", dpi=100)
    labels = [text for text in axes.texts if isinstance(text, Annotation)]
    assert [label.get_text() for label in labels] == [*map(str, range(8)), "a", "b"]
    boxes = [Text.get_window_extent(label) for label in labels]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_ranks_by_hand() -> None:
    np.testing.assert_allclose(
        plots._rank_shares(np.array([3.0, 1.0, 1.0, 9.0])), [2 / 3, 0.5 / 3, 0.5 / 3, 1.0]
    )
    np.testing.assert_allclose(plots._rank_shares(np.array([7.0])), [0.0])


@pytest.mark.parametrize(("scale", "expected"), [(6.0, "symlog"), (0.1, "linear")])
def test_heavy_tails_get_other_axes(scale: float, expected: str) -> None:
    axes = Figure().subplots()
    axes.plot([-1.0, 1.0], [-1.0, 1.0])
    said = plots._scale_axes(axes, np.sinh(scale * np.linspace(-2.0, 2.0, 41)))
    assert axes.get_xscale() == axes.get_yscale() == expected
    assert bool(said) == (expected == "symlog")

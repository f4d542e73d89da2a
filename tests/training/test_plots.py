"""The pictures of a fit: they are drawn, whatever the names and the numbers; how they look is for people."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest

from steersman.domain.catalogue import ActionCatalogue
from tests.support.teaching import draw_examples, draw_rows

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from PIL import Image

from steersman.training.examples import Examples
from steersman.training.fit import PolicyFitResult, fit_action_policy
from steersman.training.learners import fit_decided
from steersman.training.pareto import ParetoPoint, mark_front
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

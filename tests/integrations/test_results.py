"""Figures of a tournament, on outcomes small enough to work by hand."""

from __future__ import annotations

import pytest

from steersman.integrations.negmas.results import (
    CompanyResult,
    NewcomerResult,
    moving_mean,
    negotiations_to_reach,
)


def test_fifths_and_gain() -> None:
    outcomes = (0.0, 0.2, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.6, 1.0)
    company = CompanyResult("acme", outcomes, learned=0.75, cards={"hold": 0.25, "linear": 0.5}, uniform=0.4)
    assert company.first_fifth == pytest.approx(0.1)
    assert company.last_fifth == pytest.approx(0.8)
    assert company.best_card == "linear"
    assert company.gain == pytest.approx(0.25)


def test_moving_mean() -> None:
    assert moving_mean([1.0, 3.0, 5.0, 1.0], window=2) == [2.0, 4.0, 3.0]
    assert negotiations_to_reach(4.0, [1.0, 3.0, 5.0, 1.0], window=2) == 3
    assert negotiations_to_reach(4.5, [1.0, 3.0, 5.0, 1.0], window=2) is None


def test_curves_are_held_against_the_usual_card() -> None:
    # Windows of 2 of 10. The cold start ends 0.25 above the usual card. The warm start is that far above it in its
    # second and third negotiation, though these are so hard that the outcomes themselves are low.
    usual = (0.5, 0.0, 0.0, *(0.5,) * 7)
    warm = (0.5, 0.25, 0.25, *(0.75,) * 7)
    cold = (*(0.25,) * 8, 0.75, 0.75)
    newcomer = NewcomerResult("acme", warm, cold, usual)
    assert newcomer.warm_gain[:3] == [0.0, 0.25, 0.25]
    assert newcomer.reached_after == 3

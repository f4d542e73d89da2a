"""Replaying one logged decision from the row that it saw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any

from steersman.domain.records import Decision, PolicyVersion
from steersman.policies.arithmetic import draw_uniform
from steersman.policies.tabular import choose_in_row
from steersman.usecases.findings import Mismatch

__all__ = ["replay_mismatches", "row_mismatches"]


def row_mismatches(decision: Decision, version: PolicyVersion) -> Iterator[Mismatch]:
    """Yield what cannot be of the row that a decision of `version` saw: it can be replayed only if nothing is."""
    position = version.actions.position
    places = [position.get(action, -1) for action in decision.feasible]
    if not places or places[0] < 0 or any(a >= b for a, b in pairwise(places)):
        yield "feasible", list(decision.feasible), "actions of the version, in its order"
    if decision.action not in decision.feasible:
        yield "action", decision.action, list(decision.feasible)
    if not 0 <= decision.state < version.states.size:
        yield "state", decision.state, f"0 to {version.states.size - 1}"
    seen = decision.seen
    columns: tuple[tuple[str, Sequence[Any], bool], ...] = (
        ("q", seen.q, False),
        ("visits", seen.visits, True),
        ("updates", seen.updates, True),
        ("borrowed", seen.borrowed, False),
    )
    for name, column, counts in columns:
        plausible = len(column) == len(places) and all(
            (type(value) is int or not counts) and isfinite(value) and (name == "q" or value >= 0)
            for value in column
        )
        if not plausible:
            yield f"seen.{name}", list(column), f"{len(places)} {'counts' if counts else 'numbers'}"


def replay_mismatches(decision: Decision, version: PolicyVersion, secret: bytes) -> Iterator[Mismatch]:
    """Yield how a logged choice differs from the one that the row as seen, the settings and the secret lead to.

    The row must be free of `row_mismatches`.
    """
    settings = version.settings
    epsilon = settings.epsilon if decision.explore else 0.0
    if decision.epsilon != epsilon:
        yield "epsilon", decision.epsilon, epsilon
    if decision.c != settings.c:
        yield "c", decision.c, settings.c
    draw = draw_uniform(secret, decision.decision_id)
    choice = choose_in_row(decision.seen, settings, draw, explore=decision.explore)
    action = decision.feasible[choice.position]
    if decision.action != action:
        yield "action", decision.action, action
    if decision.propensity != choice.propensity:
        yield "propensity", decision.propensity, choice.propensity
    if decision.explored != choice.explored:
        yield "explored", decision.explored, choice.explored

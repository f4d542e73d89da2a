"""One small policy of every kind, with observations to ask it about; the last is one that it knows nothing of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.settings import PolicySettings, Prior
from steersman.policies.base import Policy
from steersman.policies.fixed import FixedActionPolicy, SeededRandomPolicy, ThresholdPolicy
from steersman.policies.tabular import UCBQTablePolicy
from tests.support.fitted import CATALOGUE, NULLABLE_SCHEMA, SCHEMA, forest, mlp, ranking

__all__ = ["CARDS", "EXAMPLES", "learned_table"]

CARDS = ActionCatalogue.of(["hold", "trade", "concede", "walk"])
VECTORS = [np.array([0.5, -1.25, 1.0]), np.array([2.0, 0.0, 0.0]), np.array([-7.0, 3.5, 1.0])]
WITH_MISSING = [*VECTORS, np.array([1.0, np.nan, 0.0])]


def learned_table(settings: PolicySettings | None = None) -> UCBQTablePolicy:
    """A table that learned in states 0 and 1: in 1 only some actions were tried. State 9 is new."""
    policy = UCBQTablePolicy(CARDS, settings or PolicySettings())
    for number in range(60):
        choice = policy.decide(b"secret", f"example {number}", 0, [0, 1, 2, 3])
        policy.learn(0, choice.position, [0.25, 1.0, 0.5, 0.0][choice.position])
    policy.decide(b"secret", "once", 1, [0, 2])
    return policy


def _with_priors() -> UCBQTablePolicy:
    """A table that opens with the same prior for every action, and learned in state 0."""
    priors = tuple((action, Prior(0.75, 2.5)) for action in CARDS.ids)
    policy = UCBQTablePolicy(CARDS, PolicySettings(alpha=0.2, epsilon=0.25, priors=priors))
    policy.decide(b"secret", "once", 0, [0, 1, 2, 3])
    policy.learn(0, 2, 1.0)
    return policy


EXAMPLES: dict[str, list[tuple[Callable[[], Policy], list[Any]]]] = {
    "ucb_q_table": [
        (learned_table, [0, 1, 9]),
        (lambda: learned_table(PolicySettings(alpha=0.5, epsilon=0.0, c=0.5)), [0, 1, 9]),
        (lambda: UCBQTablePolicy(CARDS, PolicySettings(epsilon=1.0)), [0, 9]),
        (_with_priors, [0, 9]),
        (lambda: UCBQTablePolicy(ActionCatalogue.of(range(25)), PolicySettings()), [9]),
        (lambda: UCBQTablePolicy(ActionCatalogue.of(["alone"]), PolicySettings()), [9]),
    ],
    "action_value_mlp": [(mlp, VECTORS), (lambda: mlp(NULLABLE_SCHEMA), WITH_MISSING)],
    "action_value_forest": [(forest, VECTORS), (lambda: forest(NULLABLE_SCHEMA), WITH_MISSING)],
    "fixed_ranking": [(ranking, VECTORS)],
    "fixed_action": [(lambda: FixedActionPolicy(CARDS, "concede"), [0, 1, np.array([1.0])])],
    "threshold": [
        (lambda: ThresholdPolicy(CATALOGUE, SCHEMA, "gap", (0.0, 1.0), ("yield", "hold", "push")), VECTORS),
    ],
    "seeded_random": [(lambda: SeededRandomPolicy(CARDS, 7), [0, np.array([1.0])])],
}
"""By the name of the kind; `tests/policies/test_contract.py` runs every check on each."""

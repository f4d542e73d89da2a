"""What a fit is asked to do, checked once."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from steersman.errors import InvalidInputError
from steersman.policies.action_value import MAX_HIDDEN

__all__ = ["INPUTS", "LEARNERS", "LOSS_NAMES", "FitSettings"]

LEARNERS = ("mlp", "forest", "auto")
INPUTS = ("plain", "ranked")
LOSS_NAMES = ("squared", "log", "rank", "mixed", "pairwise")
_MAX_INTEGER = 2**31 - 1
_MAX_SEED = 2**63 - 1
_MAX_UNITS = MAX_HIDDEN // 15  # a search plays at least 5 seeds, and a mixed loss has 3 networks of each


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSettings:
    """The hyper-parameters of a fit. Raises InvalidInputError for one that is outside its bounds.

    `loss`: the squared error of the gains, of their log shortfalls, or of their ranks within a row; `mixed`, the
    mean of learners of all three; or a cost-weighted pairwise ranking of the actions. It holds for both learners,
    and only with `squared` do values estimate gains. `inputs`: of a network, the features as they are, or the normal
    scores of their ranks beside them, for features with long tails. `learner`: the multi-layer perceptron, the
    forest, or whichever does better on inner folds. `search` chooses the other settings on inner folds,
    `early_stopping` the number of epochs.
    """

    learner: str = "mlp"
    loss: str = "squared"
    inputs: str = "plain"
    hidden_dim: int = 32
    epochs: int = 100
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    seed: int = 0
    device: str = "cpu"
    ensemble: int = 1
    early_stopping: bool = False
    search: bool = False
    trees: int = 300  # of a forest; for a pairwise one, of all pairs together at least so many
    min_leaf: int = 2  # rows in a leaf of a forest
    tie_tolerance: float = 1e-4

    def __post_init__(self) -> None:
        """Check the bounds."""
        for name, least, most in (
            ("hidden_dim", 1, _MAX_INTEGER),
            ("epochs", 1, _MAX_INTEGER),
            ("ensemble", 1, 1000),
            ("seed", 0, _MAX_SEED),
            ("trees", 1, _MAX_INTEGER),
            ("min_leaf", 1, _MAX_INTEGER),
        ):
            _check_integer(name, getattr(self, name), least, most)
        for name in ("learning_rate", "weight_decay", "tie_tolerance"):
            value = (
                _number(name, getattr(self, name)) + 0.0
            )  # -0.0, 0 and 0.0 are the same, and are kept the same
            if value < 0.0 or (name == "learning_rate" and value == 0.0):
                bound = "above 0" if name == "learning_rate" else "of at least 0"
                raise InvalidInputError(f"{name}: expected a number {bound}, got {value}")
            object.__setattr__(self, name, value)
        if self.hidden_dim * self.ensemble > _MAX_UNITS:
            raise InvalidInputError(
                f"hidden_dim: expected at most {_MAX_UNITS:,} units in all networks of an ensemble, "
                f"got {self.hidden_dim:,} in each of {self.ensemble}"
            )
        for name in ("early_stopping", "search"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInputError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        for name, known in (("learner", LEARNERS), ("loss", LOSS_NAMES), ("inputs", INPUTS)):
            if getattr(self, name) not in known:
                raise InvalidInputError(f"{name}: expected one of {list(known)}, got {getattr(self, name)!r}")
        if not isinstance(self.device, str):
            raise InvalidInputError(f"device: expected a name such as cpu, got {self.device!r}")
        if self.learner == "forest" and self.device != "cpu":
            raise InvalidInputError(
                f"device: expected cpu with the learner forest, which is grown there, got {self.device!r}"
            )
        if self.search and self.early_stopping:
            raise InvalidInputError(
                "search and early_stopping: expected one of them, as the search chooses the number of epochs too"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON."""
        return asdict(self)


def _check_integer(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInputError(f"{name}: expected an integer from {least} to {most}, got {value!r}")


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidInputError(f"{name}: expected a finite number, got {value!r}")
    return float(value)

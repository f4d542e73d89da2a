"""What a policy is tuned by, and what a tenant declares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.identifiers import check_finite, check_name, check_text
from steersman.domain.states import StateSpace
from steersman.errors import InvalidSpecError

__all__ = ["LARGEST_WEIGHT", "LEAST_WEIGHT", "PolicySettings", "Prior", "TenantSpec"]

_check_finite = partial(check_finite, error=InvalidSpecError)
_check_name = partial(check_name, error=InvalidSpecError)

# No sum of rewards within these bounds leaves the range of a float.
_LARGEST = 1e100
# Evidence beyond these bounds would drown all that is learned, or make its bonus infinite.
LEAST_WEIGHT, LARGEST_WEIGHT = 1e-6, 1e12
_LONGEST_WAIT = 1e9  # seconds


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of an action before any evidence: a value and the weight it counts with."""

    q: float
    weight: float


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The learning and exploration settings of a version; a change of any makes a new version.

    Raises InvalidSpecError when one is outside its bounds.
    """

    alpha: float | None = None  # step size in (0, 1]; None for 1/n
    gamma: float = 1.0  # discount in [0, 1]
    lam: float = 0.0  # trace decay in [0, 1]
    c: float = math.sqrt(2.0)  # exploration constant, >= 0
    epsilon: float = 0.1  # share of uniform choice in [0, 1]
    reward_low: float = 0.0
    reward_high: float = 1.0
    priors: tuple[tuple[str, Prior], ...] = ()  # by action id

    def __post_init__(self) -> None:
        """Check the bounds."""
        if self.alpha is not None:
            _bounded(self.alpha, "learning.alpha", 0.0, 1.0, above=True)
        _bounded(self.gamma, "learning.gamma", 0.0, 1.0)
        _bounded(self.lam, "learning.lambda", 0.0, 1.0)
        _bounded(self.c, "exploration.c", 0.0, 1e6)
        _bounded(self.epsilon, "exploration.epsilon", 0.0, 1.0)
        low = _bounded(self.reward_low, "reward_range[0]", -_LARGEST, _LARGEST)
        high = _bounded(self.reward_high, "reward_range[1]", -_LARGEST, _LARGEST)
        if not low < high:
            raise InvalidSpecError(f"reward_range: expected [low, high] with low < high, got [{low}, {high}]")
        for action, prior in self.priors:
            _bounded(prior.q, f"priors.{action}.q", -_LARGEST, _LARGEST)
            _check_weight(prior.weight, f"priors.{action}.weight")

    @property
    def width(self) -> float:
        """The width of the reward range, w."""
        return self.reward_high - self.reward_low

    def speaks_of_the_same(self, other: PolicySettings) -> bool:
        """Return whether a value means the same under both: not where the reward ranges differ."""
        return (self.reward_low, self.reward_high) == (other.reward_low, other.reward_high)

    @property
    def prior_of(self) -> dict[str, Prior]:
        """The priors by action id."""
        return dict(self.priors)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON, in the form that a declaration has."""
        return {
            "learning": {
                "alpha": self.alpha if self.alpha is not None else "1/n",
                "gamma": self.gamma,
                "lambda": self.lam,
            },
            "exploration": {"c": self.c, "epsilon": self.epsilon},
            "reward_range": [self.reward_low, self.reward_high],
            "priors": {action: {"q": prior.q, "weight": prior.weight} for action, prior in self.priors},
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> PolicySettings:
        """Read what `to_json` writes; each part may be missing. Raises InvalidSpecError, naming the place."""
        learning = _section(body, "learning", {"alpha", "gamma", "lambda"})
        exploration = _section(body, "exploration", {"c", "epsilon"})
        bounds = body.get("reward_range", [0.0, 1.0])
        if not isinstance(bounds, Sequence) or isinstance(bounds, str) or len(bounds) != 2:
            raise InvalidSpecError(f"reward_range: expected [low, high], got {bounds!r}")
        priors = _section(body, "priors", None)
        alpha = learning.get("alpha", "1/n")
        number = {"gamma": 1.0, "lambda": 0.0, "c": math.sqrt(2.0), "epsilon": 0.1}
        stated = {**learning, **exploration}
        given = {name: _check_finite(stated.get(name, value), what=name) for name, value in number.items()}
        return cls(
            alpha=None if alpha == "1/n" else _check_finite(alpha, what="learning.alpha ('1/n' or a number)"),
            gamma=given["gamma"],
            lam=given["lambda"],
            c=given["c"],
            epsilon=given["epsilon"],
            reward_low=_check_finite(bounds[0], what="reward_range[0]"),
            reward_high=_check_finite(bounds[1], what="reward_range[1]"),
            priors=tuple(
                (str(action), _prior_from_json(str(action), item)) for action, item in priors.items()
            ),
        )


@dataclass(frozen=True, slots=True)
class TenantSpec:
    """What a tenant (or a base) declares. Raises InvalidSpecError when parts contradict each other."""

    actions: ActionCatalogue
    labels: tuple[str, ...]  # [A] str, for people
    states: StateSpace
    settings: PolicySettings = field(default_factory=PolicySettings)
    base: str | None = None
    contributes: bool = False
    borrow_cap: float = 20.0  # evidence that a cell may borrow from the base
    reward_wait: float | None = None  # seconds
    default_reward: float | None = None

    def __post_init__(self) -> None:
        """Check how the parts go together."""
        for index, label in enumerate(self.labels):
            check_text(label, what=f"actions[{index}].label", at_most=200)
        if len(self.labels) != len(self.actions):
            raise InvalidSpecError(f"labels: expected {len(self.actions)}, got {len(self.labels)}")
        unknown = [action for action, _ in self.settings.priors if action not in self.actions.position]
        if unknown:
            raise InvalidSpecError(f"priors: expected ids of the catalogue, got {unknown}")
        if self.base is not None:
            _check_name(self.base, what="base")
        _check_weight(self.borrow_cap, "borrow_cap")
        if self.contributes and self.base is None:
            raise InvalidSpecError("contributes: expected a base to contribute to, but no base is named")
        if (self.reward_wait is None) != (self.default_reward is None):
            raise InvalidSpecError("reward_wait and default_reward: expected both or neither")
        if self.reward_wait is not None:
            _bounded(self.reward_wait, "reward_wait", 0.0, _LONGEST_WAIT)
        if self.default_reward is not None:
            low, high = self.settings.reward_low, self.settings.reward_high
            if not low <= _check_finite(self.default_reward, what="default_reward") <= high:
                raise InvalidSpecError(
                    f"default_reward: expected {low} to {high}, the reward range; got {self.default_reward}"
                )

    def label_of(self, action: str) -> str:
        """Return the label of an action id; the id itself when it is not in the catalogue."""
        position = self.actions.position.get(action)
        return action if position is None else self.labels[position]

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as JSON."""
        pairs = zip(self.actions.ids, self.labels, strict=True)
        return {
            "actions": [{"id": action, "label": label} for action, label in pairs],
            "states": self.states.to_json(),
            **self.settings.to_json(),
            "base": self.base,
            "contributes": self.contributes,
            "borrow_cap": self.borrow_cap,
            "reward_wait": self.reward_wait,
            "default_reward": self.default_reward,
        }

    @classmethod
    def from_json(cls, body: object) -> TenantSpec:
        """Read a declaration; only `actions` and `states` are required.

        `actions` is a list of ids, a list of `{id, label}`, or a mapping of id to label.
        Raises InvalidSpecError, naming the place and what was expected.
        """
        known = {
            "actions",
            "states",
            "learning",
            "exploration",
            "reward_range",
            "priors",
            "base",
            "contributes",
            "borrow_cap",
            "reward_wait",
            "default_reward",
        }
        if not isinstance(body, Mapping):
            raise InvalidSpecError(f"expected a mapping with {sorted(known)}, got {body!r}")
        missing, unexpected = sorted({"actions", "states"} - set(body)), sorted(map(str, set(body) - known))
        if missing or unexpected:
            raise InvalidSpecError(f"missing {missing}, unexpected {unexpected}; expected {sorted(known)}")
        ids, labels = _actions_from_json(body["actions"])
        contributes = body.get("contributes", False)
        if not isinstance(contributes, bool):
            raise InvalidSpecError(f"contributes: expected true or false, got {contributes!r}")
        wait, default = body.get("reward_wait"), body.get("default_reward")
        base = body.get("base")
        return cls(
            actions=ActionCatalogue.of(ids),
            labels=tuple(labels),
            states=StateSpace.from_json(body["states"]),
            settings=PolicySettings.from_json(body),
            base=None if base is None else _check_name(base, what="base"),
            contributes=contributes,
            borrow_cap=_check_finite(body.get("borrow_cap", 20.0), what="borrow_cap"),
            reward_wait=None if wait is None else _check_finite(wait, what="reward_wait"),
            default_reward=None if default is None else _check_finite(default, what="default_reward"),
        )


def _actions_from_json(body: object) -> tuple[list[Any], list[str]]:
    if isinstance(body, Mapping):
        return list(body), [str(label) for label in body.values()]
    if not isinstance(body, Sequence) or isinstance(body, str):
        raise InvalidSpecError(f"actions: expected a list of ids or of {{id, label}}, got {body!r}")
    ids: list[Any] = []
    labels: list[str] = []
    for index, item in enumerate(body):
        if isinstance(item, Mapping):
            if "id" not in item or set(item) - {"id", "label"}:
                raise InvalidSpecError(
                    f"actions[{index}]: expected id and label, got {sorted(map(str, item))}"
                )
            ids.append(item["id"])
            labels.append(str(item.get("label", item["id"])))
        else:
            ids.append(item)
            labels.append(str(item))
    return ids, labels


def _section(body: Mapping[str, Any], name: str, known: set[str] | None) -> Mapping[str, Any]:
    section = body.get(name, {})
    if not isinstance(section, Mapping):
        raise InvalidSpecError(f"{name}: expected a mapping, got {section!r}")
    unexpected = sorted(set(map(str, section)) - known) if known is not None else []
    if unexpected:
        raise InvalidSpecError(f"{name}: unexpected {unexpected}; expected {sorted(known or ())}")
    return section


def _prior_from_json(action: str, body: object) -> Prior:
    if not isinstance(body, Mapping) or set(body) != {"q", "weight"}:
        raise InvalidSpecError(f"priors.{action}: expected q and weight, got {body!r}")
    return Prior(
        _check_finite(body["q"], what=f"priors.{action}.q"),
        _check_finite(body["weight"], what=f"priors.{action}.weight"),
    )


def _check_weight(value: object, what: str) -> None:
    number = _check_finite(value, what=what)
    if number != 0.0 and not LEAST_WEIGHT <= number <= LARGEST_WEIGHT:
        raise InvalidSpecError(
            f"{what}: expected 0, or {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}; got {number:g}"
        )


def _bounded(value: object, what: str, low: float, high: float, *, above: bool = False) -> float:
    number = _check_finite(value, what=what)
    if not low <= number <= high or (above and number == low):
        raise InvalidSpecError(
            f"{what}: expected {'above ' if above else ''}{low:g} to {high:g}, got {number:g}"
        )
    return number

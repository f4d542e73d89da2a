"""Feature schemas: which numbers a fitted policy reads, in which order, under which version."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.domain.canonical import fingerprint
from steersman.domain.identifiers import check_finite, check_id
from steersman.errors import InvalidInputError, InvalidSpecError

__all__ = ["MAX_FEATURES", "FeatureSchema"]

MAX_FEATURES = 65_536


@dataclass(frozen=True, slots=True)
class FeatureSchema:
    """The named numbers of a feature vector, in order.

    `categorical` names the indicators (0 or 1) that are never normalised; `nullable` names the features that
    may be missing. Raises InvalidSpecError when there is no feature, when a name is repeated or no valid id,
    or when `categorical` or `nullable` name something that is not there.
    """

    version: str
    names: tuple[str, ...]  # [D] str
    categorical: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()
    position: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the names and index them."""
        check_id(self.version, what="features.version")
        if not 0 < len(self.names) <= MAX_FEATURES:
            raise InvalidSpecError(
                f"features.names: expected 1 to {MAX_FEATURES} names, got {len(self.names)}"
            )
        for index, name in enumerate(self.names):
            check_id(name, what=f"features.names[{index}]")
        object.__setattr__(self, "position", {name: index for index, name in enumerate(self.names)})
        _check_distinct(self.names, "features.names")
        for what in ("categorical", "nullable"):
            chosen = getattr(self, what)
            unknown = [name for name in chosen if name not in self.position]
            if unknown:
                raise InvalidSpecError(f"features.{what}: expected names of features, got {unknown}")
            _check_distinct(chosen, f"features.{what}")

    def __len__(self) -> int:
        """Return the number of features, D."""
        return len(self.names)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the canonical JSON of the declaration."""
        return fingerprint(self.to_json())

    def categorical_mask(self) -> NDArray[np.bool_]:
        """Return which features are categorical indicators: [D] bool."""
        return self._mask(self.categorical)

    def nullable_mask(self) -> NDArray[np.bool_]:
        """Return which features may be missing: [D] bool."""
        return self._mask(self.nullable)

    def encode(self, values: Mapping[str, float | None]) -> NDArray[np.float64]:
        """Return the feature vector of a mapping of name to number: [D] float64, NaN where one is missing.

        A nullable feature may be null or left out. Raises InvalidInputError, naming the feature.
        """
        nullable = set(self.nullable)
        unexpected = sorted(str(name) for name in values if name not in self.position)
        missing = [name for name in self.names if name not in values and name not in nullable]
        if unexpected or missing:
            raise InvalidInputError(
                f"features: expected one number for each name; missing {missing}, unexpected {unexpected}"
            )
        vector = np.full(len(self.names), math.nan)
        for name, value in values.items():
            if value is not None or name not in nullable:
                vector[self.position[name]] = check_finite(value, what=f"features.{name}")
        return vector

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as JSON."""
        return {
            "version": self.version,
            "names": list(self.names),
            "categorical": list(self.categorical),
            "nullable": list(self.nullable),
        }

    @classmethod
    def from_json(cls, body: object) -> FeatureSchema:
        """Read `{version, names, categorical?, nullable?}`; raise InvalidSpecError, naming the place."""
        if not isinstance(body, Mapping) or not {"version", "names"} <= set(body):
            raise InvalidSpecError(f"features: expected a version and names, got {_keys(body)}")
        unexpected = sorted(set(map(str, body)) - {"version", "names", "categorical", "nullable"})
        if unexpected:
            raise InvalidSpecError(
                f"features: unexpected {unexpected}; expected version, names, categorical, nullable"
            )
        version = check_id(body["version"], what="features.version")
        return cls(version, *(_names(body, what) for what in ("names", "categorical", "nullable")))

    def _mask(self, chosen: tuple[str, ...]) -> NDArray[np.bool_]:
        mask = np.zeros(len(self.names), dtype=np.bool_)
        mask[[self.position[name] for name in chosen]] = True
        return mask


def _check_distinct(names: tuple[str, ...], what: str) -> None:
    if len(set(names)) != len(names):
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        raise InvalidSpecError(f"{what}: expected distinct names, got {repeated} more than once")


def _names(body: Mapping[str, Any], what: str) -> tuple[str, ...]:
    names = body.get(what, ())
    if not isinstance(names, Sequence) or isinstance(names, str):
        raise InvalidSpecError(f"features.{what}: expected a list of names, got {type(names).__name__}")
    return tuple(check_id(name, what=f"features.{what}[{index}]") for index, name in enumerate(names))


def _keys(body: object) -> object:
    return sorted(map(str, body)) if isinstance(body, Mapping) else type(body).__name__

"""What all fitted policies share: observations, the mixture around the best value, and their stored form."""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, overload

import numpy as np
from numpy.typing import NDArray

from steersman.domain.canonical import canonical_json
from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.features import FeatureSchema
from steersman.domain.identifiers import check_finite
from steersman.errors import InvalidCheckpointError, InvalidInputError
from steersman.policies.arithmetic import mixture
from steersman.policies.base import Choice, choose_from_greedy

__all__ = [
    "ActionChoice",
    "Encoder",
    "FittedPolicy",
    "Tensors",
    "check_tensors",
    "pack_tensors",
    "unpack_tensors",
]

Encoder = Callable[[Mapping[str, Any]], NDArray[np.float64]]
"""From a control input to the features [D] float64."""

Tensors = dict[str, NDArray[Any]]
"""Named arrays: everything numeric that a policy was fitted to."""

_FLOAT32_MAX = float(np.finfo(np.float32).max)
_FLOAT32_MAX_SQUARED = _FLOAT32_MAX**2
_PLAIN = frozenset({int, float})


@dataclass(frozen=True, slots=True)
class ActionChoice(Choice):
    """A choice with the id of its action."""

    action: str


@dataclass(frozen=True, eq=False, repr=False)
class FittedPolicy(ABC):
    """A policy over feature vectors whose numbers were fitted to teacher rows.

    It plays the largest feasible value, ties to catalogue order, mixed with a share `epsilon` of uniform choice
    when it is served with exploration. An observation is a vector of D numbers, or a mapping that `encoder` (by
    default the schema's own `encode`, from names to numbers) turns into one.
    """

    catalogue: ActionCatalogue  # A actions
    schema: FeatureSchema  # D features
    epsilon: float = field(default=0.1, kw_only=True)
    encoder: Encoder | None = field(default=None, kw_only=True, repr=False)

    kind: ClassVar[str]

    def __repr__(self) -> str:
        """Return the sizes on one line; the fitted numbers would fill pages."""
        sizes = {"actions": len(self.catalogue), "features": len(self.schema), **self.traits()}
        shown = ", ".join(f"{name}={value!r}" for name, value in sizes.items())
        return f"{type(self).__name__}({shown}, epsilon={self.epsilon!r})"

    @property
    @abstractmethod
    def declared_work_units(self) -> int:
        """The arithmetic that one decision is declared to take."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return what the tensors do not say, as JSON."""

    def traits(self) -> dict[str, Any]:
        """Return what tells the policy from others of its class at a glance."""
        return self.config()

    def normalisation(self) -> dict[str, Any]:
        """Return how features become inputs, naming the tensors that it takes, as JSON."""
        return {"method": "none"}

    @abstractmethod
    def tensors(self) -> Tensors:
        """Return the fitted numbers by name."""

    @classmethod
    @abstractmethod
    def from_parts(
        cls, catalogue: ActionCatalogue, schema: FeatureSchema, config: Mapping[str, Any], tensors: Tensors
    ) -> Self:
        """Make the policy whose `config` and `tensors` these are; raise InvalidCheckpointError where they are not."""

    @abstractmethod
    def evaluate(self, vector: NDArray[np.float64]) -> list[float]:
        """Return the value of every action of a vector ([D] float64) that was checked before: [A]."""

    def vector(self, observation: Any) -> NDArray[np.float64]:
        """Return the features of `observation` as [D] float64, NaN where a nullable one is missing.

        Raises InvalidInputError for another length, for what is not a number, and for a number that is not
        finite in float32.
        """
        if isinstance(observation, np.ndarray):
            if observation.dtype.kind not in "fiu":
                raise InvalidInputError(f"features: expected numbers, got an array of {observation.dtype}")
            vector = observation.astype(np.float64, copy=False)
        elif isinstance(observation, Mapping):
            vector = (self.encoder or self.schema.encode)(observation)
        elif isinstance(observation, Sequence) and not isinstance(observation, (str, bytes)):
            plain = set(map(type, observation)) <= _PLAIN
            vector = self._numbers(observation) if not plain else _plain_numbers(observation)
        else:
            raise InvalidInputError(
                f"features: expected {len(self.schema)} numbers or a control input, got {type(observation).__name__}"
            )
        if vector.shape != (len(self.schema.names),):
            raise InvalidInputError(
                f"features: expected {len(self.schema)} numbers, got shape {list(vector.shape)}"
            )
        if not np.dot(vector, vector) <= _FLOAT32_MAX_SQUARED:  # one NaN or infinity is enough to fail this
            self._check_range(vector)
        return vector

    def all_values(self, observation: Any) -> list[float]:
        """Return the value of every action, feasible or not: [A]. Raises InvalidInputError."""
        return self.evaluate(self.vector(observation))

    def batch_values(self, features: NDArray[Any]) -> NDArray[np.float64]:
        """Return the values of many rows, [N, D] -> [N, A] float64: row by row, so that they equal single ones.

        Raises InvalidInputError.
        """
        values = np.empty((len(features), len(self.catalogue)))
        for index, row in enumerate(features):
            values[index] = self.all_values(row)
        return values

    def action_values(self, observation: Any, feasible: Sequence[int]) -> list[float]:
        """Return the value of each action at the positions `feasible`: [F]. Raises InvalidInputError."""
        values = self.all_values(observation)
        return [values[position] for position in feasible]

    def probabilities(
        self, observation: Any, feasible: Sequence[int], *, explore: bool = True
    ) -> list[float]:
        """Return the exact probability of each action at the positions `feasible`: [F]."""
        values = self.action_values(observation, feasible)
        return mixture([values.index(max(values))], len(values), self.epsilon if explore else 0.0)

    @overload
    def choose(self, observation: Any, feasible: Sequence[str | int] | None = None) -> ActionChoice: ...

    @overload
    def choose(
        self, observation: Any, feasible: Sequence[int], u: float, *, explore: bool = True
    ) -> ActionChoice: ...

    def choose(
        self,
        observation: Any,
        feasible: Sequence[str | int] | Sequence[int] | None = None,
        u: float | None = None,
        *,
        explore: bool = True,
    ) -> ActionChoice:
        """Return the action to play.

        Without `u`, `feasible` holds action ids (None: all of them), and the best is played with certainty. With a
        draw `u` in [0, 1), `feasible` holds ascending catalogue positions, and the action that the draw falls on
        is played. Raises InvalidActionError for an unknown, empty or repeated feasible action, InvalidInputError.
        """
        values = self.all_values(observation)
        if u is None:
            positions: Sequence[int] = self.catalogue.positions(feasible)
            best = max(positions, key=values.__getitem__)  # the first of equals
            return ActionChoice(best, 1.0, explored=False, action=self.catalogue.ids[best])
        positions = [int(position) for position in feasible or ()]
        best = max(range(len(positions)), key=lambda index: values[positions[index]])
        drawn = choose_from_greedy([best], len(positions), self.epsilon if explore else 0.0, u)
        position = positions[drawn.position]
        return ActionChoice(position, drawn.propensity, drawn.explored, self.catalogue.ids[position])

    def stored_config(self) -> dict[str, Any]:
        """Return kind, config and epsilon: everything that is neither a tensor nor a schema, as JSON."""
        return {"kind": self.kind, **self.config(), "epsilon": float(self.epsilon)}

    def check_config(self, config: Mapping[str, Any]) -> None:
        """Raise InvalidCheckpointError unless `config` is what this policy would store."""
        expected = self.stored_config()
        if canonical_json(dict(config)) != canonical_json(expected):
            raise InvalidCheckpointError(f"policy: expected {expected}, got {dict(config)}")

    def to_payload(self) -> dict[str, Any]:
        """Return the policy as JSON; arrays are kept bit by bit."""
        return {
            "actions": list(self.catalogue.ids),
            "features": self.schema.to_json(),
            "config": self.stored_config(),
            "tensors": pack_tensors(self.tensors()),
        }

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Self:
        """Make the policy that `to_payload` described; raise InvalidCheckpointError where it is none."""
        return cls.from_parts(
            ActionCatalogue.of(payload["actions"]),
            FeatureSchema.from_json(payload["features"]),
            payload["config"],
            unpack_tensors(payload["tensors"]),
        )

    def _numbers(self, observation: Sequence[Any]) -> NDArray[np.float64]:
        nullable = self.schema.nullable_mask()
        numbers = np.empty(len(observation))
        for index, value in enumerate(observation):
            if value is None and index < len(nullable) and nullable[index]:
                numbers[index] = np.nan
            elif isinstance(value, np.floating | np.integer):
                numbers[index] = float(value)
            else:
                numbers[index] = check_finite(value, what=f"features[{index}]")
        return numbers

    def _check_range(self, vector: NDArray[np.float64]) -> None:
        missing = np.isnan(vector) & self.schema.nullable_mask()
        wrong = ~missing & ~(np.abs(vector) <= _FLOAT32_MAX)
        if wrong.any():
            index = int(np.argmax(wrong))
            raise InvalidInputError(
                f"features[{index}] ({self.schema.names[index]}): expected a number that is finite in float32, "
                f"got {vector[index]}"
            )


def _plain_numbers(observation: Sequence[Any]) -> NDArray[np.float64]:
    try:
        return np.array(observation, dtype=np.float64)
    except OverflowError:
        raise InvalidInputError("features: expected finite numbers, got an integer beyond them") from None


def check_tensors(tensors: Tensors, expected: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
    """Raise InvalidCheckpointError unless `tensors` are exactly those `expected`: name to (dtype, shape), finite."""
    if set(tensors) != set(expected):
        raise InvalidCheckpointError(f"tensors: expected {sorted(expected)}, got {sorted(tensors)}")
    for name, (dtype, shape) in expected.items():
        array = tensors[name]
        if array.dtype != np.dtype(dtype) or array.shape != shape:
            raise InvalidCheckpointError(
                f"tensors.{name}: expected {dtype} {list(shape)}, got {array.dtype} {list(array.shape)}"
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InvalidCheckpointError(f"tensors.{name}: expected finite numbers")


def pack_tensors(tensors: Tensors) -> dict[str, Any]:
    """Return arrays as JSON: dtype, shape and the little-endian bytes in base 64."""
    return {
        name: {
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "base64": base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode("ascii"),
        }
        for name, array in sorted(tensors.items())
    }


def unpack_tensors(body: Mapping[str, Any]) -> Tensors:
    """Return the arrays that `pack_tensors` packed; raise InvalidCheckpointError where they are none."""
    tensors: Tensors = {}
    for name, item in body.items():
        try:
            if item["dtype"] not in ("float32", "float64", "int32"):
                raise InvalidCheckpointError(f"tensors.{name}: expected float32, float64 or int32")
            dtype = np.dtype(item["dtype"])
            raw = base64.b64decode(item["base64"], validate=True)
            tensors[name] = (
                np.frombuffer(raw, dtype=dtype.newbyteorder("<")).reshape(item["shape"]).astype(dtype)
            )
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise InvalidCheckpointError(f"tensors.{name}: expected dtype, shape and base64") from error
    return tensors

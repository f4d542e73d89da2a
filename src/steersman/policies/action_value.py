"""The fitted multi-layer perceptron, evaluated with NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.features import FeatureSchema
from steersman.errors import InvalidCheckpointError
from steersman.policies.fitted import FittedPolicy, Tensors, check_tensors
from steersman.policies.inputs import FeatureScaling, input_count, ranked_columns, read_epsilon
from steersman.policies.ranks import KNOTS, RankScores

__all__ = ["MAX_HIDDEN", "ActionValuePolicy", "Layers"]

MAX_HIDDEN = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Layers:
    """The weights of two linear layers: D inputs, H hidden units, A actions."""

    hidden_weight: NDArray[np.float32]  # [H, D]
    hidden_bias: NDArray[np.float32]  # [H]
    output_weight: NDArray[np.float32]  # [A, H]
    output_bias: NDArray[np.float32]  # [A]

    def arrays(self) -> tuple[NDArray[np.float32], ...]:
        """Return the four arrays in order."""
        return self.hidden_weight, self.hidden_bias, self.output_weight, self.output_bias


@dataclass(frozen=True, eq=False, repr=False)
class ActionValuePolicy(FittedPolicy):
    """Features, normalised -> one hidden layer with SiLU -> one value per action.

    Values are in units of the normalised gains that the network was fitted to. Numbers are float32 as stored
    and float64 as computed with, so that they are the same on every processor to far more digits than matter.
    """

    scaling: FeatureScaling
    layers: Layers
    _hidden: NDArray[np.float64] = field(init=False, repr=False)  # [D, H], half the normalised weights
    _hidden_bias: NDArray[np.float64] = field(init=False, repr=False)  # [H]
    _output: NDArray[np.float64] = field(init=False, repr=False)  # [H, A]
    _output_bias: NDArray[np.float64] = field(init=False, repr=False)  # [A]

    kind: ClassVar[str] = "action_value_mlp"

    def __post_init__(self) -> None:
        """Fold the normalisation into the first layer, and the half that SiLU asks for."""
        hidden = self.layers.hidden_weight.astype(np.float64) * (0.5 / self.scaling.input_scale())
        offset = hidden @ self.scaling.input_mean()
        object.__setattr__(self, "_hidden", np.ascontiguousarray(hidden.T))
        object.__setattr__(self, "_hidden_bias", 0.5 * self.layers.hidden_bias.astype(np.float64) - offset)
        object.__setattr__(
            self, "_output", np.ascontiguousarray(self.layers.output_weight.T, dtype=np.float64)
        )
        object.__setattr__(self, "_output_bias", self.layers.output_bias.astype(np.float64))

    @property
    def hidden_dim(self) -> int:
        """The number of hidden units, H."""
        return len(self.layers.hidden_bias)

    @property
    def declared_work_units(self) -> int:
        """D*H + H*A + D + H + A: a multiplication per weight, and one step per input, unit and action."""
        ranked = self.scaling.ranks is not None
        inputs, hidden, actions = (
            input_count(self.schema, ranked=ranked),
            self.hidden_dim,
            len(self.catalogue),
        )
        return inputs * hidden + hidden * actions + inputs + hidden + actions

    def evaluate(self, vector: NDArray[np.float64]) -> list[float]:
        """Return the value of every action of a checked vector, [D] -> [A].

        SiLU(h) = h / (1 + exp(-h)) (Elfwing, Uchibe, Doya 2018) is g * (1 + tanh(g)) with g = h / 2, which cannot
        overflow; `_hidden` gives g at once.
        """
        inputs = vector if self.scaling.plain else self.scaling.inputs_of_vector(vector)
        half = np.dot(inputs, self._hidden)
        half += self._hidden_bias
        gate = np.tanh(half)
        gate += 1.0
        gate *= half
        values: list[float] = (np.dot(gate, self._output) + self._output_bias).tolist()
        return values

    def config(self) -> dict[str, Any]:
        """Return the shape of the network."""
        return {
            "hidden_dim": self.hidden_dim,
            "activation": "silu",
            "inputs": "plain" if self.scaling.ranks is None else "ranked",
            "declared_work_units": self.declared_work_units,
        }

    def normalisation(self) -> dict[str, Any]:
        """Return how features become inputs, as JSON."""
        how = {
            "method": "standard",
            "mean": "normalisation.mean",
            "scale": "normalisation.scale",
            "missing": "mean and indicator",
        }
        if self.scaling.ranks is None:
            return how
        return how | {"ranks": {"knots": "normalisation.knots", "scores": "normalisation.scores"}}

    def tensors(self) -> Tensors:
        """Return the normalisation and the weights by name."""
        ranks = self.scaling.ranks
        further = (
            {}
            if ranks is None
            else {"normalisation.knots": ranks.knots, "normalisation.scores": ranks.scores}
        )
        return further | {
            "normalisation.mean": self.scaling.mean,
            "normalisation.scale": self.scaling.scale,
            "hidden.weight": self.layers.hidden_weight,
            "hidden.bias": self.layers.hidden_bias,
            "output.weight": self.layers.output_weight,
            "output.bias": self.layers.output_bias,
        }

    @classmethod
    def from_parts(
        cls, catalogue: ActionCatalogue, schema: FeatureSchema, config: Mapping[str, Any], tensors: Tensors
    ) -> Self:
        """Make the policy whose `config` and `tensors` these are; raise InvalidCheckpointError where they are not."""
        hidden = config.get("hidden_dim")
        if not isinstance(hidden, int) or isinstance(hidden, bool) or not 0 < hidden <= MAX_HIDDEN:
            raise InvalidCheckpointError(f"policy.hidden_dim: expected 1 to {MAX_HIDDEN}, got {hidden!r}")
        if config.get("inputs") not in ("plain", "ranked"):
            raise InvalidCheckpointError(
                f"policy.inputs: expected plain or ranked, got {config.get('inputs')!r}"
            )
        ranked = config["inputs"] == "ranked"
        features, inputs, actions = len(schema), input_count(schema, ranked=ranked), len(catalogue)
        columns = ranked_columns(schema)
        scores = ("float32", (KNOTS, len(columns)))
        check_tensors(
            tensors,
            {
                "normalisation.mean": ("float32", (features,)),
                "normalisation.scale": ("float32", (features,)),
                "hidden.weight": ("float32", (hidden, inputs)),
                "hidden.bias": ("float32", (hidden,)),
                "output.weight": ("float32", (actions, hidden)),
                "output.bias": ("float32", (actions,)),
            }
            | ({"normalisation.knots": scores, "normalisation.scores": scores} if ranked else {}),
        )
        ranks: RankScores | None = None
        if ranked:
            ranks = RankScores.of(columns, tensors["normalisation.knots"], tensors["normalisation.scores"])
        scaling = FeatureScaling.of(
            schema, tensors["normalisation.mean"], tensors["normalisation.scale"], ranks
        )
        layers = Layers(
            *(tensors[f"{layer}.{part}"] for layer in ("hidden", "output") for part in ("weight", "bias"))
        )
        policy = cls(catalogue, schema, scaling, layers, epsilon=read_epsilon(config))
        policy.check_config(config)
        return policy

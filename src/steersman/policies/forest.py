"""A fitted forest, kept as plain arrays and evaluated with NumPy alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.features import FeatureSchema
from steersman.errors import InvalidCheckpointError
from steersman.policies.fitted import FittedPolicy, Tensors, check_tensors
from steersman.policies.inputs import FeatureScaling, input_count, read_epsilon

__all__ = ["FOREST_MODES", "ForestPolicy", "Trees", "action_pairs"]

FOREST_MODES = ("regression", "pairwise")
_MAX_DEPTH = 10_000
_CHUNK = 1 << 20  # tree positions held at a time


def action_pairs(actions: int) -> NDArray[np.int64]:
    """Return the pairs of positions (first, second), first < second: [P, 2], P = A*(A - 1)/2."""
    return np.array(list(combinations(range(actions), 2)), dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """T binary trees with M inner nodes and L leaves in all; an input goes left when it is at most the threshold.

    A number at least 0 in `roots`, `left` and `right` names an inner node, and a negative one the leaf ~number.
    """

    roots: NDArray[np.int32]  # [T]
    feature: NDArray[np.int32]  # [M], which input is asked
    threshold: NDArray[np.float64]  # [M]
    left: NDArray[np.int32]  # [M]
    right: NDArray[np.int32]  # [M]
    leaves: NDArray[np.float64]  # [L, V]

    def depth(self, inputs: int) -> int:
        """Return the longest way from a root to a leaf, after checking that these are trees over `inputs` inputs.

        Raises InvalidCheckpointError when a child does not follow its parent, when a node or leaf is not reached
        exactly once, or when an input does not exist: so no evaluation can run on for ever or read elsewhere.
        """
        nodes, references = (
            len(self.feature),
            np.concatenate([self.roots, self.left, self.right]).astype(np.int64),
        )
        named, leaf = references[references >= 0], ~references[references < 0]
        order = np.arange(nodes)
        if (
            not len(self.roots)
            or not np.array_equal(np.sort(named), order)
            or not np.array_equal(np.sort(leaf), np.arange(len(self.leaves)))
            or any(bool(((side >= 0) & (side <= order)).any()) for side in (self.left, self.right))
        ):
            raise InvalidCheckpointError(
                "tensors.trees: expected trees whose nodes are each reached exactly once"
            )
        if nodes and not (self.feature.min() >= 0 and self.feature.max() < inputs):
            raise InvalidCheckpointError(f"tensors.trees.feature: expected inputs from 0 to {inputs - 1}")
        depth, level = 0, self.roots[self.roots >= 0]
        while len(level):
            if depth == _MAX_DEPTH:
                raise InvalidCheckpointError(f"tensors.trees: expected a depth of at most {_MAX_DEPTH}")
            depth += 1
            level = np.concatenate([self.left[level], self.right[level]])
            level = level[level >= 0]
        return depth


@dataclass(frozen=True, eq=False, repr=False)
class ForestPolicy(FittedPolicy):
    """Mean of many trees: regression to one value per action, or a vote on each pair of actions.

    With `regression` a leaf holds A values in units of the normalised gains. With `pairwise` there are as many
    trees for each pair, a leaf holds the share that prefers the first of the pair, and the value of an action is
    the sum of its shares over all pairs (soft voting, after Xu, Hutter, Hoos, Leyton-Brown 2012).
    """

    scaling: FeatureScaling  # its mean stands in for missing features; trees need no scale
    trees: Trees
    mode: str
    _depth: int = field(init=False, repr=False)
    _children: NDArray[np.int64] = field(init=False, repr=False)  # [2 * (M + L)], left and right of each node
    _feature: NDArray[np.int64] = field(init=False, repr=False)  # [M + L]; leaves follow the nodes
    _threshold: NDArray[np.float64] = field(init=False, repr=False)  # [M + L]
    _roots: NDArray[np.int64] = field(init=False, repr=False)  # [T]

    kind: ClassVar[str] = "action_value_forest"

    def __post_init__(self) -> None:
        """Check the trees, and lay them out so that a leaf leads to itself: no step needs to ask whether to stop."""
        trees, nodes, leaves = self.trees, len(self.trees.feature), len(self.trees.leaves)
        object.__setattr__(self, "_depth", trees.depth(input_count(self.schema)))
        ends = np.arange(nodes, nodes + leaves)
        children = np.stack(
            [np.concatenate([_place(side, nodes), ends]) for side in (trees.left, trees.right)], axis=1
        )
        object.__setattr__(self, "_children", children.ravel())
        object.__setattr__(
            self, "_feature", np.concatenate([trees.feature, np.zeros(leaves)]).astype(np.int64)
        )
        object.__setattr__(self, "_threshold", np.concatenate([trees.threshold, np.full(leaves, np.inf)]))
        object.__setattr__(self, "_roots", _place(trees.roots, nodes))

    @property
    def declared_work_units(self) -> int:
        """T * (depth + V): at most so many comparisons, and the numbers of one leaf of each tree."""
        return len(self.trees.roots) * int(self._depth + self.trees.leaves.shape[1])

    def evaluate(self, vector: NDArray[np.float64]) -> list[float]:
        """Return the value of every action of a checked vector, [D] -> [A]."""
        values: list[float] = self._evaluate_rows(vector[np.newaxis])[0].tolist()
        return values

    def batch_values(self, features: NDArray[Any]) -> NDArray[np.float64]:
        """Return the values of many rows, [N, D] -> [N, A], the same bits as row by row. Raises InvalidInputError."""
        rows = np.array([self.vector(row) for row in features]).reshape(len(features), len(self.schema.names))
        step = max(1, _CHUNK // len(self._roots))
        parts = [self._evaluate_rows(rows[first : first + step]) for first in range(0, len(rows), step)]
        return np.concatenate([np.empty((0, len(self.catalogue))), *parts])

    def _evaluate_rows(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        # Trees were grown on float32 numbers.
        inputs = self.scaling.inputs_of_rows(vectors.astype(np.float32)).astype(np.float64)
        count, width = inputs.shape
        flat = inputs.ravel()
        offset = (np.arange(count) * width)[np.newaxis]  # [1, n]
        node = np.repeat(self._roots[:, np.newaxis], count, axis=1)  # [T, n]
        for _ in range(self._depth):
            node = self._children[2 * node + (flat[self._feature[node] + offset] > self._threshold[node])]
        found = self.trees.leaves[node - len(self.trees.feature)]  # [T, n, V]
        return self._combine(found)

    def _combine(self, found: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values, [T, n, V] -> [n, A]. Cumulative sums add in order, however many rows there are."""
        trees, actions = len(found), len(self.catalogue)
        if self.mode == "regression":
            mean: NDArray[np.float64] = np.cumsum(found, axis=0)[-1] / trees
            return mean
        pairs = action_pairs(actions)
        grouped = found[:, :, 0].reshape(len(pairs), trees // len(pairs), -1)
        shares = np.cumsum(grouped, axis=1)[:, -1] / grouped.shape[1]  # [P, n]
        values = np.zeros((found.shape[1], actions))
        for (first, second), share in zip(pairs, shares, strict=True):
            values[:, first] += share
            values[:, second] += 1.0 - share
        return values

    def config(self) -> dict[str, Any]:
        """Return the mode and the work of one decision."""
        return {"mode": self.mode, "declared_work_units": self.declared_work_units}

    def traits(self) -> dict[str, Any]:
        """Return the number of trees and the config."""
        return {"trees": len(self.trees.roots), **self.config()}

    def normalisation(self) -> dict[str, Any]:
        """Return how features become inputs, as JSON."""
        return {"method": "none", "mean": "normalisation.mean", "missing": "mean and indicator"}

    def tensors(self) -> Tensors:
        """Return the trees by name, and the means that stand in for missing features."""
        parts = ("roots", "feature", "threshold", "left", "right", "leaves")
        trees = {f"trees.{part}": getattr(self.trees, part) for part in parts}
        return {"normalisation.mean": self.scaling.mean, **trees}

    @classmethod
    def from_parts(
        cls, catalogue: ActionCatalogue, schema: FeatureSchema, config: Mapping[str, Any], tensors: Tensors
    ) -> Self:
        """Make the policy whose `config` and `tensors` these are; raise InvalidCheckpointError where they are not."""
        mode, actions = config.get("mode"), len(catalogue)
        if mode not in FOREST_MODES:
            raise InvalidCheckpointError(f"policy.mode: expected one of {list(FOREST_MODES)}, got {mode!r}")
        trees, nodes, leaves = (_length(tensors, f"trees.{part}") for part in ("roots", "feature", "leaves"))
        check_tensors(
            tensors,
            {
                "normalisation.mean": ("float32", (len(schema),)),
                "trees.roots": ("int32", (trees,)),
                "trees.feature": ("int32", (nodes,)),
                "trees.threshold": ("float64", (nodes,)),
                "trees.left": ("int32", (nodes,)),
                "trees.right": ("int32", (nodes,)),
                "trees.leaves": ("float64", (leaves, actions if mode == "regression" else 1)),
            },
        )
        pairs = len(action_pairs(actions))
        if mode == "pairwise" and (not pairs or trees % pairs):
            raise InvalidCheckpointError(
                f"tensors.trees.roots: expected a multiple of {pairs} trees, got {trees}"
            )
        mean = tensors["normalisation.mean"]
        scaling = FeatureScaling.of(schema, mean, np.ones_like(mean))
        parts = ("roots", "feature", "threshold", "left", "right", "leaves")
        grown = Trees(*(tensors[f"trees.{part}"] for part in parts))
        policy = cls(catalogue, schema, scaling, grown, str(mode), epsilon=read_epsilon(config))
        policy.check_config(config)
        return policy


def _place(reference: NDArray[np.int32], nodes: int) -> NDArray[np.int64]:
    wide = reference.astype(np.int64)
    return np.where(wide >= 0, wide, nodes + ~wide)


def _length(tensors: Tensors, name: str) -> int:
    return len(tensors[name]) if name in tensors and tensors[name].ndim else 0

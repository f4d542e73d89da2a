"""Small fitted policies with numbers drawn from a seed, and the checkpoints that they make."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.checkpoints.encoding import encode
from steersman.checkpoints.format import save_checkpoint
from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.features import FeatureSchema
from steersman.policies.action_value import ActionValuePolicy, Layers
from steersman.policies.fitted import FittedPolicy
from steersman.policies.forest import ForestPolicy, Trees
from steersman.policies.inputs import FeatureScaling
from steersman.policies.ranking import FixedRankingPolicy

CATALOGUE = ActionCatalogue.of(["hold", "push", "yield"])
SCHEMA = FeatureSchema("tests.features.v1", ("gap", "pace", "is_late"), categorical=("is_late",))
NULLABLE_SCHEMA = FeatureSchema(
    "tests.features.v2", ("gap", "pace", "is_late"), categorical=("is_late",), nullable=("pace",)
)
BINDING = {
    "model_content_hash": "model-1",
    "feature_schema_version": "tests.features.v1",
    "protocol": {"renderer": "plain", "samples": 16},
    "teacher_dataset_hash": "0" * 64,
    "teacher_source_hashes": {"rows.jsonl": "1" * 64},
}
PROVENANCE = {"schema": "steersman.policy_training.v1", "seed": 0}
PROBES = np.array([[0.5, -1.25, 1.0], [2.0, 0.0, 0.0]])


def mlp(schema: FeatureSchema = SCHEMA, *, hidden: int = 5, seed: int = 0) -> ActionValuePolicy:
    """A network of `hidden` units with normal weights."""
    draw = np.random.default_rng(seed)
    inputs = len(schema) + len(schema.nullable)

    def normal(*shape: int) -> NDArray[np.float32]:
        return draw.normal(size=shape).astype(np.float32)

    layers = Layers(
        normal(hidden, inputs), normal(hidden), normal(len(CATALOGUE), hidden), normal(len(CATALOGUE))
    )
    scaling = FeatureScaling.of(
        schema,
        np.array([0.25, -3.0, 0.0], dtype=np.float32),
        np.array([2.0, 0.125, 1.0], dtype=np.float32),
    )
    return ActionValuePolicy(CATALOGUE, schema, scaling, layers)


def forest(schema: FeatureSchema = SCHEMA) -> ForestPolicy:
    """Two trees: one asks for gap <= 1, then for pace <= 0; the other is a single leaf."""
    trees = Trees(
        roots=np.array([0, ~3], dtype=np.int32),
        feature=np.array([0, 1], dtype=np.int32),
        threshold=np.array([1.0, 0.0]),
        left=np.array([1, ~0], dtype=np.int32),
        right=np.array([~1, ~2], dtype=np.int32),
        leaves=np.array([[1.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 2.0], [0.5, 0.5, 0.0]]),
    )
    scaling = FeatureScaling.of(
        schema, np.array([0.25, -3.0, 0.0], dtype=np.float32), np.ones(3, dtype=np.float32)
    )
    return ForestPolicy(CATALOGUE, schema, scaling, trees, "regression")


def ranking() -> FixedRankingPolicy:
    """The ranking push, hold, yield."""
    return FixedRankingPolicy(CATALOGUE, SCHEMA, np.array([0.5, 1.0, -1.0]))


EVERY_KIND: dict[str, Callable[[], FittedPolicy]] = {"mlp": mlp, "forest": forest, "ranking": ranking}


def save(path: Path, policy: FittedPolicy | None = None) -> str:
    """Save `policy` (default: the network) with the binding, provenance and probe rows above."""
    policy = policy or mlp()
    probes = PROBES if len(policy.schema) == PROBES.shape[1] else np.zeros((2, len(policy.schema)))
    binding = BINDING | {"feature_schema_version": policy.schema.version}
    return save_checkpoint(path, policy, binding=binding, provenance=PROVENANCE, probe_features=probes)


def signed(payload: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> bytes:
    """The bytes of a file whose digest is right, whatever else is wrong with it."""
    digest = hashlib.sha256(encode(payload | {"digest": ""}, tensors)).hexdigest()
    return encode(payload | {"digest": digest}, tensors)

"""Load a checkpoint for use: the policy understands control inputs where its feature schema has an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from steersman.checkpoints.format import LoadedCheckpoint, load_checkpoint
from steersman.teacher.profiles import BUILT_IN

__all__ = ["load_policy"]


def load_policy(path: Path, *, expected_binding: Mapping[str, Any] | None = None) -> LoadedCheckpoint:
    """Return the checkpoint in `path`, its policy with the encoder of the profile that has its feature schema.

    Raises InvalidCheckpointError, and BindingMismatchError unless `expected_binding` is a part of its binding.
    """
    loaded = load_checkpoint(path, expected_binding=expected_binding)
    encoders = [profile.encode for profile in BUILT_IN.values() if profile.features == loaded.policy.schema]
    return replace(loaded, policy=replace(loaded.policy, encoder=encoders[0])) if encoders else loaded

"""Rows made for tests, plainly: dictionaries and the lines that `json` writes of them."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from steersman.teacher.profiles import BUILT_IN, RowProfile

__all__ = [
    "BINDING",
    "SCENE",
    "complete_control",
    "declared_metadata",
    "make_row",
    "plain_fingerprint",
    "shared_reference",
    "write_rows",
]

SCENE: RowProfile = BUILT_IN["mcss.dynamic.action_teacher_row.v1"]
BINDING: dict[str, Any] = {
    "model_content_hash": "carrier-7f",
    "feature_schema_version": "mcss.dynamic.policy_features.v1",
    "render_protocol": {"renderer": "Fixed", "samples": 16},
    "budget_protocol": {"max_units": 1000000000000.0},
    "utility_protocol": {"horizon": 3},
}


def make_row(number: int = 0, **changes: Any) -> dict[str, Any]:
    """A valid row of the streaming-scene profile, the same for the same number; `changes` replace fields."""
    draw = random.Random(number)
    losses = [round(draw.uniform(0, 2), 6) for _ in range(4)]
    mean = sum(losses) / 4
    row = {
        "schema_version": "mcss.dynamic.action_teacher_row.v1",
        "row_id": f"ep{number // 5}:prefix:{number % 5}",
        "episode_id": f"ep{number // 5}",
        "scene_id": f"scene-{number // 5:02d}",
        "split_id": "train",
        "prefix_step": number % 5,
        "prefix_frame_id": number % 5 + 3,
        "control_input": {
            "rgb_mse": 0.25,
            "observed_count": 3,
            "previous_action": "FUSE",
            "remaining_steps": 25,
        },
        "features": [round(draw.gauss(0, 1), 6) for _ in range(75)],
        "actions": ["OFF", "FUSE", "COMPLETE", "ALL"],
        "feasible_mask": [True, True, True, True],
        "losses": losses,
        "advantages": [mean - loss for loss in losses],
        "costs": [0.0, 250000.0, 250000.0, 500000.0],
        "horizon_used": 3,
        "provenance": {**BINDING, "collector": "test"},
    }
    return row | changes


def complete_control(**changes: Any) -> dict[str, Any]:
    """A control input that can be encoded."""
    control: dict[str, Any] = {
        "rgb_mse": 0.5,
        "opacity_mean": 0.25,
        "current_image_mean": 0.125,
        "density_mean": 2.0,
        "fast_norm": 3.0,
        "observed_count": 0,
        "previous_action": None,
        "remaining_budget": 0.0,
        "coverage": 0.75,
        "valid_count": 0,
        "remaining_steps": 0,
    }
    return control | changes


def declared_metadata(**changes: Any) -> dict[str, Any]:
    """Metadata of a collection that declares its own profile: two actions, three features, one of them nullable."""
    profile = {
        "name": "routing",
        "actions": ["left", "right"],
        "features": {
            "version": "routing.v1",
            "names": ["distance", "is_night", "traffic"],
            "categorical": ["is_night"],
            "nullable": ["traffic"],
        },
        "control_keys": ["city", "weights"],
        "required_binding": ["map_hash"],
    }
    return {
        "schema_version": "steersman.teacher.v1",
        "profile": profile,
        "binding": {"map_hash": "m1"},
    } | changes


def plain_fingerprint(row: dict[str, Any]) -> str:
    """The fingerprint of a row, by `json` and `hashlib` alone."""
    dataset_keys = {
        "source_hash",
        "source_hashes",
        "dataset_hash",
        "dataset_hashes",
        "teacher_dataset_hash",
        "teacher_source_hashes",
    }
    provenance = {key: value for key, value in row["provenance"].items() if key not in dataset_keys}
    text = json.dumps(row | {"provenance": provenance}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """Write rows as JSON lines and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def shared_reference() -> Path:
    """The folder of reference values beside the repository; the test is skipped where there is none."""
    root = os.environ.get("STEERSMAN_SHARED")
    shared = Path(root) if root else Path(__file__).resolve().parents[3] / "shared"
    reference = shared / "reference"
    if not (reference / "expected.json").is_file():
        pytest.skip(f"no reference values at {reference}; STEERSMAN_SHARED names the folder that holds them")
    return reference

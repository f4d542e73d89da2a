"""Teacher rows drawn from a seed: which action is best depends on the features, and a little on the scene."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.features import FeatureSchema
from steersman.teacher.streaming_scene import ACTIONS, FEATURES, REQUIRED_BINDING, ROW_SCHEMA
from steersman.training.examples import Examples

BINDING = {
    "model_content_hash": "model-1",
    "feature_schema_version": FEATURES.version,
    "render_protocol": {"samples": 16},
    "budget_protocol": {"units": 1e6},
    "utility_protocol": {"horizon": 3},
}
assert set(BINDING) == set(REQUIRED_BINDING)


# What the answer of a fit holds at least, by the names that scripts rely on.
PROMISED = {
    "output",
    "checkpoint_sha256",
    "binding",
    "training_loss",
    "training_row_count",
    "training_scene_count",
    "training_near_tie_coverage",
    "target_mean",
    "target_scale",
    "heldout_row_count",
    "heldout_scene_count",
    "heldout_loss",
    "heldout_regret",
    "heldout_top_accuracy",
    "heldout_near_tie_coverage",
}


def draw_examples(
    *,
    scenes: int = 12,
    rows: int = 10,
    features: int = 5,
    actions: int = 3,
    masked: float = 0.1,
    scene_effect: float = 0.1,
    noise: float = 0.1,
    seed: int = 0,
) -> Examples:
    """`rows` rows of each scene; gains are a curved function of the features, a scene's own taste, and noise."""
    draw = np.random.default_rng(seed)
    index = np.repeat(np.arange(scenes), rows)
    x = draw.normal(size=(len(index), features)).astype(np.float32)
    bend = draw.normal(size=(features, actions))
    gains = np.sin(x @ bend) + 0.5 * x[:, :1] * np.linspace(-1.0, 1.0, actions)
    gains += scene_effect * draw.normal(size=(scenes, actions))[index] + noise * draw.normal(size=gains.shape)
    feasible = draw.random(gains.shape) >= masked
    feasible[np.arange(len(index)), draw.integers(actions, size=len(index))] = True
    gains -= (gains * feasible).sum(axis=1, keepdims=True) / feasible.sum(axis=1, keepdims=True)
    return Examples(
        ActionCatalogue.of([f"action-{position}" for position in range(actions)]),
        FeatureSchema("tests.features.v1", tuple(f"x{position}" for position in range(features))),
        x,
        feasible,
        np.where(feasible, gains, 0.0),
        np.where(feasible, np.linspace(0.0, 1.0, actions), 0.0),
        index,
        tuple(f"scene-{scene:02d}" for scene in range(scenes)),
    )


def draw_rows(*, scenes: int = 12, rows: int = 8, seed: int = 0, noise: float = 0.1) -> list[dict[str, Any]]:
    """Rows of the streaming-scene profile as plain mappings; one action in ten is not feasible."""
    examples = draw_examples(
        scenes=scenes, rows=rows, features=len(FEATURES), actions=len(ACTIONS), seed=seed, noise=noise
    )
    found: list[dict[str, Any]] = []
    for row in range(len(examples)):
        mask = examples.feasible[row].tolist()
        scene = examples.scene_ids[examples.scenes[row]]
        gains = examples.gains[row].tolist()

        def entries(values: list[float], mask: list[bool] = mask) -> list[float | None]:
            return [value if allowed else None for value, allowed in zip(values, mask, strict=True)]

        found.append(
            {
                "schema_version": ROW_SCHEMA,
                "row_id": f"row-{row}",
                "episode_id": f"episode-{scene}",
                "scene_id": scene,
                "split_id": "train",
                "prefix_step": row,
                "prefix_frame_id": row,
                "control_input": {},
                "features": examples.features[row].tolist(),
                "actions": list(ACTIONS),
                "feasible_mask": mask,
                "losses": entries([1.0 - gain for gain in gains]),
                "advantages": entries(gains),
                "costs": entries(examples.costs[row].tolist()),
                "horizon_used": 3,
                "provenance": BINDING,
            }
        )
    return found


def write_rows(folder: Path, **choices: Any) -> Path:
    """A folder with one file of `draw_rows`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row) for row in draw_rows(**choices)]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    return folder

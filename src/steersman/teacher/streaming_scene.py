"""The built-in profile of streaming 3D scenes: 75 features of what is visible when a frame arrives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steersman.domain.features import FeatureSchema
from steersman.domain.strict_json import shown
from steersman.errors import InvalidInputError
from steersman.teacher.strict_json import FLOAT32_LIMIT

__all__ = [
    "ACTIONS",
    "COLLECTION_SCHEMA",
    "CONTROL_KEYS",
    "FEATURES",
    "REQUIRED_BINDING",
    "ROW_SCHEMA",
    "adaptive_average_pool",
    "encode",
]

ROW_SCHEMA = "mcss.dynamic.action_teacher_row.v1"
COLLECTION_SCHEMA = "mcss.dynamic.action_teacher.v1"
ACTIONS = ("OFF", "FUSE", "COMPLETE", "ALL")
CONTROL_KEYS = (
    "rgb_mse",
    "opacity_mean",
    "current_image_mean",
    "density_mean",
    "fast_norm",
    "observed_count",
    "previous_action",
    "remaining_budget",
    "image_feature",
    "image_feature_stats",
    "rgb_residual_4x4",
    "coverage",
    "valid_count",
    "camera_change",
    "fast_state_stats",
    "remaining_steps",
)
REQUIRED_BINDING = (
    "model_content_hash",
    "feature_schema_version",
    "render_protocol",
    "budget_protocol",
    "utility_protocol",
)

_SCALARS = ("rgb_mse", "opacity_mean", "current_image_mean", "density_mean")
_CHANNELS, _GRID = 3, 4
_PREVIOUS = tuple(f"previous_action_{action.lower()}" for action in ACTIONS)

FEATURES = FeatureSchema(
    version="mcss.dynamic.policy_features.v1",
    names=(
        *_SCALARS,
        *(f"image_feature_{statistic}" for statistic in ("mean", "std", "min", "max")),
        *(
            f"rgb_residual_c{channel}_r{row}_c{column}"
            for channel in range(_CHANNELS)
            for row in range(_GRID)
            for column in range(_GRID)
        ),
        "coverage",
        "valid_count_log1p",
        "observed_count_log1p",
        *(f"camera_{motion}_{axis}" for motion in ("translation", "rotation") for axis in "xyz"),
        *(f"fast_{statistic}" for statistic in ("fuse_norm", "complete_norm", "total_norm", "max_abs")),
        *_PREVIOUS,
        "remaining_budget_log1p",
        "remaining_steps_log1p",
    ),
    categorical=_PREVIOUS,
)


def encode(control: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the features of a control input: [75] float64, in the order of `FEATURES`.

    Required are rgb_mse, opacity_mean, current_image_mean, density_mean, coverage, valid_count, observed_count,
    previous_action (null before the first action), remaining_budget, remaining_steps, and fast_norm where
    fast_state_stats [4] is not given. image_feature_stats [4] falls back on the mean, population standard
    deviation, minimum and maximum of image_feature (any shape), rgb_residual_4x4 is [3, 4, 4] or an image
    [3, H, W] to be pooled to it; these two and camera_change [6] are zeros when left out or null.

    Raises InvalidInputError for a key that is missing or unknown, a wrong shape, a number that is not finite or a
    boolean, and a negative count.
    """
    unknown = sorted(str(key) for key in control if key not in CONTROL_KEYS)
    if unknown:
        raise InvalidInputError(
            f"control_input: unexpected {unknown}; expected keys among {list(CONTROL_KEYS)}"
        )
    vector = np.concatenate(
        [
            [_number(control, name) for name in _SCALARS],
            _image_statistics(control),
            _residual(control).ravel(),
            [
                _number(control, "coverage"),
                _log_count(control, "valid_count"),
                _log_count(control, "observed_count"),
            ],
            _array(control, "camera_change", (6,), np.zeros(6)),
            _fast_state(control),
            _one_hot(control),
            [
                math.log1p(max(_number(control, "remaining_budget"), 0.0)),
                _log_count(control, "remaining_steps"),
            ],
        ],
        dtype=np.float64,
    )
    if not (np.abs(vector) < FLOAT32_LIMIT).all():
        worst = FEATURES.names[int(np.argmin(np.abs(vector) < FLOAT32_LIMIT))]
        raise InvalidInputError(
            f"control_input: feature {worst}: expected a number that is finite in float32"
        )
    return vector


def adaptive_average_pool(image: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Return the means of `size` x `size` windows that cover an image [C, H, W] evenly: [C, size, size].

    Window i of n spans from floor(i H / n) to ceil((i + 1) H / n), so neighbours overlap where n does not divide
    H: the rule of adaptive average pooling in the deep-learning libraries.
    """
    _, height, width = image.shape
    pooled = np.empty((image.shape[0], size, size))
    for row in range(size):
        rows = slice(row * height // size, -(-(row + 1) * height // size))
        for column in range(size):
            columns = slice(column * width // size, -(-(column + 1) * width // size))
            pooled[:, row, column] = image[:, rows, columns].mean(axis=(1, 2))
    return pooled


def _image_statistics(control: Mapping[str, Any]) -> NDArray[np.float64]:
    if control.get("image_feature_stats") is not None or control.get("image_feature") is None:
        return _array(control, "image_feature_stats", (4,), np.zeros(4))
    raw = _array(control, "image_feature", None)
    return np.array([raw.mean(), raw.std(), raw.min(), raw.max()])


def _residual(control: Mapping[str, Any]) -> NDArray[np.float64]:
    shape = (_CHANNELS, None, None)
    residual = _array(control, "rgb_residual_4x4", shape, np.zeros((_CHANNELS, _GRID, _GRID)))
    return adaptive_average_pool(residual, _GRID)


def _fast_state(control: Mapping[str, Any]) -> NDArray[np.float64]:
    if control.get("fast_state_stats") is not None:
        return _array(control, "fast_state_stats", (4,))
    norm = _number(control, "fast_norm")
    return np.array([norm, 0.0, norm, 0.0])


def _one_hot(control: Mapping[str, Any]) -> list[float]:
    if "previous_action" not in control:
        raise InvalidInputError("control_input.previous_action: expected an action or null, got nothing")
    previous = control["previous_action"]
    if previous is not None and not (isinstance(previous, str) and previous in ACTIONS):
        raise InvalidInputError(
            f"control_input.previous_action: expected one of {list(ACTIONS)} or null, got {shown(previous)}"
        )
    return [float(action == previous) for action in ACTIONS]


def _log_count(control: Mapping[str, Any], key: str) -> float:
    count = _number(control, key)
    if count < 0:
        raise InvalidInputError(f"control_input.{key}: expected a count of at least 0, got {shown(count)}")
    return math.log1p(count)


def _number(control: Mapping[str, Any], key: str) -> float:
    return float(_array(control, key, ()))


def _array(
    control: Mapping[str, Any],
    key: str,
    shape: tuple[int | None, ...] | None,
    default: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the finite numbers under `key`, of the `shape` given (None: any size there, or any shape at all)."""
    value = control.get(key)
    if value is None and default is not None:
        return default
    if key not in control:
        raise InvalidInputError(f"control_input.{key}: expected {_shape_text(shape)}, got nothing")
    array = _numbers(value)
    if array is None:
        raise InvalidInputError(f"control_input.{key}: expected {_shape_text(shape)}, got {shown(value)}")
    if not _fits(array.shape, shape):
        got = "an empty array" if array.size == 0 else f"shape {list(array.shape)}"
        raise InvalidInputError(f"control_input.{key}: expected {_shape_text(shape)}, got {got}")
    if not np.isfinite(array).all():
        raise InvalidInputError(f"control_input.{key}: expected finite numbers, got {shown(value)}")
    return array


def _numbers(value: object) -> NDArray[np.float64] | None:
    """Return `value` as an array, or None when it is ragged or holds anything but numbers."""
    if _holds_boolean(value):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        return None
    return array.astype(np.float64) if array.dtype.kind in "iuf" else None


def _holds_boolean(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_boolean, value))
    return isinstance(value, bool)


def _fits(got: tuple[int, ...], shape: tuple[int | None, ...] | None) -> bool:
    if 0 in got:
        return False
    if shape is None:
        return True
    return len(got) == len(shape) and all(
        want is None or want == size for want, size in zip(shape, got, strict=True)
    )


def _shape_text(shape: tuple[int | None, ...] | None) -> str:
    if shape is None:
        return "an array of numbers"
    if shape == ():
        return "a number"
    return f"numbers of shape [{', '.join('any' if size is None else str(size) for size in shape)}]"

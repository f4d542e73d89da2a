"""The encoder of the streaming-scene profile, against values worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from steersman.errors import InvalidInputError
from steersman.teacher.streaming_scene import ACTIONS, CONTROL_KEYS, FEATURES, adaptive_average_pool, encode
from tests.teacher.making import complete_control


def encoded(**changes: Any) -> dict[str, float]:
    vector = encode(complete_control(**changes))
    assert vector.shape == (75,)
    assert vector.dtype == np.float64
    return dict(zip(FEATURES.names, vector.tolist(), strict=True))


def nonzero(values: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value != 0}


def test_what_is_left_out_is_zero() -> None:
    assert nonzero(encoded()) == {
        "rgb_mse": 0.5,
        "opacity_mean": 0.25,
        "current_image_mean": 0.125,
        "density_mean": 2.0,
        "coverage": 0.75,
        "fast_fuse_norm": 3.0,
        "fast_total_norm": 3.0,
    }


def test_null_stands_for_what_may_be_left_out() -> None:
    nothing = dict.fromkeys(["image_feature", "image_feature_stats", "rgb_residual_4x4", "camera_change"])
    assert encoded(**nothing, fast_state_stats=None) == encoded()


def test_counts_and_budgets_are_logarithms() -> None:
    values = encoded(valid_count=9, observed_count=3, remaining_budget=1e6 - 1, remaining_steps=math.e - 1)
    assert values["valid_count_log1p"] == pytest.approx(math.log(10))
    assert values["observed_count_log1p"] == pytest.approx(math.log(4))
    assert values["remaining_budget_log1p"] == pytest.approx(math.log(1e6))
    assert values["remaining_steps_log1p"] == pytest.approx(1)
    assert encoded(remaining_budget=-5)["remaining_budget_log1p"] == 0


@pytest.mark.parametrize("action", ACTIONS)
def test_the_previous_action_is_one_of_four_indicators(action: str) -> None:
    values = encoded(previous_action=action)
    chosen = [name for name in FEATURES.categorical if values[name] == 1]
    assert chosen == [f"previous_action_{action.lower()}"]
    assert sum(values[name] for name in FEATURES.categorical) == 1


def test_image_statistics_are_given_or_of_the_raw_map() -> None:
    names = [f"image_feature_{name}" for name in ("mean", "std", "min", "max")]
    given = encoded(image_feature_stats=[1, 2, -3, 4], image_feature=[[9.0]])
    assert [given[name] for name in names] == [1, 2, -3, 4]
    raw = encoded(image_feature=[[1.0, 2.0], [3.0, 6.0]])
    # mean 3; deviations -2, -1, 0, 3: population variance 14 / 4
    assert [raw[name] for name in names] == [3, pytest.approx(math.sqrt(3.5)), 1, 6]


def test_the_residual_is_laid_out_channel_by_channel() -> None:
    grid = np.arange(48.0).reshape(3, 4, 4)
    for given in (grid, grid.tolist()):
        values = encoded(rgb_residual_4x4=given)
        assert values["rgb_residual_c0_r0_c0"] == 0
        assert values["rgb_residual_c0_r0_c3"] == 3
        assert values["rgb_residual_c1_r2_c3"] == 16 + 8 + 3
        assert values["rgb_residual_c2_r3_c3"] == 47


def test_a_larger_residual_is_pooled_to_four_by_four() -> None:
    image = np.zeros((3, 8, 4))
    image[1, 2:4, 0] = [10, 20]  # rows 2 and 3 are the second window of 8 rows
    values = encoded(rgb_residual_4x4=image)
    assert nonzero({k: v for k, v in values.items() if k.startswith("rgb_residual")}) == {
        "rgb_residual_c1_r1_c0": 15
    }


def test_windows_overlap_where_sizes_do_not_divide() -> None:
    image = np.array([[[1.0, 2.0, 3.0, 4.0, 5.0]]])
    # windows of five columns for four: [0, 2), [1, 3), [2, 4), [3, 5)
    assert adaptive_average_pool(image, 4)[0, 0].tolist() == [1.5, 2.5, 3.5, 4.5]
    # a single column serves every window
    assert adaptive_average_pool(np.array([[[7.0]]]), 4).tolist() == [[[7.0] * 4] * 4]


def test_pooling_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="the fit extra is not installed")
    draw = np.random.default_rng(5)
    for height, width in ((4, 4), (5, 7), (3, 2), (17, 31), (1, 9)):
        image = draw.normal(size=(3, height, width))
        expected = torch.nn.functional.adaptive_avg_pool2d(torch.from_numpy(image), 4).numpy()
        np.testing.assert_allclose(adaptive_average_pool(image, 4), expected, rtol=1e-12, atol=1e-12)


def test_camera_change_and_fast_state_are_taken_in_order() -> None:
    values = encoded(camera_change=[1, 2, 3, 4, 5, 6], fast_state_stats=[7, 8, 9, 10])
    names = [name for name in FEATURES.names if name.startswith(("camera_", "fast_"))]
    assert [values[name] for name in names] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_fast_norm_is_needed_only_without_fast_state_statistics() -> None:
    control = complete_control(fast_state_stats=[7, 8, 9, 10])
    del control["fast_norm"]
    assert encode(control)[FEATURES.position["fast_fuse_norm"]] == 7


@pytest.mark.parametrize("key", sorted(complete_control()))
def test_what_has_no_default_is_required(key: str) -> None:
    control = complete_control()
    del control[key]
    with pytest.raises(InvalidInputError, match=rf"control_input\.{key}: expected .*, got nothing"):
        encode(control)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"other": 1}, r"unexpected \['other'\]"),
        ({"rgb_mse": True}, r"rgb_mse: expected a number, got true"),
        ({"rgb_mse": "1"}, r'rgb_mse: expected a number, got "1"'),
        ({"rgb_mse": None}, r"rgb_mse: expected a number, got null"),
        ({"rgb_mse": [1.0]}, r"rgb_mse: expected a number, got shape \[1\]"),
        ({"rgb_mse": math.nan}, r"rgb_mse: expected finite numbers, got NaN"),
        ({"coverage": math.inf}, r"coverage: expected finite numbers, got Infinity"),
        ({"density_mean": 1e39}, r"feature density_mean: expected a number that is finite in float32"),
        ({"valid_count": -1}, r"valid_count: expected a count of at least 0, got -1"),
        ({"observed_count": -0.5}, r"observed_count: expected a count of at least 0, got -0\.5"),
        ({"remaining_steps": -2}, r"remaining_steps: expected a count of at least 0"),
        ({"remaining_budget": math.nan}, r"remaining_budget: expected finite numbers"),
        ({"previous_action": "NONE"}, r"previous_action: expected one of .* or null, got \"NONE\""),
        ({"previous_action": 1}, r"previous_action: expected one of .* or null, got 1"),
        (
            {"camera_change": [1, 2, 3, 4, 5]},
            r"camera_change: expected numbers of shape \[6\], got shape \[5\]",
        ),
        ({"camera_change": [1, 2, 3, 4, 5, None]}, r"camera_change: expected numbers of shape \[6\]"),
        ({"camera_change": [1, 2, 3, 4, 5, True]}, r"camera_change: expected numbers of shape \[6\]"),
        ({"fast_state_stats": [[1, 2], [3, 4]]}, r"fast_state_stats: expected numbers of shape \[4\]"),
        ({"image_feature_stats": [1, 2, 3]}, r"image_feature_stats: expected numbers of shape \[4\]"),
        ({"image_feature": []}, r"image_feature: expected an array of numbers, got an empty array"),
        ({"image_feature": [[1, 2], [3]]}, r"image_feature: expected an array of numbers"),
        ({"image_feature": [[1, math.nan]]}, r"image_feature: expected finite numbers"),
        (
            {"rgb_residual_4x4": [[1.0] * 4] * 4},
            r"rgb_residual_4x4: expected numbers of shape \[3, any, any\]",
        ),
        (
            {"rgb_residual_4x4": np.zeros((4, 4, 4))},
            r"rgb_residual_4x4: expected numbers of shape \[3, any, any\]",
        ),
        ({"rgb_residual_4x4": np.zeros((3, 0, 4))}, r"rgb_residual_4x4: .* got an empty array"),
    ],
)
def test_what_cannot_be_encoded_is_refused(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidInputError, match=expected):
        encode(complete_control(**changes))


def test_the_control_keys_are_the_sixteen() -> None:
    assert len(CONTROL_KEYS) == len(set(CONTROL_KEYS)) == 16
    assert set(complete_control()) < set(CONTROL_KEYS)

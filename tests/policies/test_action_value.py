"""The runtime policies of a fit: values against formulas written out, observations, and feasible actions."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from steersman.domain.features import FeatureSchema
from steersman.errors import InvalidActionError, InvalidCheckpointError, InvalidInputError
from steersman.policies.action_value import ActionValuePolicy, Layers
from steersman.policies.fitted import FittedPolicy
from steersman.policies.inputs import FeatureScaling
from tests.support.fitted import (
    CATALOGUE,
    EVERY_KIND,
    NULLABLE_SCHEMA,
    SCHEMA,
    forest,
    mlp,
    ranking,
)

OBSERVATION = [0.5, -1.25, 1.0]


def by_the_book(policy: ActionValuePolicy, features: list[float], missing: list[float]) -> list[float]:
    """The network as it is defined, in plain Python and float64."""
    scaling, layers = policy.scaling, policy.layers
    inputs = [
        (x - float(m)) / float(s) for x, m, s in zip(features, scaling.mean, scaling.scale, strict=True)
    ]
    inputs += missing
    hidden = []
    for weights, bias in zip(layers.hidden_weight, layers.hidden_bias, strict=True):
        h = math.fsum(float(w) * x for w, x in zip(weights, inputs, strict=True)) + float(bias)
        hidden.append(
            h / (1.0 + math.exp(-h)) if h > -700.0 else 0.0
        )  # exp would overflow; it is 0 to 300 digits
    return [
        math.fsum(float(w) * a for w, a in zip(weights, hidden, strict=True)) + float(bias)
        for weights, bias in zip(layers.output_weight, layers.output_bias, strict=True)
    ]


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=3), st.integers(0, 20))
def test_values_are_those_of_the_formula(features: list[float], seed: int) -> None:
    policy = mlp(seed=seed)
    np.testing.assert_allclose(
        policy.all_values(features), by_the_book(policy, features, []), rtol=1e-10, atol=1e-10
    )


def test_a_missing_feature_stands_at_its_mean_and_is_indicated() -> None:
    policy = mlp(NULLABLE_SCHEMA)
    present = by_the_book(policy, [0.5, -1.25, 1.0], [0.0])
    absent = by_the_book(policy, [0.5, -3.0, 1.0], [1.0])
    np.testing.assert_allclose(policy.all_values([0.5, -1.25, 1.0]), present, rtol=1e-12)
    for observation in ([0.5, None, 1.0], [0.5, math.nan, 1.0], {"gap": 0.5, "is_late": 1}):
        np.testing.assert_allclose(policy.all_values(observation), absent, rtol=1e-12)


def test_values_of_a_forest_by_hand() -> None:
    policy = forest()
    # Each is the mean of a leaf of the first tree and of the single leaf (0.5, 0.5, 0).
    assert policy.all_values([1.0, 0.0, 0.0]) == [0.75, 0.25, 0.0]  # gap <= 1, pace <= 0: leaf (1, 0, 0)
    assert policy.all_values([1.0, 0.5, 0.0]) == [0.25, 0.25, 1.0]  # pace > 0: leaf (0, 0, 2)
    assert policy.all_values([1.5, 0.0, 0.0]) == [0.25, 2.25, 0.0]  # gap > 1: leaf (0, 4, 0)


@pytest.mark.parametrize(
    ("shape", "units"),
    [
        ((75, 32, 4), 75 * 32 + 32 * 4 + 75 + 32 + 4),
        ((3, 5, 3), 41),
    ],
)
def test_declared_work_units(shape: tuple[int, int, int], units: int) -> None:
    inputs, hidden, actions = shape
    schema = FeatureSchema("v1", tuple(f"x{index}" for index in range(inputs)))
    layers = Layers(
        np.zeros((hidden, inputs), dtype=np.float32),
        np.zeros(hidden, dtype=np.float32),
        np.zeros((actions, hidden), dtype=np.float32),
        np.zeros(actions, dtype=np.float32),
    )
    scaling = FeatureScaling.of(schema, np.zeros(inputs, dtype=np.float32), np.ones(inputs, dtype=np.float32))
    catalogue = type(CATALOGUE).of(range(actions))
    assert ActionValuePolicy(catalogue, schema, scaling, layers).declared_work_units == units


def test_work_units_count_indicators_and_trees() -> None:
    assert mlp(NULLABLE_SCHEMA).declared_work_units == 4 * 5 + 5 * 3 + 4 + 5 + 3
    assert forest().declared_work_units == 2 * (2 + 3)  # two trees, at most two questions, three values each
    assert ranking().declared_work_units == 3


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_the_best_feasible_action_is_chosen(kind: str) -> None:
    policy = EVERY_KIND[kind]()
    values = policy.all_values(OBSERVATION)
    for feasible in (["hold"], ["push", "yield"], ["yield", "push", "hold"], None):
        ids = feasible or list(CATALOGUE.ids)
        best = max(
            sorted(ids, key=CATALOGUE.ids.index), key=lambda action: values[CATALOGUE.position[action]]
        )
        found = policy.choose(OBSERVATION, feasible)
        assert (found.action, CATALOGUE.ids[found.position]) == (best, best)
        assert (found.propensity, found.explored) == (1.0, False)


def test_ties_go_to_catalogue_order() -> None:
    layers = mlp().layers
    flat = Layers(
        layers.hidden_weight,
        layers.hidden_bias,
        np.zeros_like(layers.output_weight),
        np.array([1.0, 2.0, 2.0], dtype=np.float32),
    )
    policy = ActionValuePolicy(CATALOGUE, SCHEMA, mlp().scaling, flat)
    assert policy.choose(OBSERVATION, ["yield", "push"]).action == "push"
    assert policy.choose(OBSERVATION, [0, 1, 2], 0.5, explore=False).action == "push"
    assert policy.probabilities(OBSERVATION, [0, 1, 2]) == pytest.approx([0.1 / 3, 0.9 + 0.1 / 3, 0.1 / 3])


@pytest.mark.parametrize(
    ("feasible", "message"),
    [
        ([], "at least one"),
        (["fly"], "'fly'"),
        (["hold", "hold"], "once"),
        ([0], "'0'"),  # a number is an id of its own, never a position
    ],
)
def test_feasible_actions_must_be_known_and_come_once(feasible: list[str], message: str) -> None:
    with pytest.raises(InvalidActionError, match=message):
        mlp().choose(OBSERVATION, feasible)


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize(
    "observation",
    [
        [],
        [1.0, 2.0],
        [1.0, 2.0, 3.0, 4.0],
        [[1.0, 2.0, 3.0]],
        [1.0, 2.0, None],
        [1.0, 2.0, True],
        [1.0, 2.0, "3"],
        [1.0, 2.0, math.nan],
        [1.0, 2.0, math.inf],
        [1.0, 2.0, -1e39],
        [1.0, 2.0, 10**400],
        "123",
        b"123",
        7,
        None,
        {"gap": 1.0, "pace": 2.0},
        {"gap": 1.0, "pace": 2.0, "is_late": 0, "other": 1},
        {"gap": 1.0, "pace": "2", "is_late": 0},
        np.array([1.0, 2.0]),
        np.array([[1.0, 2.0, 3.0]]),
        np.array(["1", "2", "3"]),
        np.array([True, False, True]),
        np.array([1.0, 2.0, np.inf]),
        np.array([1, 2, 3], dtype=object),
        np.array([1j, 2j, 3j]),
    ],
    ids=repr,
)
def test_observations_that_are_no_feature_vector_are_refused(kind: str, observation: object) -> None:
    with pytest.raises(InvalidInputError):
        EVERY_KIND[kind]().choose(observation)


@pytest.mark.parametrize(
    "observation",
    [
        (0.5, -1.25, 1),
        [np.float32(0.5), np.float64(-1.25), np.int64(1)],
        np.array([0.5, -1.25, 1.0]),
        np.array([0.5, -1.25, 1.0], dtype=np.float32),
        {"gap": 0.5, "pace": -1.25, "is_late": 1},
    ],
    ids=repr,
)
def test_observations_may_come_in_several_forms(observation: object) -> None:
    assert mlp().all_values(observation) == mlp().all_values(OBSERVATION)


def test_the_largest_numbers_of_float32_are_taken() -> None:
    largest = float(np.finfo(np.float32).max)
    assert all(map(math.isfinite, mlp().all_values([largest, -largest, largest])))


def test_an_encoder_turns_a_control_input_into_features() -> None:
    def encode(control: object) -> NDArray[np.float64]:
        assert control == {"frame": 3}
        return np.array(OBSERVATION)

    policy = ActionValuePolicy(CATALOGUE, SCHEMA, mlp().scaling, mlp().layers, encoder=encode)
    assert policy.all_values({"frame": 3}) == mlp().all_values(OBSERVATION)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_batch_equals_single_rows_to_the_last_bit(kind: str) -> None:
    policy = EVERY_KIND[kind]()
    features = np.random.default_rng(0).normal(size=(300, 3))
    assert policy.batch_values(features).tolist() == [policy.all_values(row) for row in features]
    assert policy.batch_values(features[:0]).shape == (0, 3)
    broken = features.copy()
    broken[7, 1] = np.inf
    with pytest.raises(InvalidInputError, match=r"features\[1\]"):
        policy.batch_values(broken)


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_payload_of_json_makes_an_equal_policy(kind: str) -> None:
    policy = EVERY_KIND[kind]()
    again = type(policy).from_payload(json.loads(json.dumps(policy.to_payload())))
    assert isinstance(again, FittedPolicy)
    assert again.to_payload() == policy.to_payload()
    assert again.all_values(OBSERVATION) == policy.all_values(OBSERVATION)


@pytest.mark.parametrize(
    "item",
    [
        {},
        None,
        {"dtype": "object", "shape": [3], "base64": ""},
        {"dtype": "float64", "shape": [3], "base64": "AAAA"},
        {"dtype": "float64", "shape": [3], "base64": "not base 64!"},
        {"dtype": "float64", "shape": [4], "base64": "AAAAAAAA8D8AAAAAAADwPwAAAAAAAPA/"},
        {"dtype": "float64", "shape": "3", "base64": "AAAAAAAA8D8AAAAAAADwPwAAAAAAAPA/"},
    ],
)
def test_a_payload_with_broken_tensors_is_refused(item: object) -> None:
    payload = ranking().to_payload()
    payload["tensors"]["values"] = item
    with pytest.raises(InvalidCheckpointError):
        type(ranking()).from_payload(payload)


def test_choosing_imports_no_torch() -> None:
    script = (
        "import sys; from tests.support.fitted import mlp; mlp().choose([0.5, -1.25, 1.0]);"
        "print([name for name in ('torch', 'sklearn', 'safetensors') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"

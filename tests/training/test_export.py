from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steersman.errors import InvalidInputError, OutputExistsError
from tests.support.fitted import NULLABLE_SCHEMA, mlp
from tests.support.teaching import draw_rows

torch = pytest.importorskip("torch")

from steersman.policies.action_value import ActionValuePolicy  # noqa: E402
from steersman.training.export import export_onnx, to_torch  # noqa: E402
from steersman.training.fit import fit_action_policy  # noqa: E402


def fitted() -> tuple[ActionValuePolicy, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    result = fit_action_policy(draw_rows(scenes=6, rows=8), epochs=60, learning_rate=0.01)
    assert isinstance(result.policy, ActionValuePolicy)
    return result.policy, result.training.features


def test_the_torch_module_agrees_to_a_millionth() -> None:
    policy, features = fitted()
    with torch.no_grad():
        values = to_torch(policy)(torch.from_numpy(features)).numpy()
    expected = policy.batch_values(features)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_the_torch_module_knows_ranks() -> None:
    rows = draw_rows(scenes=6, rows=8)
    result = fit_action_policy(rows, epochs=60, learning_rate=0.01, inputs="ranked")
    assert isinstance(result.policy, ActionValuePolicy)
    features = result.heldout.features
    with torch.no_grad():
        values = to_torch(result.policy)(torch.from_numpy(features)).numpy()
    expected = result.policy.batch_values(features)
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    pytest.importorskip("onnx")
    with pytest.raises(InvalidInputError, match="ranked inputs"):
        export_onnx(result.policy, Path("nowhere"))


def test_the_torch_module_takes_missing_features() -> None:
    policy = mlp(NULLABLE_SCHEMA)
    features = np.array([[0.5, np.nan, 1.0], [0.5, -1.0, 0.0]], dtype=np.float32)
    with torch.no_grad():
        values = to_torch(policy)(torch.from_numpy(features)).numpy()
    expected = policy.batch_values(features)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_what_is_missing_and_must_not_be_makes_no_value() -> None:
    features = np.array([[0.5, -1.0, np.nan], [0.5, -1.0, 0.0]], dtype=np.float32)
    policy = mlp(NULLABLE_SCHEMA)
    assert policy.scaling.nullable.tolist() == [1]
    with torch.no_grad():
        values = to_torch(policy)(torch.from_numpy(features)).numpy()
    assert np.isnan(values[0]).all()
    assert np.isfinite(values[1]).all()


def test_the_onnx_model_agrees_to_a_millionth(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    policy, features = fitted()
    path = tmp_path / "policy.onnx"
    export_onnx(policy, path)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (values,) = session.run(["values"], {"features": features})
    expected = policy.batch_values(features)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    with pytest.raises(OutputExistsError):
        export_onnx(policy, path)
    with pytest.raises(InvalidInputError, match="nullable"):
        export_onnx(mlp(NULLABLE_SCHEMA), tmp_path / "other.onnx")

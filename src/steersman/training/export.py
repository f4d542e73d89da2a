"""A fitted network for other runtimes: PyTorch and ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from steersman.errors import InvalidInputError, MissingExtraError
from steersman.files import check_absent, new_file
from steersman.policies.action_value import ActionValuePolicy
from steersman.policies.ranks import RankScores
from steersman.training.mlp import MlpNetwork

__all__ = ["TorchPolicy", "export_onnx", "to_torch"]

_OPSET = 17
_IR_VERSION = 8


class TorchPolicy(nn.Module):
    """The network with its normalisation as buffers: features [n, D] -> values [n, A], float32.

    A missing nullable feature is NaN. NaN anywhere else makes the values NaN: a module cannot refuse, as a policy
    does.
    """

    mean: Tensor  # [D]
    scale: Tensor  # [D]
    nullable: Tensor  # [K] positions

    def __init__(self, policy: ActionValuePolicy) -> None:
        """Copy the weights of `policy`."""
        super().__init__()
        scaling = policy.scaling
        self.register_buffer("mean", torch.tensor(scaling.mean))
        self.register_buffer("scale", torch.tensor(scaling.scale))
        self.register_buffer("nullable", torch.tensor(scaling.nullable))
        self.ranks = None if scaling.ranks is None else _TorchRanks(scaling.ranks)
        self.network = MlpNetwork(policy.layers)

    def forward(self, features: Tensor) -> Tensor:
        """Return one value per action: [n, D] -> [n, A]."""
        missing = torch.isnan(features[:, self.nullable])
        normalised = (features - self.mean) / self.scale
        normalised[:, self.nullable] = torch.where(missing, 0.0, normalised[:, self.nullable])
        parts = [normalised]
        if self.ranks is not None:
            parts.append(self.ranks(features))
        parts.append(missing.to(features.dtype))
        values: Tensor = self.network(torch.cat(parts, dim=1))
        return values


class _TorchRanks(nn.Module):
    columns: Tensor  # [R]
    knots: Tensor  # [Q, R]
    scores: Tensor  # [Q, R]

    def __init__(self, ranks: RankScores) -> None:
        super().__init__()
        self.register_buffer("columns", torch.tensor(ranks.columns))
        self.register_buffer("knots", torch.tensor(ranks.knots))
        self.register_buffer("scores", torch.tensor(ranks.scores))

    def forward(self, features: Tensor) -> Tensor:
        values = features[:, self.columns]
        piece = (values.unsqueeze(1) >= self.knots).sum(dim=1) - 1
        piece = piece.clamp(0, len(self.knots) - 2)
        low, high = self.knots.gather(0, piece), self.knots.gather(0, piece + 1)
        first, last = self.scores.gather(0, piece), self.scores.gather(0, piece + 1)
        width = high - low
        share = torch.where(width > 0, (values - low) / width, 0.0).clamp(0.0, 1.0)
        return torch.where(torch.isnan(values), 0.0, first + share * (last - first))


def to_torch(policy: ActionValuePolicy) -> TorchPolicy:
    """Return `policy` as a PyTorch module, equal to it within float32."""
    return TorchPolicy(policy).eval()


def export_onnx(policy: ActionValuePolicy, path: Path) -> None:
    """Write `policy` as an ONNX model: input `features` [n, D] float32, output `values` [n, A] float32.

    Raises InvalidInputError for a policy with nullable features or ranked inputs or a place that cannot be
    written, OutputExistsError, MissingExtraError.
    """
    try:
        import onnx
        from onnx import helper, numpy_helper
    except ImportError as error:
        raise MissingExtraError("onnx", purpose="exporting to ONNX") from error
    if not policy.scaling.plain:
        raise InvalidInputError("export_onnx: expected a policy without nullable features and ranked inputs")
    check_absent(path)
    layers = policy.layers
    constants = {
        "mean": policy.scaling.mean,
        "scale": policy.scaling.scale,
        "hidden_weight": layers.hidden_weight,
        "hidden_bias": layers.hidden_bias,
        "output_weight": layers.output_weight,
        "output_bias": layers.output_bias,
    }
    nodes = [
        helper.make_node("Sub", ["features", "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "scale"], ["normalised"]),
        helper.make_node("Gemm", ["normalised", "hidden_weight", "hidden_bias"], ["hidden"], transB=1),
        helper.make_node("Sigmoid", ["hidden"], ["gate"]),
        helper.make_node("Mul", ["hidden", "gate"], ["active"]),
        helper.make_node("Gemm", ["active", "output_weight", "output_bias"], ["values"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "steersman_policy",
        [_shaped(helper, onnx, "features", len(policy.schema))],
        [_shaped(helper, onnx, "values", len(policy.catalogue))],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    with new_file(path) as part:
        part.write_bytes(model.SerializeToString())


def _shaped(helper: Any, onnx: Any, name: str, width: int) -> Any:
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", width])

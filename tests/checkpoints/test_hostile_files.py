"""Files that are no checkpoints, or no longer: each is refused whole, and none of them ever runs anything."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.checkpoints import format as checkpoint_format
from steersman.checkpoints.encoding import MAX_HEADER_BYTES, decode, encode
from steersman.checkpoints.format import load_checkpoint
from steersman.domain.canonical import canonical_json
from steersman.errors import InvalidCheckpointError
from tests.support.fitted import EVERY_KIND, ranking, save, signed

Payload = dict[str, Any]
Arrays = dict[str, Any]


class Bomb:
    """An object whose unpickling makes a folder."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.mark),)


def file_of(kind: str, folder: Path) -> bytes:
    path = folder / "sound.safetensors"
    save(path, EVERY_KIND[kind]())
    data = path.read_bytes()
    path.unlink()
    return data


def refuse(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(InvalidCheckpointError) as caught:
        load_checkpoint(path)
    return caught.value.message


def raw(header: str | bytes, body: bytes = b"") -> bytes:
    text = header.encode() if isinstance(header, str) else header
    return len(text).to_bytes(8, "little") + text + body


def zipped(name: str, content: bytes) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


METADATA = '"__metadata__":{"steersman":"{}"}'

FOREIGN: dict[str, Callable[[Path], bytes]] = {
    "nothing": lambda _: b"",
    "seven bytes": lambda _: b"1234567",
    "eight zeros": lambda _: bytes(8),
    "text": lambda _: b"policy\n" * 100,
    "JSON": lambda _: b'{"schema": "steersman.policy.v1"}',
    "pickle": lambda mark: pickle.dumps(Bomb(mark)),
    "pickle as header": lambda mark: raw(pickle.dumps(Bomb(mark))),
    "zip with a pickle": lambda mark: zipped("archive/data.pkl", pickle.dumps(Bomb(mark))),
    "npz": lambda mark: zipped("weights.npy", b"\x93NUMPY\x01\x00" + pickle.dumps(Bomb(mark))),
    "gzip": lambda mark: gzip.compress(pickle.dumps(Bomb(mark))),
    "script": lambda mark: f"#!/bin/sh\nmkdir {mark}\n".encode(),
    "length of all ones": lambda _: b"\xff" * 8 + b"{}",
    "length beyond the file": lambda _: (100).to_bytes(8, "little") + b"{}",
    "length of a negative number": lambda _: (2**63).to_bytes(8, "little") + b"{}",
    "giant length": lambda _: (MAX_HEADER_BYTES + 1).to_bytes(8, "little") + b" " * (MAX_HEADER_BYTES + 1),
    "deep nesting": lambda _: raw("[" * 200_000),
    "deep nesting in the metadata": lambda _: raw(
        json.dumps({"__metadata__": {"steersman": '{"a":' * 100_000 + "1" + "}" * 100_000}})
    ),
    "header that is a list": lambda _: raw("[]"),
    "header that is no JSON": lambda _: raw("{]"),
    "header with a byte order mark": lambda _: raw(b"\xef\xbb\xbf{}"),
    "header with a NUL": lambda _: raw(b'{"\x00":1}'),
    "header not in ASCII": lambda _: raw('{"é":1}'),
    "header with NaN": lambda _: raw('{"a":NaN}'),
    "header with 1e999": lambda _: raw('{"a":1e999}'),
    "header with a huge integer": lambda _: raw('{"a":' + "9" * 5000 + "}"),
    "no metadata": lambda _: raw("{}"),
    "metadata of another program": lambda _: raw('{"__metadata__":{"format":"pt"}}'),
    "metadata that is a text": lambda _: raw('{"__metadata__":"steersman"}'),
    "metadata that holds a number": lambda _: raw('{"__metadata__":{"steersman":1}}'),
    "two entries": lambda _: raw('{"__metadata__":{"a":"b","steersman":"{}"}}'),
    "repeated entry": lambda _: raw('{"__metadata__":{"steersman":"{}","steersman":"{}"}}'),
    "repeated metadata": lambda _: raw("{" + METADATA + "," + METADATA + "}"),
    "empty payload": lambda _: raw("{" + METADATA + "}"),
    "payload that is a list": lambda _: raw('{"__metadata__":{"steersman":"[]"}}'),
    "payload with a lone surrogate": lambda _: raw('{"__metadata__":{"steersman":"\\ud800"}}'),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_other_kinds_are_refused_and_run_nothing(tmp_path: Path, name: str) -> None:
    mark = tmp_path / "mark"
    refuse(tmp_path / "policy.safetensors", FOREIGN[name](mark))
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", ["nothing", "seven bytes", "eight zeros", "text", "JSON", "pickle", "gzip", "script"]
)
def test_a_file_that_is_none_is_called_so(tmp_path: Path, name: str) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(FOREIGN[name](tmp_path / "mark"))
    with pytest.raises(InvalidCheckpointError) as caught:
        load_checkpoint(path)
    assert str(caught.value) == (
        f"{path}: expected a checkpoint, and this is no .safetensors file "
        "(a checkpoint is what `steersman fit --output` writes)"
    )


def test_a_file_that_was_cut_short_is_called_so(tmp_path: Path) -> None:
    data = file_of("mlp", tmp_path)
    size = int.from_bytes(data[:8], "little")
    told = refuse(tmp_path / "policy.safetensors", data[:1000])
    assert told == f"header: expected {size} bytes, and 992 are left: the file was cut short"


def test_weights_of_another_program_are_called_so(tmp_path: Path) -> None:
    told = refuse(tmp_path / "model.safetensors", FOREIGN["metadata of another program"](tmp_path))
    assert told.endswith("Steersman did not write this file")


def with_header(data: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    change(header)
    text = canonical_json(header).encode()
    return raw(text + b" " * (-len(text) % 8), data[8 + size :])


def tensor_change(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: header["values"].update(fields)


HEADERS: dict[str, Callable[[dict[str, Any]], None]] = {
    "unknown dtype": tensor_change(dtype="BF16"),
    "dtype that is a list": tensor_change(dtype=["F64"]),
    "pickled dtype": tensor_change(dtype="object"),
    "negative size": tensor_change(shape=[-3]),
    "two negative sizes": tensor_change(shape=[-1, -3]),
    "size that is true": tensor_change(shape=[True, 3]),
    "size that is a fraction": tensor_change(shape=[3.0]),
    "three sizes": tensor_change(shape=[1, 1, 3]),
    "enormous size": tensor_change(shape=[2**60]),
    "product that wraps around": tensor_change(shape=[2**32, 2**32]),
    "shape that is a text": tensor_change(shape="3"),
    "offsets beyond the end": tensor_change(data_offsets=[0, 10**9]),
    "offsets the wrong way round": tensor_change(data_offsets=[24, 0]),
    "negative offset": tensor_change(data_offsets=[-24, 0]),
    "one offset": tensor_change(data_offsets=[24]),
    "extra field": tensor_change(extra=1),
    "tensor that is a number": lambda header: header.update(values=1),
    "second tensor on the same bytes": lambda header: header.update(other=header["values"]),
    "empty tensor": lambda header: header.update(
        nothing={"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    ),
    "no tensor": lambda header: header.pop("values"),
    "other name": lambda header: header.update(value=header.pop("values")),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_lie_about_tensors_are_refused(tmp_path: Path, name: str) -> None:
    data = file_of("ranking", tmp_path)
    assert with_header(data, lambda _: None) == data
    refuse(tmp_path / "policy.safetensors", with_header(data, HEADERS[name]))


def test_the_same_content_in_another_layout_is_refused(tmp_path: Path) -> None:
    path, data = tmp_path / "policy.safetensors", file_of("ranking", tmp_path)
    size = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + size].rstrip(b" "), data[8 + size :]
    for other in (
        raw(header + b" " * 16, body),  # other padding
        raw(header + b"\t", body),
        raw(b" " + header, body),
        raw(header.replace(b'"dtype":', b'"dtype": '), body),
        raw(json.dumps(json.loads(header)).encode(), body),
        raw(header.replace(b"__metadata__", b"\\u005f_metadata__"), body),
        data + b"\0",
        data + body,
        b"\0" + data,
    ):
        assert other != data
        refuse(path, other)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    path, data = tmp_path / "policy.safetensors", file_of("ranking", tmp_path)
    for length in range(len(data)):
        with pytest.raises(InvalidCheckpointError):
            decode(data[:length])
    refuse(path, data[: len(data) // 2])


def test_every_flipped_bit_is_caught(tmp_path: Path) -> None:
    data = file_of("ranking", tmp_path)
    assert checkpoint_format._load(data).sha256  # as load_checkpoint does once it has read the file
    for position in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(InvalidCheckpointError):
            checkpoint_format._load(bytes(flipped))


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_changed_bytes_are_caught_in_every_kind(tmp_path: Path, kind: str) -> None:
    path, data = tmp_path / "policy.safetensors", file_of(kind, tmp_path)
    draw = random.Random(5)
    for _ in range(200):
        changed = bytearray(data)
        how, place = draw.randrange(3), draw.randrange(len(data))
        if how == 0:
            changed[place] ^= draw.randrange(1, 256)
        elif how == 1:
            del changed[place : place + draw.randrange(1, 9)]
        else:
            changed[place:place] = draw.randbytes(draw.randrange(1, 9))
        refuse(path, bytes(changed))


def payload_change(**fields: Any) -> Callable[[Payload, Arrays], None]:
    return lambda payload, _: payload.update(fields)


def inner(field: str, **fields: Any) -> Callable[[Payload, Arrays], None]:
    return lambda payload, _: payload[field].update(fields)


def array_change(name: str, index: Any, value: float) -> Callable[[Payload, Arrays], None]:
    def change(_: Payload, arrays: Arrays) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name][index] = value

    return change


def replaced(name: str, make: Callable[[Any], Any]) -> Callable[[Payload, Arrays], None]:
    return lambda _, arrays: arrays.update({name: make(arrays[name])})


def without(field: str) -> Callable[[Payload, Arrays], None]:
    return lambda payload, _: payload.pop(field)


# A file whose digest is right: someone made it so. (kind, change, what the message says)
SIGNED: dict[str, tuple[str, Callable[[Payload, Arrays], None], str]] = {
    "other schema": ("mlp", payload_change(schema="steersman.policy.v2"), "schema: expected"),
    "extra field": ("mlp", payload_change(extra=1), "payload: expected the fields"),
    "missing field": ("mlp", without("probe_rows"), "payload: expected the fields"),
    "unknown kind": ("mlp", inner("policy", kind="pickle"), "policy.kind"),
    "kind that is a list": ("mlp", inner("policy", kind=["mlp"]), "policy.kind"),
    "kind of another policy": ("mlp", inner("policy", kind="fixed_ranking"), "tensors: expected"),
    "online kind": ("mlp", inner("policy", kind="ucb_q_table"), "policy.kind"),
    "policy that is a list": ("mlp", payload_change(policy=[]), "policy: expected a JSON object"),
    "binding that is null": ("mlp", payload_change(binding=None), "binding: expected a JSON object"),
    "binding without data": ("mlp", payload_change(binding={}), "binding: missing"),
    "binding of other features": (
        "mlp",
        inner("binding", feature_schema_version="v9"),
        "binding.feature_schema_version",
    ),
    "binding of features that are null": (
        "mlp",
        inner("binding", feature_schema_version=None),
        "binding.feature_schema_version",
    ),
    "data set without a hash": (
        "mlp",
        inner("binding", teacher_dataset_hash=None),
        "binding.teacher_dataset_hash: expected 64",
    ),
    "data set with a hash that is none": (
        "mlp",
        inner("binding", teacher_dataset_hash="0" * 63 + "g"),
        "binding.teacher_dataset_hash: expected 64",
    ),
    "files that are a number": (
        "mlp",
        inner("binding", teacher_source_hashes=5),
        "binding.teacher_source_hashes: expected an object",
    ),
    "file without a hash": (
        "mlp",
        inner("binding", teacher_source_hashes={"rows.jsonl": ""}),
        "binding.teacher_source_hashes: expected an object",
    ),
    "no probe rows": ("mlp", payload_change(probe_rows=[]), "probe_rows: expected at least one"),
    "provenance of another schema": ("mlp", payload_change(provenance={}), "provenance.schema"),
    "catalogue of a text": ("mlp", payload_change(catalogue="abc"), "catalogue"),
    "catalogue with a repeated id": ("mlp", payload_change(catalogue=["hold", "hold", "push"]), "distinct"),
    "catalogue in part": ("mlp", payload_change(catalogue=["hold", "push"]), "output.weight"),
    "catalogue of numbers": ("mlp", payload_change(catalogue=[1, 2, 3]), "payload"),
    "catalogue of lists": ("mlp", payload_change(catalogue=[[], [], []]), "payload"),
    "no feature": ("mlp", inner("feature_schema", names=[]), "payload"),
    "repeated feature": ("mlp", inner("feature_schema", names=["a", "a", "b"]), "payload"),
    "unknown indicator": ("mlp", inner("feature_schema", categorical=["x"]), "payload"),
    "another nullable feature": ("mlp", inner("feature_schema", nullable=["gap"]), "hidden.weight"),
    "other normalisation": ("mlp", payload_change(normalisation={"method": "none"}), "normalisation"),
    "epsilon above 1": ("mlp", inner("policy", epsilon=1.5), "policy.epsilon"),
    "epsilon that is true": ("mlp", inner("policy", epsilon=True), "policy.epsilon"),
    "no epsilon": ("mlp", lambda payload, _: payload["policy"].pop("epsilon"), "policy.epsilon"),
    "other hidden_dim": ("mlp", inner("policy", hidden_dim=6), "hidden.weight"),
    "hidden_dim that is true": ("mlp", inner("policy", hidden_dim=True), "policy.hidden_dim"),
    "enormous hidden_dim": ("mlp", inner("policy", hidden_dim=10**15), "policy.hidden_dim"),
    "unknown inputs": ("mlp", inner("policy", inputs=["plain"]), "policy.inputs"),
    "ranked inputs without knots": ("mlp", inner("policy", inputs="ranked"), "tensors: expected"),
    "other activation": ("mlp", inner("policy", activation="exec"), "policy: expected"),
    "other work": ("mlp", inner("policy", declared_work_units=1), "policy: expected"),
    "NaN weight": ("mlp", array_change("hidden.weight", (0, 0), np.nan), "tensors.hidden.weight"),
    "infinite bias": ("mlp", array_change("output.bias", 0, np.inf), "tensors.output.bias"),
    "scale of 0": ("mlp", array_change("normalisation.scale", 0, 0.0), "normalisation.scale"),
    "negative scale": ("mlp", array_change("normalisation.scale", 0, -1.0), "normalisation.scale"),
    "other weight": ("mlp", array_change("hidden.weight", (0, 0), 9.0), "probe_rows[0]"),
    "transposed weight": ("mlp", replaced("hidden.weight", lambda a: a.T.copy()), "tensors.hidden.weight"),
    "weight in float64": ("mlp", replaced("hidden.weight", lambda a: a.astype(float)), "tensors.hidden"),
    "integer bias": ("mlp", replaced("hidden.bias", lambda a: a.astype(np.int32)), "tensors.hidden.bias"),
    "extra tensor": ("mlp", lambda _, arrays: arrays.update(more=np.zeros(1)), "tensors: expected"),
    "missing tensor": ("mlp", lambda _, arrays: arrays.pop("hidden.bias"), "tensors: expected"),
    "probe rows that are a number": ("mlp", payload_change(probe_rows=1), "probe_rows"),
    "probe row that is a list": ("mlp", payload_change(probe_rows=[[]]), "probe_rows[0]"),
    "probe row of two features": (
        "mlp",
        payload_change(probe_rows=[{"features": [1, 2], "values": [0, 0, 0]}]),
        "probe_rows[0]",
    ),
    "probe row with a text": (
        "mlp",
        payload_change(probe_rows=[{"features": ["1", 2, 3], "values": [0, 0, 0]}]),
        "probe_rows[0]",
    ),
    "probe row of two values": (
        "mlp",
        payload_change(probe_rows=[{"features": [1, 2, 0], "values": [0, 0]}]),
        "probe_rows[0]",
    ),
    "probe row of objects": (
        "mlp",
        payload_change(probe_rows=[{"features": {"__class__": 1}, "values": [0, 0, 0]}]),
        "probe_rows[0]",
    ),
    "probe row without values": (
        "mlp",
        payload_change(probe_rows=[{"features": [1, 2, 0], "values": []}]),
        "probe_rows[0]",
    ),
    "node that leads to itself": ("forest", array_change("trees.left", 1, 1), "reached exactly once"),
    "node that leads back": ("forest", array_change("trees.left", 1, 0), "reached exactly once"),
    "root that is a child": ("forest", array_change("trees.roots", 0, 1), "reached exactly once"),
    "child beyond the nodes": ("forest", array_change("trees.left", 0, 7), "reached exactly once"),
    "leaf beyond the leaves": ("forest", array_change("trees.left", 1, ~9), "reached exactly once"),
    "leaf used twice": ("forest", array_change("trees.left", 1, ~1), "reached exactly once"),
    "smallest number as child": ("forest", array_change("trees.left", 1, -(2**31)), "reached exactly once"),
    "question about no input": ("forest", array_change("trees.feature", 0, 3), "trees.feature"),
    "question about input -1": ("forest", array_change("trees.feature", 0, -1), "trees.feature"),
    "NaN threshold": ("forest", array_change("trees.threshold", 0, np.nan), "trees.threshold"),
    "no tree": ("forest", replaced("trees.roots", lambda a: a[:0]), "reached exactly once"),
    "roots in two dimensions": ("forest", replaced("trees.roots", lambda a: a[None]), "trees.roots"),
    "unknown mode": ("forest", inner("policy", mode="exec"), "policy.mode"),
    "mode of other leaves": ("forest", inner("policy", mode="pairwise"), "trees.leaves"),
    "infinite value": ("ranking", array_change("values", 0, -np.inf), "tensors.values"),
    "values in float32": ("ranking", replaced("values", lambda a: a.astype(np.float32)), "tensors.values"),
}


@pytest.mark.parametrize("name", SIGNED)
def test_a_file_with_a_right_digest_is_checked_all_the_same(tmp_path: Path, name: str) -> None:
    kind, change, message = SIGNED[name]
    payload, arrays = decode(file_of(kind, tmp_path))
    change(payload, arrays)
    assert message in refuse(tmp_path / "policy.safetensors", signed(payload, arrays))


def test_a_wrong_digest_is_told_apart(tmp_path: Path) -> None:
    payload, arrays = decode(file_of("mlp", tmp_path))
    payload["provenance"]["seed"] = 1
    assert "digest: expected" in refuse(tmp_path / "policy.safetensors", encode(payload, arrays))


def test_links_and_special_files_are_refused(tmp_path: Path) -> None:
    sound = tmp_path / "sound.safetensors"
    save(sound, ranking())
    for name in ("link", "dangling", "loop", "fifo", "folder", "missing"):
        path = tmp_path / name
        if name == "link":
            path.symlink_to(sound)
        elif name == "dangling":
            path.symlink_to(tmp_path / "nowhere")
        elif name == "loop":
            path.symlink_to(path)
        elif name == "fifo":
            os.mkfifo(path)
        elif name == "folder":
            path.mkdir()
        with pytest.raises(InvalidCheckpointError) as caught:
            load_checkpoint(path)
        assert caught.value.where == str(path)
    with pytest.raises(InvalidCheckpointError, match="expected a regular file"):
        load_checkpoint(Path("/dev/zero"))
    with pytest.raises(InvalidCheckpointError, match="null byte"):
        load_checkpoint(Path("a\0b"))


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "policy.safetensors"
    with path.open("wb") as file:
        file.truncate(2**30 + 1)  # sparse: it takes no room
    with pytest.raises(InvalidCheckpointError, match="expected at most 1,073,741,824 bytes"):
        load_checkpoint(path)

"""Malformed files: each refused with one clear error at its place, and nothing else ever happens."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from steersman.errors import InvalidRowError
from steersman.teacher.dataset import load_teacher_dataset, load_teacher_rows
from steersman.teacher.merging import merge_rows
from steersman.teacher.rows import TeacherRow
from tests.teacher.making import make_row, plain_fingerprint

GOOD = json.dumps(make_row(0)).encode()
NEXT = json.dumps(make_row(1)).encode()


def changed(**changes: Any) -> bytes:
    return json.dumps(make_row(1, **changes)).encode()


def put(old: str, new: str) -> bytes:
    """The second row with one piece of its text replaced."""
    text = NEXT.decode()
    assert text.count(old) == 1, old
    return text.replace(old, new).encode("utf-8", "surrogatepass")


def features(value: Any, at: int = 3) -> bytes:
    numbers: list[Any] = [0.5] * 75
    numbers[at] = value
    return changed(features=numbers)


def without(*names: str) -> bytes:
    return json.dumps({key: value for key, value in make_row(1).items() if key not in names}).encode()


ID = '"ep0:prefix:1"'
# Each: the second line of a file whose first is good, and what the error must say. All are refused at line 2.
LINES: dict[str, tuple[bytes, str]] = {
    # no JSON
    "nothing but a brace": (b"{", "ends early"),
    "truncated": (NEXT[:-20], "ends early"),
    "truncated in a text": (NEXT[:30], "ends early, in the text from column 20"),
    "truncated in a number": (NEXT[: NEXT.index(b"horizon_used") + 14], "ends early"),
    "two rows in a line": (NEXT + b" " + NEXT, "Extra data"),
    "a comma after the row": (NEXT + b",", "Extra data"),
    "single quotes": (NEXT.replace(b'"', b"'"), "expected JSON"),
    "a trailing comma": (NEXT[:-1] + b",}", "expected JSON"),
    "a comment": (NEXT + b" // done", "Extra data"),
    "a NUL byte": (b"\x00" + NEXT, "expected JSON"),
    "only NUL bytes": (b"\x00" * 40, "expected JSON"),
    "a NUL byte in a text": (put(ID, '"a\x00b"'), "expected JSON"),
    "a tab in a text": (put(ID, '"a\tb"'), "expected JSON"),
    "a carriage return in a text": (put(ID, '"a\rb"'), "expected JSON"),
    "an unknown escape": (put(ID, r'"a\x41"'), "expected JSON"),
    "half an escape": (put(ID, r'"\u12"'), "expected JSON"),
    "a byte order mark": (b"\xef\xbb\xbf" + NEXT, "byte order mark"),
    "UTF-16": (NEXT.decode().encode("utf-16")[:-1], "expected UTF-8, got byte 0xff at column 1"),
    "an invalid byte in a text": (NEXT.replace(b"scene-00", b"scene-\xff"), "expected UTF-8, got byte 0xff"),
    "an overlong encoding": (NEXT.replace(b"scene-00", b"scene-\xc0\xaf"), "expected UTF-8, got byte 0xc0"),
    "a surrogate encoded": (put(ID, '"\ud800"'), "expected UTF-8, got byte 0xed"),
    "a form feed": (b"\x0c" + NEXT, "expected JSON"),
    "a no-break space": (b"\xc2\xa0" + NEXT, "expected JSON"),
    # JSON, but no row
    "an array": (b"[]", "expected a JSON object, got []"),
    "a text": (b'"row"', 'expected a JSON object, got "row"'),
    "a number": (b"17", "expected a JSON object, got 17"),
    "null": (b"null", "expected a JSON object, got null"),
    "an empty object": (b"{}", "missing ['schema_version', 'row_id',"),
    "a field short": (without("costs"), "missing ['costs'], unexpected []"),
    "two fields short": (without("row_id", "costs"), "missing ['row_id', 'costs'], unexpected []"),
    "a field too many": (changed(note="x", extra=1), "missing [], unexpected ['extra', 'note']"),
    "a field misspelt": (NEXT.replace(b'"losses"', b'"loses"'), "missing ['losses'], unexpected ['loses']"),
    # keys that come twice
    "a field twice": (put(f'"row_id": {ID}', f'"row_id": "x", "row_id": {ID}'), 'got "row_id" twice'),
    "a field twice, once escaped": (put(f'"row_id": {ID}', rf'"row\u005fid": "x", "row_id": {ID}'), "twice"),
    "a control key twice": (
        put('"rgb_mse": 0.25', '"rgb_mse": 0.25, "rgb_mse": 0.25'),
        'got "rgb_mse" twice',
    ),
    "a provenance key twice": (put('"samples": 16', '"samples": 16, "samples": 17'), 'got "samples" twice'),
    # numbers
    "NaN": (features(float("nan")), "expected a finite number, got NaN"),
    "Infinity": (features(float("inf")), "expected a finite number, got Infinity"),
    "-Infinity": (features(float("-inf")), "expected a finite number, got -Infinity"),
    "NaN in provenance": (put('"samples": 16', '"samples": NaN'), "expected a finite number, got NaN"),
    "1e400": (
        features(0.125).replace(b"0.125", b"1e400"),
        "features[3]: expected a finite number, got Infinity",
    ),
    "-1e400 in a loss": (
        changed(losses=[0.125, 1, 1, 1]).replace(b"0.125", b"-1e400"),
        "losses[0]: expected a finite",
    ),
    "1e39, infinite in float32": (
        features(1e39),
        "features[3]: expected a number that is finite in float32",
    ),
    "1e39 in provenance": (
        put('"samples": 16', '"samples": 1e39'),
        "provenance.render_protocol.samples: expected",
    ),
    "1e39 in the control input": (
        changed(control_input={"coverage": 1e39}),
        "control_input.coverage: expected",
    ),
    "an integer beyond 64 bits": (
        features(2**63),
        "features[3]: expected an integer of at most 64 bits, got",
    ),
    "a negative one": (features(-(2**63) - 1), "features[3]: expected an integer of at most 64 bits"),
    "one of 5000 digits": (
        features(0.125).replace(b"0.125", b"9" * 5000),
        "expected integers of at most 64 bits",
    ),
    "one in the control input": (changed(control_input={"valid_count": 2**64}), "an integer of 65 bits"),
    "a leading zero": (features(0.125).replace(b"0.125", b"00.125"), "expected JSON"),
    "a plus sign": (features(0.125).replace(b"0.125", b"+0.125"), "expected JSON"),
    "a bare point": (features(0.125).replace(b"0.125", b".125"), "expected JSON"),
    "hexadecimal": (features(0.125).replace(b"0.125", b"0x10"), "expected JSON"),
    "a number as text": (features("0.5"), 'features[3]: expected a finite number, got "0.5"'),
    "null for a feature": (features(None), "features[3]: expected a finite number, got null"),
    "true for a feature": (features(True), "features[3]: expected a finite number, got true"),
    "a list for a feature": (features([1.0]), "features[3]: expected a finite number, got [1.0]"),
    "74 features": (changed(features=[0.0] * 74), "features: expected 75 numbers, got 74"),
    "76 features": (changed(features=[0.0] * 76), "features: expected 75 numbers, got 76"),
    "features as an object": (changed(features={}), "features: expected 75 numbers, got {}"),
    # ids and counts
    "an empty row id": (changed(row_id=""), 'row_id: expected a text that is not empty, got ""'),
    "a number as scene id": (changed(scene_id=7), "scene_id: expected a text that is not empty, got 7"),
    "null for an episode": (
        changed(episode_id=None),
        "episode_id: expected a text that is not empty, got null",
    ),
    "NUL in an id": (changed(row_id="a\x00"), "row_id: expected text without NUL"),
    "a lone surrogate in an id": (changed(row_id="\ud800"), "row_id: expected text without lone surrogates"),
    "a lone surrogate in a key": (
        put('"samples": 16', r'"\udfff": 16'),
        "key: expected text without lone surrogates",
    ),
    "NUL in provenance": (put('"test"', r'"\u0000"'), "provenance.collector: expected text without NUL"),
    "another split": (changed(split_id="validation"), 'split_id: expected "train", got "validation"'),
    "another row schema": (
        changed(schema_version="v2"),
        "schema_version: expected mcss.dynamic.action_teacher_row.v1",
    ),
    "a negative step": (changed(prefix_step=-1), "prefix_step: expected an integer of at least 0, got -1"),
    "true for a step": (
        changed(prefix_step=True),
        "prefix_step: expected an integer of at least 0, got true",
    ),
    "a float for a frame": (
        changed(prefix_frame_id=1.0),
        "prefix_frame_id: expected an integer of at least 0",
    ),
    "no horizon": (changed(horizon_used=0), "horizon_used: expected an integer of at least 1, got 0"),
    # actions and what came of them
    "actions in another order": (
        changed(actions=["FUSE", "OFF", "COMPLETE", "ALL"]),
        "actions: expected the catalogue",
    ),
    "an action short": (changed(actions=["OFF", "FUSE", "COMPLETE"]), "actions: expected the catalogue"),
    "no feasible action": (
        changed(feasible_mask=[False] * 4),
        "feasible_mask: expected at least one feasible",
    ),
    "a short mask": (changed(feasible_mask=[True] * 3), "feasible_mask: expected 4 booleans, got 3"),
    "1 for true in the mask": (
        changed(feasible_mask=[1, True, True, True]),
        "mask[0]: expected a boolean, got 1",
    ),
    "null for a feasible loss": (
        changed(losses=[1, 2, None, 4]),
        "losses[2]: expected a finite number, as the",
    ),
    "a loss that is not feasible": (
        changed(feasible_mask=[True, False, True, True]),
        "losses[1]: expected null, as the action is not feasible",
    ),
    "true for an advantage": (changed(advantages=[0, 1, True, 2]), "advantages[2]: expected a finite number"),
    "five costs": (changed(costs=[0] * 5), "costs: expected 4 entries, got 5"),
    "four losses as a text": (changed(losses="1234"), 'losses: expected 4 entries, got "1234"'),
    # control input and provenance
    "an unknown control key": (
        changed(control_input={"rgb": 1, "x": 2}),
        "control_input: unexpected ['rgb', 'x']",
    ),
    "a boolean control value": (
        changed(control_input={"coverage": True}),
        "control_input.coverage: expected no boolean",
    ),
    "a boolean deep in it": (
        changed(control_input={"image_feature": [[1, False]]}),
        "control_input.image_feature[0][1]: expected no boolean, got false",
    ),
    "control input as a list": (changed(control_input=[]), "control_input: expected a JSON object, got []"),
    "provenance as null": (changed(provenance=None), "provenance: expected a JSON object, got null"),
    "another feature version": (
        changed(provenance={"feature_schema_version": "v2"}),
        'provenance.feature_schema_version: expected mcss.dynamic.policy_features.v1, got "v2"',
    ),
    "nested 64 deep in provenance": (
        put('"samples": 16', '"samples": ' + "[" * 62 + "]" * 62),
        "expected nesting of at most 64 levels",
    ),
    "nested 100000 deep": (b"[" * 100_000, "expected nesting of at most 64 levels"),
    "nested 100000 deep in the control input": (
        put('"rgb_mse": 0.25', '"image_feature": ' + "[" * 100_000 + "]" * 100_000),
        "expected nesting of at most 64 levels",
    ),
    # beside the first row
    "the first row's id with other content": (changed(row_id="ep0:prefix:0"), "rows.jsonl:1"),
    "another binding": (
        put('"samples": 16', '"samples": 16.0'),
        'binding.render_protocol: expected {"renderer":"Fixed","samples":16} as at',
    ),
}


def test_the_corpus_is_large_enough() -> None:
    assert len(LINES) >= 60


@pytest.mark.parametrize("name", LINES)
def test_each_crafted_line_is_refused_at_its_place(name: str, tmp_path: Path) -> None:
    line, expected = LINES[name]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(GOOD + b"\n" + line + b"\n")
    for load in (load_teacher_dataset, load_teacher_rows):
        with pytest.raises(InvalidRowError) as caught:
            load(path)
        assert caught.value.where == f"{path}:2"
        assert expected in caught.value.message
        assert len(str(caught.value)) < 2000
    output = tmp_path / "out" / "merged.jsonl"
    with pytest.raises(InvalidRowError):
        merge_rows([path], output)
    assert not output.exists()
    assert not list(output.parent.glob("*"))


@pytest.mark.parametrize(
    ("content", "where", "expected"),
    [
        (b"", "", "expected at least one row, found none"),
        (b"\n\n \t\n\r\n", "", "expected at least one row, found none"),
        (b"\xef\xbb\xbf" + GOOD, ":1", "byte order mark"),
        (b"\n\r\n" + GOOD + b"\n\n" + b"{", ":5", "ends early"),
        (GOOD + b"\r" + NEXT, ":1", "Extra data"),
        (GOOD + "\u2028".encode() + NEXT, ":1", "Extra data"),
        (b"PAR1" + b"\x00" * 60 + b"PAR1", ":1", "expected JSON"),
        (b"\x1f\x8b\x08\x00" + b"\x00" * 60, ":1", "expected UTF-8"),
    ],
    ids=["empty", "blank", "mark", "counted", "bare carriage return", "line separator", "parquet", "gzip"],
)
def test_each_crafted_file_is_refused(content: bytes, where: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidRowError, match=expected) as caught:
        load_teacher_dataset(path)
    assert caught.value.where == f"{path}{where}"


def test_carriage_returns_blank_lines_and_a_missing_last_newline_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n" + GOOD + b"\r\n \t\r\n" + NEXT)
    dataset = load_teacher_dataset(path)
    assert dataset.row_ids == ("ep0:prefix:0", "ep0:prefix:1")
    assert dataset.blank_lines == 2


def mutated(seed: int) -> bytes:
    """Three good rows with up to four random injuries."""
    draw = random.Random(seed)
    content = bytearray(b"\n".join(json.dumps(make_row(number)).encode() for number in range(3)) + b"\n")
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(content))
        kind = draw.randrange(6)
        if kind == 0:
            content[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del content[at : at + draw.randint(1, 60)]
        elif kind == 2:
            content[at:at] = content[max(0, at - draw.randint(1, 90)) : at]
        elif kind == 3:
            content[at:at] = draw.randbytes(draw.randint(1, 4))
        elif kind == 4:
            content[at:at] = draw.choice(
                [b'"', b"{", b"]", b",", b":", b"\\", b"e9", b"-", b"0", b"\n", b"null", b" "]
            )
        else:
            del content[at:]
            content += b"" if content else b" "
    return bytes(content)


def rows_or_error(path: Path) -> tuple[TeacherRow, ...] | InvalidRowError:
    try:
        return load_teacher_rows(path)
    except InvalidRowError as error:
        return error


@pytest.mark.parametrize("seed", range(300))
def test_each_mutated_file_is_refused_at_a_place_or_read_as_json_reads_it(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(mutated(seed))
    rows = rows_or_error(path)
    if isinstance(rows, InvalidRowError):
        assert str(rows).startswith(str(path))
        with pytest.raises(InvalidRowError) as caught:
            load_teacher_dataset(path)
        assert str(caught.value) == str(rows)
        return
    bodies = [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]
    expected = {body["row_id"]: plain_fingerprint(body) for body in bodies}
    assert {row.row_id: row.fingerprint for row in rows} == expected
    assert set(load_teacher_dataset(path).row_ids) == set(expected)

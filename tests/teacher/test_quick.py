"""The fast way equals the careful way, whatever rows and lines hold."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from steersman.errors import InvalidRowError
from steersman.teacher.profiles import RowProfile
from steersman.teacher.quick import RowChecker, canonical_text, number_list
from steersman.teacher.rows import CheckedRow, RowFields, check_row
from steersman.teacher.strict_json import FLOAT32_LIMIT, parse_json
from tests.teacher.making import SCENE, declared_metadata, make_row, plain_fingerprint

HERE = Path("rows.jsonl")
DECLARED = RowProfile.from_json(declared_metadata()["profile"])

# Around every limit where spellings, kinds or ranges change.
edge_floats = st.sampled_from(
    [
        0.0,
        -0.0,
        1.0,
        1e-4,
        9.999999999999999e-05,
        1e-05,
        -1e-05,
        1e-07,
        5e-324,
        2.2250738585072014e-308,
        10.00001,
        0.00001234,
        100.0,
        1e15,
        9999999999999998.0,
        1e16,
        -1e16,
        1e17,
        1e22,
        1e23,
        2.0**63,
        9.2e18,
        9.3e18,
        3.4028234663852886e38,
        0.1,
        0.30000000000000004,
        123456789.12345679,
        5.684341886080802e-14,
    ]
)
edge_integers = st.sampled_from([0, 1, -1, 2**53, 2**53 + 1, 10**16, 10**18, 2**63 - 1, -(2**63)])
floats = edge_floats | st.floats(width=64, allow_nan=False, allow_infinity=False).filter(
    lambda value: abs(value) < FLOAT32_LIMIT
)
numbers = floats | st.floats(-10, 10) | edge_integers | st.integers(-(2**63), 2**63 - 1)
texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8
) | st.sampled_from(
    ['"', "\\", '\\"', "\n", "\x7f", "é", "\u2028", "😀", "/", "1e5", ',"costs":[', '},"costs":[']
)
ids = texts.filter(bool)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
unboolean: st.SearchStrategy[Any] = st.recursive(
    st.none() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def scene_rows(draw: st.DrawFn) -> dict[str, Any]:
    """Valid rows of the streaming-scene profile, the plain and the strange."""
    mask = draw(st.lists(st.booleans(), min_size=4, max_size=4).filter(any))
    few = draw(st.lists(numbers, min_size=1, max_size=6))
    features = [few[index % len(few)] for index in range(75)]
    outcomes = {
        name: [draw(numbers) if feasible else None for feasible in mask]
        for name in ("losses", "advantages", "costs")
    }
    keys = st.sampled_from(SCENE.control_keys)
    provenance = draw(st.dictionaries(texts, values, max_size=3))
    provenance |= {"feature_schema_version": SCENE.features.version, "teacher_dataset_hash": draw(values)}
    row = make_row(
        row_id=draw(ids),
        episode_id=draw(ids),
        scene_id=draw(ids),
        prefix_step=draw(st.integers(0, 2**63 - 1)),
        horizon_used=draw(st.integers(1, 2**63 - 1)),
        features=features,
        feasible_mask=mask,
        control_input=draw(st.dictionaries(keys, unboolean, max_size=4)),
        provenance=provenance,
    )
    return row | outcomes


@st.composite
def written(draw: st.DrawFn, rows: st.SearchStrategy[dict[str, Any]]) -> tuple[dict[str, Any], bytes]:
    """A row, and a line of JSON as one writer or another would have it."""
    row = draw(rows)
    ascii_only, spaced = draw(st.booleans()), draw(st.booleans())
    shuffled = dict(draw(st.permutations(list(row.items())))) if draw(st.booleans()) else row
    text = json.dumps(shuffled, ensure_ascii=ascii_only, separators=(", ", ": ") if spaced else (",", ":"))
    return row, text.encode() + draw(st.sampled_from([b"", b"\r", b" \t"]))


def careful(line: bytes, profile: RowProfile = SCENE) -> CheckedRow:
    return check_row(parse_json(line, where="x"), profile, where="x")


def assert_same(fast: CheckedRow, slow: CheckedRow) -> None:
    assert fast.canonical == slow.canonical
    assert fast.digest == slow.digest
    assert fast.numbers == slow.numbers
    assert fast.text() == slow.text()
    assert fast.control_text() == slow.control_text()
    assert fast.provenance.overlay_text == slow.provenance.overlay_text
    for name in ("row_id", "episode_id", "scene_id", "prefix_step", "prefix_frame_id", "horizon_used"):
        assert getattr(fast.fields, name) == getattr(slow.fields, name)
    for name in ("features", "losses", "advantages", "costs"):
        left, right = getattr(fast.fields, name), getattr(slow.fields, name)
        assert list(map(repr, left)) == list(map(repr, right))


@st.composite
def declared_rows(draw: st.DrawFn) -> dict[str, Any]:
    """Valid rows of a profile with a feature that may be missing."""
    return make_row(
        schema_version="steersman.teacher_row.v1",
        actions=["left", "right"],
        features=[draw(numbers), draw(numbers), draw(st.none() | numbers)],
        feasible_mask=[True, False],
        losses=[draw(numbers), None],
        advantages=[draw(numbers), None],
        costs=[draw(numbers), None],
        control_input=draw(st.dictionaries(st.sampled_from(["city", "weights"]), unboolean)),
        provenance={},
    )


@given(written(scene_rows()))
@settings(max_examples=200)
def test_valid_rows_are_the_same_either_way(drawn: tuple[dict[str, Any], bytes]) -> None:
    row, line = drawn
    (fast,) = RowChecker(SCENE).check_lines(HERE, [(1, line)])
    assert_same(fast, careful(line))
    assert fast.digest.hex() == plain_fingerprint(row)
    assert fast.text() == json.dumps(row, sort_keys=True, separators=(",", ":")).encode()


@given(written(declared_rows()))
@settings(max_examples=150)
def test_rows_with_gaps_are_the_same_either_way(drawn: tuple[dict[str, Any], bytes]) -> None:
    row, line = drawn
    (fast,) = RowChecker(DECLARED).check_lines(HERE, [(1, line)])
    assert_same(fast, careful(line, DECLARED))
    assert fast.digest.hex() == plain_fingerprint(row)


@given(st.lists(scene_rows(), min_size=1, max_size=5))
@settings(max_examples=60)
def test_a_block_of_rows_is_its_rows_one_by_one(rows: list[dict[str, Any]]) -> None:
    lines = [(number, json.dumps(row).encode()) for number, row in enumerate(rows, 1)]
    together = RowChecker(SCENE).check_lines(HERE, lines)
    for fast, (_, line) in zip(together, lines, strict=True):
        assert_same(fast, careful(line))


injuries = st.tuples(
    st.integers(0, 10**6), st.sampled_from(["insert", "replace", "delete", "copy"]), st.binary(max_size=3)
)


@given(written(scene_rows()), st.lists(injuries, min_size=1, max_size=3))
@settings(max_examples=200)
def test_damaged_lines_meet_the_same_fate_either_way(
    drawn: tuple[dict[str, Any], bytes], damage: list[tuple[int, str, bytes]]
) -> None:
    line = bytearray(drawn[1])
    for place, kind, piece in damage:
        at = place % len(line)
        if kind == "insert":
            line[at:at] = piece
        elif kind == "replace":
            line[at : at + len(piece)] = piece
        elif kind == "delete":
            del line[at : at + 1 + len(piece)]
        else:
            line[at:at] = line[max(0, at - 40) : at]
    assert_same_fate(bytes(line).replace(b"\n", b" "))


def assert_same_fate(line: bytes) -> None:
    slow = careful_or_error(line)
    if isinstance(slow, InvalidRowError):
        with pytest.raises(InvalidRowError) as caught:
            RowChecker(SCENE).check_lines(HERE, [(7, line)])
        assert caught.value.message == slow.message
        assert caught.value.where == "rows.jsonl:7"
    else:
        (fast,) = RowChecker(SCENE).check_lines(HERE, [(7, line)])
        assert_same(fast, slow)


def careful_or_error(line: bytes) -> CheckedRow | InvalidRowError:
    try:
        return careful(line)
    except InvalidRowError as error:
        return error


TEXT = json.dumps(make_row())


@pytest.mark.parametrize(
    "line",
    [
        TEXT.replace('"row_id": "ep0:prefix:0"', '"row_id": "a", "row_id": "ep0:prefix:0"'),
        TEXT.replace(
            '"row_id": "ep0:prefix:0"', r'"row_id": "a\u0022\u0022", "scene_id": "x", "row_id": "b"'
        ),
        TEXT.replace('"rgb_mse": 0.25', '"rgb_mse": 0.25, "rgb_mse": 0.5'),
        TEXT.replace('"rgb_mse": 0.25', r'"rgb_mse": 0.25, "\u0072gb_mse": 0.5'),
        TEXT.replace('"samples": 16', '"samples": 16, "samples": 16'),
        TEXT.replace('"horizon_used": 3', '"horizon_used": 3, "horizon_used": 3'),
        TEXT.replace('"collector": "test"', r'"collector": "\"", "a": 1, "a": 2'),
        TEXT.replace('"collector": "test"', r'"collector": "\"\"", "x": {"a": 1, "a": 2}'),
    ],
    ids=range(8),
)
def test_a_key_that_comes_twice_is_never_dropped(line: str) -> None:
    with pytest.raises(InvalidRowError, match="twice"):
        RowChecker(SCENE).check_lines(HERE, [(1, line.encode())])


@given(st.dictionaries(texts, values))
@settings(max_examples=300)
def test_objects_are_written_as_python_writes_them(value: dict[str, Any]) -> None:
    assert canonical_text(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))


@given(st.lists(st.none() | numbers, max_size=80))
@example(
    [1e-05, 9.9e-05, 0.0001, -3.7e-05, 9999999999999998.0, 1e16, 123456789.0, 1e15, 1.0, 1, None, 0.1, 100]
)
@settings(max_examples=300)
def test_lists_of_numbers_are_written_as_python_writes_them(values: list[float | None]) -> None:
    assert number_list(values).decode() == json.dumps(values, separators=(",", ":"))


@pytest.mark.parametrize("exponent", range(-1074, 1024, 41))
def test_powers_of_two_and_their_neighbours_are_written_as_python_writes_them(exponent: int) -> None:
    power = math.ldexp(1.0, exponent)
    near = [power, math.nextafter(power, 0), math.nextafter(power, math.inf), -power]
    assert number_list(near).decode() == json.dumps(near, separators=(",", ":"))


def test_the_fields_stand_in_the_order_of_canonical_json() -> None:
    assert list(RowFields.__struct_fields__) == sorted(RowFields.__struct_fields__)
    assert list(RowChecker(SCENE)._type.__struct_fields__) == sorted(RowFields.__struct_fields__)


def test_ordinary_rows_do_take_the_fast_way() -> None:
    lines = [
        json.dumps(make_row(number, features=[1e-05, 1, 1e20, *[0.5] * 72])).encode() for number in range(9)
    ]
    lines += [json.dumps(make_row(scene_id="scène"), ensure_ascii=False).encode()]
    checker = RowChecker(SCENE)
    assert checker._try_lines(lines[:9]) is None, "1e20 takes the careful way"
    lines = [line.replace(b"1e+20", b"1e+17") for line in lines]
    assert checker._try_lines(lines) is not None

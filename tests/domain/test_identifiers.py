from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.domain.identifiers import (
    MAX_METADATA_BYTES,
    check_choice,
    check_finite,
    check_id,
    check_limit,
    check_metadata,
    check_name,
    check_text,
)
from steersman.errors import InvalidInputError


@pytest.mark.parametrize("name", ["a", "9", "acme", "Acme-1.eu_west", "x" * 64])
def test_names(name: str) -> None:
    assert check_name(name, what="tenant") == name


@pytest.mark.parametrize(
    "name",
    ["", "-a", ".a", "_a", "@acme", "a b", "a/b", "ä", "a\n", "x" * 65, None, 1, b"a", "a\x00"],
)
def test_bad_names(name: Any) -> None:
    with pytest.raises(InvalidInputError, match="tenant: expected 1 to 64 letters"):
        check_name(name, what="tenant")


@pytest.mark.parametrize(
    "value", ["a", " ", "ä€\U0001f6a2", "a/b'c\"d", "x" * 200, "1; DROP TABLE decisions"]
)
def test_ids(value: str) -> None:
    assert check_id(value, what="id") == value


@pytest.mark.parametrize(
    "value",
    ["", "x" * 201, "\x00", "a\tb", "a\x1f", "\x7f", "\x9f", "\ud800", "a\udfff", None, 5, b"a", ["a"]],
)
def test_bad_ids(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="decision_id: expected a text of 1 to 200") as caught:
        check_id(value, what="decision_id")
    assert str(caught.value).isascii()  # a message can be printed anywhere
    assert str(caught.value).isprintable()


def test_a_rejected_value_is_shown_short() -> None:
    with pytest.raises(InvalidInputError, match=r"'xxx.{60,80}\.\.\. \(302 characters\)$"):
        check_id("x" * 300, what="id")


def test_text_for_people_may_be_empty_but_not_long() -> None:
    assert check_text("", what="label") == ""
    assert check_text("x" * 500, what="label")
    for value in ("x" * 501, "a\nb", 7):
        with pytest.raises(InvalidInputError, match="label: expected a text of at most 500"):
            check_text(value, what="label")


@pytest.mark.parametrize("value", [0, -1, 1.5, 2**60, -0.0])
def test_finite_numbers(value: Any) -> None:
    found = check_finite(value, what="reward")
    assert isinstance(found, float)
    assert found == value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, True, False, "1", None, [1.0], 1j])
def test_what_is_no_finite_number(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="reward: expected a finite number"):
        check_finite(value, what="reward")


def test_metadata_is_kept_as_canonical_json() -> None:
    assert check_metadata({"b": [1, 2.0, None], "a": {"x": True}}) == '{"a":{"x":true},"b":[1,2.0,null]}'
    assert check_metadata({}) == "{}"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


# {"k":"xxx"} has 8 bytes beside the text.
@pytest.mark.parametrize(
    "value", [{"k": "x" * (MAX_METADATA_BYTES - 8)}, nested(31), {"n": 2**63 - 1}, {"t": "a\nb"}]
)
def test_metadata_at_its_limits(value: Any) -> None:
    assert check_metadata(value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"k": "x" * (MAX_METADATA_BYTES - 7)}, "metadata: expected at most 4096 bytes of JSON, got 4097"),
        ({"k": "ä" * 700}, "expected at most 4096 bytes"),  # six bytes each as JSON
        (nested(32), "nesting of at most 32 levels"),
        ({"n": 2**63}, r"metadata\.n: expected an integer of at most 64 bits, got an integer of 64 bits"),
        ({"n": 10**5000}, "an integer of 16610 bits"),
        ({"n": math.nan}, r"metadata\.n: expected a finite number, got nan"),
        ({"n": [0, -math.inf]}, r"metadata\.n\[1\]: expected a finite number"),
        ({"t": "a\x00b"}, "without NUL and lone surrogates"),
        ({"t": "\ud800"}, "without NUL and lone surrogates"),
        ({"a\nb": 1}, "metadata key: expected a text"),
        ({1: 1}, "metadata key: expected a text"),
        ({"s": {1}}, r"metadata\.s: expected JSON, got set"),
        ({"b": b"x"}, "expected JSON, got bytes"),
        ([1], "expected a JSON object, got list"),
        ("a", "expected a JSON object, got str"),
    ],
)
def test_bad_metadata(value: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        check_metadata(value)


@given(st.text())
def test_a_text_is_an_id_or_refused(value: str) -> None:
    try:
        assert check_id(value, what="id") == value
    except InvalidInputError:
        return
    assert value.encode()  # what passes can be written to any database
    assert "\x00" not in value


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "1", None, 2**63])
def test_what_can_be_no_limit_is_refused(limit: object) -> None:
    with pytest.raises(InvalidInputError, match="limit: expected a number of 1 or more; got "):
        check_limit(limit)


def test_a_limit_is_a_number_of_any_library() -> None:
    assert [check_limit(1), check_limit(np.int64(1000))] == [1, 1000]


def test_a_choice_is_one_of_those_named_or_none() -> None:
    for known in (None, "open", "closed"):
        check_choice(known, ("open", "closed"), what="status")
    for unknown in ("opened", "", 1, ["open"]):
        with pytest.raises(InvalidInputError, match="status: expected one of open, closed; got "):
            check_choice(unknown, ("open", "closed"), what="status")

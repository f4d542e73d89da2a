from __future__ import annotations

import hashlib
import math
from typing import Any

import pytest

from steersman.domain.canonical import canonical_json, fingerprint


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, "x"]}, '{"a":[true,null,"x"],"b":1}'),
        ([1, 1.0, -0.0, 1e16, 1e-7, 0.1 + 0.2], "[1,1.0,-0.0,1e+16,1e-07,0.30000000000000004]"),
        ("ä€\n\x7f", '"\\u00e4\\u20ac\\n\\u007f"'),
        ("\U0001f6a2", '"\\ud83d\\udea2"'),
        ({}, "{}"),
    ],
)
def test_text_is_spelled_in_one_way(value: Any, text: str) -> None:
    assert canonical_json(value) == text
    assert fingerprint(value) == hashlib.sha256(text.encode("ascii")).hexdigest()


def test_the_order_of_keys_does_not_matter_but_the_kind_of_a_number_does() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert len({fingerprint(1), fingerprint(1.0), fingerprint(True), fingerprint("1")}) == 4


@pytest.mark.parametrize("value", [math.nan, math.inf, [-math.inf]])
def test_numbers_that_json_cannot_say_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(value)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        canonical_json({"a": {1, 2}})

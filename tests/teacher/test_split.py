"""Splits by scene: rules, against scenes ranked by hand."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.errors import InvalidInputError
from steersman.teacher.split import split_scene_ids

SCENES = ["c", "a", "b", "a", "d"]


def test_repeated_scenes_count_once_and_both_sides_are_sorted() -> None:
    training, validation = split_scene_ids(SCENES, holdout_fraction=0.5, seed=0)
    assert sorted(training + validation) == ["a", "b", "c", "d"]
    assert list(training) == sorted(training)
    assert list(validation) == sorted(validation)
    ranked = sorted("abcd", key=lambda scene: hashlib.sha256(f"0:{scene}".encode()).hexdigest())
    assert set(validation) == set(ranked[:2])


@pytest.mark.parametrize(
    ("scenes", "fraction", "count"),
    [
        (1, 0.5, 0),
        (0, 0.5, 0),
        (2, 0.01, 1),
        (2, 0.99, 1),
        (10, 0.2, 2),
        (10, 0.21, 3),
        (10, 0, 0),
        (10, 0.999, 9),
        (15, 0.2, 3),
    ],
)
def test_how_many_are_held_out(scenes: int, fraction: float, count: int) -> None:
    names = [f"s{index}" for index in range(scenes)]
    training, validation = split_scene_ids(names, holdout_fraction=fraction, seed=3)
    assert len(validation) == count
    assert len(training) == scenes - count


def test_given_scenes_are_taken_as_they_are() -> None:
    assert split_scene_ids(SCENES, holdout_fraction=0.5, seed=0, validation_scene_ids=["d", "b", "b"]) == (
        ("a", "c"),
        ("b", "d"),
    )
    nothing = split_scene_ids(SCENES, holdout_fraction=0.5, seed=0, validation_scene_ids=[])
    assert nothing == (("a", "b", "c", "d"), ())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"validation_scene_ids": ["a", "x", "y"]}, r"got unknown \['x', 'y'\]"),
        ({"validation_scene_ids": ["a", "b", "c", "d"]}, "got all of them"),
        ({"validation_scene_ids": "a"}, "expected a list of scenes"),
        ({"holdout_fraction": 1}, "expected at least 0 and below 1, got 1"),
        ({"holdout_fraction": -0.1}, "expected at least 0 and below 1"),
        ({"holdout_fraction": math.nan}, "holdout_fraction: expected a finite number"),
        ({"holdout_fraction": True}, "holdout_fraction: expected a finite number"),
        ({"seed": 1.0}, "seed: expected an integer, got 1.0"),
        ({"seed": True}, "seed: expected an integer, got True"),
    ],
)
def test_what_makes_no_split_is_refused(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidInputError, match=expected):
        split_scene_ids(SCENES, **({"holdout_fraction": 0.5, "seed": 0} | arguments))


@pytest.mark.parametrize("ids", [[1], (2.0,), [None], [b"1"], [["1"]], 1, "12"])
def test_ids_that_are_no_texts_are_refused(ids: Any) -> None:
    for arguments in ({"scene_ids": ids}, {"scene_ids": ["1", "2"], "validation_scene_ids": ids}):
        with pytest.raises(InvalidInputError, match=r"expected (the id of a scene|a list of scenes), got "):
            split_scene_ids(**arguments, holdout_fraction=0.5, seed=0)


def test_given_scenes_may_come_once_only() -> None:
    held_out = (scene for scene in ("d", "b"))
    split = split_scene_ids(SCENES, holdout_fraction=0.5, seed=0, validation_scene_ids=held_out)
    assert split == (("a", "c"), ("b", "d"))


@given(
    st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=2),
    st.floats(0, 0.99),
    st.integers(),
)
def test_no_scene_is_on_both_sides_and_none_is_lost(scenes: set[str], fraction: float, seed: int) -> None:
    training, validation = split_scene_ids(scenes, holdout_fraction=fraction, seed=seed)
    assert set(training) | set(validation) == scenes
    assert not set(training) & set(validation)
    assert training

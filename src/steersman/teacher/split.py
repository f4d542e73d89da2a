"""Which scenes are held out: never a part of one, and the same ones for the same seed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence

from steersman.domain.identifiers import check_finite
from steersman.errors import InvalidInputError

__all__ = ["scenes_by_hash", "split_scene_ids"]


def split_scene_ids(
    scene_ids: Iterable[str],
    *,
    holdout_fraction: float,
    seed: int,
    validation_scene_ids: Iterable[str] | None = None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the training and the validation scenes, each sorted.

    Given validation scenes are taken as they are; an empty list means none. Otherwise these are the
    min(max(1, ceil(n * holdout_fraction)), n - 1) scenes with the smallest SHA-256 of "seed:scene" in hexadecimal
    digits; none when there are fewer than two scenes or the fraction is 0. So a scene's rank does not depend on
    which other scenes there are. Raises InvalidInputError for a fraction outside [0, 1), a seed that is no integer,
    scenes to hold out that are unknown, and when no scene is left to train on.
    """
    scenes = sorted(_ids("scene_ids", scene_ids))
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InvalidInputError(f"seed: expected an integer, got {seed!r}")
    fraction = check_finite(holdout_fraction, what="holdout_fraction")
    if not 0 <= fraction < 1:
        raise InvalidInputError(f"holdout_fraction: expected at least 0 and below 1, got {fraction:g}")
    if validation_scene_ids is not None:
        held_out = _check_given(_ids("validation_scene_ids", validation_scene_ids), scenes)
    elif len(scenes) < 2 or fraction == 0:
        held_out = set()
    else:
        count = min(max(1, math.ceil(len(scenes) * fraction)), len(scenes) - 1)
        held_out = set(scenes_by_hash(scenes, seed=seed)[:count])
    return (
        tuple(scene for scene in scenes if scene not in held_out),
        tuple(scene for scene in scenes if scene in held_out),
    )


def scenes_by_hash(scenes: Iterable[str], *, seed: int) -> list[str]:
    """Return `scenes` in the order of the SHA-256 of "seed:scene" in hexadecimal digits."""
    return sorted(scenes, key=lambda scene: hashlib.sha256(f"{seed}:{scene}".encode()).hexdigest())


def _ids(what: str, given: object) -> set[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidInputError(f"{what}: expected a list of scenes, got {given!r}")
    ids: set[str] = set()
    for index, scene in enumerate(given):
        if not isinstance(scene, str):
            raise InvalidInputError(f"{what}[{index}]: expected the id of a scene, got {scene!r}")
        ids.add(scene)
    return ids


def _check_given(given: set[str], scenes: Sequence[str]) -> set[str]:
    unknown = sorted(given - set(scenes))
    if unknown:
        raise InvalidInputError(f"validation_scene_ids: expected scenes of the rows, got unknown {unknown}")
    if scenes and given >= set(scenes):
        raise InvalidInputError(
            "validation_scene_ids: expected to leave a scene to train on, got all of them"
        )
    return given

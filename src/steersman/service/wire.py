"""What goes over the wire: the bodies that are read, and records as they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import msgspec

from steersman.domain.records import ClosedEpisode, Decision, Reward

__all__ = [
    "MOST_ITEMS",
    "BatchBody",
    "CloseBody",
    "CloseItem",
    "DecideBody",
    "RewardBody",
    "encode_closed",
    "encode_decision",
    "encode_items",
    "encode_reward",
]

MOST_ITEMS = 1000
"""The most items of one `:batch` request."""


class DecideBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which action now? `feasible` null means every action; an id of the caller's makes a retry safe."""

    state: int | dict[str, int | float | str]
    tenant: str | None = None
    feasible: list[str | int] | None = None
    episode: str | None = None
    decision_id: str | None = None
    explore: bool = True
    metadata: dict[str, Any] | None = None
    reasons: dict[str, str] | None = None


class RewardBody(msgspec.Struct, forbid_unknown_fields=True):
    """What came of a decision; `reward_id` null means the decision's own id."""

    decision_id: str
    value: float
    tenant: str | None = None
    reward_id: str | None = None


class CloseBody(msgspec.Struct, forbid_unknown_fields=True):
    """The close of the episode that the path names, with its outcome if there is one."""

    outcome: float | None = None
    tenant: str | None = None


class CloseItem(msgspec.Struct, forbid_unknown_fields=True):
    """The close of one episode of a list."""

    episode: str
    outcome: float | None = None
    tenant: str | None = None


class BatchBody(msgspec.Struct, forbid_unknown_fields=True):
    """A list of calls, answered one by one in its order."""

    items: list[Any]


_encode = msgspec.json.Encoder().encode

# The status of a decision changes with time, and the answer of a repeated call may not: it is cut off the end.
_CUTS: dict[str, int] = {
    status: len(f',"{fields(Decision)[-1].name}":"{status}"' + "}") for status in ("open", "learned", "void")
}


def encode_decision(decision: Decision) -> bytes:
    """Return a decision as JSON, without its status."""
    return _encode(decision)[: -_CUTS[decision.status]] + b"}"


def encode_reward(reward: Reward) -> bytes:
    """Return a reward as JSON."""
    return _encode(reward)


def encode_closed(closed: ClosedEpisode) -> bytes:
    """Return a closed episode as JSON."""
    return _encode(closed)


def encode_items(answers: list[Any], encode: Callable[[Any], bytes]) -> bytes:
    """Return the answer of a `:batch` request; what is bytes already, such as an error, stays as it is."""
    parts = [answer if isinstance(answer, bytes) else encode(answer) for answer in answers]
    return b'{"items":[' + b",".join(parts) + b"]}"

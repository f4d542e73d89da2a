"""What is sent and what is read, without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from steersman.client import verbs
from steersman.client.exchange import Call, Request
from steersman.client.wire import encode, owner_of, read, read_items, segment, version_of
from steersman.domain.records import DecideRequest, Reward, RewardRequest
from steersman.errors import InvalidInputError, InvalidRewardError, SteersmanError

REWARD = {"tenant": "t", "reward_id": "r", "decision_id": "d", "value": 1, "effect": "learned"}


def played(call: Call[Any], answer: Callable[[Request], bytes]) -> tuple[list[Request], Any]:
    """Return the requests of a call that are answered in this way, and its record."""
    sent = [next(call)]
    try:
        while True:
            sent.append(call.send(answer(sent[-1])))
    except StopIteration as stop:
        return sent, stop.value


def rewarded(request: Request) -> bytes:
    items = msgspec.json.decode(request.body or b"")["items"]
    return msgspec.json.encode({"items": [REWARD | {"decision_id": item["decision_id"]} for item in items]})


def lengths(sent: list[Request]) -> list[int]:
    return [len(msgspec.json.decode(request.body or b"")["items"]) for request in sent]


def test_a_list_is_sent_in_parts_of_256_and_answered_in_order() -> None:
    wanted = [RewardRequest("t", str(index), 1.0) for index in range(600)]
    sent, answers = played(verbs.reward_many(wanted), rewarded)
    assert lengths(sent) == [256, 256, 88]
    assert [answer.decision_id for answer in answers] == [str(index) for index in range(600)]


def test_a_part_has_at_most_half_a_megabyte_unless_one_item_is_larger() -> None:
    # {"tenant":"t","decision_id":"...","value":1.0} is 43 bytes beside the id.
    sizes = [100_000, 299_957, 99_871, 1, 600_000, 1]
    wanted = [RewardRequest("t", "x" * size, 1.0) for size in sizes]
    sent, _ = played(verbs.reward_many(wanted), rewarded)
    # 100,043 + 300,000 + 99,914 are 499,957, and one more of 44 bytes is too much by one byte.
    assert lengths(sent) == [3, 1, 1, 1]


def test_what_cannot_be_sent_is_answered_in_its_place() -> None:
    wanted = [
        RewardRequest("t", "a", float("nan")),
        RewardRequest("t", "b", 1.0),
        RewardRequest("t", "c", float("inf")),
    ]
    sent, (first, second, third) = played(verbs.reward_many(wanted), rewarded)
    assert lengths(sent) == [1]
    assert (type(first), second.decision_id, type(third)) == (InvalidRewardError, "b", InvalidRewardError)


def test_each_decide_has_an_id_of_its_own_before_it_is_sent() -> None:
    call = verbs.decide_many(
        [DecideRequest("t", 0), DecideRequest("t", 0), DecideRequest("t", 0, decision_id="mine")]
    )
    items = msgspec.json.decode(next(call).body or b"")["items"]
    first, second, third = (item["decision_id"] for item in items)
    assert first < second  # they sort by time
    assert third == "mine"


def test_a_list_with_too_few_answers_is_refused() -> None:
    with pytest.raises(SteersmanError, match="expected 1 answers, got 0"):
        played(verbs.reward_many([RewardRequest("t", "a", 1.0)]), lambda _: b'{"items":[]}')


def test_pages_are_followed_to_the_last() -> None:
    def key(name: str) -> dict[str, object]:
        return {"key_id": name, "tenant": "t", "scopes": [], "name": name, "created_at": 0}

    pages = {None: (["a", "b"], "b"), "b": (["c"], None)}

    def page(request: Request) -> bytes:
        names, following = pages[(request.query or {}).get("after")]  # type: ignore[index]
        return msgspec.json.encode({"items": [key(name) for name in names], "next": following})

    sent, keys = played(verbs.list_keys("t"), page)
    assert [item.key_id for item in keys] == ["a", "b", "c"]
    assert [request.query for request in sent] == [{}, {"after": "b"}]


def test_what_a_later_release_adds_is_passed_over() -> None:
    body = msgspec.json.encode(REWARD | {"colour": "blue"})
    assert read(Reward)(body) == Reward("t", "r", "d", 1.0, "learned")


@pytest.mark.parametrize(
    "body", [b"<html>", b"", b"{}", b"[" * 100_000, msgspec.json.encode(REWARD | {"value": "1"})]
)
@pytest.mark.parametrize("reader", [read(Reward), owner_of, version_of])
def test_an_answer_that_is_none_is_said_to_be_none(reader: Callable[[bytes], object], body: bytes) -> None:
    with pytest.raises(SteersmanError, match="as this release knows it") as told:
        reader(body)
    assert told.value.hint == "compare the releases of client and service"


@pytest.mark.parametrize(
    "item",
    [b'{"error":{}}', b'{"error":{"detail":1}}', b'{"error":{"detail":"","status":"x"}}', b'{"error":[]}'],
)
def test_an_item_that_is_no_problem_is_said_to_be_none(item: bytes) -> None:
    with pytest.raises(SteersmanError, match="as this release knows it"):
        read_items(b'{"items":[' + item + b"]}", read(Reward))


@pytest.mark.parametrize("wrong", ["", "a\n", "\ud800", "x" * 201])
def test_what_is_no_id_is_no_part_of_a_path(wrong: str) -> None:
    with pytest.raises(InvalidInputError, match="decision_id: expected"):
        segment(wrong, what="decision_id")


@pytest.mark.parametrize("wrong", [{1, 2}, b"bytes", object(), float("nan"), [float("inf")]])
def test_what_json_has_no_form_for_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="expected what JSON has a form for"):
        encode({"state": wrong})


UNSENDABLE = "\ud800"


@pytest.mark.parametrize(
    "call",
    [
        verbs.show_tenant(UNSENDABLE),
        verbs.expire(UNSENDABLE),
        verbs.change_tenant(UNSENDABLE, {}),
        verbs.show("t", version=UNSENDABLE),
        verbs.activate("t", UNSENDABLE),
        verbs.erase_tenant(UNSENDABLE),
    ],
    ids=lambda call: call.__name__,
)
def test_a_name_that_cannot_be_sent_is_refused(call: Call[Any]) -> None:
    with pytest.raises(InvalidInputError, match="expected"):
        next(call)

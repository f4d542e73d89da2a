"""What clients ask for: plans that are the same whenever they are made, so that a retry asks for the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

from steersman.domain.records import (
    ClosedEpisode,
    CloseRequest,
    DecideRequest,
    Decision,
    Reward,
    RewardRequest,
)
from steersman.errors import SteersmanError
from steersman.library import Steersman
from steersman.store.engine import Database
from tests.reliability.books import Answer, Books

__all__ = [
    "ACTIONS",
    "CHAINS",
    "PLAIN",
    "STATES",
    "Call",
    "answer_of",
    "make_plan",
    "perform",
    "prepare",
    "renamed",
    "strangers",
]

PLAIN, CHAINS = "plain", "chains"
"""A tenant whose q are plain means of rewards, and one that learns from episodes with a constant step size."""

ACTIONS = ["hold", "concede", "mirror", "trade"]
STATES = 6
_COLUMNS = {
    "decide": ("tenant", "decision_id", "version", "state", "action", "propensity", "episode", "step"),
    "reward": ("tenant", "reward_id", "decision_id", "value", "effect", "created_at"),
    "close": ("tenant", "episode", "outcome", "decisions", "learned", "closed_at"),
    "void": ("tenant", "decision_id", "status"),
}
_Request: TypeAlias = DecideRequest | RewardRequest | CloseRequest
_Told: TypeAlias = Decision | Reward | ClosedEpisode | SteersmanError


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the library with a list; `void` takes back the decision of the one request it holds."""

    verb: str  # decide, reward, close or void
    requests: tuple[_Request, ...]


def prepare(url: str) -> None:
    """Make the schema and the two tenants."""
    with Steersman(Database.open(url, upgrade=True)) as library:
        library.create_tenant(PLAIN, {"actions": ACTIONS, "states": STATES})
        learning = {"alpha": 0.25, "gamma": 0.875, "lambda": 0.0}
        library.create_tenant(CHAINS, {"actions": ACTIONS, "states": STATES, "learning": learning})


def make_plan(client: str, seed: int, calls: int) -> list[Call]:
    """The first `calls` calls or a few more, of whole stories, that `client` makes; ids are told apart by its name."""
    random = Random(f"{seed} {client}")
    plan: list[Call] = []
    while len(plan) < calls:
        story = random.choices((_single, _taken_back, _lists, _episode), (5, 1, 2, 3))[0]
        plan += story(random, f"{client}.{len(plan)}")
    return plan


def _single(random: Random, name: str) -> Iterator[Call]:
    """A decision, its reward, and at times the same reward again or a further one."""
    yield Call("decide", (DecideRequest(PLAIN, _state(random), decision_id=name),))
    reward = Call("reward", (RewardRequest(PLAIN, name, random.random()),))
    yield reward
    luck = random.random()
    if luck < 0.2:
        yield reward
    elif luck < 0.4:
        yield Call("reward", (RewardRequest(PLAIN, name, random.random(), reward_id=f"{name}.further"),))


def _taken_back(random: Random, name: str) -> Iterator[Call]:
    """A decision that was never acted upon."""
    decide = DecideRequest(PLAIN, _state(random), decision_id=name)
    yield Call("decide", (decide,))
    yield Call("void", (decide,))


def _lists(random: Random, name: str) -> Iterator[Call]:
    """Decisions of both tenants in one list, and their rewards in another, one of them twice."""
    tenants = [PLAIN, CHAINS, PLAIN, PLAIN]
    yield Call(
        "decide",
        tuple(DecideRequest(t, _state(random), decision_id=f"{name}.{i}") for i, t in enumerate(tenants)),
    )
    rewards = [RewardRequest(t, f"{name}.{i}", random.random()) for i, t in enumerate(tenants)]
    yield Call("reward", (*rewards, rewards[0]))


def _episode(random: Random, name: str) -> Iterator[Call]:
    """Three decisions, rewards for some of them in any order, one perhaps taken back, and an outcome."""
    decides = [
        DecideRequest(CHAINS, _state(random), episode=name, decision_id=f"{name}.{i}") for i in range(3)
    ]
    for decide in decides:
        yield Call("decide", (decide,))
    for i in random.sample(range(3), 2):
        if random.random() < 0.3:
            yield Call("void", (decides[i],))
        else:
            yield Call("reward", (RewardRequest(CHAINS, f"{name}.{i}", random.random()),))
    yield Call("close", (CloseRequest(CHAINS, name, random.random()),))


def _state(random: Random) -> int:
    return int(random.choice([0, 0, 0, *range(STATES)]))


def perform(library: Steersman, call: Call) -> list[Answer]:
    """Make the call and return what the library told; raise the first error of the list."""
    told: list[_Told]
    if call.verb == "decide":
        told = [*library.decide_many([r for r in call.requests if isinstance(r, DecideRequest)])]
    elif call.verb == "reward":
        told = [*library.reward_many([r for r in call.requests if isinstance(r, RewardRequest)])]
    elif call.verb == "close":
        told = [*library.close_many([r for r in call.requests if isinstance(r, CloseRequest)])]
    else:
        told = [
            library.void(r.tenant, r.decision_id or "") for r in call.requests if isinstance(r, DecideRequest)
        ]
    return [answer_of(call.verb, item) for item in told]


def answer_of(verb: str, told: object) -> Answer:
    """The columns that a client was told the values of."""
    if isinstance(told, SteersmanError):
        raise told
    names = _COLUMNS[verb]
    return {"verb": verb} | {name: getattr(told, name) for name in names}


def renamed(call: Call) -> Call:
    """The same call under other ids: what a client must not do when it does not know how the first one ended."""
    requests: list[_Request] = []
    for request in call.requests:
        if isinstance(request, DecideRequest):
            requests.append(replace(request, decision_id=f"{request.decision_id}.again"))
        elif isinstance(request, RewardRequest):
            requests.append(replace(request, reward_id=f"{request.reward_id or request.decision_id}.again"))
        else:
            requests.append(request)
    return Call(call.verb, tuple(requests))


def strangers(books: Books, plan: list[Call]) -> list[str]:
    """Every decision and reward that is there although no call of `plan` asks for it, or the other way round."""
    asked = set()
    for call in plan:
        for request in call.requests:
            if isinstance(request, DecideRequest):
                asked.add(("decision", request.tenant, request.decision_id))
            elif isinstance(request, RewardRequest):
                asked.add(("reward", request.tenant, request.reward_id or request.decision_id))
    there = {("decision", row["tenant"], row["decision_id"]) for row in books.decisions}
    there |= {("reward", row["tenant"], row["reward_id"]) for row in books.rewards}
    return [f"nobody asked for {key}" for key in sorted(there - asked, key=str)] + [
        f"{key} is not there" for key in sorted(asked - there, key=str)
    ]

"""One program runs on the library and on the client, unchanged, and comes to the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from steersman.client import Client
from steersman.domain.records import CloseRequest, DecideRequest, Decision, RewardRequest
from steersman.errors import IdReusedError, InvalidStateError, NotFoundError, SteersmanError
from steersman.library import Steersman
from steersman.usecases.keys import create_key
from tests.support.served import serving

DECLARATION = {
    "actions": [{"id": "firm", "label": "Stay firm"}, "split"],
    "states": {"factors": [{"name": "stage", "values": ["open", "end"]}, {"name": "gap", "edges": [0.5]}]},
    "learning": {"gamma": 0.5},
    "base": "everyone",
    "contributes": True,
    "reward_wait": 0,
    "default_reward": 0.25,
}
BASE = {name: DECLARATION[name] for name in ("actions", "states")}
NEAR, FAR = {"stage": "open", "gap": 0.1}, {"stage": "end", "gap": 0.9}


def program(steersman: Steersman | Client) -> Iterator[object]:
    """Use every verb that both have, and yield each answer; what is random is decided by feasible actions."""
    yield steersman.create_base("everyone", BASE)
    yield steersman.create_tenant("acme", DECLARATION)
    yield steersman.decide(
        "acme", NEAR, feasible=["split"], reasons={"firm": "not yet"}, decision_id="a", metadata={"deal": 7}
    )
    yield steersman.reward("acme", "a", 0.75)
    yield steersman.reward("acme", "a", 0.125, reward_id="bonus")
    with steersman.episode("acme", "deal/1") as episode:
        yield episode.decide(NEAR, feasible=["firm"], decision_id="b")
        yield episode.reward("b", 0.5)
        yield episode.decide(FAR, feasible=["split"], decision_id="c", explore=False)
        episode.outcome = 1.0
    yield episode.closed
    yield steersman.decide_many(
        [
            DecideRequest("acme", index % 4, feasible=["firm"], decision_id=f"many-{index}")
            for index in range(600)
        ]
        + [
            DecideRequest("none", 0),
            DecideRequest("acme", 9),
        ]
    )
    yield steersman.reward_many(
        [RewardRequest("acme", f"many-{index}", index / 1000) for index in range(500)]
        + [RewardRequest("acme", "?", 0.5)]
    )
    yield steersman.void("acme", "many-599")
    yield steersman.decide("acme", 0, feasible=["firm"], episode="deal/2", decision_id="d")
    yield steersman.close_many([CloseRequest("acme", "deal/2", 0.5), CloseRequest("acme", "deal/3")])
    yield steersman.expire("acme")
    yield refused(steersman)
    yield steersman.explain("acme", "c").actions
    yield [decision.decision_id for decision in steersman.list_decisions("acme", episode="deal/1")]
    yield [(line.status, line.steps) for line in steersman.list_episodes("acme", status="closed")]
    yield [decision.decision_id for decision in steersman.show_episode("acme", "deal/1").decisions]
    yield [line.verb for line in steersman.list_audit("acme")]
    yield steersman.show("acme", limit=3)
    yield steersman.freeze("acme", "before")
    yield steersman.build_base("everyone")
    yield steersman.change_tenant("acme", {"actions": ["firm", "split", "concede"]}, dry_run=True)
    yield steersman.change_tenant("acme", {"actions": ["firm", "split", "concede"]})
    yield steersman.refresh("acme")
    yield steersman.roll_back("acme")
    yield steersman.activate("acme", "before")
    yield steersman.list_versions("acme")
    yield [finding.code for finding in steersman.doctor("acme").findings]
    yield steersman.verify("acme")
    yield steersman.show_tenant("acme")
    yield steersman.retire_tenant("acme")
    yield steersman.list_tenants()
    issued = steersman.create_key("acme", name="shop", scopes=["decide"])
    yield issued.key.scopes
    yield [key.name for key in steersman.list_keys("acme")]
    successor = steersman.rotate_key(issued.key.key_id, overlap=60.0)
    yield successor.key.scopes
    yield steersman.revoke_key(successor.key.key_id).revoked_at is not None
    yield steersman.create_key(None, name="ops").key.tenant
    yield steersman.erase_tenant("acme").rows["decisions"]


def refused(steersman: Steersman | Client) -> list[str]:
    """Return what a caller can tell of each error but its hint, which names a command or a route."""
    told = []
    for wrong in (
        lambda: steersman.decide("acme", FAR, decision_id="a"),
        lambda: steersman.reward("acme", "none", 0.5),
        lambda: steersman.reward("acme", "a", float("nan")),
        lambda: steersman.decide("acme", {"stage": "late", "gap": 0.0}),
        lambda: steersman.decide("acme", 0, feasible=["sell"]),
        lambda: steersman.decide("acme", 0, metadata={"x": float("inf")}),
        lambda: steersman.create_tenant("acme", DECLARATION),
        lambda: steersman.freeze("acme", "7"),
        lambda: steersman.void("acme", "a"),
        lambda: steersman.list_decisions("none"),
        lambda: steersman.list_decisions("acme", limit=0),
        lambda: steersman.list_decisions("acme", status="done"),  # type: ignore[arg-type]
        lambda: steersman.list_decisions("acme", metadata={"x": float("inf")}),
        lambda: steersman.list_decisions("acme", after=""),
        lambda: steersman.list_episodes("acme", after=(1, "")),
        lambda: steersman.list_episodes("acme", status="learned"),  # type: ignore[arg-type]
        lambda: steersman.show_episode("acme", "none"),
        lambda: steersman.list_audit("acme", limit=-1),
    ):
        with pytest.raises(SteersmanError) as error:
            wrong()
        told.append(f"{type(error.value).__name__}: {error.value.message}")
    return told


def timeless(value: Any) -> Any:
    """Return `value` without what differs from run to run, which is times and secrets; errors by their message."""
    if isinstance(value, SteersmanError):
        return f"{type(value).__name__}: {value.message}"
    if isinstance(value, (list, tuple)):
        return [timeless(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        unlike = {"created_at": 0, "closed_at": 0, "secret": b""}
        names = {field.name for field in fields(value) if field.init}
        parts = {name: timeless(getattr(value, name)) for name in names - unlike.keys()}
        return type(value).__name__, parts
    return value


@pytest.fixture
def on_the_library(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    with Steersman.open(tmp_path_factory.mktemp("library") / "steersman.db") as library:
        return [timeless(answer) for answer in program(library)]


def test_the_same_program_comes_to_the_same(on_the_library: list[object], store_url: str) -> None:
    with serving(store_url, roles=store_url.startswith("postgresql")) as server:
        key = create_key(server.library.database, tenant=None, name="ops").text
        with Client(server.url, key) as client:
            through_the_service = [timeless(answer) for answer in program(client)]
    assert through_the_service == on_the_library


def test_what_the_client_reads_is_what_the_library_reads(store_url: str) -> None:
    with serving(store_url, roles=store_url.startswith("postgresql")) as server:
        library = server.library
        library.create_tenant("acme", DECLARATION | {"base": None, "contributes": False})
        with Client(server.url, create_key(library.database, tenant=None, name="ops").text) as client:
            decision = client.decide("acme", NEAR, metadata={"z": 1, "a": [1.5, None, "é"]})
            assert (
                library.decide(
                    "acme", NEAR, decision_id=decision.decision_id, metadata={"a": [1.5, None, "é"], "z": 1}
                )
                == decision
            )
            reward = client.reward("acme", decision.decision_id, 0.5)
            assert library.reward("acme", decision.decision_id, 0.5) == reward
            assert client.explain("acme", decision.decision_id) == library.explain(
                "acme", decision.decision_id
            )
            assert client.list_decisions("acme", status="learned") == library.list_decisions("acme")
            assert client.list_episodes("acme") == library.list_episodes("acme") == []
            assert client.list_audit("acme") == library.list_audit("acme") != []
            assert client.list_audit("@") == library.list_audit("@") != []
            assert client.show("acme") == library.show("acme")
            assert client.list_versions("acme") == library.list_versions("acme")
            assert client.doctor("acme") == library.doctor("acme")
            assert client.verify("acme") == library.verify("acme")
            # All but the secret, which never leaves the database.
            assert client.show_tenant("acme") == replace(library.show_tenant("acme"), secret=b"")
            assert client.list_keys(None)[0].key_id == library.list_keys(None)[0].key_id


@pytest.mark.parametrize("strange", [".", "..", "a/b", "a%2Fb", "?x=1#y", "é ü", "a:b", " "])
def test_any_id_finds_its_way(client: Client, tenant: str, strange: str) -> None:
    decision = client.decide(tenant, 0, decision_id=strange, episode=strange)
    assert client.explain(tenant, strange).decision.decision_id == strange
    assert client.void(tenant, strange).status == "void"
    assert client.close_episode(tenant, strange).episode == strange
    assert decision.episode == strange


def test_a_long_list_is_sent_in_parts(client: Client, tenant: str) -> None:
    large = {"text": "x" * 4000}
    answers = client.decide_many([DecideRequest(tenant, 0, metadata=large) for _ in range(300)])  # 1.2 MB
    assert [getattr(answer, "metadata", None) for answer in answers] == [large] * 300
    assert client.decide_many([]) == []


def test_an_exception_leaves_the_episode_open(client: Client, tenant: str) -> None:
    episode = client.episode(tenant, "deal")
    with pytest.raises(InvalidStateError), episode:
        episode.decide(episode.decide(0).state + 9)
    assert episode.closed is None
    with client.episode(tenant, "deal") as episode:  # gone on with
        assert episode.decide(0).step == 1
    assert episode.closed is not None
    assert episode.closed.decisions == 2


def test_a_number_that_is_none_is_refused_in_its_place(client: Client, tenant: str) -> None:
    requests = [DecideRequest(tenant, {"gap": float("nan")}), DecideRequest(tenant, 0)]
    refused_one, decision = client.decide_many(requests)
    assert str(refused_one) == "state factor 'gap': expected a finite number, got nan"
    assert isinstance(refused_one, InvalidStateError)
    assert isinstance(decision, Decision)


def test_an_episode_without_decisions_cannot_be_closed(client: Client, tenant: str) -> None:
    with pytest.raises(NotFoundError), client.episode(tenant, "deal"):
        pass


def test_numbers_of_numpy_are_numbers(client: Client, tenant: str) -> None:
    numpy = pytest.importorskip("numpy")
    decision = client.decide(tenant, numpy.int64(1), feasible=("hold",), metadata={"n": 1})
    assert decision.state == 1
    assert client.reward(tenant, decision.decision_id, numpy.float32(0.5)).value == 0.5
    with pytest.raises(IdReusedError):
        client.reward(tenant, decision.decision_id, 0.25)

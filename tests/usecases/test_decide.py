from __future__ import annotations

import hashlib
from dataclasses import replace
from math import log, sqrt
from typing import Any

import pytest

from steersman.domain.records import DecideRequest, Decision
from steersman.domain.settings import TenantSpec
from steersman.errors import (
    ConflictError,
    EpisodeClosedError,
    IdReusedError,
    InvalidActionError,
    InvalidInputError,
    InvalidStateError,
    NotFoundError,
    SteersmanError,
    TenantRetiredError,
)
from steersman.library import Steersman
from steersman.store.decisions import list_decisions
from steersman.store.tenants import get_tenant, insert_tenant, set_status
from tests.support.company import Company

STATES = {"factors": [{"name": "stage", "values": ["open", "close"]}, {"name": "gap", "edges": [0.5]}]}


def draw(secret: bytes, decision_id: str) -> float:
    """The draw, worked out anew: the top 53 bits of the digest over 2**53."""
    digest = hashlib.sha256(secret + b"\0" + decision_id.encode()).hexdigest()
    return (int(digest[:16], 16) >> 11) / 2**53


def secret_of(company: Company) -> bytes:
    with company.library.database.snapshot() as connection:
        return get_tenant(connection, company.name).secret


def test_the_first_decision_is_even_and_counts_one_visit(company: Company) -> None:
    decision = company.decide(1)
    assert decision.propensity == 0.5
    assert decision.feasible == ("hold", "trade")
    assert (decision.version, decision.state, decision.status) == (1, 1, "open")
    assert (decision.explored, decision.explore, decision.epsilon, decision.c) == (
        False,
        True,
        0.1,
        sqrt(2.0),
    )
    assert [list(column) for column in (decision.seen.q, decision.seen.visits)] == [[0.0, 0.0], [0, 0]]
    other = {"hold": "trade", "trade": "hold"}[decision.action]
    cell = company.cell(decision.action, 1)
    assert (cell.q, cell.visits, cell.updates, cell.borrowed) == (0.0, 1, 0, 0.0)
    assert company.cell(other, 1).visits == company.cell(decision.action, 0).visits == 0
    assert company.steps() == []


def test_an_untried_action_has_nearly_all_the_probability(company: Company) -> None:
    first = company.decide(decision_id="d1")
    second = company.decide(decision_id="d2")
    # The greedy set is the untried action alone: 0.9 + 0.1 / 2, and 0.05 for the other.
    explored = second.action == first.action
    assert second.propensity == pytest.approx(0.05 if explored else 0.95, rel=1e-15)
    assert second.explored == explored
    assert sum(second.seen.visits) == 1


def test_the_draw_is_that_of_the_secret_and_the_id(company: Company) -> None:
    secret = secret_of(company)
    for number in range(10):
        decision = company.decide(
            explore=False, decision_id=f"fixed {number}"
        )  # nothing is known: both are even
        assert decision.action == ("hold" if draw(secret, f"fixed {number}") < 0.5 else "trade")


def test_ties_share_and_the_rest_get_their_part_of_epsilon(shared_library: Steersman) -> None:
    # a and b have n = 1 and q = 1, c has n = 1 and q = 0: equal bonuses, so a and b tie.
    company = Company.found(shared_library, actions=["a", "b", "c"], exploration={"epsilon": 0.3})
    company.teach("a", 1.0)
    company.teach("b", 1.0)
    company.teach("c", 0.0)
    chances = {"a": 0.45, "b": 0.45, "c": 0.1}  # (1 - 0.3) / 2 + 0.3 / 3, and 0.3 / 3
    decision = company.decide()
    assert decision.propensity == pytest.approx(chances[decision.action], rel=1e-15)
    assert decision.explored == (decision.action == "c")
    masked = (
        company.decide(feasible=["a", "c"]) if decision.action != "a" else company.decide(feasible=["b", "c"])
    )
    # One of the two is greedy: 0.7 + 0.3 / 2, and 0.15.
    assert masked.propensity == pytest.approx(0.15 if masked.action == "c" else 0.85, rel=1e-15)


def test_the_score_has_c_and_the_width_of_the_range(shared_library: Steersman) -> None:
    # hold: q = 1, n = 4; trade: q = 0, n = 1. N = 5. Bonuses c * w * sqrt(ln 5 / n) differ by c * w * 0.6343, so
    # trade wins when that is above 1: with w = 10 for c above 0.1577.
    assert sqrt(log(5.0)) - sqrt(log(5.0) / 4.0) == pytest.approx(0.6343, abs=1e-4)
    for c, wins in ((0.15, "hold"), (0.165, "trade")):
        company = Company.found(shared_library, exploration={"c": c, "epsilon": 0.0}, reward_range=[-5, 5])
        company.teach("hold", 1.0, 1.0, 1.0, 1.0)
        company.teach("trade", 0.0)
        decision = company.decide()
        assert (decision.action, decision.propensity, decision.c) == (wins, 1.0, c)


def test_borrowed_evidence_of_a_prior_counts_as_visits(shared_library: Steersman) -> None:
    # trade has evidence from its prior, hold has none, so hold comes first.
    company = Company.found(
        shared_library, priors={"trade": {"q": 0.9, "weight": 4}}, exploration={"epsilon": 0.0}
    )
    assert company.decide().action == "hold"
    # n = (1, 4): 0 + sqrt(2) * 1.2686 = 1.794 against 0.9 + sqrt(2) * 0.6343 = 1.797, so trade.
    second = company.decide()
    assert (second.action, list(second.seen.borrowed), list(second.seen.q)) == (
        "trade",
        [0.0, 4.0],
        [0.0, 0.9],
    )
    cell = company.cell("trade")
    assert (cell.q, cell.visits, cell.borrowed) == (0.9, 1, 4.0)


def test_without_exploration_the_best_known_action_is_certain(company: Company) -> None:
    assert company.decide(explore=False).propensity == 0.5  # nothing is known yet
    company.teach("hold", 0.3)
    decision = company.decide(explore=False)
    assert (decision.action, decision.propensity, decision.epsilon, decision.explore) == (
        "hold",
        1.0,
        0.0,
        False,
    )
    company.teach("trade", 0.4)
    assert company.decide(explore=False).action == "trade"


def test_without_exploration_ties_share(company: Company) -> None:
    company.teach("hold", 0.5)
    company.teach("trade", 0.5)
    decisions = [company.decide(explore=False) for _ in range(12)]
    assert {decision.propensity for decision in decisions} == {0.5}
    assert not any(decision.explored for decision in decisions)


def test_a_decision_keeps_what_it_was_asked_with(shared_library: Steersman) -> None:
    company = Company.found(shared_library, actions=["hold", 7, "walk"], states=STATES)
    decision = company.decide(
        {"stage": "close", "gap": 0.7},
        feasible=[7, "hold"],
        episode="deal 1",
        decision_id="d1",
        metadata={"negotiation": 17, "nested": {"a": [1, 2.5, None]}},
        reasons={"walk": "too early"},
    )
    assert (decision.state, decision.feasible, decision.episode, decision.step) == (
        3,
        ("hold", "7"),
        "deal 1",
        0,
    )
    with shared_library.database.snapshot() as connection:
        (row,) = list_decisions(connection, company.name, metadata={"negotiation": 17})
        assert list_decisions(connection, company.name, metadata={"negotiation": True}) == []
        assert list_decisions(connection, company.name, metadata={"negotiation": 18}) == []
    assert row[1] == "d1"


def test_the_same_call_again_is_answered_as_before(shared_library: Steersman) -> None:
    company = Company.found(shared_library, actions=["a", "b", "c"], states=STATES)
    options: dict[str, Any] = {
        "feasible": ["c", "a"],
        "episode": "e",
        "decision_id": "d",
        "metadata": {"b": 1, "a": [2]},
        "reasons": {"b": "no"},
    }
    first = company.decide({"stage": "open", "gap": 0.1}, **options)
    visits = company.rows("cells")
    again = company.decide(
        {"gap": 0.1, "stage": "open"}, **(options | {"feasible": ["a", "c"], "metadata": {"a": [2], "b": 1}})
    )
    assert again == first
    assert company.rows("cells") == visits
    assert len(company.rows("decisions")) == 1
    assert company.rows("episodes")[0][3] == 1  # one step
    with Steersman.open(
        shared_library.database.engine.url.render_as_string(hide_password=False)
    ) as elsewhere:
        assert Company(elsewhere, company.name).decide({"stage": "open", "gap": 0.1}, **options) == first


def test_the_first_answer_is_what_later_ones_are(shared_library: Steersman) -> None:
    company = Company.found(shared_library, actions=[1, 2])
    metadata: dict[str, Any] = {"pair": (1, 2.5), "inner": {"b": 1, "a": None}}
    options: dict[str, Any] = {
        "feasible": [1],
        "metadata": metadata,
        "reasons": {2: "no"},
        "decision_id": "d",
    }
    first = company.decide(**options)
    assert company.decide(**options) == first
    assert (first.metadata, first.reasons) == (
        {"pair": [1, 2.5], "inner": {"a": None, "b": 1}},
        {"2": "no"},
    )
    metadata["pair"] = "changed"
    assert first.metadata == {"pair": [1, 2.5], "inner": {"a": None, "b": 1}}


def test_a_replay_tells_what_has_become_of_the_decision(company: Company) -> None:
    first = company.play("hold", decision_id="d")
    company.reward(first, 0.5)
    assert company.play("hold", decision_id="d") == replace(first, status="learned")


@pytest.mark.parametrize(
    "other",
    [
        {"state": 1},
        {"feasible": ["hold"]},
        {"episode": "e"},
        {"explore": False},
        {"metadata": {"a": 1}},
        {"reasons": {"trade": "no"}, "feasible": ["hold"]},
    ],
    ids=",".join,
)
def test_an_id_that_was_used_for_another_request_is_a_conflict(
    other: dict[str, Any], company: Company
) -> None:
    company.decide(0, decision_id="d")
    before = company.rows("cells"), company.rows("decisions"), company.rows("episodes")
    with pytest.raises(ConflictError) as caught:
        company.decide(**({"decision_id": "d"} | other))
    assert "'d'" in str(caught.value)
    assert "stored" in str(caught.value)
    assert "now" in str(caught.value)
    assert (company.rows("cells"), company.rows("decisions"), company.rows("episodes")) == before


def test_a_conflict_shows_both_requests(company: Company) -> None:
    company.decide(0, decision_id="d", feasible=["hold"])
    with pytest.raises(
        ConflictError, match=r"state 0, feasible \['hold'\], episode None.*now.*state 1.*'deal'"
    ):
        company.decide(1, decision_id="d", episode="deal")


def test_the_same_id_of_another_tenant_is_another_decision(
    shared_library: Steersman, company: Company
) -> None:
    other = Company.found(shared_library)
    assert company.decide(0, decision_id="d").tenant != other.decide(1, decision_id="d").tenant
    assert (company.rows("decisions")[0][4], other.rows("decisions")[0][4]) == (0, 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"state": 2}, InvalidStateError, "expected an index from 0 to 1, got 2"),
        ({"state": {"stage": "open"}}, InvalidStateError, "no factors"),
        ({"state": None}, InvalidStateError, "expected an index or a mapping"),
        ({"state": True}, InvalidStateError, "expected an index or a mapping"),
        ({"state": 10**30}, InvalidStateError, "state"),
        ({"state": {"stage": object()}}, InvalidStateError, "state"),
        ({"feasible": []}, InvalidActionError, "expected at least one action id"),
        ({"feasible": ["fold"]}, InvalidActionError, "got 'fold'"),
        ({"feasible": ["hold", "hold"]}, InvalidActionError, "each action id once"),
        ({"feasible": 5}, InvalidActionError, "feasible: expected"),
        ({"feasible": "hold"}, InvalidActionError, "feasible: expected"),
        ({"explore": 1}, InvalidInputError, "explore: expected true or false, got 1"),
        ({"decision_id": ""}, InvalidInputError, "decision_id: expected a text of 1 to 200 characters"),
        ({"episode": "x" * 201}, InvalidInputError, "episode: expected a text"),
        ({"metadata": [1]}, InvalidInputError, "metadata: expected a JSON object"),
        ({"metadata": {"k": "x" * 4096}}, InvalidInputError, "at most 4096 bytes"),
        ({"metadata": {"k": float("nan")}}, InvalidInputError, "expected a finite number"),
        ({"reasons": ["trade"]}, InvalidInputError, "reasons: expected a mapping"),
        (
            {"reasons": {"trade": "no"}},
            InvalidActionError,
            "reasons: expected ids of actions that are not feasible",
        ),
        ({"reasons": {"fold": "no"}}, InvalidActionError, "got 'fold'"),
        ({"reasons": {"trade": "x" * 501}, "feasible": ["hold"]}, InvalidInputError, "at most 500"),
    ],
)
def test_a_bad_request_is_refused_and_leaves_nothing(
    options: dict[str, Any], error: type[SteersmanError], message: str, company: Company
) -> None:
    company.play("hold")
    before = company.rows("cells"), company.rows("decisions"), company.rows("episodes")
    with pytest.raises(error, match=message) as caught:
        company.decide(**options)
    assert type(caught.value) is error
    assert (company.rows("cells"), company.rows("decisions"), company.rows("episodes")) == before


UNSOUND = ["", "\x00", "a\x00b", "a\nb", "\x1b[31m", "a\x7f", "\x85", "\ud800", "x\udfff", "x" * 201]
SOUND = [
    "x" * 200,
    "é",
    "e\u0301",
    "\U0001f6a2",
    "a'b\"c;--",
    "%s",
    "?",
    " ",
    "\u202e",
    "\ufeff",
    "NULL",
    "\\",
]


@pytest.mark.parametrize("text", UNSOUND, ids=ascii)
def test_ids_that_databases_treat_differently_are_refused_by_both(text: str, company: Company) -> None:
    for attempt in (
        lambda: company.decide(decision_id=text),
        lambda: company.decide(episode=text),
        lambda: company.reward(text, 0.5),
        lambda: company.reward("d", 0.5, reward_id=text),
        lambda: company.close(text),
        lambda: company.library.void(company.name, text),
    ):
        with pytest.raises(InvalidInputError, match="expected a text of 1 to 200 characters"):
            attempt()
    with pytest.raises(InvalidInputError):
        company.library.decide(text, 0)


def test_ids_that_look_dangerous_are_kept_as_they_are(company: Company) -> None:
    for text in SOUND:
        decision = company.decide(decision_id=text, episode=text)
        company.reward(text, 0.5, reward_id=text)
        assert (decision.decision_id, decision.episode, decision.step) == (text, text, 0)
    assert {row[1] for row in company.rows("decisions")} == set(SOUND)  # the two spellings of é stay two
    assert {row[1] for row in company.rows("rewards")} == set(SOUND)
    for text in SOUND:
        assert company.close(text, 1.0).decisions == 1


def test_texts_within_requests_that_cannot_be_kept_are_refused(company: Company) -> None:
    for options in (
        {"feasible": ["\ud800"]},
        {"feasible": ["a\x00"]},
        {"state": {"stage": "\ud800"}},
        {"metadata": {"k": "\ud800"}},
        {"metadata": {"k\x00": 1}},
        {"reasons": {"trade": "a\x00"}, "feasible": ["hold"]},
        {"reasons": {"\ud800": "no"}, "feasible": ["hold"]},
    ):
        with pytest.raises(InvalidInputError):
            company.decide(**options)
    assert company.rows("decisions") == []


def test_an_unknown_tenant(shared_library: Steersman) -> None:
    with pytest.raises(NotFoundError, match="no tenant 'nobody'"):
        shared_library.decide("nobody", 0)


def test_a_retired_tenant_refuses_new_decisions_and_learns_from_old_ones(company: Company) -> None:
    decision = company.play("hold", decision_id="d")
    with company.library.database.transaction() as connection:
        set_status(connection, company.name, "retired")
    with pytest.raises(TenantRetiredError, match="retired"):
        company.decide()
    assert company.play("hold", decision_id="d") == decision
    assert company.reward(decision, 1.0).effect == "learned"


def test_steps_of_an_episode_count_up(company: Company) -> None:
    assert [company.decide(episode="e").step for _ in range(3)] == [0, 1, 2]
    assert company.decide(episode="f").step == 0
    assert company.decide().step is None


def test_a_closed_episode_refuses_decisions_but_replays_them(company: Company) -> None:
    decision = company.play("hold", episode="e", decision_id="d")
    company.close("e", 0.5)
    with pytest.raises(EpisodeClosedError, match="episode 'e'"):
        company.decide(episode="e")
    assert company.play("hold", episode="e", decision_id="d") == replace(decision, status="learned")
    assert company.cell("hold").visits == 1


# Lists


def test_a_list_answers_each_in_order_and_a_bad_item_leaves_the_others(
    shared_library: Steersman, company: Company
) -> None:
    other = Company.found(shared_library, actions=["x"], states=1)
    answers = shared_library.decide_many(
        [
            DecideRequest(company.name, 0, ["hold"], decision_id="one"),
            DecideRequest(company.name, 9),
            DecideRequest("nobody", 0),
            DecideRequest(other.name, 0, decision_id="one"),
            DecideRequest(company.name, 0, [], decision_id="two"),
            DecideRequest(company.name, 1, decision_id="\x00"),
            DecideRequest(company.name, 1, ["trade"], decision_id="three"),
        ]
    )
    kinds = [InvalidStateError, NotFoundError, InvalidActionError, InvalidInputError]
    assert [type(answer) for answer in answers if isinstance(answer, SteersmanError)] == kinds
    made = [answer for answer in answers if isinstance(answer, Decision)]
    assert [(d.tenant, d.decision_id, d.action) for d in made] == [
        (company.name, "one", "hold"),
        (other.name, "one", "x"),
        (company.name, "three", "trade"),
    ]
    assert company.cell("hold").visits == company.cell("trade", 1).visits == other.cell("x").visits == 1
    assert {row[1] for row in company.rows("decisions")} == {"one", "three"}


def test_duplicates_within_a_list_are_one_decision(company: Company) -> None:
    request = DecideRequest(company.name, 0, decision_id="d")
    first, again, other = company.library.decide_many([request, request, replace(request, state=1)])
    assert isinstance(first, Decision)
    assert again == first
    assert isinstance(other, ConflictError)
    assert len(company.rows("decisions")) == len(company.rows("cells")) == 1


def test_a_conflict_within_a_list_opens_no_episode(company: Company) -> None:
    request = DecideRequest(company.name, 0, decision_id="d")
    answers = company.library.decide_many([request, replace(request, episode="ghost")])
    assert [type(answer) for answer in answers] == [Decision, IdReusedError]
    assert company.rows("episodes") == []


def test_an_empty_list_is_answered_with_an_empty_list(shared_library: Steersman) -> None:
    assert shared_library.decide_many([]) == []


def test_a_list_without_a_sound_item_changes_nothing(company: Company) -> None:
    company.play("hold")
    before = company.rows("cells"), company.rows("decisions")
    (answer,) = company.library.decide_many([DecideRequest(company.name, 7)])
    assert isinstance(answer, InvalidStateError)
    assert (company.rows("cells"), company.rows("decisions")) == before


def requests_of(tenant: str) -> list[DecideRequest]:
    """Forty requests: three states, masks, episodes, some without exploration, one id twice, one bad."""
    masks: list[list[str] | None] = [None, ["hold", "walk"], ["trade", "walk"]]
    made = [
        DecideRequest(
            tenant,
            number % 3,
            masks[number % 7 % 3],
            episode=f"e{number % 4}" if number % 2 else None,
            decision_id=f"d{number}",
            explore=number % 5 != 0,
        )
        for number in range(40)
    ]
    return [*made, made[3], replace(made[4], state=5)]


def test_a_list_is_as_if_applied_in_turn(shared_library: Steersman) -> None:
    """Two libraries over one database, since tenants with one secret stand for one and the same there."""
    spec = TenantSpec.from_json({"actions": ["hold", "trade", "walk"], "states": 3})
    url = shared_library.database.engine.url.render_as_string(hide_password=False)
    single, listed = Company.found(shared_library), Company.found(shared_library)
    names = single.name + "-1", listed.name + "-2"
    outcomes = []
    for name in names:
        with Steersman.open(url) as library:
            company = Company(library, name)
            with library.database.transaction() as connection:
                insert_tenant(connection, name, spec, b"one secret for both")
            if name == names[0]:
                answers = [library.decide_many([request])[0] for request in requests_of(name)]
            else:
                answers = library.decide_many(requests_of(name))
            plain = [
                replace(answer, tenant="", created_at=0) if isinstance(answer, Decision) else str(answer)
                for answer in answers
            ]
            cells = [row[1:] for row in company.rows("cells")]
            steps = [(row[1], row[3]) for row in company.rows("episodes")]
            outcomes.append(([str(item).replace(name, "") for item in plain], cells, steps))
    assert outcomes[0] == outcomes[1]
    assert sum(cell[4] for cell in outcomes[0][1]) == 40

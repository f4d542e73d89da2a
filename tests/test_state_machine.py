"""Random histories of one tenant, against the model in memory; each ends with a clean verification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from steersman.domain.records import Decision, RewardRequest
from steersman.domain.settings import TenantSpec
from steersman.errors import (
    ConflictError,
    DecisionLearnedError,
    DecisionVoidError,
    EpisodeClosedError,
    InvalidActionError,
    InvalidStateError,
)
from steersman.library import Steersman
from steersman.store.cells import iterate_cells
from steersman.store.tenants import insert_tenant
from steersman.usecases.migrate import migrate
from steersman.usecases.verify import verify
from steersman.usecases.versions import activate, freeze, roll_back
from tests.support.model import PRIOR, Model, Rules

# Numbers with few binary digits, so that sums come out alike whatever their order.
VALUES = st.integers(0, 8).map(lambda eighths: eighths / 8)
LEARNING = st.sampled_from(
    [(0.5, 0.0), (1.0, 0.0), (0.5, 0.5), (1.0, 0.5), (0.5, 1.0), (0.0, 0.5), (0.0, 0.0)]
)
RULES = st.builds(
    lambda actions, states, alpha, learning, c, epsilon: Rules(
        actions=tuple(actions),
        states=tuple(states),
        alpha=alpha,
        gamma=learning[0],
        lam=learning[1],
        c=c,
        epsilon=epsilon,
    ),
    st.lists(st.sampled_from("abcd"), min_size=1, unique=True),
    st.lists(st.sampled_from("pqr"), min_size=1, unique=True),
    st.sampled_from([None, None, 0.5, 0.125]),
    LEARNING,
    st.sampled_from([0.0, 1.0, 2.0**0.5]),
    st.sampled_from([0.0, 0.25, 1.0]),
)
SECRET = b"one for every history"
EPISODES = st.sampled_from([None, None, "e", "f", "g"])


def declaration(rules: Rules) -> dict[str, Any]:
    priors = {
        action: {"q": q, "weight": weight} for action, (q, weight) in PRIOR.items() if action in rules.actions
    }
    return {
        "actions": list(rules.actions),
        "states": {"factors": [{"name": "x", "values": list(rules.states)}]},
        "learning": {
            "alpha": "1/n" if rules.alpha is None else rules.alpha,
            "gamma": rules.gamma,
            "lambda": rules.lam,
        },
        "exploration": {"c": rules.c, "epsilon": rules.epsilon},
        "priors": priors,
    }


class Histories(RuleBasedStateMachine):
    """What may happen to a tenant, in any order."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.library = Steersman.open(url)
        self.name = f"company-{uuid4().hex}"
        self.answers: dict[str, Decision] = {}

    @initialize(rules=RULES)
    def found(self, rules: Rules) -> None:
        # A secret of ours, so that a history that fails can be played again.
        with self.library.database.transaction() as connection:
            insert_tenant(connection, self.name, TenantSpec.from_json(declaration(rules)), SECRET)
        self.model = Model(rules, SECRET)

    # Deciding

    @rule(data=st.data(), episode=EPISODES, explore=st.sampled_from([True, True, False]))
    def decide(self, data: st.DataObject, episode: str | None, explore: bool) -> None:
        self._decide(data, episode, explore=explore)

    def _decide(self, data: st.DataObject, episode: str | None, *, explore: bool = True) -> None:
        state = data.draw(st.sampled_from(self.model.rules.states))
        chosen = data.draw(st.sets(st.sampled_from(self.model.rules.actions), min_size=1))
        feasible = tuple(action for action in self.model.rules.actions if action in chosen)
        decision_id = f"d{len(self.answers)}"
        options: dict[str, Any] = {
            "feasible": sorted(chosen),
            "episode": episode,
            "decision_id": decision_id,
            "explore": explore,
        }
        if episode in self.model.closed:
            with pytest.raises(EpisodeClosedError):
                self.library.decide(self.name, {"x": state}, **options)
            return
        answer = self.library.decide(self.name, {"x": state}, **options)
        deal, chance = self.model.decide(decision_id, state, feasible, episode, explore=explore)
        assert (answer.action, answer.version, answer.feasible) == (deal.action, deal.version, feasible)
        assert answer.propensity == pytest.approx(chance, abs=1e-12)
        self.answers[decision_id] = answer

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        """The same again, the same id for something else, and what was never sound."""
        known = self.answers[data.draw(st.sampled_from(sorted(self.answers)))]
        deal = self.model.deals[known.decision_id]
        options: dict[str, Any] = {
            "feasible": list(known.feasible),
            "episode": known.episode,
            "decision_id": known.decision_id,
            "explore": known.explore,
        }
        again = self.library.decide(self.name, {"x": deal.state}, **options)
        assert again == replace(known, status=deal.status)
        with pytest.raises(ConflictError):
            self.library.decide(self.name, {"x": "elsewhere"}, **options)
        with pytest.raises(InvalidStateError):
            self.library.decide(self.name, {"x": "elsewhere"})
        with pytest.raises(InvalidActionError):
            self.library.decide(self.name, {"x": self.model.rules.states[0]}, feasible=["z"], episode="z")

    @rule(
        data=st.data(), values=st.lists(st.one_of(st.none(), VALUES), min_size=2, max_size=4), outcome=VALUES
    )
    def live_through(self, data: st.DataObject, values: list[float | None], outcome: float) -> None:
        """An episode from its first decide to its close, with rewards that come at once."""
        episode = f"episode {len(self.answers)}"
        for value in values:
            self._decide(data, episode)
            if value is not None:
                decision_id = f"d{len(self.answers) - 1}"
                self._reward(decision_id, value, f"r{len(self.model.reward_ids)}")
        self._close(episode, outcome)

    # Learning

    @precondition(lambda self: self.answers)
    @rule(data=st.data(), value=VALUES, own_id=st.booleans())
    def reward(self, data: st.DataObject, value: float, own_id: bool) -> None:
        decision_id = data.draw(st.sampled_from(sorted(self.answers)))
        self._reward(decision_id, value, decision_id if own_id else f"r{len(self.model.reward_ids)}")

    def _reward(self, decision_id: str, value: float, reward_id: str) -> None:
        known = self.model.reward_ids.get(reward_id)
        if known is None and self.model.deals[decision_id].status == "void":
            with pytest.raises(DecisionVoidError):
                self.library.reward(self.name, decision_id, value, reward_id=reward_id)
        elif known is None:
            answer = self.library.reward(self.name, decision_id, value, reward_id=reward_id)
            assert answer.effect == self.model.reward(reward_id, decision_id, value)
        elif known == (decision_id, value):
            assert self.library.reward(self.name, decision_id, value, reward_id=reward_id).value == value
        else:
            with pytest.raises(ConflictError):
                self.library.reward(self.name, decision_id, value, reward_id=reward_id)

    @precondition(lambda self: len(self.answers) > 2)
    @rule(data=st.data(), values=st.lists(VALUES, min_size=2, max_size=5))
    def reward_together(self, data: st.DataObject, values: list[float]) -> None:
        sound = [key for key, deal in self.model.deals.items() if deal.status != "void"]
        if not sound:
            return
        chosen = [data.draw(st.sampled_from(sound)) for _ in values]
        first = len(self.model.reward_ids)
        requests = [
            RewardRequest(self.name, decision_id, value, f"r{first + index}")
            for index, (decision_id, value) in enumerate(zip(chosen, values, strict=True))
        ]
        for request, answer in zip(requests, self.library.reward_many(requests), strict=True):
            assert request.reward_id is not None
            effect = self.model.reward(request.reward_id, request.decision_id, request.value)
            assert getattr(answer, "effect", answer) == effect

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def void(self, data: st.DataObject) -> None:
        self._void(data.draw(st.sampled_from(sorted(self.answers))))

    @rule(data=st.data(), rules=RULES)
    def void_after_a_migration(self, data: st.DataObject, rules: Rules) -> None:
        self._decide(data, None)
        self._migrate(rules)
        self._void(f"d{len(self.answers) - 1}")

    def _void(self, decision_id: str) -> None:
        deal = self.model.deals[decision_id]
        if deal.status == "learned":
            with pytest.raises(DecisionLearnedError):
                self.library.void(self.name, decision_id)
        elif deal.rewards:
            with pytest.raises(ConflictError):
                self.library.void(self.name, decision_id)
        else:
            if deal.status == "open":
                self.model.void(decision_id)
            assert self.library.void(self.name, decision_id).status == "void"

    @precondition(lambda self: any(answer.episode for answer in self.answers.values()))
    @rule(data=st.data(), outcome=st.one_of(st.none(), VALUES))
    def close(self, data: st.DataObject, outcome: float | None) -> None:
        names = sorted({answer.episode for answer in self.answers.values() if answer.episode})
        self._close(data.draw(st.sampled_from(names)), outcome)

    def _close(self, episode: str, outcome: float | None) -> None:
        if self.model.closed.get(episode, outcome) != outcome:
            with pytest.raises(ConflictError):
                self.library.close_episode(self.name, episode, outcome)
        elif episode in self.model.closed:
            assert self.library.close_episode(self.name, episode, outcome).outcome == outcome
        else:
            answer = self.library.close_episode(self.name, episode, outcome)
            assert answer.learned == self.model.close(episode, outcome)

    # Versions

    @rule(rules=RULES)
    def change(self, rules: Rules) -> None:
        self._migrate(rules)

    def _migrate(self, rules: Rules) -> None:
        migrate(self.library.database, self.name, declaration(rules))
        self.model.migrate(rules)

    @precondition(lambda self: self.model.active is not None)
    @rule(data=st.data(), verb=st.sampled_from(["roll back", "activate", "freeze"]))
    def change_version(self, data: st.DataObject, verb: str) -> None:
        database = self.library.database
        parent = self.model.versions[self.model.active or 0].parent
        if verb == "activate":
            number = data.draw(st.sampled_from(sorted(self.model.versions)))
            activate(database, self.name, number)
            self.model.activate(number)
        elif verb == "freeze":
            freeze(database, self.name, f"copy-{len(self.model.versions)}")
            self.model.freeze()
        elif parent is None:
            with pytest.raises(ConflictError):
                roll_back(database, self.name)
        else:
            roll_back(database, self.name)
            self.model.activate(parent)

    @rule()
    def reopen(self) -> None:
        self.library.close()
        self.library = Steersman.open(self.url)

    # What must hold

    @invariant()
    def what_is_active_is_as_the_model_says(self) -> None:
        if hasattr(self, "model") and self.model.active is not None:
            self._compare(self.model.active)

    def _compare(self, number: int) -> None:
        version = self.model.versions[number]
        with self.library.database.snapshot() as connection:
            stored = {
                (version.rules.states[cell.key.state], cell.key.action): cell
                for cell in iterate_cells(connection, self.name, number)
            }
        assert {key for key, cell in version.cells.items() if cell.visitors or cell.updates} <= set(stored)
        for (state, action), cell in stored.items():
            expected = version.cell(state, action)
            assert cell.q == pytest.approx(expected.q, abs=1e-12)
            found = (cell.visits, cell.updates, cell.borrowed)
            assert found == (len(expected.visitors), expected.updates, expected.borrowed)

    def teardown(self) -> None:
        try:
            if hasattr(self, "model"):
                for number in self.model.versions:
                    self._compare(number)
                assert verify(self.library.database, self.name).differences == ()
        finally:
            self.library.close()


def test_random_histories(store_url: str) -> None:
    class Here(Histories):
        def __init__(self) -> None:
            super().__init__(store_url)

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=8 if store_url.startswith("postgresql") else 20,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

"""What a tenant should have learned: a model in memory, written from the design and sharing no code with it.

States are known by their meaning and visits by the decisions that made them, so that nothing needs an index.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

__all__ = ["Deal", "Model", "ModelCell", "ModelVersion", "Rules"]

PRIOR = {"b": (0.5, 2.0)}  # q and weight


@dataclass(frozen=True)
class Rules:
    """What a version is made of."""

    actions: tuple[str, ...]
    states: tuple[str, ...]
    alpha: float | None
    gamma: float
    lam: float
    c: float
    epsilon: float


@dataclass
class ModelCell:
    """One cell; `visitors` are the decisions whose visits it counts."""

    q: float
    borrowed: float
    updates: int = 0
    visitors: set[str] = field(default_factory=set)

    def copy(self) -> ModelCell:
        """Return a cell of its own with the same numbers."""
        return replace(self, visitors=set(self.visitors))


@dataclass
class ModelVersion:
    """One version; cells are made when they are first needed."""

    number: int
    parent: int | None
    rules: Rules
    cells: dict[tuple[str, str], ModelCell] = field(default_factory=dict)

    def knows(self, state: str, action: str) -> bool:
        """Return whether this version has the pair."""
        return state in self.rules.states and action in self.rules.actions

    def cell(self, state: str, action: str) -> ModelCell:
        """Return a cell, as it opens where nothing is known."""
        return self.cells.setdefault((state, action), ModelCell(*PRIOR.get(action, (0.0, 0.0))))

    def copies(self) -> dict[tuple[str, str], ModelCell]:
        """Return all cells, copied."""
        return {key: cell.copy() for key, cell in self.cells.items()}


@dataclass
class Deal:
    """One decision and what became of it."""

    decision_id: str
    version: int
    state: str
    action: str
    feasible: tuple[str, ...]
    episode: str | None
    was_greedy: bool
    rewards: dict[str, float] = field(default_factory=dict)
    status: str = "open"


class Model:
    """One tenant."""

    def __init__(self, rules: Rules, secret: bytes) -> None:
        """Start without a version, as a tenant does."""
        self.rules = rules
        self.secret = secret
        self.versions: dict[int, ModelVersion] = {}
        self.active: int | None = None
        self.deals: dict[str, Deal] = {}
        self.closed: dict[str, float | None] = {}
        self.reward_ids: dict[str, tuple[str, float]] = {}

    # Acting

    def start(self) -> None:
        """Make the first version."""
        self._add(None, {})

    def chances(self, state: str, feasible: tuple[str, ...], *, explore: bool) -> list[float]:
        """Return the probability of each feasible action in the active version."""
        version, rules = self._active(), self.rules
        cells = [version.cell(state, action) for action in feasible]
        if explore:
            evidence = [len(cell.visitors) + cell.borrowed for cell in cells]
            total = math.fsum(evidence)
            scores = [
                math.inf if n == 0 else cell.q + rules.c * math.sqrt(max(0.0, math.log(total)) / n)
                for cell, n in zip(cells, evidence, strict=True)
            ]
            epsilon = rules.epsilon
        else:
            known = [bool(cell.updates or cell.borrowed) for cell in cells]
            scores = [
                (cell.q if k else -math.inf) if any(known) else 0.0
                for cell, k in zip(cells, known, strict=True)
            ]
            epsilon = 0.0
        greedy = [score == max(scores) for score in scores]
        return [epsilon / len(cells) + (1 - epsilon) / sum(greedy) * is_greedy for is_greedy in greedy]

    def draw(self, decision_id: str, chances: list[float]) -> int:
        """Return the position that the draw of an id falls on."""
        digest = hashlib.sha256(self.secret + b"\x00" + decision_id.encode()).digest()
        u = int.from_bytes(digest, "big") / 2**256
        total = 0.0
        for position, chance in enumerate(chances):
            total += chance
            if u < total:
                return position
        return max(position for position, chance in enumerate(chances) if chance)

    def decide(
        self, decision_id: str, state: str, feasible: tuple[str, ...], episode: str | None, *, explore: bool
    ) -> tuple[Deal, float]:
        """Decide, and return the deal with its probability."""
        if self.active is None:
            self.start()
        chances = self.chances(state, feasible, explore=explore)
        place = self.draw(decision_id, chances)
        cells = [self._active().cell(state, action) for action in feasible]
        greedy = cells[place].q == max(cell.q for cell in cells)
        deal = Deal(decision_id, self._active().number, state, feasible[place], feasible, episode, greedy)
        cells[place].visitors.add(decision_id)
        self.deals[decision_id] = deal
        return deal, chances[place]

    # Learning

    def reward(self, reward_id: str, decision_id: str, value: float) -> str:
        """Record a reward and return its effect."""
        deal = self.deals[decision_id]
        self.reward_ids[reward_id] = (decision_id, value)
        deal.rewards[reward_id] = value
        if deal.status == "learned":
            self._further(deal, value)
            return self._unless_parked(deal, "further")
        if deal.episode is None or self.rules.gamma == 0:
            self._learn(deal, None)
        elif self.rules.lam == 0:
            chain = self._chain(deal.episode)
            for one, following in reversed(list(pairwise(chain))):
                if one.status == "open" and one.rewards:
                    self._learn(one, following)
        return self._unless_parked(deal, "learned") if deal.status == "learned" else "waits"

    def close(self, episode: str, outcome: float | None) -> int:
        """Close an episode and return how many deals were learned from."""
        self.closed[episode] = outcome
        chain = self._chain(episode)
        waiting = [deal for deal in chain if deal.status == "open"]
        if chain and outcome is not None:
            if chain[-1].status == "learned":
                self._further(chain[-1], outcome)
            else:
                chain[-1].rewards["the outcome"] = outcome
        if self.rules.gamma > 0 and self.rules.lam > 0:
            self._learn_returns(chain)
        else:
            for index in reversed(range(len(chain))):
                if chain[index].status == "open":
                    self._learn(chain[index], chain[index + 1] if index + 1 < len(chain) else None)
        return len(waiting)

    def void(self, decision_id: str) -> None:
        """Take a visit back where it is counted now: in the cell that learns, else where it was made."""
        deal = self.deals[decision_id]
        deal.status = "void"
        learning = self._home(deal, deal.action).cell(deal.state, deal.action)
        made = self.versions[deal.version].cell(deal.state, deal.action)
        (learning if decision_id in learning.visitors else made).visitors.remove(decision_id)

    # Versions

    def migrate(self, rules: Rules) -> None:
        """Make a version for `rules`, unless they are those of now; before the first decision they just hold."""
        if rules != self.rules and self.active is not None:
            line = list(self._line(self.active))
            moved = {}
            for key in {key for version in line for key in version.cells}:
                if key[0] in rules.states and key[1] in rules.actions:
                    nearest = next(version for version in line if version.knows(*key))
                    moved[key] = nearest.cell(*key).copy()
            self.rules = rules
            self._add(self.active, moved)
        self.rules = rules

    def activate(self, number: int) -> None:
        """Make a copy of a version the active one, unless it is that already."""
        if number != self.active:
            self.rules = self.versions[number].rules
            self._add(number, self.versions[number].copies())

    def freeze(self) -> None:
        """Keep a copy of the active version."""
        active = self.active
        self._add(active, self._active().copies())
        self.active = active

    def _add(self, parent: int | None, cells: dict[tuple[str, str], ModelCell]) -> None:
        number = len(self.versions) + 1
        self.versions[number] = ModelVersion(number, parent, self.rules, cells)
        self.active = number

    def _active(self) -> ModelVersion:
        assert self.active is not None
        return self.versions[self.active]

    def _line(self, number: int | None) -> Iterable[ModelVersion]:
        while number is not None:
            yield self.versions[number]
            number = self.versions[number].parent

    # Where a deal is learned

    def _home(self, deal: Deal, action: str) -> ModelVersion:
        line = list(self._line(self.active))
        own = self.versions[deal.version]
        if own not in line:
            return own
        return next(version for version in line[: line.index(own) + 1] if version.knows(deal.state, action))

    def _unless_parked(self, deal: Deal, effect: str) -> str:
        return effect if self._home(deal, deal.action).number == self.active else "parked"

    def _chain(self, episode: str) -> list[Deal]:
        return [deal for deal in self.deals.values() if deal.episode == episode and deal.status != "void"]

    def _value(self, deal: Deal) -> float:
        return max(self._home(deal, action).cell(deal.state, action).q for action in deal.feasible)

    def _learn(self, deal: Deal, successor: Deal | None) -> None:
        beyond = 0.0 if successor is None or self.rules.gamma == 0 else self._value(successor)
        self._move(deal, sum(deal.rewards.values()) + self.rules.gamma * beyond)

    def _learn_returns(self, chain: list[Deal]) -> None:
        lam, gamma = self.rules.lam, self.rules.gamma
        values = [self._value(deal) for deal in chain]
        following = 0.0
        targets: list[float] = []
        for index in reversed(range(len(chain))):
            if index + 1 == len(chain):
                beyond = 0.0
            elif chain[index + 1].was_greedy:
                beyond = (1 - lam) * values[index + 1] + lam * following
            else:
                beyond = values[index + 1]
            following = sum(chain[index].rewards.values()) + gamma * beyond
            targets.insert(0, following)
        for deal, target in zip(chain, targets, strict=True):
            if deal.status == "open":
                self._move(deal, target)

    def _move(self, deal: Deal, target: float) -> None:
        home = self._home(deal, deal.action)
        cell = home.cell(deal.state, deal.action)
        cell.updates += 1
        alpha = home.rules.alpha
        cell.q += (1 / (cell.borrowed + cell.updates) if alpha is None else alpha) * (target - cell.q)
        deal.status = "learned"

    def _further(self, deal: Deal, value: float) -> None:
        home = self._home(deal, deal.action)
        cell = home.cell(deal.state, deal.action)
        alpha = home.rules.alpha
        cell.q += (1 / max(1, cell.borrowed + cell.updates) if alpha is None else alpha) * value

"""What learning and measuring came to: for one company, for a newcomer, for all."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = [
    "CompanyResult",
    "NewcomerResult",
    "TournamentResult",
    "fifth",
    "moving_mean",
    "negotiations_to_reach",
]


def fifth(outcomes: Sequence[float]) -> int:
    """Return how many a fifth of `outcomes` are, at least 1."""
    return max(1, len(outcomes) // 5)


def moving_mean(outcomes: Sequence[float], *, window: int) -> list[float]:
    """Return the mean of each `window` outcomes in a row, [N - window + 1] float64, by when they ended."""
    total = sum(outcomes[:window])
    means = [total / window]
    for index in range(window, len(outcomes)):
        total += outcomes[index] - outcomes[index - window]
        means.append(total / window)
    return means


def negotiations_to_reach(level: float, outcomes: Sequence[float], *, window: int) -> int | None:
    """Return after how many negotiations the mean of the last `window` is first at `level`, None for never."""
    for index, mean in enumerate(moving_mean(outcomes, window=window)):
        if mean >= level:
            return index + window
    return None


@dataclass(frozen=True, slots=True)
class CompanyResult:
    """One company: how it did while it learned, and on fresh negotiations against others on the very same."""

    name: str
    outcomes: tuple[float, ...]  # [N] float64, while learning
    learned: float  # mean on fresh negotiations, greedily and frozen
    cards: Mapping[str, float]  # mean of each card, played alone, on the same
    uniform: float  # mean of uniform choice on the same

    @property
    def first_fifth(self) -> float:
        """The mean outcome of the first fifth of learning."""
        return statistics.fmean(self.outcomes[: fifth(self.outcomes)])

    @property
    def last_fifth(self) -> float:
        """The mean outcome of the last fifth of learning."""
        return statistics.fmean(self.outcomes[-fifth(self.outcomes) :])

    @property
    def best_card(self) -> str:
        """The card that would have been the best one to play alone, in hindsight."""
        return max(self.cards, key=lambda card: self.cards[card])

    @property
    def gain(self) -> float:
        """By how much what was learned beats the best card in hindsight."""
        return self.learned - self.cards[self.best_card]


@dataclass(frozen=True, slots=True)
class NewcomerResult:
    """A company that starts once from the base and once empty, on the same negotiations.

    Some negotiations are easier than others. What the usual card comes to on the same ones is taken off before
    the beginning of one curve is held against the end of another.
    """

    name: str
    warm: tuple[float, ...]  # [N] float64, outcomes while learning
    cold: tuple[float, ...]  # [N] float64
    usual: tuple[float, ...]  # [N] float64, outcomes of the usual card, always

    @property
    def warm_gain(self) -> list[float]:
        """What the warm start gets beyond the usual card, [N] float64."""
        return [ours - usual for ours, usual in zip(self.warm, self.usual, strict=True)]

    @property
    def cold_gain(self) -> list[float]:
        """What the cold start gets beyond the usual card, [N] float64."""
        return [ours - usual for ours, usual in zip(self.cold, self.usual, strict=True)]

    @property
    def reached_after(self) -> int | None:
        """After how many negotiations the warm start is where the cold start is in its last fifth; None for never."""
        window = fifth(self.cold)
        return negotiations_to_reach(
            statistics.fmean(self.cold_gain[-window:]), self.warm_gain, window=window
        )


@dataclass(frozen=True, slots=True)
class TournamentResult:
    """Everything that one tournament came to."""

    seed: int
    companies: tuple[CompanyResult, ...]
    newcomer: NewcomerResult
    skipped: tuple[tuple[str, str], ...] = ()  # domains that could not be read: (folder, reason)

"""The ordered catalogue of action ids: positions are internal, ids are identity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from steersman.domain.canonical import fingerprint
from steersman.domain.identifiers import check_id, native
from steersman.errors import InvalidActionError, InvalidInputError, InvalidSpecError

__all__ = ["MAX_ACTIONS", "ActionCatalogue", "action_text"]

_check_id = partial(check_id, error=InvalidSpecError)

MAX_ACTIONS = 10_000


@dataclass(frozen=True, slots=True)
class ActionCatalogue:
    """The action ids that a policy may play, in order.

    Raises InvalidSpecError when there is none, when one is repeated, or when one is no valid id.
    """

    ids: tuple[str, ...]  # [A] str
    position: dict[str, int] = field(init=False, repr=False, compare=False)
    _all: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the ids and index them."""
        if not 0 < len(self.ids) <= MAX_ACTIONS:
            raise InvalidSpecError(f"actions: expected 1 to {MAX_ACTIONS} action ids, got {len(self.ids)}")
        for index, action in enumerate(self.ids):
            _check_id(action, what=f"actions[{index}]")
        position = {action: index for index, action in enumerate(self.ids)}
        if len(position) != len(self.ids):
            repeated = sorted({action for action in self.ids if self.ids.count(action) > 1})
            raise InvalidSpecError(f"actions: expected distinct action ids, got {repeated} more than once")
        object.__setattr__(self, "position", position)
        object.__setattr__(self, "_all", tuple(range(len(self.ids))))

    @classmethod
    def of(cls, ids: Iterable[str | int]) -> ActionCatalogue:
        """Make a catalogue of `ids`; a card number stands for its decimal text."""
        return cls(
            tuple(
                action_text(action, what=f"actions[{index}]", error=InvalidSpecError)
                for index, action in enumerate(ids)
            )
        )

    def __len__(self) -> int:
        """Return the number of actions, A."""
        return len(self.ids)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the canonical JSON of the ordered ids."""
        return fingerprint(list(self.ids))

    def positions(self, feasible: Sequence[str | int] | None) -> tuple[int, ...]:
        """Return the positions of the `feasible` ids in catalogue order, [F] int; all of them for None.

        Raises InvalidActionError when there is none, or when one is unknown or repeated.
        """
        if feasible is None:
            return self._all
        try:
            found = [
                self.position[action if type(action) is str else action_text(action, what="feasible")]
                for action in feasible
            ]
        except KeyError as error:
            raise InvalidActionError(
                f"feasible: expected ids among {self._shown()}, got {error.args[0]!r}"
            ) from None
        if not found:
            raise InvalidActionError("feasible: expected at least one action id, got none")
        found.sort()
        if len(set(found)) != len(found):
            raise InvalidActionError(f"feasible: expected each action id once, got {list(feasible)!r}")
        return tuple(found)

    def remap(self, new: ActionCatalogue) -> NDArray[np.int64]:
        """Return for each position here the position of the same id in `new`, or -1: [A] int64."""
        return np.array([new.position.get(action, -1) for action in self.ids], dtype=np.int64)

    def _shown(self) -> str:
        shown = ", ".join(repr(action) for action in self.ids[:12])
        return f"[{shown}]" if len(self.ids) <= 12 else f"[{shown}, ... {len(self.ids)} in all]"


def action_text(action: object, *, what: str, error: type[InvalidInputError] = InvalidActionError) -> str:
    """Return an action id as text; a card number stands for its decimal text. Raises `error`."""
    action = native(action)
    if isinstance(action, int) and not isinstance(action, bool):
        return str(action)
    return check_id(action, what=what, error=error)

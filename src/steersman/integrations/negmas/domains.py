"""What is negotiated about: camping goods, built here, and any folder of domains in Genius XML."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path
from typing import Any

from negmas import make_issue
from negmas.inout import Scenario
from negmas.outcomes import DiscreteCartesianOutcomeSpace, make_os
from negmas.preferences import LinearAdditiveUtilityFunction

from steersman.errors import InvalidInputError
from steersman.integrations.negmas.side import Side

__all__ = [
    "GOODS",
    "LARGEST_DOMAIN",
    "PACKAGES",
    "WALK_AWAY_POINTS",
    "Domain",
    "DomainFolder",
    "camping_domains",
    "read_domains",
]

GOODS = ("food", "water", "firewood")
PACKAGES = 3  # of each good, to be shared
_POINTS = (5, 4, 3)  # a package is worth, by priority
WALK_AWAY_POINTS = 5
LARGEST_DOMAIN = 10_000  # outcomes


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """A set of outcomes and the two sides that must agree on one."""

    name: str
    space: DiscreteCartesianOutcomeSpace
    sides: tuple[Side, Side]


@dataclass(frozen=True, slots=True)
class DomainFolder:
    """What a folder held: the domains that could be read, and why others could not."""

    domains: tuple[Domain, ...]
    skipped: tuple[tuple[str, str], ...]  # (folder, reason)


def camping_domains() -> tuple[Domain, ...]:
    """Return the 36 domains of the camping study: every pairing of the two campers' priorities.

    Two campers share three packages each of food, water and firewood. A package is worth 5, 4 or 3 points, by
    the camper's own priorities, and whoever walks away has 5 points (the rules of the CaSiNo corpus: Chawla et
    al., "CaSiNo: A Corpus of Campsite Negotiation Dialogues for Automatic Negotiation Systems", 2021, CC BY 4.0).
    An outcome says how many packages of each good the first side gets: 4 x 4 x 4 = 64 outcomes.
    """
    space = make_os([make_issue(list(range(PACKAGES + 1)), name) for name in GOODS])
    first = {points: _camper(space, points, takes_rest=False) for points in permutations(_POINTS)}
    second = {points: _camper(space, points, takes_rest=True) for points in permutations(_POINTS)}
    return tuple(
        Domain(f"camping {_digits(mine)}-{_digits(theirs)}", space, (first[mine], second[theirs]))
        for mine, theirs in product(first, second)
    )


def _camper(space: DiscreteCartesianOutcomeSpace, points: tuple[int, ...], *, takes_rest: bool) -> Side:
    def packages(count: int) -> int:
        return PACKAGES - count if takes_rest else count

    counts = range(PACKAGES + 1)
    function = LinearAdditiveUtilityFunction(
        values={
            name: {count: float(worth * packages(count)) for count in counts}
            for name, worth in zip(GOODS, points, strict=True)
        },
        weights=[1.0] * len(GOODS),
        outcome_space=space,
        reserved_value=float(WALK_AWAY_POINTS),
    )
    return Side.of(function, space)


def _digits(points: tuple[int, ...]) -> str:
    return "".join(map(str, points))


def read_domains(folder: Path) -> DomainFolder:
    """Read every domain below `folder`: one folder each, a domain file and two preference files in Genius XML.

    Discounts are ignored. So are reserved values, because the files give them on another scale than the
    utilities that come from reading them: walking away is worth as much as the worst outcome. What cannot be
    read, is larger than 10,000 outcomes or has not two sides, is skipped with the reason.
    Raises InvalidInputError when nothing is left.
    """
    domains, skipped = [], []
    for place in sorted({path.parent for path in folder.rglob("*.xml")}):
        name = str(place.relative_to(folder))
        try:
            domains.append(_read_domain(name, place))
        # Files of others are broken in many ways, and the parser raises as many kinds of error.
        except Exception as error:  # noqa: BLE001
            skipped.append((name, str(error)))
    if not domains:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped) or "it holds no XML files"
        raise InvalidInputError(
            f"expected at least one domain that can be read: {reasons}", where=str(folder)
        )
    return DomainFolder(tuple(domains), tuple(skipped))


def _read_domain(name: str, place: Path) -> Domain:
    scenario = Scenario.from_genius_folder(place, ignore_discount=True, ignore_reserved=True)
    if scenario is None or len(scenario.ufuns) != 2:
        raise InvalidInputError("expected a domain file and two preference files")
    space = scenario.outcome_space
    if not isinstance(space, DiscreteCartesianOutcomeSpace) or space.cardinality > LARGEST_DOMAIN:
        raise InvalidInputError(f"expected at most {LARGEST_DOMAIN} outcomes, got {space.cardinality}")
    first, second = (_genius_side(space, function) for function in scenario.ufuns)
    return Domain(name, space, (first, second))


def _genius_side(space: DiscreteCartesianOutcomeSpace, function: Any) -> Side:
    # The opponents that NegMAS brings look at the reserved value too.
    function.reserved_value = min(float(function(outcome)) for outcome in space.enumerate())
    return Side.of(function, space)

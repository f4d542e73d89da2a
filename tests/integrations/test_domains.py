"""Domains: what camping goods are worth, by hand, and what is read of folders in Genius XML."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steersman.errors import InvalidInputError
from steersman.integrations.negmas.domains import camping_domains, read_domains
from steersman.integrations.negmas.negotiator import outcome_of
from tests.integrations.camp import domain, ours, position, scaled

# Beside the project, or in the folder that the variable names.
SHARED = Path(os.environ.get("STEERSMAN_SHARED", Path(__file__).parents[3] / "shared"))
GENIUS = SHARED / "data" / "negmas_domains"
DOMAIN = """<negotiation_template><utility_space number_of_issues="1">
<objective etype="objective" index="0" name="all" type="objective">
<issue etype="discrete" index="1" name="price" type="discrete" vtype="discrete">
{items}</issue></objective></utility_space></negotiation_template>"""
PREFERENCES = """<utility_space><objective etype="objective" index="0" name="all" type="objective">
<issue etype="discrete" index="1" name="price" type="discrete" vtype="discrete">
{items}</issue><weight index="1" value="1.0"/></objective></utility_space>"""


def items(values: dict[str, int]) -> str:
    return "\n".join(
        f'<item index="{index}" value="{name}" evaluation="{worth}"/>'
        for index, (name, worth) in enumerate(values.items(), 1)
    )


def write_domain(folder: Path, *, first: dict[str, int], second: dict[str, int]) -> None:
    folder.mkdir(parents=True)
    (folder / "prices.xml").write_text(DOMAIN.format(items=items(first)))
    (folder / "prices_util1.xml").write_text(PREFERENCES.format(items=items(first)))
    (folder / "prices_util2.xml").write_text(PREFERENCES.format(items=items(second)))


def test_every_pairing_of_priorities_is_a_domain() -> None:
    names = {found.name for found in camping_domains()}
    assert len(names) == 6 * 6
    assert {"camping 543-543", "camping 345-543"} <= names


@pytest.mark.parametrize(
    ("packages", "mine", "theirs"),
    [
        ((3, 3, 3), 36, 0),
        ((0, 0, 0), 0, 36),
        ((3, 0, 0), 15, 27),
        ((0, 0, 3), 9, 21),
        ((2, 1, 1), 17, 3 * 1 + 4 * 2 + 5 * 2),
    ],
)
def test_worth_of_an_outcome_to_both_sides(packages: tuple[int, int, int], mine: int, theirs: int) -> None:
    first, second = domain().sides
    place = position(*packages)
    assert first.outcomes[place] == packages
    assert first.function(packages) == mine
    assert second.function(packages) == theirs
    assert first.utility[place] == pytest.approx(scaled(mine), abs=1e-12)
    assert second.utility[place] == pytest.approx(scaled(theirs), abs=1e-12)


@pytest.mark.parametrize(
    ("agreement", "reward"),
    [
        (None, 0.0),  # both walk away
        ((3, 3, 3), 1.0),
        ((3, 0, 0), 10 / 31),
        ((1, 0, 0), 0.0),  # 5 points, as walking away
        ((0, 0, 1), 0.0),  # 3 points are worse, and no reward is below 0
    ],
)
def test_reward_is_scaled_between_walking_away_and_the_best(
    agreement: tuple[int, int, int] | None, reward: float
) -> None:
    assert outcome_of(ours(), agreement) == pytest.approx(reward, abs=1e-12)


def test_cheapest_outcome_that_meets_a_target() -> None:
    # 0.5 of 31 points above 5 are 20.5; 21 points come from (0, 3, 3), (2, 2, 1) and (3, 0, 2).
    assert ours().cheapest(0.5) == position(0, 3, 3)
    assert ours().cheapest(scaled(36)) == position(3, 3, 3)
    assert ours().cheapest(2.0) == position(3, 3, 3)


def test_nearest_outcome_within_a_band() -> None:
    # Worth 21 to 23 points: (2, 1, 3) differs from (2, 0, 3) by one package, all others by two or more.
    assert ours().nearest(0.5, position(2, 0, 3), band=0.08) == position(2, 1, 3)
    # Without a band only the three outcomes of 21 points are left: (3, 0, 2) differs by two packages.
    assert ours().nearest(0.5, position(2, 0, 3), band=0.0) == position(3, 0, 2)


def test_genius_folders_are_read_and_broken_ones_skipped(tmp_path: Path) -> None:
    write_domain(
        tmp_path / "good", first={"low": 1, "mid": 3, "high": 5}, second={"low": 8, "mid": 4, "high": 2}
    )
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "prices.xml").write_text("<negotiation_domain>")
    found = read_domains(tmp_path)
    (only,) = found.domains
    assert only.name == "good"
    assert [name for name, _ in found.skipped] == ["broken"]
    first, second = only.sides
    # Walking away is as bad as the worst outcome: 1 of 1..5 for one side, 2 of 2..8 for the other.
    by_name = {outcome[0]: index for index, outcome in enumerate(first.outcomes)}
    assert [first.utility[by_name[name]] for name in ("low", "mid", "high")] == [0.0, 0.5, 1.0]
    assert [second.utility[by_name[name]] for name in ("low", "mid", "high")] == pytest.approx(
        [1.0, 1 / 3, 0.0]
    )
    # Names have no order, so two of them are as far apart as any two others.
    assert first.nearest(0.5, by_name["low"], band=1.0) == by_name["mid"]


def test_a_folder_without_domains_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="at least one domain"):
        read_domains(tmp_path)


@pytest.mark.skipif(not GENIUS.is_dir(), reason="the domains of the ANAC competitions are not here")
def test_domains_of_the_competitions() -> None:
    found = read_domains(GENIUS)
    sizes = {each.name: len(each.sides[0].outcomes) for each in found.domains}
    assert len(sizes) + len(found.skipped) == 22
    assert sizes["anac/y2010/EnglandZimbabwe"] == 576
    assert sizes["anac/y2012/RentalHouseA"] == 60
    for each in found.domains:
        for side in each.sides:
            assert (min(side.utility), max(side.utility)) == (0.0, 1.0)

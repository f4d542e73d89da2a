"""A short tournament with real negotiators and a real database."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from steersman import Steersman
from steersman.errors import InvalidInputError
from steersman.integrations.negmas.companies import COMPANIES, NEWCOMER, declaration
from steersman.integrations.negmas.curves import draw_curves
from steersman.integrations.negmas.domains import camping_domains
from steersman.integrations.negmas.matches import Turn, draw_matches, play
from steersman.integrations.negmas.opponents import OPPONENTS
from steersman.integrations.negmas.players import (
    FrozenPlayer,
    LearningPlayer,
    OneCardPlayer,
    UniformPlayer,
)
from steersman.integrations.negmas.standing import describe
from steersman.integrations.negmas.tournament import Tournament, learned_policy, run_tournament
from tests.integrations.camp import domain, standing

PNG = b"\x89PNG\r\n\x1a\n"


def test_learning_beats_what_it_began_with(sqlite_url: str) -> None:
    # Against opponents that follow the clock nearly everything is better than to play cards at random.
    mix = {"conceder": 1.0, "linear": 1.0}
    matches = draw_matches(camping_domains(), mix, count=300, generator=random.Random(11))
    with Steersman.open(sqlite_url) as library:
        library.create_tenant("camper", declaration())
        outcomes = play(matches, LearningPlayer(library, "camper"))
        player = FrozenPlayer(learned_policy(library, "camper"))
        verification = library.verify()
    assert verification.clean
    fresh = draw_matches(camping_domains(), mix, count=100, generator=random.Random(12))
    learned, uniform = sum(play(fresh, player)), sum(play(fresh, UniformPlayer()))
    assert learned > uniform
    assert sum(outcomes[-60:]) > sum(outcomes[:60])


def test_a_frozen_player_plays_what_the_library_decides_without_exploring(sqlite_url: str) -> None:
    matches = draw_matches([domain()], {"linear": 1.0}, count=40, generator=random.Random(3))
    with Steersman.open(sqlite_url) as library:
        library.create_tenant("camper", declaration())
        play(matches, LearningPlayer(library, "camper"))
        player = FrozenPlayer(learned_policy(library, "camper"))
        views = [standing(time=time) for time in (0.0, 0.2, 0.5, 0.9)]
        for view in views:
            (card,) = player.choose([Turn(matches[0], view)])
            feasible = ["hold", "boulware", "linear", "concede"]
            decision = library.decide("camper", describe(view), feasible=feasible, explore=False)
            if decision.propensity == 1.0:
                assert card == decision.action
            assert card in feasible


def test_every_opponent_negotiates() -> None:
    for name in OPPONENTS:
        matches = draw_matches([domain()], {name: 1.0}, count=2, generator=random.Random(name))
        for outcome in play(matches, OneCardPlayer("boulware")):
            assert 0.0 <= outcome <= 1.0


def test_companies_meet_at_least_eight_kinds_of_opponents() -> None:
    met = {name for company in (*COMPANIES, NEWCOMER) for name in company.mix}
    assert met <= set(OPPONENTS)
    assert len(met) >= 8


def test_a_tournament_from_end_to_end(sqlite_url: str, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    tournament = Tournament(sqlite_url, seed=4, negotiations=30, fresh=5, processes=1)
    result = run_tournament(tournament, progress=lambda done, total: told.append((done, total)))
    assert [company.name for company in result.companies] == [company.name for company in COMPANIES]
    assert all(len(company.outcomes) == 30 for company in result.companies)
    assert (len(result.newcomer.warm), len(result.newcomer.cold), len(result.newcomer.usual)) == (30, 30, 30)
    # Three companies and two newcomers learn, the usual card plays once; ten players play what is fresh.
    assert told[-1] == (6 * 30 + 3 * 10 * 5, 6 * 30 + 3 * 10 * 5)
    draw_curves(result, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(PNG)
    with Steersman.open(sqlite_url) as library:
        assert library.verify().clean
        origins = {
            tenant: library.list_versions(tenant)[0].origin
            for tenant in ("alder", "birch", "cedar", "dahlia-warm", "dahlia-cold")
        }
    assert origins == dict.fromkeys(origins, "empty") | {"dahlia-warm": "warm_start"}


def test_a_tournament_in_an_empty_folder_of_domains_is_refused(sqlite_url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="at least one domain"):
        run_tournament(Tournament(sqlite_url, domains=tmp_path))

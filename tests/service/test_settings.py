"""The settings of the service: read from the environment and a file, and refused beyond their bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from steersman.errors import InvalidInputError
from steersman.settings import Settings, unknown_variables
from tests.house.rules import ROOT


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "steersman.toml"
    file.write_text('queue_limit = 7\ncommit = "inline"\noperator_url = "operators.db"\n')
    settings = Settings.read(
        {"STEERSMAN_CONFIG": str(file), "STEERSMAN_QUEUE_LIMIT": "9", "STEERSMAN_KEY_RATE": "0.5"}
    )
    assert (settings.queue_limit, settings.key_rate) == (9, 0.5)
    assert (settings.commit, settings.operator_url) == ("inline", "operators.db")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("body_limit", "1023"),
        ("queue_limit", "0"),
        ("queue_limit", "many"),
        ("key_rate", "0"),
        ("key_rate", "nan"),
        ("key_in_flight", "0"),
        ("pool_size", "0"),
        ("pool_size", "1001"),
        ("commit", "never"),
        ("log_requests", "yes"),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match=f"(?i){name}: expected"):
        Settings.read({f"STEERSMAN_{name.upper()}": value})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("KEY_RAT", "KEY_RATE"),
        ("DATABASE_URI", "DATABASE_URL"),
        ("DATABASE", "DATABASE_URL"),
        ("LOG_REQUEST", "LOG_REQUESTS"),
        ("CONFIGS", "CONFIG"),
    ],
)
def test_a_variable_that_is_nearly_a_setting_is_refused_with_its_name(name: str, meant: str) -> None:
    with pytest.raises(InvalidInputError, match=f"STEERSMAN_{name}: .*STEERSMAN_{meant} meant"):
        Settings.read({f"STEERSMAN_{name}": "4"})


def test_variables_that_others_name_so_are_left_alone() -> None:
    # What Kubernetes sets for a service that is called steersman.
    theirs = {
        "STEERSMAN_PORT": "tcp://10.0.0.1:8000",
        "STEERSMAN_PORT_8000_TCP_ADDR": "10.0.0.1",
        "STEERSMAN_SERVICE_HOST": "10.0.0.1",
        "STEERSMAN_SERVICE_PORT": "8000",
    }
    assert Settings.read(theirs) == Settings()
    assert unknown_variables(theirs | {"STEERSMAN_KEY_RATE": "1", "OTHER": ""}) == sorted(theirs)


def test_the_file_that_the_page_shows_is_read(tmp_path: Path) -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    file = tmp_path / "steersman.toml"
    file.write_text(page.partition("```toml\n")[2].partition("```")[0])
    assert Settings.read({"STEERSMAN_CONFIG": str(file)}).key_in_flight == 200

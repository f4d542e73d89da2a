"""Every setting of the program, read once from the environment and an optional file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from steersman.errors import InvalidInputError

__all__ = ["Settings", "unknown_variables"]

_PREFIX = "STEERSMAN_"
_FILE = "CONFIG"  # the variable that names the file
_NEAR = 0.8  # how alike a name is that must be a slip, as difflib counts
_BOUNDS = {
    "pool_size": (1, 1000, "connections"),
    "body_limit": (1024, 2**30, "bytes"),
    "queue_limit": (1, 10**6, "items"),
    "key_rate": (0.01, 1e9, "requests a second"),
    "key_in_flight": (1, 10**6, "requests"),
}
_CHOICES = {"commit": ["auto", "thread", "inline"], "log_requests": ["all", "some", "none"]}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings; the environment variable of each is its name in capitals behind `STEERSMAN_`."""

    database_url: str = "steersman.db"  # a file, sqlite:///file, or postgresql://...
    patience: float = 30.0  # seconds to wait for a busy or restarting database
    pool_size: int = 16  # connections to a server that one process may hold
    operator_url: str = ""  # where keys are looked up and operators act: a server needs it, a file does not
    body_limit: int = 1_048_576  # bytes of a request to the service
    queue_limit: int = (
        4096  # decides, rewards or closes that wait in one process; beyond, they are refused with 503
    )
    key_rate: float = (
        10_000.0  # requests a second of one key to one process, of :batch each item; beyond, 429
    )
    key_in_flight: int = 1000  # requests of one key that one process answers at a time; beyond, 429
    commit: str = (
        "auto"  # where the service commits: inline (in the event loop), thread, auto (as suits the database)
    )
    log_requests: str = (
        "some"  # requests it logs: all, some (what fails, or is neither hot nor a probe), none
    )

    def __post_init__(self) -> None:
        """Check the bounds; raise InvalidInputError."""
        for name, (low, high, unit) in _BOUNDS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidInputError(f"{name}: expected {low} to {high:,} {unit}, got {value}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidInputError(f"{name}: expected one of {choices}, got {getattr(self, name)!r}")
        if not 0 < self.patience <= 3600:
            raise InvalidInputError(f"patience: expected above 0 to 3600 seconds, got {self.patience}")

    @classmethod
    def read(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read the TOML file that `STEERSMAN_CONFIG` names, if it does, overlaid by the environment.

        Raises InvalidInputError for an unreadable file, an unknown name in it, a variable whose name is nearly that
        of a setting, or a value of the wrong type.
        """
        environment = os.environ if environment is None else environment
        for name in unknown_variables(environment):
            _refuse_slip(name.removeprefix(_PREFIX))
        given: dict[str, Any] = {}
        path = environment.get(_PREFIX + _FILE)
        if path:
            try:
                given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise InvalidInputError(f"expected a readable TOML file: {error}", where=path) from None
        types = {field.name: field.type for field in fields(cls)}
        unknown = sorted(set(given) - set(types))
        if unknown:
            raise InvalidInputError(f"unexpected {unknown}; expected {sorted(types)}", where=path)
        for name in types:
            value = environment.get(_PREFIX + name.upper())
            if value is not None:
                given[name] = value
        return cls(**{name: _converted(name, value, types[name]) for name, value in given.items()})


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the variables that are named like settings and are none, sorted.

    Others than the program may name variables so, as Kubernetes does for a service that is called steersman.
    """
    known = {_PREFIX + name for name in _names()}
    return sorted(name for name in environment if name.startswith(_PREFIX) and name not in known)


def _names() -> list[str]:
    return [_FILE, *(field.name.upper() for field in fields(Settings))]


def _refuse_slip(name: str) -> None:
    for meant in get_close_matches(name, _names(), n=1, cutoff=_NEAR):
        raise InvalidInputError(
            f"{_PREFIX}{name}: there is no such setting", hint=f"is {_PREFIX}{meant} meant?"
        )


def _converted(name: str, value: Any, kind: Any) -> Any:
    try:
        return {"str": str, "float": float, "int": int}[kind](value)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{_PREFIX}{name.upper()}: expected {kind}, got {value!r}") from None

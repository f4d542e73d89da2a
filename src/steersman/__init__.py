"""Steersman learns which action to play and keeps a logbook that proves why."""

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.records import CloseRequest, DecideRequest, Decision, Reward, RewardRequest
from steersman.domain.settings import PolicySettings, Prior, TenantSpec
from steersman.domain.states import Factor, StateSpace
from steersman.errors import SteersmanError

if TYPE_CHECKING:
    from steersman.library import Steersman

__version__ = version("steersman")

__all__ = [
    "ActionCatalogue",
    "CloseRequest",
    "DecideRequest",
    "Decision",
    "Factor",
    "PolicySettings",
    "Prior",
    "Reward",
    "RewardRequest",
    "StateSpace",
    "Steersman",
    "SteersmanError",
    "TenantSpec",
]


def __getattr__(name: str) -> Any:
    # The library brings the database along, which a program that only plays a fitted policy does not need.
    if name == "Steersman":
        from steersman.library import Steersman

        return Steersman
    raise AttributeError(f"module 'steersman' has no attribute {name!r}")

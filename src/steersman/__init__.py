"""Steersman learns which action to play and keeps a logbook that proves why."""

from importlib.metadata import version

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.records import CloseRequest, DecideRequest, Decision, Reward, RewardRequest
from steersman.domain.settings import PolicySettings, Prior, TenantSpec
from steersman.domain.states import Factor, StateSpace
from steersman.errors import SteersmanError
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

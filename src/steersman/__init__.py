"""Steersman learns which action to play and keeps a logbook that proves why."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from steersman.domain.catalogue import ActionCatalogue
from steersman.domain.records import CloseRequest, DecideRequest, Decision, Reward, RewardRequest
from steersman.domain.settings import PolicySettings, Prior, TenantSpec
from steersman.domain.states import Factor, StateSpace
from steersman.errors import SteersmanError

if TYPE_CHECKING:
    from steersman.library import Steersman
    from steersman.teacher.dataset import TeacherDataset, load_teacher_dataset, load_teacher_rows
    from steersman.teacher.rows import TeacherRow, parse_teacher_row
    from steersman.teacher.split import split_scene_ids
    from steersman.usecases.load_policy import load_policy

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
    "TeacherDataset",
    "TeacherRow",
    "TenantSpec",
    "load_policy",
    "load_teacher_dataset",
    "load_teacher_rows",
    "parse_teacher_row",
    "split_scene_ids",
]

# What brings a database or PyTorch along is imported when it is asked for. The names of the fit are not in `__all__`:
# they need an extra, and nothing that serves may reach training, not even by an import that only type checkers see.
_LATER = {
    "Steersman": "library",
    "PolicyFitResult": "training.fit",
    "TeacherDataset": "teacher.dataset",
    "TeacherRow": "teacher.rows",
    "fit_action_policy": "training.fit",
    "load_init_policy": "training.fit",
    "load_policy": "usecases.load_policy",
    "load_teacher_dataset": "teacher.dataset",
    "load_teacher_rows": "teacher.dataset",
    "parse_teacher_row": "teacher.rows",
    "split_scene_ids": "teacher.split",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f"steersman.{_LATER[name]}"), name)
    raise AttributeError(f"module 'steersman' has no attribute {name!r}")

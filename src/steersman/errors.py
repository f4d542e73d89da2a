"""Every error that Steersman raises, in one tree.

SteersmanError
├── InvalidInputError            what the caller gave is wrong
│   ├── InvalidActionError       feasible ids: unknown, empty, repeated
│   ├── InvalidStateError        a factor, value or index outside the declared space
│   ├── InvalidRewardError       a reward outside the tenant's range, or not finite
│   ├── InvalidSpecError         a tenant, base or catalogue declaration
│   ├── InvalidTableError        an imported table of learning
│   ├── InvalidRowError          a teacher row, its sidecar or its file
│   └── InvalidCheckpointError   a checkpoint file that is damaged or hostile
│       └── BindingMismatchError a sound checkpoint that was made for something else
├── NotFoundError                no such tenant, base, version, decision or episode
├── AccessError                  a call of the service that is not let in
│   ├── UnauthorizedError        no key, or one that is not valid
│   ├── ForbiddenError           the key has not the scope
│   ├── RateLimitedError         the key asks more often than it may
│   └── OverloadedError          the service has no room for more work
├── ClientBusyError              a client with more calls at once than it came to
├── ConflictError                what is asked does not fit what is there
│   ├── NameTakenError           a tenant, base, version or key of that id or name is there
│   ├── KeyTextShownError        the call made a key before, whose text is not kept
│   ├── IdReusedError            the id of a call was used for a call with other content
│   ├── ArchivedError            a change of a decision that was archived
│   ├── EpisodeClosedError       a decide in an episode that is closed
│   ├── DecisionVoidError        a reward for a decision that was taken back
│   ├── DecisionLearnedError     a void of a decision that was learned from
│   ├── TenantRetiredError       a decide or change of a retired tenant
│   └── OutputExistsError        a file that is there already
├── StoreError                   the database
│   ├── StoreUnavailableError    not reachable, stopped, busy beyond patience
│   ├── StoreFullError           no room to write
│   ├── StoreCorruptError        what is stored contradicts itself
│   ├── SchemaError              the schema is older or newer than this release
│   └── UnsupportedStoreError    a database or file system that cannot be used safely
├── FitError                     a fit that cannot go on
│   └── DeviceUnavailableError   the device asked for is not there
└── MissingExtraError            an optional package is not installed

The first sentence of a class's docstring is its title and default message; the fields of an instance carry the facts.
"""

from __future__ import annotations

import inspect
import re

__all__ = [
    "AccessError",
    "ArchivedError",
    "BindingMismatchError",
    "ClientBusyError",
    "ConflictError",
    "DecisionLearnedError",
    "DecisionVoidError",
    "DeviceUnavailableError",
    "EpisodeClosedError",
    "FitError",
    "ForbiddenError",
    "IdReusedError",
    "InvalidActionError",
    "InvalidCheckpointError",
    "InvalidInputError",
    "InvalidRewardError",
    "InvalidRowError",
    "InvalidSpecError",
    "InvalidStateError",
    "InvalidTableError",
    "KeyTextShownError",
    "MissingExtraError",
    "NameTakenError",
    "NotFoundError",
    "OutputExistsError",
    "OverloadedError",
    "RateLimitedError",
    "SchemaError",
    "SteersmanError",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreUnavailableError",
    "TenantRetiredError",
    "UnauthorizedError",
    "UnsupportedStoreError",
]


class SteersmanError(Exception):
    """Steersman could not do what was asked."""

    def __init__(
        self, message: str | None = None, *, where: str | None = None, hint: str | None = None
    ) -> None:
        """Take the `message` (default: the title of the class), `where` it happened and a `hint` what to do next."""
        self.message = message if message is not None else type(self).title()
        self.where = where
        self.hint = hint
        super().__init__(self.message)

    @classmethod
    def code(cls) -> str:
        """Return the stable code of the class on the wire: `IdReusedError` is `id-reused`."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__.removesuffix("Error")).lower()

    @classmethod
    def title(cls) -> str:
        """Return the first sentence of the class's docstring, which is true of all its errors."""
        return (inspect.getdoc(cls) or "").partition("\n")[0]

    def __str__(self) -> str:
        """Return `where: message`, and the hint in a sentence of its own."""
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} ({self.hint})" if self.hint else text


class InvalidInputError(SteersmanError):
    """The input is not valid."""


class InvalidActionError(InvalidInputError):
    """The feasible actions are not valid."""


class InvalidStateError(InvalidInputError):
    """The state is not in the declared state space."""


class InvalidRewardError(InvalidInputError):
    """The reward is not valid."""


class InvalidSpecError(InvalidInputError):
    """The declaration is not valid."""


class InvalidTableError(InvalidInputError):
    """The imported table is not valid."""


class InvalidRowError(InvalidInputError):
    """The teacher row is not valid."""


class InvalidCheckpointError(InvalidInputError):
    """The checkpoint is not valid."""


class BindingMismatchError(InvalidCheckpointError):
    """The checkpoint was made for something else."""


class NotFoundError(SteersmanError):
    """There is no such thing."""


class AccessError(SteersmanError):
    """The service does not let this call in."""


class UnauthorizedError(AccessError):
    """The key is missing or not valid."""


class ForbiddenError(AccessError):
    """The key has not the scope that this call needs."""

    def __init__(
        self,
        message: str | None = None,
        *,
        scope: str,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Name the `scope` that is missing; `operator` for what only an operator's key may do."""
        super().__init__(message, where=where, hint=hint)
        self.scope = scope


class RateLimitedError(AccessError):
    """The key asks more often than it may."""

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after: float,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Say in how many seconds a retry makes sense: `retry_after`."""
        super().__init__(message, where=where, hint=hint)
        self.retry_after = retry_after


class OverloadedError(AccessError):
    """The service has no room for more work now.

    Nothing of this call was kept.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after: float,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Say in how many seconds a retry makes sense: `retry_after`."""
        super().__init__(message, where=where, hint=hint)
        self.retry_after = retry_after


class ClientBusyError(SteersmanError):
    """The client had more calls at once than it came to before the deadline; nothing of this call was sent."""


class ConflictError(SteersmanError):
    """What is asked does not fit what is there."""


class NameTakenError(ConflictError):
    """The id or name is taken."""


class KeyTextShownError(ConflictError):
    """The text of the key was shown once and is not kept."""

    def __init__(
        self,
        message: str | None = None,
        *,
        key_id: str,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Name the key that the call made, so that it can be revoked where its text was lost: `key_id`."""
        super().__init__(message, where=where, hint=hint)
        self.key_id = key_id


class IdReusedError(ConflictError):
    """The id was used for a call with other content."""

    def __init__(
        self,
        message: str | None = None,
        *,
        stored_fingerprint: str,
        given_fingerprint: str,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        """Take the fingerprints, hexadecimal, of the content that is stored and of the one that came now."""
        super().__init__(message, where=where, hint=hint)
        self.stored_fingerprint = stored_fingerprint
        self.given_fingerprint = given_fingerprint


class ArchivedError(ConflictError):
    """The decision was archived and does not change any more."""

    def __init__(
        self, message: str | None = None, *, where: str | None = None, hint: str | None = None
    ) -> None:
        """Hint at where its row is, unless told otherwise."""
        there = "its row is in a file of the archive; see: steersman archive list TENANT"
        super().__init__(message, where=where, hint=there if hint is None else hint)


class EpisodeClosedError(ConflictError):
    """The episode is closed."""


class DecisionVoidError(ConflictError):
    """The decision was taken back and cannot be rewarded."""


class DecisionLearnedError(ConflictError):
    """The decision was learned from and cannot be taken back."""


class TenantRetiredError(ConflictError):
    """The tenant is retired."""


class OutputExistsError(ConflictError):
    """The output exists already."""


class StoreError(SteersmanError):
    """The database could not do what was asked."""


class StoreUnavailableError(StoreError):
    """The database cannot be reached.

    Nothing of this call was acknowledged, and it may be made again.
    """


class StoreFullError(StoreError):
    """The database has no room to write.

    Nothing of this call was kept.
    """


class StoreCorruptError(StoreError):
    """What is stored contradicts itself."""


class SchemaError(StoreError):
    """The database schema does not fit this release."""


class UnsupportedStoreError(StoreError):
    """This database cannot be used safely."""


class FitError(SteersmanError):
    """The fit could not go on."""


class DeviceUnavailableError(FitError):
    """The device is not available."""


class MissingExtraError(SteersmanError):
    """An optional package is not installed."""

    def __init__(self, extra: str, *, purpose: str) -> None:
        """Name the `extra` and the `purpose` that needs it; the message tells the command that installs it."""
        super().__init__(
            f"{purpose} needs the extra '{extra}', which is not installed",
            hint=f"install it with: pip install 'steersman[{extra}]'",
        )
        self.extra = extra
        self.purpose = purpose

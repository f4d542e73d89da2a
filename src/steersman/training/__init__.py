"""Fitting policies to teacher rows, and the evidence that a fit is worth using. PyTorch lives here only.

Importing any part of it without PyTorch raises MissingExtraError, which tells how to install it.
"""

from __future__ import annotations

from importlib.util import find_spec

from steersman.errors import MissingExtraError

if find_spec("torch") is None:
    raise MissingExtraError("fit", purpose="fitting a policy")

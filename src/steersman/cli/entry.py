"""Where the command `steersman` begins: nothing is imported yet, so that an interrupt ends it quietly even then."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line; see `steersman.cli.app.main`."""
    try:
        from steersman.cli import app
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    app.main()

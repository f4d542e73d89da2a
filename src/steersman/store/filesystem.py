"""What kind of file system a database file would lie on."""

from __future__ import annotations

from pathlib import Path

from steersman.errors import UnsupportedStoreError

__all__ = ["file_system_of", "refuse_network_file_system"]

_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs"}
_MOUNTS = Path("/proc/self/mounts")


def file_system_of(path: Path, *, mounts: str | None = None) -> str | None:
    """Return the type of the file system that `path` lies on; None where the system does not tell.

    `mounts` is the text of a mount table in the form of /proc/self/mounts (default: that file's).
    """
    if mounts is None:
        if not _MOUNTS.exists():
            return None
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
    absolute = path.absolute().resolve()
    best: tuple[int, str | None] = (-1, None)
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        # The table spells blanks in a mount point as octal escapes.
        point = Path(parts[1].replace("\\040", " ").replace("\\011", "\t"))
        if absolute.is_relative_to(point) and len(point.parts) >= best[0]:
            best = (len(point.parts), parts[2])
    return best[1]


def refuse_network_file_system(path: Path, *, mounts: str | None = None) -> None:
    """Raise UnsupportedStoreError when `path` lies on a network file system, whose locks SQLite cannot rely on."""
    kind = file_system_of(path, mounts=mounts)
    if kind in _NETWORK:
        raise UnsupportedStoreError(
            f"expected a local file system, got {kind}; SQLite's locks are not safe there",
            where=str(path),
            hint="use a local disk, or a PostgreSQL server",
        )

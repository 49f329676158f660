"""Text files read with care and written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from clusterplan.errors import ClusterplanError

LARGEST_FILE_BYTES = 2**20
"""Assumed: no profile, scenario or model description is larger; a wrong file is refused before it is read."""


LONGEST_PATH = 300
"""Characters of a path that a message shows."""


def read_text(
    path: Path, error: type[ClusterplanError] = ClusterplanError, *, largest: int = LARGEST_FILE_BYTES
) -> str:
    """Text of a small regular file in UTF-8.

    Parameters
    ----------
    path : Path
        File to read.
    error : type of ClusterplanError
        Raised, in one line, if the file is missing, no regular file, unreadable, too large, empty, or not UTF-8.

    Returns
    -------
    str
        What the file holds, without a byte-order mark.
    """
    where = printable(path)
    try:
        about = path.stat()
        if stat.S_ISDIR(about.st_mode):
            raise error("is a directory, not a file", where=where)
        if not stat.S_ISREG(about.st_mode):
            raise error("is not a regular file", where=where)
        if about.st_size > largest:
            raise error(f"has {about.st_size:,} bytes; at most {largest:,} are read", where=where)
        data = path.read_bytes()
    except FileNotFoundError:
        raise error("no such file", where=where) from None
    except OSError as problem:
        raise error(f"cannot be read: {problem.strerror or problem}", where=where) from None
    except ValueError as problem:  # a null character in the name
        raise error(f"is no file name: {problem}", where=where) from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(f"is not UTF-8 text (byte {problem.start + 1:,})", where=where) from None
    if not text.strip():
        raise error("is empty", where=where)
    return text


def write_atomically(path: Path, content: str | bytes, *, force: bool = False) -> None:
    """Write a file so that nobody ever sees a part of it.

    The content goes to a temporary file in the same directory, which then takes the name. Text is written as
    UTF-8 with the line ends that it has.

    Parameters
    ----------
    path : Path
        File to make.
    content : str or bytes
        All of it.
    force : bool
        Whether a file that is there may be replaced.
    """
    where = printable(path)
    data = content.encode() if isinstance(content, str) else content
    temporary = ""
    try:
        target = Path(os.path.realpath(path)) if path.is_symlink() else path  # what a link points to, not the link
        if target.is_dir():
            raise ClusterplanError("is a directory, not a file", where=where)
        if target.exists() and not target.is_file():
            raise ClusterplanError("is not a regular file", where=where)
        if target.exists() and not force:
            raise FileExistsError
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
        _take_name(temporary, target, force=force)
    except FileExistsError:
        raise ClusterplanError("exists; --force replaces it", where=where) from None
    except OSError as problem:
        raise ClusterplanError(f"cannot be written: {problem.strerror or problem}", where=where) from None
    except ValueError as problem:  # a null character in the name
        raise ClusterplanError(f"is no file name: {problem}", where=where) from None
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def _take_name(temporary: str, target: Path, *, force: bool) -> None:
    """Give the temporary file its name; without ``force`` a file that came meanwhile is not replaced."""
    if not force:
        try:
            os.link(temporary, target)  # fails if the target exists, in one step
            return
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            pass
    Path(temporary).replace(target)


def _umask() -> int:
    """Permissions that the process withholds; they can only be read by setting them."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def printable(path: Path | str) -> str:
    """A path in one printable line."""
    text = str(path)
    if len(text) > LONGEST_PATH:
        text = f"{text[:LONGEST_PATH]}..."
    return text if text.isprintable() else ascii(text)

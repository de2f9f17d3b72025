"""Write files atomically."""

import os
from contextlib import suppress
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Replace ``path`` atomically; its folder is made if missing. For files that can be made again; others are written
    by ``runs.files``. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # the name that the user knows
        raise
    finally:
        with suppress(OSError):  # absent where the folder cannot be written
            part.unlink()

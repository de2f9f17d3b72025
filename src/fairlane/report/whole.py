"""Files that a reader sees whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Replace ``path`` at once, its folder made if missing: a reader sees the old file or the new one, never half of
    one. For what can be made again; what cannot is written by ``trial.files``. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # the name that the reader knows
        raise
    finally:
        with suppress(OSError):  # it was never made where nothing can be written
            part.unlink()

"""A copy of the package to which plugins are added as a contributor would: one file into ``src/fairlane/KIND``."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

Done = subprocess.CompletedProcess[str]
ROOT = Path(__file__).parents[2]
SCRATCH = Path(__file__).parent / "scratch"


def plugin(package: str) -> Path:
    """The scratch plugin of a package."""
    (found,) = (SCRATCH / package).glob("*.py")
    return found


class Copy:
    """``src/fairlane`` once more below ``folder``, with the scratch plugins of ``packages``; and its command line."""

    def __init__(self, folder: Path, *packages: str) -> None:
        self.folder = folder
        # with what Python compiled of it: sources keep their times, so that it is taken
        shutil.copytree(ROOT / "src" / "fairlane", folder / "src" / "fairlane")
        for package in packages:
            shutil.copy(plugin(package), folder / "src" / "fairlane" / package)

    @property
    def environment(self) -> dict[str, str]:
        own = {key: value for key, value in os.environ.items() if not key.startswith("COV_")}
        return {**own, "PYTHONPATH": str(self.folder / "src"), "COLUMNS": "160", "NO_COLOR": "1"}

    def python(
        self, *words: str, code: int = 0, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs Python on this copy; ``code``: how it has to exit."""
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env={**self.environment, **(more or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def __call__(self, *words: str, code: int = 0) -> str:
        """What ``fairlane WORDS`` prints."""
        return self.python("-m", "fairlane", *words, code=code).stdout

    def completed(self, *words: str) -> list[str]:
        """What bash offers for the last word."""
        line = ["fairlane", *words]
        asked = {"COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(line) - 1), "_FAIRLANE_COMPLETE": "bash_complete"}
        offers = self.python("-m", "fairlane", more=asked).stdout
        return [offer.partition(",")[2] for offer in offers.splitlines()]

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name

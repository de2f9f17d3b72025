"""``python -m fairlane`` is the same program as ``fairlane``."""

from fairlane.cli.main import entry

if __name__ == "__main__":
    entry()

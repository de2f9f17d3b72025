"""The map of rooms in CONTRIBUTING.md is that of the tree, in the order of the layers contract."""

import re
import subprocess
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]


def rows(head: str) -> list[str]:
    """Names in the first column of the table of CONTRIBUTING.md that begins with ``head``."""
    _, _, table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition(f"| {head} |")
    return re.findall(r"^\| `([^`]+)/` \| .*\S \|$", table.partition("\n\n")[0], re.MULTILINE)


def packages() -> set[str]:
    """Every package below ``src/fairlane``."""
    top = ROOT / "src/fairlane"
    return {str(init.parent.relative_to(top)) for init in top.rglob("*/__init__.py")}


def layers() -> dict[str, int]:
    """Room or module -> its layer, counted from the top."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (each for each in project["tool"]["importlinter"]["contracts"] if each["type"] == "layers")
    return {
        name.strip().removeprefix("fairlane."): layer
        for layer, names in enumerate(contract["layers"])
        for name in names.split("|")
    }


def mistakes(named: Sequence[str], there: Collection[str]) -> Iterator[str]:
    """Where the rows of a table are not the folders that are there."""
    for name in sorted({*there, *named}):
        if name not in named:
            yield f"add a row for `{name}/`"
        elif name not in there:
            yield f"remove the row of `{name}/`: there is no such package or folder"
        elif named.count(name) > 1:
            yield f"`{name}/` has {named.count(name)} rows"


def disorder(named: Sequence[str], layer: Mapping[str, int]) -> Iterator[str]:
    """Where the rows are not in the order of the layers; a room within a room has its layer."""
    top = [name.partition("/")[0] for name in named]
    yield from (f"`{name}/` is in no layer of pyproject.toml" for name in sorted({*top} - {*layer}))
    for above, below in pairwise(name for name in top if name in layer):
        if layer[above] > layer[below]:
            yield f"`{above}/` has its row above `{below}/`, and is below it in the layers of pyproject.toml"


def test_every_room_has_one_row_in_the_order_of_the_layers() -> None:
    named = rows("room of `src/fairlane`")
    assert [*mistakes(named, packages()), *disorder(named, layers())] == [], "CONTRIBUTING.md, Where things are"


def test_every_folder_beside_the_package_has_one_row() -> None:
    named = rows("folder beside `src`")
    there = {name for name in named if (ROOT / name).is_dir()}
    try:  # what else git knows: a run or a site that was made here is no part of the project
        git = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        there |= {path.partition("/")[0] for path in git.splitlines() if "/" in path and path[0] != "."} - {"src"}
    except (OSError, subprocess.CalledProcessError):
        pass  # no git, or no repository of ours
    assert list(mistakes(named, there)) == [], "CONTRIBUTING.md, Where things are"


def test_what_is_missing_stale_twice_or_out_of_order_is_named() -> None:
    assert list(mistakes(["a", "b", "b", "gone"], {"a", "a/new", "b"})) == [
        "add a row for `a/new/`",
        "`b/` has 2 rows",
        "remove the row of `gone/`: there is no such package or folder",
    ]
    assert list(disorder(["b", "a", "a/x", "new"], {"a": 0, "b": 1})) == [
        "`new/` is in no layer of pyproject.toml",
        "`b/` has its row above `a/`, and is below it in the layers of pyproject.toml",
    ]
    assert list(disorder(["a", "c", "b", "d"], {"a": 0, "b": 1, "c": 1, "d": 2})) == []

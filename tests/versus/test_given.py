"""Paths of a command line: what is a name, a host, a path; and the names that lanes get."""

import re
from pathlib import Path

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from fairlane.errors import FairlaneError
from fairlane.versus.given import given, slug


def parts(folder: Path, *texts: str) -> list[tuple[str, str, str, str]]:
    return [(g.lane, g.label, g.destination, g.path) for g in given(texts, str(folder))]


def test_relative_paths_become_absolute_and_the_label_is_what_was_typed(tmp_path: Path) -> None:
    assert parts(tmp_path, "./a/", "b") == [
        ("a", "./a", "local", f"{tmp_path}/a"),
        ("b", "b", "local", f"{tmp_path}/b"),
    ]


def test_a_name_before_an_equals_sign_is_the_label_and_the_lane(tmp_path: Path) -> None:
    assert parts(tmp_path, "Old NAS=/mnt/x", "new=nas:/srv") == [
        ("old-nas", "Old NAS", "local", "/mnt/x"),
        ("new", "new", "nas", "/srv"),
    ]


def test_a_host_before_a_colon_unless_the_path_is_there_or_begins_with_a_dot(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    (tmp_path / "x=y").mkdir()
    found = parts(tmp_path, "a:b", "./c:d", "me@nas:/srv", "ssh://me@nas:2222/srv", "[fe80::1]:/srv", "x=y")
    assert [(destination, path) for _, _, destination, path in found] == [
        ("local", f"{tmp_path}/a:b"),
        ("local", f"{tmp_path}/c:d"),
        ("me@nas", "/srv"),
        ("ssh://me@nas:2222", "/srv"),
        ("[fe80::1]", "/srv"),
        ("local", f"{tmp_path}/x=y"),
    ]


def test_lanes_are_named_by_as_few_last_parts_as_tell_them_apart(tmp_path: Path) -> None:
    assert [g.lane for g in given(["/mnt/nvme/data", "/mnt/sata/data"], str(tmp_path))] == ["nvme-data", "sata-data"]
    assert [g.lane for g in given(["/mnt/Größe 1", "/mnt/ü"], str(tmp_path))] == ["grosse-1", "u"]
    assert [g.lane for g in given(["nas:/srv", "san:/srv"], str(tmp_path))] == ["srv", "srv-2"]
    assert [g.machine for g in given(["me@nas:/a", "/b", "nas:/c"], str(tmp_path))] == ["nas", "here", "nas-2"]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["./a"], "one-path"),
        (["./a", "host:b"], "path-relative"),
        (["x=./a", "x=./b"], "name-twice"),
        (["./a", "a"], "same-path"),
        (["./a", "./b\n"], "path-odd"),
        (["./a", "x=-oProxyCommand=id>PWNED:/b"], "machine-unknown"),
        (["./a", "x=me@-oProxyCommand=id:/b"], "machine-unknown"),
        (["./a", "ssh://-oProxyCommand=id/b"], "machine-unknown"),
        (["~nobody-has-this-name/x", "./a"], "home-unknown"),
        (["./a", "nas:/srv/../b"], "path-relative"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, texts: list[str], kind: str) -> None:
    with pytest.raises(FairlaneError) as refused:
        given(texts, str(tmp_path))
    assert refused.value.kind == kind


def test_dots_lead_where_the_kernel_goes(tmp_path: Path) -> None:
    (tmp_path / "far/away").mkdir(parents=True)
    (tmp_path / "far/x").mkdir()
    (tmp_path / "link").symlink_to("far/away")
    found = parts(tmp_path, "link/../x", "./link/./y", "none/../x", "./~z")
    assert [path for *_, path in found] == [
        f"{tmp_path}/far/x",
        f"{tmp_path}/link/y",
        f"{tmp_path}/none/../x",  # the kernel finds nothing there
        f"{tmp_path}/~z",
    ]
    assert Path(found[0][3]).samefile(tmp_path / "link/../x")


NAMES = st.text(st.characters(blacklist_categories=("C", "Z"), blacklist_characters="/"), min_size=1, max_size=60)


@drawn(st.lists(NAMES.filter(lambda name: name.strip(".")), min_size=2, max_size=6, unique=True))
def test_every_lane_has_a_valid_name_of_its_own(names: list[str]) -> None:
    found = given([f"/{name}" for name in names], "/")
    assert all(re.fullmatch("[a-z0-9][a-z0-9-]{0,30}", g.lane) for g in found)
    assert len({g.lane for g in found}) == len(found)


def test_slug_keeps_what_can_be_read() -> None:
    assert slug("/mnt/Café 2/") == "mnt-cafe-2"

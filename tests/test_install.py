"""Hints name the command that installs what is missing, in a checkout and elsewhere."""

from pathlib import Path

import pytest

from fairlane import install

SETUP = (Path(__file__).parents[1] / "scripts/setup.sh").read_text(encoding="utf-8")
NEEDS = [line.split() for line in SETUP.partition("NEEDS='")[2].partition("'")[0].splitlines() if line]


def on(monkeypatch: pytest.MonkeyPatch, *managers: str) -> None:
    monkeypatch.setattr("shutil.which", lambda name: name if name in managers else None)


@pytest.mark.parametrize("debian", sorted(install._FEDORA))
def test_fedora_s_names_are_those_of_the_setup(debian: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, "dnf", "apt-get")
    (fedora,) = {theirs for _, ours, theirs, _ in NEEDS if ours == debian}
    assert fedora in install.packages(debian).split()


def test_a_checkout_has_make_and_a_wheel_the_distribution(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert install.hint("qemu-system-x86") == "run: make setup (package qemu-system-x86)"
    monkeypatch.setattr(install, "_ROOT", tmp_path)
    on(monkeypatch, "apt-get")
    assert install.hint("qemu-system-x86", "fio") == "run: apt-get install qemu-system-x86 fio"
    on(monkeypatch, "dnf")
    assert install.hint("qemu-system-x86", "fio") == "run: dnf install qemu-system-x86-core fio"
    on(monkeypatch)
    assert install.hint("fio") == "run: install fio"

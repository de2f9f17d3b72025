"""A share of somebody's server, mounted beside the user's own mounts, with a file of the run in it that is the volume.
Not a transport.

The kernel's clients share what they can between mounts of one server (connections, caches), so that a setting of
another mount may hold for this one: what is in force is read back, and a difference stops the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Annotated

from pydantic import Field

from fairlane.lanes import _living as living
from fairlane.lanes._external import Folder, Option
from fairlane.lanes.base import Site, Step
from fairlane.study.strict import Strict


class ExternalShare(Strict):
    """An existing share. Derived classes add its server."""

    folder: Folder = "/"
    """Folder in the share for the volume's file, which is removed afterwards. Root must be able to write there:
    many servers map root to nobody (root_squash)."""
    options: Annotated[tuple[Option, ...], Field(max_length=20)] = ()
    """Further mount options, such as noac or timeo=50."""


@dataclass(frozen=True)
class Share:
    """The share of one lane on one machine."""

    site: Site
    title: str
    kind: str
    """File system type, as mount takes it."""
    source: str
    """As mount takes it."""
    options: str
    folder: str
    before: str = ""
    """Shell that prepares every mount: modules, secrets."""

    @property
    def at(self) -> str:
        """Mount point."""
        return f"{living.state(self.site.run)}/share-{self.title}"

    @property
    def file(self) -> str:
        """The volume's file."""
        return f"{self.at}{self.folder.rstrip('/')}/.fairlane-{self.title}"

    @property
    def mounted(self) -> str:
        """Shell condition: the share is mounted there."""
        return f"grep -q ' {self.at} {self.kind}' /proc/mounts"

    def mount(self) -> str:
        """Shell that mounts the share. Follows ``living.head``."""
        return f"""\
mkdir -p -m 700 {self.at}
{self.before}mount -t {self.kind} -o {self.options} {quote(self.source)} {self.at}
"""

    def unmount(self) -> str:
        """Shell that unmounts it, whatever has become of its server."""
        return f"""\
if {self.mounted}; then timeout 60 umount {self.at} || umount -f -l {self.at}; fi
if [ -d {self.at} ]; then rmdir {self.at}; fi
"""

    def mounting(self, name: str, more: str, describe: str, expect: Mapping[str, str]) -> Step:
        """The step that mounts it. Shell: ``more`` runs after the mount."""
        return Step(
            name=name,
            place="initiator",
            apply=f"\n{living.head(self.site.run)}{self.mount()}{more}",
            describe=describe,
            remove=f"\n{living.head(self.site.run)}{self.unmount()}{living.tail(self.site.run)}",
            expect=expect,
        )

    def making(self, *, sparse: bool) -> Step:
        """The step that makes the file. Its ``remove`` finds the file after a reboot, too."""
        file, size = self.file, self.site.size
        folder = file.rpartition("/")[0]
        allocate = f"truncate -s {size} {file}"
        if not sparse:
            allocate = f"fallocate -l {size} {file} 2> /dev/null || head -c {size} /dev/zero > {file}"
        return Step(
            name=f"make a file for {self.title} in {self.source}",
            place="initiator",
            apply=f"""
{living.head(self.site.run)}[ -d {folder} ] || fail 'there is no folder {self.folder} in {self.source}'
free=$(($(stat -f -c '%a * %S' {folder})))
[ $free -eq 0 ] || [ $free -gt {size} ] || fail "{self.source} has only $free bytes free; the volume needs {size}"
rm -f {file}
umask 077
: > {file} || fail 'root of this machine cannot write to {self.folder} in {self.source}'
{allocate}
sync {file}
""",
            describe=f"""
row file.bytes "$(stat -c %s {file})"
row file.allocated "$(($(stat -c %b {file}) * 512))"
""",
            remove=f"""
{living.head(self.site.run)}if {self.mounted}; then
  timeout 60 rm -f {file}
else
{self.mount()}  rm -f {file}
{self.unmount()}fi
""",
            expect={"file.bytes": str(size)},
        )

    def find(self) -> str:
        """Shell that prints the file, if its share is mounted."""
        return f"{self.mounted} && [ -f {self.file} ] && echo {self.file}; true"

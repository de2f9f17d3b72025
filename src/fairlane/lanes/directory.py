"""A directory of a machine: Fairlane makes a file in it, fills it, measures, and removes it; a new file in each round.

A round is one block of every cell. Files come to lie elsewhere in each, so that their placement is part of the spread
and not of the difference.
"""

from collections.abc import Mapping
from shlex import quote
from typing import Any, Literal

from fairlane.lanes.base import Step, Transport
from fairlane.study.base import LaneSpec
from fairlane.study.paths import AbsolutePath


class DirectorySpec(LaneSpec):
    """A file that Fairlane makes in a directory."""

    transport: Literal["directory"]
    """A new file in a directory, of the platform's ``size``."""
    path: AbsolutePath
    """The directory. Nothing else in it is touched."""
    foreign: bool = False
    """Write as root also where other users own the directory or one above it, or may write there: they could exchange
    the file for a link, and have other files overwritten."""
    platforms = ("hosts",)
    network = False

    def known(self) -> Mapping[str, Any]:
        return {**super().known(), "backend": self.path, "volume_mode": "file in a directory", "provisioning": "thick"}


class Directory(Transport[DirectorySpec]):
    Spec = DirectorySpec
    living = True
    backing = "machine"
    stores_files = True
    remade = True

    @property
    def _name(self) -> str:
        """Of the file; hidden, with the run's id."""
        return f".fairlane-{self.site.run}-{self.name}"

    @property
    def _at(self) -> str:
        """Shell: file that holds where the directory is, ``DEVICE:INODE PATH``."""
        return f'"$FRAMES/at-{self.name}"'

    def steps(self) -> tuple[Step, ...]:
        at, name, size, path = self._at, self._name, self.site.size, quote(self.spec.path)
        return (
            Step(
                name=f"make a file for {self.name} in {self.spec.path}",
                place="initiator",
                session=True,
                root=False,
                # made under a name that nothing has (O_EXCL), and renamed: neither follows a link
                apply=f"""
d=$(readlink -f {path})
[ -d "$d" ] || {{ printf '%s is no directory\n' {path} >&2; exit 1; }}
{"" if self.spec.foreign else 'safe_folder "$d" || exit 77'}
now="$(stat -c %d:%i "$d") $d"
[ -e {at} ] || printf '%s\n' "$now" > {at}
[ "$(cat {at})" = "$now" ] || {{ printf '%s leads elsewhere since the run began\n' {path} >&2; exit 1; }}
umask 077
f=$(mktemp -p "$d" {name}.XXXXXX)
fallocate -l {size} "$f" 2> /dev/null || truncate -s {size} "$f"
mv -f "$f" "$d/{name}"
""",
                describe=f"""
f=$(cut -d' ' -f2- {at})/{name}
row file.path "$f"
row file.bytes "$(stat -c %s "$f")"
row file.filesystem "$(stat -f -c %T "$f")"
""",
                remove=f"""
[ -e {at} ] || exit 0
d=$(cut -d' ' -f2- {at})
was=$(cut -d' ' -f1 {at})
a=$d
while [ ! -d "$a" ]; do a=${{a%/*}}; a=${{a:-/}}; done
# removed with the file, or renamed, unless another file system is mounted there now, or none any more
if [ "$a" != "$d" ] && [ "$(stat -c %d "$a")" = "${{was%:*}}" ]; then
  d=$(stat -c '%d:%i %n' "$a"/*/ "$a"/.[!.]*/ 2> /dev/null | sed -n "s/^$was //p" | head -n 1)
  [ -n "$d" ] || exit 0
fi
if [ -e "$d/{name}" ] || [ -L "$d/{name}" ]; then
  rm -f "$d/{name}" "$d/{name}".??????
else
  rm -f "$d/{name}".??????
  [ "$(stat -c %d:%i "$d")" = "$was" ] || {{ printf '%s leads elsewhere since the run began: \
its file may be left where it was\n' "$d" >&2; exit 1; }}
fi
""",
                expect={"file.bytes": str(size)},
            ),
        )

    def find(self) -> str:
        return f"printf '%s/%s\\n' \"$(cut -d' ' -f2- {self._at})\" {self._name}"

    def path(self) -> tuple[str, ...]:
        return ("fio", f"a file in {self.spec.path}")


PLUGIN = Directory

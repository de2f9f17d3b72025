"""Media of targets on a machine that belongs to somebody: a file behind a loop device, or a device that the study
names. Not a transport.

The platform puts the step before those of the lane, and ``path`` into ``Site.medium``.
"""

from shlex import quote

from fairlane.lanes import _living as living
from fairlane.lanes.base import Step


def path(run: str, name: str) -> str:
    """Link to the medium's device; gone after a reboot, as the device is."""
    return f"{living.state(run)}/medium-{name}"


def file_medium(folder: str, name: str, size: int, run: str) -> Step:
    """A file of ``size`` bytes in ``folder``, allocated in full, as a loop device with direct I/O. Where the folder's
    file system has no direct I/O, the machine's memory would be the medium: that stops the run."""
    file = f"{folder.rstrip('/')}/.fairlane-{run}-{name}"
    where = f"folder={quote(folder)}\nfile={quote(file)}\n"
    link, attached = path(run, name), 'losetup -n -O NAME -j "$file"'
    return Step(
        name=f"a file in {folder} as medium of {name}",
        place="target",
        apply=f"""
{living.head(run)}{living.modules("loop")}{where}[ -d "$folder" ] || fail "there is no folder $folder"
free=$(($(stat -f -c '%a * %S' "$folder")))
[ $free -gt $(({size} + {size} / 20)) ] || fail "$folder has $free bytes free; the medium needs {size} plus 5 %"
rm -f "$file"
umask 077
set -C
: > "$file"
set +C
fallocate -l {size} "$file"
d=$(losetup --direct-io=on -f --show "$file")
ln -sfn "$d" {link}
""",
        describe=f"""
{where}d=$(readlink {link})
row medium.kind "a file in $folder ($(stat -f -c %T "$folder")), loop device"
row medium.direct_io "$(cat /sys/block/${{d#/dev/}}/loop/dio)"
row medium.bytes "$(stat -c %s "$file")"
""",
        remove=f"""
{living.head(run)}{where}for d in $({attached}); do losetup -d $d; done
i=0
while [ -n "$({attached})" ]; do
  i=$((i + 1))
  [ $i -lt 50 ] || fail 'the loop device of {name} is in use'
  sleep 0.2
done
rm -f {link} "$file"
{living.tail(run)}""",
        expect={"medium.direct_io": "1", "medium.bytes": str(size)},
    )


def device_medium(identity: str, destroy: str, name: str, run: str) -> Step:
    """A block device of the machine, known by ``identity``, that nobody uses and that ``destroy`` names."""
    link = path(run, name)
    return Step(
        name=f"{identity} as medium of {name}",
        place="target",
        apply=f"""
{living.head(run)}d=$(named {quote(identity)})
guard "$d" "$(identity "$d")" - {quote(destroy)}
ln -sfn "$d" {link}
""",
        describe=f"""
d=$(readlink {link})
row medium.kind "a device"
row medium.identity "$(identity "$d")"
row medium.bytes $(($(cat /sys/block/${{d#/dev/}}/size) * 512))
""",
        remove=f"""
{living.head(run)}rm -f {link}
{living.tail(run)}""",
    )

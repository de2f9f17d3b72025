"""open-iscsi, the initiator of transport ``iscsi``: names, records, daemon. Not a transport.

On machines that belong to somebody (``Site.living``) iscsiadm gets a database of its own, in a mount namespace: the
machine's records, interfaces and initiator name are not seen and not touched, nobody's discovery meets ours, and after
a reboot nothing of it is left. Sessions of the run are known by the name of their interface.
"""

from dataclasses import dataclass

from fairlane.lanes import _living as living
from fairlane.lanes._external import without_argv
from fairlane.lanes._lio import iqn
from fairlane.lanes.base import Site, Step

_UNITS = ("iscsid.socket", "iscsid.service")


@dataclass(frozen=True)
class Target:
    """The target to log in to, with credentials."""

    iqn: str
    portals: tuple[str, ...]
    user: str = ""
    secret: str = ""
    initiator: str = ""
    """Name for this target only; empty: the machine's."""
    discovery: bool = False
    """The first portal tells the others."""


def daemon(site: Site, *, named: bool) -> Step:
    """iscsid, once per machine, shared by lanes. ``named``: the initiator has a name of its own for its target, so that
    a machine without a name will do."""
    if site.living:
        return _living_daemon(site, named=named)
    return Step(
        name="start iscsid",
        place="initiator",
        apply=f"""
mkdir -p /etc/iscsi /run/lock/iscsi
echo InitiatorName={iqn("host")}{site.host or ""} > /etc/iscsi/initiatorname.iscsi
[ -s /etc/iscsi/iscsid.conf ] || echo 'node.startup = manual' > /etc/iscsi/iscsid.conf
[ -e /run/iscsid.pid ] || iscsid
""",
    )


def _living_daemon(site: Site, *, named: bool) -> Step:
    needed = (
        ""
        if named
        else "grep -qs '^ *InitiatorName *= *[^ ]' /etc/iscsi/initiatorname.iscsi ||\n"
        "  fail 'the machine has no initiator name (/etc/iscsi/initiatorname.iscsi): set external.host'\n"
    )
    return Step(
        name="start iscsid",
        place="initiator",
        apply=f"""
{living.head(site.run)}{living.modules("iscsi_tcp", "sd_mod")}{needed}mkdir -p /run/lock/iscsi
{living.start("iscsid", _UNITS, "iscsid")}""",
        remove=f"""
{living.head(site.run)}{living.stop("iscsid", "ls /sys/class/iscsi_session 2> /dev/null", "iscsiadm -k 0")}\
{living.tail(site.run)}""",
    )


def database(title: str) -> str:
    """Shell that makes ``iscsiadm`` use a database of the lane's own. Follows ``living.head``."""
    folder = f"$L/iscsi-{title}"
    return f"""\
if [ ! -d {folder} ]; then
  mkdir -m 700 {folder}
  for f in initiatorname.iscsi iscsid.conf; do
    [ ! -e /etc/iscsi/$f ] || cp /etc/iscsi/$f {folder}
  done
fi
iscsiadm() {{
  {living.OWN_MOUNTS} sh -c 'mount --bind "$0" /etc/iscsi &&
    {{ [ ! -d /var/lib/iscsi ] || mount --bind "$0" /var/lib/iscsi; }} && exec iscsiadm "$@"' {folder} "$@"
}}
"""


def face(title: str) -> str:
    """Name of the lane's interface of open-iscsi."""
    return f"fairlane-{title}"


def interface(title: str, initiator: str) -> tuple[str, str]:
    """Shell that creates an open-iscsi interface, with its own initiator name if there is one, and the option that
    selects it."""
    made = f"iscsiadm -m iface -I {face(title)}"
    named = f"{made} -o update -n iface.initiatorname -v {initiator} > /dev/null\n" if initiator else ""
    return f"{made} -o new > /dev/null\n{named}", f" -I {face(title)}"


def own(title: str) -> str:
    """Shell that tells whether the session in ``$s`` is the lane's."""
    return f'[ "$(cat $s/ifacename 2> /dev/null)" = {face(title)} ]'


def sessions(title: str) -> str:
    """Shell that prints the ids of the lane's sessions."""
    return (
        "for s in /sys/class/iscsi_session/session*; do "
        f"if [ -e $s/ifacename ] && {own(title)}; then echo ${{s##*session}}; fi; done"
    )


def portals(title: str, to: Target, site: Site) -> str:
    """Shell that notes the target's portals, and refuses a target where somebody else is logged in already: the volume
    would come a second time, into maps that are not ours. Follows ``database``."""
    found = f"found='{' '.join(to.portals)}'\n"
    if to.discovery:
        found = f"""\
iscsiadm -m discovery -t sendtargets -p {to.portals[0]} -o nonpersistent > $L/found-{title} ||
  fail 'discovery of targets at {to.portals[0]} failed'
found=$(awk '$2 == "{to.iqn}" && $1 ~ /^[0-9]/ {{ sub(",.*", "", $1); print $1 }}' $L/found-{title})
rm -f $L/found-{title}
[ -n "$found" ] || fail '{to.portals[0]} does not list target {to.iqn} for this initiator'
"""
    return f"""\
for s in /sys/class/iscsi_session/session*; do
  [ -e $s/targetname ] && [ "$(cat $s/targetname)" = {to.iqn} ] || continue
  case $(cat $s/ifacename) in fairlane-{site.run}-*) continue ;; esac
  fail "{to.iqn} is already logged in (${{s##*/}}) outside this run: use its device (transport: device), or log out"
done
{found}echo $found > $L/portals-{title}
"""


def logout(title: str) -> str:
    """Shell that ends the lane's sessions and removes its database, whatever of them is there. Follows
    ``living.head``."""
    return f"""\
if [ -n "$({sessions(title)})" ]; then
{database(title)}{living.start("iscsid", _UNITS, "iscsid")}  for s in $({sessions(title)}); do
    iscsiadm -m session -r $s --logout > /dev/null || :
  done
  await 0 '{{ {sessions(title)}; }} | wc -l'
fi
rm -rf $L/iscsi-{title} $L/portals-{title} $L/found-{title}
"""


def password(to: Target, database: str = "") -> str:
    """Shell that writes the secret into the target's records, where iscsiadm has put the user: iscsiadm itself accepts
    it as an argument only. ``database``: folder of the records; empty: the machine's."""
    nodes = f"{database}/nodes" if database else f"/etc/iscsi/nodes/{to.iqn} /var/lib/iscsi/nodes/{to.iqn}"
    added = without_argv(f"node.session.auth.password = {to.secret}", 'cat >> "$record"')
    return f"""\
records=$(grep -rlFx 'node.session.auth.username = {to.user}' {nodes} 2> /dev/null || :)
[ -n "$records" ] || {{ echo "open-iscsi has no record of its own in {nodes}" >&2; exit 1; }}
for record in $records; do
{added}done
"""


def quoted(value: str) -> str:
    """``value`` in single quotes for the shell."""
    return "'" + value.replace("'", "'\\''") + "'"


def volume_rows(to: Target) -> str:
    """Shell that prints the volume's identity, for ``destroy`` and the reader."""
    return f"""\
v=/sys/block/${{d#/dev/}}/device
row volume.iqn {to.iqn}
row volume.lun "$(readlink -f $v | grep -o '[0-9]*$')"
row volume.serial "$(tail -c +5 $v/vpd_pg80 | tr -d '\\0 ')"
row volume.wwid "$(cat $v/wwid)"
row volume.model "$(echo $(cat $v/vendor $v/model))"
"""


def living_rows(title: str) -> str:
    """Shell that prints the initiator's name in force and the portals, with the first session's folder in ``$s``."""
    return f"""\
row initiator.name "$(cat $s/initiatorname)"
row portals "$(cat $L/portals-{title})"
"""

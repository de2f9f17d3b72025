"""Several paths to one volume: NVMe's native multipath with ANA, dm-multipath with ALUA for SCSI. Not a transport.

Kernel: Documentation/admin-guide/nvme-multipath.rst, drivers/md/dm-mpath.c; multipath-tools: multipath.conf(5).
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from fairlane.lanes.base import Step
from fairlane.study.strict import Strict
from fairlane.units import Duration, format_duration

_SECOND = 10**9


def _whole(value: int) -> int:
    if value % _SECOND or value > 86400 * _SECOND:
        raise ValueError("expected whole seconds, at most 24h")
    return value


def _some(value: int) -> int:
    if not value:
        raise ValueError("expected at least 1s")
    return value


Seconds = Annotated[Duration, AfterValidator(_whole)]
"""A duration that the kernel and its tools take in whole seconds; 0 s switches off."""
SomeSeconds = Annotated[Seconds, AfterValidator(_some)]
"""The same, where it cannot be off."""


def seconds(value: int) -> str:
    """ns as whole seconds, for command lines."""
    return str(value // _SECOND)


class NvmeMultipath(Strict):
    """The kernel's own multipath of NVMe: one controller per path, ANA says which of them may be used."""

    policy: Literal["round-robin", "numa", "queue-depth"] = "round-robin"
    """Which path an I/O takes (``iopolicy``). numa: all on one path, the nearest to the CPU's memory; the others stand
    by. queue-depth: the path with the fewest I/Os in flight; at iodepth 1 that is always the first."""
    keep_alive: SomeSeconds = 5 * _SECOND
    """Keep-alive time-out (``nvme connect -k``): how soon the host detects a dead path."""
    reconnect_delay: SomeSeconds = 1 * _SECOND
    """Time between two reconnect attempts (``-c``; the kernel's default is 10 s)."""
    ctrl_loss: SomeSeconds = 600 * _SECOND
    """How long to keep reconnecting (``-l``). Must exceed any outage that the path is to survive."""
    fast_io_fail: SomeSeconds | None = None
    """With every path lost, I/O fails after this time (``fast_io_fail_tmo``). Default: I/O waits until
    ``ctrl_loss`` has passed."""

    @property
    def options(self) -> str:
        """Options of ``nvme connect``."""
        return f" -k {seconds(self.keep_alive)} -c {seconds(self.reconnect_delay)} -l {seconds(self.ctrl_loss)}"

    @property
    def summary(self) -> str:
        """Settings in words, for ``path_settings``."""
        return ", ".join(
            f"{name} {format_duration(value) if value else 'off'}"
            for name, value in (
                ("keep-alive", self.keep_alive),
                ("reconnect", self.reconnect_delay),
                ("controller loss", self.ctrl_loss),
                ("fast I/O fail", self.fast_io_fail),
            )
        )

    def expect(self, paths: int, *, ours: bool) -> dict[str, str]:
        """Rows that ``nvme_rows`` must print; paths of an external array (not ``ours``) may be in any state."""
        tries = -(-self.ctrl_loss // self.reconnect_delay)  # the kernel counts attempts and shows their product
        return {
            "multipath.policy": self.policy,
            "multipath.paths": str(paths),
            "multipath.live": str(paths),
            **({"multipath.ana_state": "optimized"} if ours else {}),
            "multipath.keep_alive": seconds(self.keep_alive),
            "multipath.reconnect_delay": seconds(self.reconnect_delay),
            "multipath.ctrl_loss": seconds(tries * self.reconnect_delay),
            "multipath.fast_io_fail": seconds(self.fast_io_fail) if self.fast_io_fail else "off",
        }


def nvme_controllers(nqn: str) -> str:
    """Shell that prints the sysfs folder of every controller (path) of a subsystem."""
    return (
        "for c in /sys/class/nvme/nvme*; do "
        f'if [ -e $c/subsysnqn ] && [ "$(cat $c/subsysnqn)" = {nqn} ]; then echo $c; fi; done'
    )


def nvme_live(nqn: str) -> str:
    """Shell that prints one line per connected path."""
    return f'for c in $({nvme_controllers(nqn)}); do if [ "$(cat $c/state)" = live ]; then echo $c; fi; done'


def nvme_set(nqn: str, multipath: NvmeMultipath) -> str:
    """Shell that sets the subsystem's options, and those missing in nvme-cli 2.3."""
    fail = (
        f"for c in $({nvme_controllers(nqn)}); do echo {seconds(multipath.fast_io_fail)} > $c/fast_io_fail_tmo; done"
        if multipath.fast_io_fail
        else ":"
    )
    return f"echo {multipath.policy} > $({nvme_policy(nqn)})\n{fail}"


def nvme_policy(nqn: str) -> str:
    """Shell that prints the policy file of a subsystem."""
    return (
        "for s in /sys/class/nvme-subsystem/nvme-subsys*; do "
        f'if [ "$(cat $s/subsysnqn)" = {nqn} ]; then echo $s/iopolicy; fi; done'
    )


def nvme_rows(nqn: str) -> str:
    """Shell that describes a subsystem's paths; a setting that differs between them prints several words."""
    settings = "\n".join(
        f'row multipath.{key} "$(echo $(for c in $cs; do cat $c/{file}; done | sort -u))"'
        for key, file in (
            ("keep_alive", "kato"), ("reconnect_delay", "reconnect_delay"), ("ctrl_loss", "ctrl_loss_tmo"),
            ("fast_io_fail", "fast_io_fail_tmo"), ("ana_state", "nvme*c*n*/ana_state"),
        )
    )  # fmt: skip
    return f"""
cs=$({nvme_controllers(nqn)})
row multipath.kind "native NVMe"
row multipath.policy "$(cat $({nvme_policy(nqn)}))"
row multipath.paths "$(echo $cs | wc -w)"
row multipath.live "$({{ {nvme_live(nqn)}; }} | wc -l)"
row multipath.portals "$(echo $(for c in $cs; do tr , '\\n' < $c/address | grep -o '[0-9.]*$' | head -n 1; done))"
{settings}
"""


class IscsiMultipath(Strict):
    """dm-multipath over iSCSI sessions: ALUA says which path may be used, multipathd watches them."""

    policy: Literal["round-robin", "queue-length", "service-time"] = "round-robin"
    """Which path an I/O takes (dm's path selector). round-robin: one I/O per path in turn."""
    no_path_retry: Literal["queue", "fail"] | Annotated[int, Field(ge=1, le=3600)] = "queue"
    """With every path lost: I/O waits (queue), fails at once (fail), or after so many checks, 1 s apart."""
    replacement_timeout: SomeSeconds = 5 * _SECOND
    """How long a lost session may take to come back before its I/O goes to another path: open-iscsi's
    replacement_timeout, which is dm-multipath's fast_io_fail_tmo here (default without multipath: 120 s)."""
    noop_interval: Seconds = 5 * _SECOND
    """The initiator pings the target this often; 0s: never."""
    noop_timeout: Seconds = 5 * _SECOND
    """Unanswered for this long, a ping counts as a lost connection."""

    @property
    def summary(self) -> str:
        """Settings in words, for ``path_settings``."""
        return (
            f"no path retry {self.no_path_retry}, replacement timeout {format_duration(self.replacement_timeout)}, "
            f"noop {format_duration(self.noop_interval)}/{format_duration(self.noop_timeout)}"
        )

    @property
    def settings(self) -> dict[str, str]:
        """Settings of open-iscsi's node record."""
        return {
            "node.session.timeo.replacement_timeout": seconds(self.replacement_timeout),
            "node.conn[0].timeo.noop_out_interval": seconds(self.noop_interval),
            "node.conn[0].timeo.noop_out_timeout": seconds(self.noop_timeout),
        }

    def expect(self, paths: int, *, ours: bool) -> dict[str, str]:
        """Rows that ``dm_rows`` must print; an external array (not ``ours``) need not have ALUA."""
        queueing = {"queue": "on", "fail": "off"}.get(str(self.no_path_retry), f"{self.no_path_retry} chk")
        return {
            "multipath.policy": self.policy,
            "multipath.paths": str(paths),
            "multipath.active": str(paths),
            **({"multipath.handler": "alua", "multipath.alua_state": "active/optimized"} if ours else {}),
            "multipath.no_path_retry": queueing,
            "multipath.replacement_timeout": seconds(self.replacement_timeout),
            "multipath.noop_interval": seconds(self.noop_interval),
            "multipath.noop_timeout": seconds(self.noop_timeout),
        }


CONFIGURATION = """\
defaults {
  user_friendly_names no
  find_multipaths no
  polling_interval 1
  max_polling_interval 1
}
overrides {
  fast_io_fail_tmo off
  path_checker tur
  detect_prio no
  prio alua
  path_grouping_policy group_by_prio
  failback immediate
  rr_min_io_rq 1
}
blacklist {
  wwid ".*"
}
"""
"""Of a multipathd that looks after volumes of lanes alone, and whose paths count as lost or back within a second."""


def multipathd() -> Step:
    """multipathd, once per machine. It uses only the volumes of lanes and leaves other devices alone."""
    return Step(
        name="start multipathd",
        place="initiator",
        # "{" must end its line. open-iscsi sets the sessions' time-outs: multipathd would override all of them.
        apply=f"""
modprobe -a dm_multipath dm_round_robin dm_queue_length dm_service_time scsi_dh_alua
mkdir -p /etc/multipath/conf.d
cat > /etc/multipath.conf <<'END'
{CONFIGURATION}END
if ! multipathd show status > /dev/null 2>&1; then
  multipathd
  await 1 'if multipathd show status > /dev/null 2>&1; then echo 1; else echo 0; fi'
fi
""",
    )


def dm_join(name: str, multipath: IscsiMultipath, scan: str, paths: int) -> str:
    """Shell that gives multipathd the devices printed by ``scan``, as one map fairlane-``name``."""
    return f"""
udevadm settle --timeout=30 || :
wwid=$(for d in $({scan}); do /lib/udev/scsi_id -g -u -d $d; done | sort -u)
[ "$(echo "$wwid" | wc -w)" -eq 1 ] || {{ echo "the paths lead to different volumes: $wwid" >&2; exit 1; }}
cat > /etc/multipath/conf.d/fairlane-{name}.conf <<END
blacklist_exceptions {{
  wwid "$wwid"
}}
multipaths {{
  multipath {{
    wwid $wwid
    alias fairlane-{name}
    path_selector "{multipath.policy} 0"
    no_path_retry {multipath.no_path_retry}
  }}
}}
END
multipathd reconfigure > /dev/null
await {paths} 'dmsetup table fairlane-{name} 2> /dev/null | grep -o "[0-9]*:[0-9]*" | wc -l'
await {paths} 'dmsetup status fairlane-{name} | grep -o "[0-9]*:[0-9]* A" | wc -l'
"""


def dm_part(name: str) -> str:
    """Shell that undoes ``dm_join``; queued I/O fails, so that nothing waits for a removed target."""
    return f"""
if dmsetup status fairlane-{name} > /dev/null 2>&1; then
  dmsetup message fairlane-{name} 0 fail_if_no_path
  multipath -f fairlane-{name}
fi
rm -f /etc/multipath/conf.d/fairlane-{name}.conf
multipathd reconfigure > /dev/null
"""


def dm_rows(map_name: str, mine: str) -> str:
    """Shell that describes the map and its sessions; a setting that differs between them prints several words.
    ``mine``: shell that tells whether the session in ``$s`` is the lane's."""
    return f"""
t=$(dmsetup table {map_name})
row multipath.kind "dm-multipath, multipathd $(multipath -h 2>&1 | grep -o 'v[0-9.]*' | head -n 1)"
row multipath.policy "$(echo $(echo "$t" | grep -ow -e round-robin -e queue-length -e service-time | sort -u))"
row multipath.handler "$(echo "$t" | grep -ow alua)"
row multipath.paths "$(echo "$t" | grep -o '[0-9]*:[0-9]*' | wc -l)"
row multipath.active "$(dmsetup status {map_name} | grep -o '[0-9]*:[0-9]* A' | wc -l)"
row multipath.no_path_retry "$(multipathd show maps raw format '%n|%Q' | grep "^{map_name}|" | cut -d'|' -f2)"
devices=$(for d in $(echo "$t" | grep -o '[0-9]*:[0-9]*'); do echo /sys/dev/block/$d; done)
row multipath.alua_state "$(echo $(for d in $devices; do cat $d/device/access_state; done | sort -u))"
for s in /sys/class/iscsi_session/session*; do
  {mine} || continue
  c=/sys/class/iscsi_connection/connection${{s##*session}}:0
  printf '%s ' "$(cat $c/persistent_address)" >> portals
  cat $s/recovery_tmo >> recovery
  cat $c/recv_tmo >> interval
  cat $c/ping_tmo >> timeout
done
row multipath.portals "$(cat portals)"
row multipath.replacement_timeout "$(echo $(sort -u recovery))"
row multipath.noop_interval "$(echo $(sort -u interval))"
row multipath.noop_timeout "$(echo $(sort -u timeout))"
rm portals recovery interval timeout
"""

"""iSCSI: LIO on the target (through configfs), open-iscsi on the initiator.

LIO: Documentation/target of the kernel; open-iscsi: its README. The kernel's initiator works in the initial network
namespace only. A fixed device-mapper table joins several sessions to one portal: round robin, one I/O per path.
multipathd joins and watches several portals (``multipath``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fairlane.guard.values import NONE
from fairlane.lanes import _multipath as paths
from fairlane.lanes._external import External, Name, one_address, without_argv
from fairlane.lanes._lio import CONFIG, DISK_ROWS, ISCSI_PORT, QEMU_ISCSI, Lio, any_initiator, iqn, qemu_iscsi
from fairlane.lanes.base import Step, digests
from fairlane.records import FaultKind
from fairlane.study.base import LaneSpec

_ALUA_TYPE = 1
"""Implicit ALUA only: the target alone changes states. With explicit ALUA (2), Linux would request an optimized path
whenever it selects a path group, and end a ``state`` fault at once."""
_OPTIMIZED, _UNAVAILABLE = 0, 3
"""ALUA states (SPC-4, REPORT TARGET PORT GROUPS)."""


class IscsiExternal(External):
    """A LUN of an iSCSI array that is not the lab's: only connected, described, disconnected."""

    port: int = Field(default=ISCSI_PORT, ge=1, le=65535)
    """TCP port of its portals."""
    iqn: Name
    """IQN of the target."""
    lun: int | None = Field(default=None, ge=0, le=16383)
    """Number of the LUN; not given: the target must show one LUN only."""
    serial: str = ""
    """Unit serial number (VPD page 0x80) that the volume must have; not given: any."""
    user: Name | None = None
    """CHAP name; ``secret`` says where the secret is."""

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if bool(self.user) != bool(self.secret):
            raise ValueError("user: CHAP needs user and secret")
        return self


class IscsiSpec(LaneSpec):
    """iSCSI (LIO target, open-iscsi initiator)."""

    transport: Literal["iscsi"]
    """iSCSI over TCP."""
    sessions: int = Field(default=1, ge=1, le=16)
    """Sessions to each portal (study 001's tuning); more than one are joined by dm-multipath, round robin unless
    ``multipath`` says otherwise."""
    chap: bool = False
    """One-way CHAP with a secret made per run; it never enters the run directory."""
    header_digest: bool = False
    """CRC32C over headers."""
    data_digest: bool = False
    """CRC32C over data."""
    multipath: paths.IscsiMultipath | None = None
    """Sessions over every path of the platform (``platform.paths``), joined by dm-multipath with ALUA."""
    external: IscsiExternal | None = None
    """An array that is not the lab's. Its secret is that of one-way CHAP."""
    initiators = ("guest", "hypervisor")

    @model_validator(mode="after")
    def _of_qemu(self) -> Self:
        if self.initiator == "hypervisor" and (self.sessions > 1 or self.data_digest):
            key = "sessions" if self.sessions > 1 else "data_digest"
            raise ValueError(f"{key}: QEMU's initiator has one session and no data digest; leave {key} away")
        if self.initiator == "hypervisor" and (self.multipath or self.external):
            key = "multipath" if self.multipath else "external"
            raise ValueError(f"{key}: is for the initiator in the guest; leave {key} away")
        if self.external and self.chap:
            raise ValueError("chap: of an external array external.user and external.secret say it; leave chap away")
        one_address(self.external, self.multipath)
        return self

    def known(self) -> Mapping[str, Any]:
        several = self.sessions > 1
        chap = self.chap or bool(self.external and self.external.secret)
        settings = [f"{self.sessions} session{'s' * several}", *(["CHAP"] * chap), *digests(self)]
        joined = f"dm-multipath, round robin over {self.sessions} sessions" if several else NONE
        if self.multipath:
            joined = f"dm-multipath with ALUA, {self.multipath.policy}"
            settings.append(self.multipath.summary)
        outside = self.external.known() if self.external else {}
        return {**super().known(), **outside, "multipath": joined, "path_settings": ", ".join(settings)}


@dataclass(frozen=True)
class _Target:
    """The target to log in to, with credentials."""

    iqn: str
    portals: tuple[str, ...]
    user: str = ""
    secret: str = ""
    initiator: str = ""
    """Name for this target only; empty: the machine's."""


class Iscsi(Lio[IscsiSpec]):
    Spec = IscsiSpec
    virtual = True
    first_port = ISCSI_PORT
    driver = QEMU_ISCSI
    packages = ("open-iscsi", "dmsetup")
    programs = ("iscsid", "iscsiadm", "dmsetup")
    modules = (
        "target_core_mod", "target_core_iblock", "iscsi_target_mod", "sd_mod", "iscsi_tcp", "crc32c_intel",
        "dm_multipath", "dm_round_robin",
    )  # fmt: skip

    def steps(self) -> tuple[Step, ...]:
        daemons = (self._daemon(), *([paths.multipathd()] if self.spec.multipath else []))
        connect = (*daemons, self._connect())
        return connect if self.spec.external else (self._export(), *connect)

    def _export(self) -> Step:
        """One target portal group per path, with its own ALUA group if there is multipath."""
        target = f"iscsi/{iqn(self.name)}"
        groups = range(1, len(self.site.portals) + 1)
        made = "".join(self._portal_group(group) for group in groups)
        off = "".join(f"cd $T/{target}/tpgt_{g}\necho 0 > enable\nrm lun/lun_0/medium\ncd /\n" for g in groups)
        tpgs = [f"$T/{target}/tpgt_{g}" for g in groups]
        gone = " ".join(f"{tpg}/np/* {tpg}/lun/lun_0 {tpg}" for tpg in tpgs)
        ungrouped = "".join(f"rmdir $T/{self.store}/alua/path{g}\n" for g in groups if self.spec.multipath)
        return Step(
            name=f"export {self.name} through LIO",
            place="target",
            apply=f"{self._make_store()}{made}",
            describe=f"""
cd {CONFIG}/{target}/tpgt_1
row target.kind "LIO $(cat {CONFIG}/version)"
row target.iqn {iqn(self.name)}
row target.portal "$(ls np)"
row target.authentication "$(cat attrib/authentication)"
row target.default_cmdsn_depth "$(cat attrib/default_cmdsn_depth)"
{self._store_rows("lun_0")}""",
            remove=f"""
T={CONFIG}
{off}rmdir {gone} $T/{target}
{ungrouped}{self._remove_store()}""",
            expect={"target.authentication": str(int(self.spec.chap))},
        )

    def _portal_group(self, group: int) -> str:
        """Shell that creates the target portal group of a path; they count from 1."""
        tpg = f"$T/iscsi/{iqn(self.name)}/tpgt_{group}"
        password = without_argv(self.site.secret, "tr -d '\\n' > auth/password")
        auth = f"printf %s fairlane > auth/userid\n{password}" if self.spec.chap else ":"
        alua = f"""\
A=$T/{self.store}/alua/path{group}
mkdir $A
echo {group} > $A/tg_pt_gp_id
echo {_ALUA_TYPE} > $A/alua_access_type
echo path{group} > lun/lun_0/alua_tg_pt_gp
""" if self.spec.multipath else ""  # fmt: skip
        return f"""\
mkdir -p {tpg}/lun/lun_0 {tpg}/np/{self.portal(group - 1)}:{self.port} && cd {tpg}
ln -s $T/{self.store} lun/lun_0/medium
{alua}{any_initiator(chap=self.spec.chap)}{auth}
echo 1 > enable
"""

    def fault(self, kind: FaultKind, path: int) -> Step | None:
        if self.spec.external or (kind == "state" and not self.spec.multipath):
            return None
        portal = f"np/{self.portal(path)}:{self.port}"
        if kind == "port":
            group = f"{CONFIG}/iscsi/{iqn(self.name)}/tpgt_{path + 1}"
            return Step(
                f"take away portal {path} of {self.name}",
                "target",
                apply=f"cd {group}\nrmdir {portal}\necho 0 > enable",
                remove=f"cd {group}\nmkdir {portal}\necho 1 > enable",
            )
        if kind == "state":
            state = f"{CONFIG}/{self.store}/alua/path{path + 1}/alua_access_state"
            return Step(
                f"ALUA of path {path} of {self.name}",
                "target",
                apply=f"echo {_UNAVAILABLE} > {state}",
                remove=f"echo {_OPTIMIZED} > {state}",
            )
        return None

    def _daemon(self) -> Step:
        """iscsid, once per machine, shared by lanes."""
        return Step(
            name="start iscsid",
            place="initiator",
            apply=f"""
mkdir -p /etc/iscsi /run/lock/iscsi
echo InitiatorName={iqn("host")}{self.site.host or ""} > /etc/iscsi/initiatorname.iscsi
[ -s /etc/iscsi/iscsid.conf ] || echo 'node.startup = manual' > /etc/iscsi/iscsid.conf
[ -e /run/iscsid.pid ] || iscsid
""",
        )

    def _target(self) -> _Target:
        outside = self.spec.external
        if not outside:
            chap = ("fairlane", self.site.secret) if self.spec.chap else ("", "")
            return _Target(iqn(self.name), tuple(f"{address}:{self.port}" for address in self.site.portals), *chap)
        secret = outside.secret.read(self.name) if outside.secret else ""
        portals = tuple(f"{address}:{outside.port}" for address in outside.addresses)
        return _Target(outside.iqn, portals, outside.user or "", secret, outside.host or "")

    def _connect(self) -> Step:
        name, spec, multipath, to = self.name, self.spec, self.spec.multipath, self._target()
        digest = {False: "None", True: "CRC32C"}
        settings = {
            "node.session.nr_sessions": str(spec.sessions),
            "node.conn[0].iscsi.HeaderDigest": digest[spec.header_digest],
            "node.conn[0].iscsi.DataDigest": digest[spec.data_digest],
        }
        if to.user:
            settings |= {
                "node.session.auth.authmethod": "CHAP",
                "node.session.auth.username": to.user,
            }
        settings |= multipath.settings if multipath else {}
        named, face = _interface(name, to.initiator) if to.initiator else ("", "")
        nodes = [f"iscsiadm -m node -T {to.iqn} -p {portal}{face}" for portal in to.portals]
        updates = {
            node: "\n".join(f"{node} -o update -n '{k}' -v {_quoted(v)} > /dev/null" for k, v in settings.items())
            for node in nodes
        }
        made = "".join(f"{node} -o new > /dev/null\n{updates[node]}\n" for node in nodes)
        logins = made + (_password(to) if to.user else "") + "".join(f"{node} --login > /dev/null\n" for node in nodes)
        # One of several paths may be dead; the other sessions must still be closed.
        tolerant = " || :" if len(nodes) > 1 or spec.external else ""
        logouts = "".join(
            f"{node} --logout > /dev/null{tolerant}\n{node} -o delete > /dev/null{tolerant}\n" for node in nodes
        )
        sessions = spec.sessions * len(nodes)
        scan = self._scan()
        join = self._join() if spec.sessions > 1 else ""
        part = f"[ -e /dev/mapper/fairlane-{name} ] && dmsetup remove --noudevsync fairlane-{name}"
        if multipath:
            join, part = paths.dm_join(name, multipath, scan, sessions), paths.dm_part(name).strip()
        # The last session may belong to another lane. Keep this text: under the virtual clock any change moves figures.
        again = "s=${c%:0} s=/sys/class/iscsi_session/session${s##*connection}\n" if self.site.addresses else ""
        rows = _external_rows(to) if spec.external else ""
        rows += paths.dm_rows(name, to.iqn) if multipath else ""
        return Step(
            name=f"connect {name} with open-iscsi",
            place="initiator",
            session=True,
            apply=f"""
{named}{logins}await {sessions} '{{ {scan}; }} | wc -l'
{join}
""",
            describe=f"""
sessions=0
for s in /sys/class/iscsi_session/session*; do
  [ "$(cat $s/targetname)" = {to.iqn} ] || continue
  sessions=$((sessions + 1))
  c=/sys/class/iscsi_connection/connection${{s##*session}}:0
done
{again}row initiator.kind "open-iscsi $(iscsiadm --version | cut -d' ' -f3)"
row sessions $sessions
row chap "$([ -n "$(cat $s/username 2>/dev/null | grep -v null)" ] && echo 1 || echo 0)"
row header_digest "$(cat $c/header_digest)"
row data_digest "$(cat $c/data_digest)"
for k in max_recv_dlength max_xmit_dlength tcp_window_size; do
  [ -e $c/$k ] && row $k "$(cat $c/$k 2>/dev/null || echo unknown)"
done
for k in first_burst_len max_burst_len immediate_data initial_r2t max_outstanding_r2t; do row $k "$(cat $s/$k)"; done
d=$({{ {scan}; }} | head -n 1)
{DISK_ROWS}{rows}""",
            remove=f"""
{part}
{logouts}""",
            expect={
                "sessions": str(sessions),
                "chap": str(int(bool(to.user))),
                "header_digest": str(int(spec.header_digest)),
                "data_digest": str(int(spec.data_digest)),
                **(multipath.expect(sessions, ours=not spec.external) if multipath else {}),
                **({"volume.serial": spec.external.serial} if spec.external and spec.external.serial else {}),
            },
        )

    def _scan(self) -> str:
        """Shell that prints every path's device, found by the LUN's unit serial; of an external array by session and
        LUN number."""
        outside = self.spec.external
        if not outside:
            return super().find()
        lun = "*" if outside.lun is None else outside.lun
        return (
            "for s in /sys/class/iscsi_session/session*; do [ -e $s/targetname ] || continue; "
            f'[ "$(cat $s/targetname)" = {outside.iqn} ] || continue; '
            f"for b in $s/device/target*/*:{lun}/block/sd*; do [ -e $b ] && echo /dev/${{b##*/}}; done; done; true"
        )

    def _join(self) -> str:
        """dm-multipath over all sessions: one priority group, round robin, one I/O per path (kernel: dm-mpath)."""
        return f"""
paths=$({self._scan()})
size=$(cat /sys/block/$(basename $(echo "$paths" | head -n 1))/size)
table="0 $size multipath 0 0 1 1 round-robin 0 {self.spec.sessions} 1"
for p in $paths; do table="$table $p 1"; done
dmsetup create --noudevsync fairlane-{self.name} --table "$table"
"""

    def find(self) -> str:
        if self.spec.sessions > 1 or self.spec.multipath:
            return (
                "for d in /sys/block/dm-*; do "
                f'[ "$(cat $d/dm/name)" = fairlane-{self.name} ] && echo /dev/${{d##*/}}; done; true'
            )
        return self._scan()

    def backend(self) -> Mapping[str, Any]:
        """The platform makes the QEMU object of the secret, from ``Site.secret``."""
        index = self.site.index
        return {
            **qemu_iscsi(self.site.reach, self.name, 0, f"hypervisor-{index}"),
            "header-digest": "crc32c" if self.spec.header_digest else "none",
            **({"user": "fairlane", "password-secret": f"secret{index}"} if self.spec.chap else {}),
        }

    def path(self) -> tuple[str, ...]:
        spec, site = self.spec, self.site
        if spec.initiator == "hypervisor":
            return ("fio", "QEMU's iscsi", f"TCP {site.reach} (forwarded)", "LIO", "iblock", site.medium)
        joined = ("dm-multipath",) if spec.sessions > 1 else ()
        joined = (f"dm-multipath, {spec.multipath.policy}",) if spec.multipath else joined
        if spec.external:
            where = " + ".join(spec.external.addresses)
            return ("fio", *joined, "sd", "open-iscsi", f"TCP {where}", f"external {spec.external.iqn}")
        return ("fio", *joined, "sd", "open-iscsi", f"TCP {site.links}", "LIO", "iblock", site.medium)


def _password(to: _Target) -> str:
    """Shell that writes the secret into the target's records, where iscsiadm has put the user: iscsiadm itself accepts
    it as an argument only."""
    nodes = f"/etc/iscsi/nodes/{to.iqn} /var/lib/iscsi/nodes/{to.iqn}"
    added = without_argv(f"node.session.auth.password = {to.secret}", 'cat >> "$record"')
    return f"""\
records=$(grep -rlFx 'node.session.auth.username = {to.user}' {nodes} 2> /dev/null || :)
[ -n "$records" ] || {{ echo "open-iscsi has no record of its own in {nodes}" >&2; exit 1; }}
for record in $records; do
{added}done
"""


def _interface(name: str, initiator: str) -> tuple[str, str]:
    """Shell that creates an open-iscsi interface with its own initiator name, and the option that selects it."""
    face = f"iscsiadm -m iface -I fairlane-{name}"
    return (
        f"""\
{face} -o new > /dev/null
{face} -o update -n iface.initiatorname -v {initiator} > /dev/null
""",
        f" -I fairlane-{name}",
    )


def _quoted(value: str) -> str:
    """``value`` in single quotes for the shell."""
    return "'" + value.replace("'", "'\\''") + "'"


def _external_rows(to: _Target) -> str:
    """Shell that prints the volume's identity, for ``destroy`` and the reader."""
    return f"""\
v=/sys/block/${{d#/dev/}}/device
row volume.iqn {to.iqn}
row volume.lun "$(readlink -f $v | grep -o '[0-9]*$')"
row volume.serial "$(tail -c +5 $v/vpd_pg80 | tr -d '\\0 ')"
row volume.wwid "$(cat $v/wwid)"
row volume.model "$(echo $(cat $v/vendor $v/model))"
"""


PLUGIN = Iscsi

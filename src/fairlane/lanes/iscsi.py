"""iSCSI: LIO on the target (through configfs), open-iscsi on the initiator.

LIO: Documentation/target of the kernel; open-iscsi: its README. The kernel's initiator works in the initial network
namespace only. A fixed device-mapper table joins several sessions to one portal: round robin, one I/O per path.
multipathd joins and watches several portals (``multipath``).
"""

from collections.abc import Mapping
from typing import Any

from fairlane.lanes import _dm_living, _open_iscsi
from fairlane.lanes import _living as living
from fairlane.lanes import _multipath as paths
from fairlane.lanes._external import without_argv
from fairlane.lanes._iscsi_spec import IscsiSpec
from fairlane.lanes._lio import (
    CONFIG,
    DISK_ROWS,
    ISCSI_PORT,
    QEMU_ISCSI,
    Lio,
    any_initiator,
    iqn,
    one_initiator,
    qemu_iscsi,
)
from fairlane.lanes._open_iscsi import Target, database, interface, password, quoted
from fairlane.lanes.base import Step
from fairlane.records import FaultKind

_ALUA_TYPE = 1
"""Implicit ALUA only: the target alone changes states. With explicit ALUA (2), Linux would request an optimized path
whenever it selects a path group, and end a ``state`` fault at once."""
_LOGINS = "3"
"""Tries of 15 s (login_timeout). With open-iscsi's 8 a portal that does not answer holds the run up for two minutes, in
every block."""
_OPTIMIZED, _UNAVAILABLE = 0, 3
"""ALUA states (SPC-4, REPORT TARGET PORT GROUPS)."""


class Iscsi(Lio[IscsiSpec]):
    Spec = IscsiSpec
    living = True
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
        named = bool(self._target().initiator)
        daemons = [_open_iscsi.daemon(self.site, named=named)]
        if self.spec.multipath:
            daemons.append(_dm_living.multipathd(self.site) if self.site.living else paths.multipathd())
        connect = (*daemons, self._connect())
        return connect if self.spec.external else (self._export(), *connect)

    def _export(self) -> Step:
        """One target portal group per path, with its own ALUA group if there is multipath."""
        target = f"iscsi/{iqn(self.title)}"
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
row target.iqn {iqn(self.title)}
row target.portal "$(ls np)"
row target.authentication "$(cat attrib/authentication)"
row target.default_cmdsn_depth "$(cat attrib/default_cmdsn_depth)"
{self._store_rows("lun_0")}""",
            remove=self._unexport()
            if self.site.living
            else f"""
T={CONFIG}
{off}rmdir {gone} $T/{target}
{ungrouped}{self._remove_store()}""",
            expect={"target.authentication": str(int(self.spec.chap))},
        )

    def _unexport(self) -> str:
        """Shell that undoes ``_export`` beside other targets, as far as it was done."""
        target = f"$T/iscsi/{iqn(self.title)}"
        parts = []
        for group, address in enumerate(self.site.portals, 1):
            tpg, acl = f"{target}/tpgt_{group}", f"acls/{self.host}"
            parts.append(f"""\
if [ -d {tpg} ]; then
  echo 0 > {tpg}/enable
  cd {tpg}
  gone {acl}/lun_0/lun {acl}/lun_0 {acl} lun/lun_0/medium np/{address}:{self.port} lun/lun_0
  cd /
  gone {tpg}
fi
""")
        alua = "".join(f"gone $T/{self.store}/alua/path{g}\n" for g in range(1, len(self.site.portals) + 1))
        return f"""
{living.head(self.site.run)}{living.GONE}T={CONFIG}
{"".join(parts)}gone {target}
{alua if self.spec.multipath else ""}{self._remove_store()}"""

    def _portal_group(self, group: int) -> str:
        """Shell that creates the target portal group of a path; they count from 1."""
        tpg = f"$T/iscsi/{iqn(self.title)}/tpgt_{group}"
        acl = f"acls/{self.host}/auth" if self.site.living else "auth"
        password = without_argv(self.site.secret, f"tr -d '\\n' > {acl}/password")
        auth = f"printf %s fairlane > {acl}/userid\n{password}" if self.spec.chap else ":"
        chap = self.spec.chap
        let_in = one_initiator(self.host, tpg, chap=chap) if self.site.living else any_initiator(chap=chap)
        free = living.port_free(self.portal(group - 1), self.port) if self.site.living else ""
        alua = f"""\
A=$T/{self.store}/alua/path{group}
mkdir $A
echo {group} > $A/tg_pt_gp_id
echo {_ALUA_TYPE} > $A/alua_access_type
echo path{group} > lun/lun_0/alua_tg_pt_gp
""" if self.spec.multipath else ""  # fmt: skip
        return f"""\
{free}mkdir -p {tpg}/lun/lun_0 {tpg}/np/{self.portal(group - 1)}:{self.port} && cd {tpg}
ln -s $T/{self.store} lun/lun_0/medium
{alua}{let_in}{auth}
echo 1 > enable
"""

    def fault(self, kind: FaultKind, path: int) -> Step | None:
        if self.spec.external or (kind == "state" and not self.spec.multipath):
            return None
        portal = f"np/{self.portal(path)}:{self.port}"
        if kind == "port":
            group = f"{CONFIG}/iscsi/{iqn(self.title)}/tpgt_{path + 1}"
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

    def _target(self) -> Target:
        outside = self.spec.external
        if not outside:
            chap = ("fairlane", self.site.secret) if self.spec.chap else ("", "")
            portals = tuple(f"{address}:{self.port}" for address in self.site.portals)
            return Target(iqn(self.title), portals, *chap, initiator=self.host if self.site.living else "")
        secret = outside.secret.read(self.name) if outside.secret else ""
        portals = tuple(f"{address}:{outside.port}" for address in outside.addresses)
        return Target(outside.iqn, portals, outside.user or "", secret, outside.host or "", outside.discovery)

    def _connect(self) -> Step:
        title, spec, multipath, to, site = self.title, self.spec, self.spec.multipath, self._target(), self.site
        digest = {False: "None", True: "CRC32C"}
        settings = {
            "node.session.nr_sessions": str(spec.sessions),
            "node.conn[0].iscsi.HeaderDigest": digest[spec.header_digest],
            "node.conn[0].iscsi.DataDigest": digest[spec.data_digest],
        }
        if site.living:
            settings["node.session.initial_login_retry_max"] = _LOGINS
        if to.user:
            settings |= {
                "node.session.auth.authmethod": "CHAP",
                "node.session.auth.username": to.user,
            }
        settings |= multipath.settings if multipath else {}
        named, face = interface(title, to.initiator) if site.living else ("", "")
        nodes = [f"iscsiadm -m node -T {to.iqn} -p {portal}{face}" for portal in to.portals]
        nodes = [f"iscsiadm -m node -T {to.iqn} -p $p{face}"] if site.living else nodes
        updates = {
            node: "\n".join(f"{node} -o update -n '{k}' -v {quoted(v)} > /dev/null" for k, v in settings.items())
            for node in nodes
        }
        made = "".join(f"{node} -o new > /dev/null\n{updates[node]}\n" for node in nodes)
        log_in = "".join(f"{node} --login > /dev/null\n" for node in nodes)
        if site.living:
            made, log_in = (f"for p in $found; do\n{text}done\n" for text in (made, log_in))
            named = living.head(site.run) + database(title) + _open_iscsi.portals(title, to, site) + named
            named += self._one_portal()
        secret = password(to, f"$L/iscsi-{title}" if site.living else "") if to.user else ""
        logins = made + secret + log_in
        # One of several paths may be dead; the other sessions must still be closed.
        tolerant = " || :" if len(nodes) > 1 else ""
        logouts = "".join(
            f"{node} --logout > /dev/null{tolerant}\n{node} -o delete > /dev/null{tolerant}\n" for node in nodes
        )
        count: int | str = spec.sessions * len(to.portals)
        if to.discovery:
            count = f"$(({spec.sessions} * $(wc -w < $L/portals-{title})))"
        scan = self._scan()
        mine = _open_iscsi.own(title) if site.living else f'[ "$(cat $s/targetname)" = {to.iqn} ]'
        if site.living:
            join, part, ended = self._joined_beside_others(scan, str(count))
            part = living.head(site.run) + part
            logouts = _open_iscsi.logout(title) + ended + living.tail(site.run)
        elif multipath:
            join, part = paths.dm_join(title, multipath, scan, spec.sessions * len(to.portals)), paths.dm_part(title)
            part = part.strip()
        else:
            join = self._join() if spec.sessions > 1 else ""
            part = f"[ -e /dev/mapper/fairlane-{title} ] && dmsetup remove --noudevsync fairlane-{title}"
        # The last session may belong to another lane. Keep this text: under the virtual clock any change moves figures.
        several = bool(self.site.addresses) or site.living
        again = "s=${c%:0} s=/sys/class/iscsi_session/session${s##*connection}\n" if several else ""
        rows = _open_iscsi.volume_rows(to) if site.living else ""
        rows += _open_iscsi.living_rows(title) if site.living else ""
        if multipath:
            rows += _dm_living.map_rows(title) if site.living else ""
            rows += paths.dm_rows("$m" if site.living else f"fairlane-{title}", mine)
        notes = f"L={living.state(site.run)}\n" if site.living else ""
        expect = {"sessions": str(count)}
        if to.discovery:
            rows += f"row sessions.missing $(({count} - sessions))\n"
            expect = {"sessions.missing": "0"}
        return Step(
            name=f"connect {self.name} with open-iscsi",
            place="initiator",
            session=True,
            apply=f"""
{named}{logins}await {count} '{{ {scan}; }} | wc -l'
{join}
""",
            describe=f"""
{notes}sessions=0
for s in /sys/class/iscsi_session/session*; do
  {mine} || continue
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
                **expect,
                "chap": str(int(bool(to.user))),
                "header_digest": str(int(spec.header_digest)),
                "data_digest": str(int(spec.data_digest)),
                **({"initiator.name": to.initiator} if site.living and to.initiator else {}),
                **self._expected_paths(count),
                **({"volume.serial": spec.external.serial} if spec.external and spec.external.serial else {}),
            },
        )

    def _one_portal(self) -> str:
        """Shell that refuses several discovered portals without multipath."""
        if self.spec.multipath or not (self.spec.external and self.spec.external.discovery):
            return ""
        text = "the target has several portals ($found): set multipath"
        return f'[ "$(echo $found | wc -w)" -eq 1 ] || fail "{text}"\n'

    def _joined_beside_others(self, scan: str, count: str) -> tuple[str, str, str]:
        """Shell that joins the paths on a machine that belongs to somebody, that parts them before the sessions end,
        and that forgets them after it."""
        title, alone = self.title, _dm_living.alone(scan, self.site.run)
        if self.spec.multipath:
            sessions = _open_iscsi.sessions(title)
            join = _dm_living.join(title, self.spec.multipath, scan, count, sessions)
            return alone + join, _dm_living.part(title), _dm_living.forget(title)
        join = alone + _dm_living.unclaimed(scan) + (self._join() if self.spec.sessions > 1 else "")
        table = f"/dev/mapper/fairlane-{title}"
        return join, f"if [ -e {table} ]; then dmsetup remove --noudevsync {table}; fi\n", ""

    def _expected_paths(self, count: int | str) -> dict[str, str]:
        """Expected rows of the map."""
        multipath = self.spec.multipath
        if not multipath:
            return {}
        expected = multipath.expect(count if isinstance(count, int) else 0, ours=not self.spec.external)
        if isinstance(count, str):  # discovered: ``_dm_living.join`` waits for as many as there are
            del expected["multipath.paths"], expected["multipath.active"]
        return expected

    def _scan(self) -> str:
        """Shell that prints every path's device, found by the LUN's unit serial; on a machine that belongs to somebody
        by session and LUN number."""
        outside = self.spec.external
        if self.site.living:
            lun = "*" if outside and outside.lun is None else (outside.lun if outside else 0)
            return (
                "for s in /sys/class/iscsi_session/session*; do "
                f"{_open_iscsi.own(self.title)} || continue; "
                f"for b in $s/device/target*/*:{lun}/block/sd*; do [ -e $b ] && echo /dev/${{b##*/}}; done; done; true"
            )
        return super().find()

    def _join(self) -> str:
        """dm-multipath over all sessions: one priority group, round robin, one I/O per path (kernel: dm-mpath)."""
        return f"""
paths=$({self._scan()})
size=$(cat /sys/block/$(basename $(echo "$paths" | head -n 1))/size)
table="0 $size multipath 0 0 1 1 round-robin 0 {self.spec.sessions} 1"
for p in $paths; do table="$table $p 1"; done
dmsetup create --noudevsync fairlane-{self.title} --table "$table"
"""

    def find(self) -> str:
        if self.spec.multipath and self.site.living:
            return _dm_living.find(self.title, self.site.run)
        if self.spec.sessions > 1 or self.spec.multipath:
            return (
                "for d in /sys/block/dm-*; do "
                f'[ "$(cat $d/dm/name)" = fairlane-{self.title} ] && echo /dev/${{d##*/}}; done; true'
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


PLUGIN = Iscsi

"""Lanes on a machine that belongs to somebody, who has targets, sessions, connections, mounts and a multipath.conf of
their own: lanes work beside all of it, and what was there is there afterwards, whenever the undo runs."""

import base64
import json
import re
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

import pytest
import yaml
from lab_bench import OneMachine, one_machine

from fairlane import registry
from fairlane.errors import Refused, RunFailed
from fairlane.fleet import build
from fairlane.lanes import _medium
from fairlane.lanes.base import Site, Step, Transport
from fairlane.machines import script
from tests.words import kind

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("living"), pytest.mark.timeout(1800)]

RUN = "0123456789"
MIB = 2**20
MODULES = """null_blk target_core_mod target_core_iblock iscsi_target_mod sd_mod iscsi_tcp nvmet nvmet_tcp nvme_tcp nfsd
nfs nfsv4 nfsv3 loop dm_multipath scsi_dh_alua""".replace("\n", " ")

STRANGER = """
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
for i in 90 91 92 93; do
  D=/sys/kernel/config/nullb/nullb$i; mkdir $D; echo 64 > $D/size; echo 1 > $D/memory_backed; echo 2 > $D/queue_mode
  echo 1 > $D/power
done
mkdir -p /etc/target /srv/share /mnt/user
C=/sys/kernel/config/target
for t in store:90 theirs:91; do
  I=iqn.2026-01.example:${t%:*} B=$C/core/iblock_${t#*:}/${t%:*}
  mkdir -p $B; echo udev_path=/dev/nullb${t#*:} > $B/control; echo hand-${t%:*}-${t#*:} > $B/wwn/vpd_unit_serial
  echo 1 > $B/enable
  for g in 1 2; do
    P=$C/iscsi/$I/tpgt_$g; mkdir -p $P/lun/lun_0 $P/np/127.0.0.$g:3260; ln -s $B $P/lun/lun_0/x
    echo 1 > $P/attrib/generate_node_acls; echo 0 > $P/attrib/demo_mode_write_protect
    echo 0 > $P/attrib/authentication; echo 1 > $P/enable
  done
done
P=$C/iscsi/iqn.2026-01.example:twin/tpgt_1; mkdir -p $P/lun/lun_0 $P/np/127.0.0.1:3260
ln -s $C/core/iblock_91/theirs $P/lun/lun_0/x; echo 1 > $P/attrib/generate_node_acls
echo 0 > $P/attrib/authentication; echo 1 > $P/enable
N=/sys/kernel/config/nvmet
for s in store:92 theirs:93; do
  S=$N/subsystems/nqn.2026-01.example:${s%:*}; mkdir -p $S/namespaces/1; echo 1 > $S/attr_allow_any_host
  echo -n /dev/nullb${s#*:} > $S/namespaces/1/device_path; echo 1 > $S/namespaces/1/enable
done
for g in 1 2; do
  mkdir $N/ports/$g; cd $N/ports/$g; echo tcp > addr_trtype; echo ipv4 > addr_adrfam; echo 127.0.0.$g > addr_traddr
  echo 4420 > addr_trsvcid
  for s in store theirs; do ln -s $N/subsystems/nqn.2026-01.example:$s subsystems/; done
done
cd /
mount -t tmpfs tmpfs /srv/share; mkdir /srv/share/sub
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
rpcbind -w; rpc.nfsd --grace-time 10 --lease-time 10 4; echo Y > /proc/fs/nfsd/v4_end_grace; rpc.mountd
exportfs -o rw,no_root_squash,insecure,no_subtree_check,fsid=9 '*:/srv/share'
mount -t nfs -o vers=4.1,nconnect=2 127.0.0.1:/srv/share /mnt/user
echo precious > /mnt/user/file
cat > /etc/multipath.conf <<E
defaults {
  find_multipaths strict
  user_friendly_names yes
}
blacklist {
  wwid ".*"
}
E
"""
"""Targets, an NFS server with a mount, and a multipath.conf, as their owner made them."""

AT_WORK = """
mkdir -p /run/lock/iscsi
iscsid
iscsiadm -m discovery -t sendtargets -p 127.0.0.1:3260 > /dev/null
iscsiadm -m node -T iqn.2026-01.example:theirs -p 127.0.0.1:3260 --login > /dev/null
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2026-01.example:theirs
multipathd
await 1 'if multipathd show status > /dev/null 2>&1; then echo 1; else echo 0; fi'
udevadm settle
"""
"""And at work: daemons, node records, a session and a connection."""

LOOK = """
find /etc -type f -printf '%p %s\\n' | sort
find /etc/iscsi /etc/multipath* /etc/nvme /etc/target -type f 2> /dev/null | sort | xargs sha256sum
find /etc/iscsi /etc/multipath /etc/target /srv /mnt /run/fairlane-* /var/tmp 2> /dev/null | sort
for s in /sys/class/iscsi_session/session* /sys/class/nvme/nvme*; do
  [ ! -e $s ] || echo "$s $(cat $s/targetname $s/subsysnqn 2> /dev/null)"
done
cat /sys/class/iscsi_session/session*/recovery_tmo /sys/class/nvme-subsystem/*/iopolicy 2> /dev/null || :
ls -d /sys/block/sd* /sys/block/nvme* 2> /dev/null || :
losetup -a; dmsetup table
for d in iscsid multipathd rpc.mountd; do echo "$d $(pidof $d | wc -w)"; done
find /sys/kernel/config/target /sys/kernel/config/nvmet -mindepth 1 | grep -v statistics | sort
cut -d' ' -f1-4 /proc/mounts
ls /run | grep -v '^fairlane[.]'
"""
"""What a lane could change on a machine."""

TWO = {"address": "127.0.0.1", "addresses": ("127.0.0.1", "127.0.0.2"), "index": 5}
OURS = "iqn.2026-01.example:store", "nqn.2026-01.example:store"
LANES = {
    "iscsi-array": f"external: {{addresses: [127.0.0.1], iqn: '{OURS[0]}', serial: hand-store-90}}",
    "iscsi-digests": f"""sessions: 2, header_digest: true, data_digest: true,
      external: {{addresses: [127.0.0.2], iqn: '{OURS[0]}', host: 'iqn.2026-01.example:me', lun: 0}}""",
    "iscsi-paths": f"""sessions: 2, multipath: {{policy: service-time, no_path_retry: 30, replacement_timeout: 7s}},
      external: {{addresses: [127.0.0.1], discovery: true, iqn: '{OURS[0]}'}}""",
    "iscsi-own": "chap: true",
    "iscsi-own-paths": "chap: true, multipath: {}",
    "nvme_tcp-array": f"external: {{addresses: [127.0.0.1], nqn: '{OURS[1]}'}}",
    "nvme_tcp-paths": f"""multipath: {{policy: round-robin, fast_io_fail: 60s}},
      external: {{addresses: [127.0.0.1, 127.0.0.2], nqn: '{OURS[1]}', host: 'nqn.2026-01.example:me'}}""",
    "nvme_tcp-found": f"external: {{addresses: [127.0.0.1], discovery: true, discovery_port: 4420, nqn: '{OURS[1]}'}}",
    "nvme_tcp-own": "multipath: {}",
    "nfs-share": "nconnect: 2, external: {server: localhost, share: /srv/share, folder: /sub}",
    "nfs-v3": "version: '3', wsize: 64k, sparse: true, external: {server: 127.0.0.1, share: /srv/share}",
}
"""Name -> keys; the name begins with the transport."""


def lane(name: str, keys: str = "", run: str = RUN, **site: Any) -> Transport[Any]:
    plugin = registry.load("lanes", name.partition("-")[0])
    text = f"{{transport: {name.partition('-')[0]}, {keys or LANES[name]}}}"
    spec = plugin.Spec.model_validate(yaml.safe_load(text))
    where = TWO if "paths" in name or name == "nvme_tcp-own" else {"address": "127.0.0.1", "index": 5}
    medium = _medium.path(run, name)
    offer = {"medium": medium, "interface": "lo", "secret": "hidden", "size": 32 * MIB, "living": True, "run": run}
    bound: Transport[Any] = plugin(name.replace("_", "-"), spec, Site(**{**offer, **where, **site}))
    return bound


def steps(made: Transport[Any]) -> tuple[Step, ...]:
    """All that a platform does for the lane: a medium where Fairlane exports it, then the lane's own."""
    own = made.steps()
    name = made.site.medium.rpartition("medium-")[2]
    medium = _medium.file_medium("/var/tmp", name, made.site.size, made.site.run)
    return (medium, *own) if any(step.place == "target" for step in own) else own


@dataclass
class Owned:
    """The machine, with what its owner has on it."""

    machine: OneMachine

    def dead(self) -> str:
        return self.machine.dead()

    def apply(self, every: tuple[Step, ...]) -> None:
        self.machine.sh(build.shell(every))

    def remove(self, every: tuple[Step, ...]) -> None:
        self.machine.sh(build.shell(every, undo=True))

    def describe(self, every: tuple[Step, ...]) -> dict[str, str]:
        return script.rows(self.machine.sh("\n".join(f"( {s.describe}\n)" for s in every if s.describe)))

    def look(self) -> str:
        return self.machine.sh(LOOK)

    def same(self, before: str) -> None:
        """The kernel and its daemons end some things in their own time."""
        for _ in range(20):
            if (now := self.look()) == before:
                return
            time.sleep(0.5)
        pytest.fail("\n".join(unified_diff(before.splitlines(), now.splitlines(), lineterm="", n=0)))


@pytest.fixture(scope="module")
def idle() -> Iterator[Owned]:
    """Nothing but targets is at work: no iscsid, no multipathd."""
    with one_machine("idle", MODULES) as machine:
        machine.sh(STRANGER)
        yield Owned(machine)


@pytest.fixture(scope="module")
def busy() -> Iterator[Owned]:
    with one_machine("busy", MODULES) as machine:
        machine.sh(STRANGER + AT_WORK)
        yield Owned(machine)


def _carries(owned: Owned, made: Transport[Any]) -> None:
    """The lane is what the study asks for, and carries I/O."""
    every = steps(made)
    described = owned.describe(every)
    assert script.differences(every, described) == []
    device = owned.machine.sh(made.find())
    assert len(device.split()) == 1
    seen = owned.machine.sh(f"""
head -c 1048576 /dev/urandom > /run/data
dd if=/run/data of={device} bs=64k oflag=direct conv=notrunc 2> /dev/null
dd if={device} bs=64k count=16 iflag=direct 2> /dev/null | cmp - /run/data && echo same
rm /run/data""")
    assert seen == "same"


@pytest.mark.slow
@pytest.mark.parametrize("name", LANES)
def test_beside_what_is_at_work(busy: Owned, name: str) -> None:
    before, made = busy.look(), lane(name)
    every = steps(made)
    try:
        busy.apply(every)
        _carries(busy, made)
    finally:
        busy.remove(every)
    busy.same(before)
    busy.remove(every)
    busy.same(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iscsi-array", "iscsi-paths", "iscsi-own-paths", "nvme_tcp-own"])
def test_daemons_that_a_lane_started_end_with_it(idle: Owned, name: str) -> None:
    before, made = idle.look(), lane(name)
    every = steps(made)
    try:
        idle.apply(every)
        _carries(idle, made)
    finally:
        idle.remove(every)
    idle.same(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", LANES)
def test_half_a_lane_is_undone(busy: Owned, name: str) -> None:
    """Killed after each step; the undo of a step that was not begun runs too."""
    before, every = busy.look(), steps(lane(name))
    for done in range(len(every)):
        busy.apply(every[:done])
        busy.remove(every[: done + 1])
        busy.same(before)


@pytest.mark.slow
def test_two_runs_and_two_lanes_do_not_meet(busy: Owned) -> None:
    before = busy.look()
    names = ["iscsi-own", "nvme_tcp-own", "iscsi-own-paths"]
    runs = (RUN, "abcdef0123")
    # the machine's owner has the first ports
    lanes = [lane(n, run=r, index=10 + i * 2 + k) for i, n in enumerate(names) for k, r in enumerate(runs)]
    lanes.append(lane("iscsi-own-more", "multipath: {}", index=19))
    try:
        for made in lanes:
            busy.apply(steps(made))
        for made in lanes:
            _carries(busy, made)
    finally:
        for made in lanes:
            busy.remove(steps(made))
    busy.same(before)


USER, SECRET = "harry", "not in any argument"
_BYTES = bytes(range(32))
KEY = f"DHHC-1:00:{base64.b64encode(_BYTES + zlib.crc32(_BYTES).to_bytes(4, 'little')).decode()}:"
"""A DH-HMAC-CHAP key: 32 bytes and their CRC (NVMe base specification, 8.13.5.8)."""
WATCH = r"""
mkdir -p /usr/local/sbin
for p in iscsiadm nvme; do
  cat > /usr/local/sbin/$p << 'END'
#!/bin/sh
{ tr '\0' ' ' < /proc/$$/cmdline; echo; } >> /run/argv
exec /usr/sbin/${0##*/} "$@"
END
  chmod 755 /usr/local/sbin/$p
done
perl -e 'while (1) { for (glob "/proc/[0-9]*/cmdline") { open F, $_ or next; $_ = <F>; s/\0/ /g; $all{$_} = 1 }
  open O, ">/run/argv.all"; print O join "\n", keys %all; close O }' > /dev/null 2>&1 < /dev/null &
echo $! > /run/watch.pid
"""
"""Shell that notes the arguments of these programs, each time, and of every process, as often as it can look."""
WATCHED = """
kill $(cat /run/watch.pid)
cat /run/argv /run/argv.all
rm -r /usr/local/sbin/iscsiadm /usr/local/sbin/nvme /run/argv /run/argv.all /run/watch.pid
"""
LOCKED = f"""
for g in 1 2; do
  cd /sys/kernel/config/target/iscsi/{OURS[0]}/tpgt_$g
  echo 1 > attrib/authentication; printf %s {USER} > auth/userid; printf %s {SECRET!r} > auth/password
done
N=/sys/kernel/config/nvmet; H=$N/hosts/nqn.2026-01.example:me
mkdir $H; printf %s {KEY} > $H/dhchap_key
echo 0 > $N/subsystems/{OURS[1]}/attr_allow_any_host; ln -s $H $N/subsystems/{OURS[1]}/allowed_hosts/
"""
OPENED = f"""
for g in 1 2; do echo 0 > /sys/kernel/config/target/iscsi/{OURS[0]}/tpgt_$g/attrib/authentication; done
N=/sys/kernel/config/nvmet
rm $N/subsystems/{OURS[1]}/allowed_hosts/*; echo 1 > $N/subsystems/{OURS[1]}/attr_allow_any_host
rmdir $N/hosts/nqn.2026-01.example:me
"""
LOCKS = {
    "iscsi-secret": f"external: {{addresses: [127.0.0.1], iqn: '{OURS[0]}', user: {USER}, secret: {{env: A_SECRET}}}}",
    "nvme_tcp-secret": f"""external: {{addresses: [127.0.0.1], nqn: '{OURS[1]}', host: 'nqn.2026-01.example:me',
      secret: {{env: A_KEY}}}}""",
}


@pytest.mark.slow
def test_secrets_are_in_no_arguments_and_nothing_of_them_stays(busy: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", SECRET)
    monkeypatch.setenv("A_KEY", KEY)
    before = busy.look()
    busy.machine.sh(LOCKED)
    busy.machine.sh(WATCH)
    try:
        for name, keys in LOCKS.items():
            made = lane(name, keys)
            try:
                busy.apply(steps(made))
                _carries(busy, made)
                told = json.dumps(busy.describe(steps(made)))
                assert not any(secret in told for secret in (SECRET, KEY))
            finally:
                busy.remove(steps(made))
    finally:
        argv = busy.machine.sh(WATCHED)
        busy.machine.sh(OPENED)
    for words in ("iscsiadm -m node -T .* --login", "nvme connect -t tcp "):
        assert re.search(words, argv), words  # the watchers saw
    assert not any(secret in argv for secret in (SECRET, KEY))
    assert busy.machine.sh(f"grep -rlF -e '{SECRET}' -e '{KEY}' /run /etc /var/tmp /var/lib 2> /dev/null || :") == ""
    busy.same(before)


REFUSED = {
    "iscsi-theirs": ("external: {addresses: [127.0.0.1], iqn: 'iqn.2026-01.example:theirs'}", "already logged in"),
    "iscsi-twin": ("external: {addresses: [127.0.0.1], iqn: 'iqn.2026-01.example:twin'}", "is the same volume"),
    "iscsi-unknown": ("external: {addresses: [127.0.0.1], discovery: true, iqn: 'iqn.x'}", "not list target iqn.x"),
    "iscsi-several": (f"external: {{addresses: [127.0.0.1], discovery: true, iqn: '{OURS[0]}'}}", "set multipath"),
    "nvme_tcp-theirs": ("external: {addresses: [127.0.0.1], nqn: 'nqn.2026-01.example:theirs'}", "already connected"),
    "nvme_tcp-none": (
        "external: {addresses: [127.0.0.1], discovery: true, discovery_port: 4420, nqn: nqn.x}", "not list subsystem",
    ),
    "nvme_rdma-none": ("external: {addresses: [127.0.0.1], nqn: nqn.x}", "no RDMA device"),
    "nfs-shared": ("version: '4.1', external: {server: 127.0.0.1, share: /srv/share}", "set nconnect: 2"),
    "nfs-folder": ("nconnect: 2, external: {server: 127.0.0.1, share: /srv/share, folder: /no}", "no folder /no"),
    "rbd-none": ("external: {pool: p, image: i}", "rbd is not installed"),
}  # fmt: skip
"""What is told of a lane that cannot be: name -> keys, words."""


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_said_and_nothing_is_touched(busy: Owned, name: str) -> None:
    keys, words = REFUSED[name]
    before, every = busy.look(), steps(lane(name, keys))
    with pytest.raises(RunFailed, match=words, check=kind("script-failed")):
        busy.apply(every)
    busy.remove(every)
    busy.same(before)


@pytest.mark.slow
def test_a_port_in_use_is_not_taken(busy: Owned) -> None:
    before = busy.look()
    for made in (lane("iscsi-own", port=3260), lane("nvme_tcp-own", port=4420)):
        with pytest.raises(RunFailed, match="in use", check=kind("script-failed")):
            busy.apply(steps(made))
        busy.remove(steps(made))
    busy.same(before)


@pytest.mark.slow
def test_after_a_reboot_the_files_are_found(busy: Owned) -> None:
    """A reboot empties /run and ends sessions and mounts; the volume's file, and multipathd's, are still there."""
    before = busy.look()
    share, paths = lane("nfs-share"), lane("iscsi-paths")
    for made in (share, paths):
        busy.apply(steps(made))
    at = share.find().split(" -f ")[1].partition(" ")[0].rpartition("/sub/")[0]
    busy.machine.sh(f"umount {at}\n")
    session = next(step for step in paths.steps() if step.session)
    kept = busy.machine.sh("cat /etc/multipath/conf.d/fairlane-*; cat /etc/multipath/wwids")
    busy.remove((session,))
    busy.machine.sh(f"""
rm -rf /run/fairlane-{RUN}
mkdir -p /etc/multipath/conf.d
cat > /etc/multipath/conf.d/fairlane-{paths.title}.conf << 'END'
{kept.partition("# Multipath")[0]}END
ls -A /srv/share/sub > /run/left
""")
    assert busy.machine.sh("cat /run/left; rm /run/left") == f".fairlane-{share.title}"
    for made in (paths, share):
        busy.remove(steps(made))
    busy.machine.sh("rmdir /etc/multipath/conf.d 2> /dev/null || :")
    busy.same(before)


@pytest.mark.slow
def test_a_file_system_without_direct_io_or_room_is_no_folder_of_media(busy: Owned) -> None:
    before = busy.look()
    step = _medium.file_medium("/srv/share", "a", 2**50, RUN)
    with pytest.raises(RunFailed, match="bytes free", check=kind("script-failed")):
        busy.apply((step,))
    busy.remove((step,))
    named = _medium.device_medium("nullb:nullb93", "", "a", RUN)
    with pytest.raises(Refused, check=kind("device-exported")):
        busy.apply((named,))
    busy.remove((named,))
    busy.same(before)

"""What lies behind disks and shares of a network: NVMe/TCP on two paths and NFS, from a machine to itself."""

from collections.abc import Iterator, Mapping

import pytest
from lab_bench import OneMachine, one_machine

from fairlane.machines.behind import Behind, Probed, look, probe

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(1800)]

_NVME = """
ip link set lo up
mkdir -p /run/m /run/nfs
dd if=/dev/urandom of=/run/m/20 bs=1M count=32 2> /dev/null
[ -b /dev/loop20 ] || mknod /dev/loop20 b 7 20
losetup /dev/loop20 /run/m/20
N=/sys/kernel/config/nvmet
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
mkdir -p $N/subsystems/nqn.x/namespaces/1
echo 1 > $N/subsystems/nqn.x/attr_allow_any_host
echo -n /dev/loop20 > $N/subsystems/nqn.x/namespaces/1/device_path
echo 1 > $N/subsystems/nqn.x/namespaces/1/enable
for p in 1 2; do
  mkdir $N/ports/$p
  echo tcp > $N/ports/$p/addr_trtype; echo ipv4 > $N/ports/$p/addr_adrfam
  echo 127.0.0.1 > $N/ports/$p/addr_traddr; echo $((4419 + p)) > $N/ports/$p/addr_trsvcid
  ln -s $N/subsystems/nqn.x $N/ports/$p/subsystems/nqn.x
  nvme connect -t tcp -a 127.0.0.1 -s $((4419 + p)) -n nqn.x
done
await 1 '{ ls /dev/nvme*n1; } | wc -l'
await 2 '{ ls -d /sys/block/nvme*c*n1; } | wc -l'
udevadm settle
"""
_NFS = """
mkfs.ext4 -q /dev/nvme*n1 2> /dev/null
mkdir -p /run/share /run/nfs
mount /dev/nvme*n1 /run/share
dd if=/dev/urandom of=/run/share/file bs=1M count=8 conv=fsync 2> /dev/null
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
pidof rpcbind > /dev/null || rpcbind -w
rpc.nfsd --grace-time 10 --lease-time 10 2
echo Y > /proc/fs/nfsd/v4_end_grace
rpc.mountd
exportfs -o rw,no_root_squash,insecure,sync,no_subtree_check,fsid=7 127.0.0.0/8:/run/share
mount -t nfs -o vers=4.2,nolock 127.0.0.1:/run/share /run/nfs
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[OneMachine]:
    modules = "loop nvmet nvmet_tcp nvme_tcp nfsd nfs nfsv4 ext4"
    with one_machine("networks", modules) as made:
        made.sh(_NVME)
        yield made


@pytest.fixture(scope="module")
def disk(machine: OneMachine) -> Behind:
    node = machine.sh("ls /dev/nvme*n1")
    return machine.runner.run(look(machine.vm.guest, {"disk": node}))["disk"]


@pytest.fixture(scope="module")
def share(machine: OneMachine, disk: Behind) -> tuple[Mapping[str, Behind], Mapping[str, Probed]]:
    assert disk.kind == "device"
    machine.sh(_NFS)
    guest, runner = machine.vm.guest, machine.runner
    seen = runner.run(look(guest, {"share": "/run/nfs", "file": "/run/nfs/file", "local": "/run/share/file"}))
    return seen, runner.run(probe(guest, {"file": "/run/nfs/file", "local": "/run/share/file"}, 2, writes=["file"]))


def test_nvme_over_tcp_has_two_paths_and_one_disk(disk: Behind) -> None:
    (leaf,) = disk.disks
    assert (leaf.transport, leaf.flash, leaf.bytes) == ("nvme-tcp", False, 32 * 2**20)
    assert leaf.identity
    (paths,) = disk.stack
    assert paths.kind == "nvme-multipath"
    assert sorted("4420" in text for text in paths.details.values()) == [False, True]
    assert all(text.endswith("live") for text in paths.details.values())


def test_a_share_is_named_by_its_server(share: tuple[Mapping[str, Behind], Mapping[str, Probed]]) -> None:
    seen = share[0]["share"]
    assert (seen.kind, seen.medium, seen.server, seen.disks) == ("directory", "network", "127.0.0.1:/run/share", ())
    assert seen.stack[0].kind == "nfs"
    assert "vers=4.2" in seen.options
    assert (seen.flush.write, seen.flush.sync, seen.direct.works) == ("server", "server", True)


def test_the_counters_of_nfs_name_the_network(share: tuple[Mapping[str, Behind], Mapping[str, Probed]]) -> None:
    file, local = share[1]["file"], share[1]["local"]
    assert (file.verdict, file.failed) == ("network", "")
    for way in ("read", "write"):
        assert file.ways[way].network_bytes == pytest.approx(file.ways[way].load_bytes, rel=0.2)
    assert local.verdict == "disks"
    assert set(local.disks) == {disk.name for disk in share[0]["local"].disks}

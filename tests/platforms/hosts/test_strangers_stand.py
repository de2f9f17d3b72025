"""The stand itself: strangers' machines are what tests of the platform believe they are."""

import subprocess
from base64 import b64encode
from collections.abc import Iterator
from difflib import ndiff
from zlib import crc32

import pytest

from testkit.strangers import Array, Host, Stand, available

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.xdist_group("strangers")]

DATA = "iqn.2010-06.org.site:data"
SPACE = "nqn.2010-06.org.site:data"


def key(secret: bytes) -> str:
    """A DH-HMAC-CHAP key (TP 8006): the secret of 32 bytes, and its CRC-32."""
    return f"DHHC-1:00:{b64encode(secret + crc32(secret).to_bytes(4, 'little')).decode()}:"


KEY = key(bytes(range(32)))


def done(stand: Stand, name: str, command: str) -> str:
    """Output of a user's command, which must succeed."""
    result = stand.ssh(name, command)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def unchanged(stand: Stand, host: str, before: str) -> None:
    """Fails with the difference, if the machine is not as before."""
    now = stand.settled(host, before)
    assert now == before, "\n".join(line for line in ndiff(before.splitlines(), now.splitlines()) if line[0] in "+-")


def test_every_machine_is_reached_by_its_name(strangers: Stand) -> None:
    for name in ("alpha", "beta", "storage1"):
        assert done(strangers, name, "hostname; id -un; sudo -n id -un").split() == [name, "ops", "root"]


def test_a_restore_sets_the_clock_back_with_the_machine(strangers: Stand) -> None:
    current = "cat /sys/devices/system/clocksource/clocksource0/current_clocksource"
    assert {strangers.sh(name, current) for name in ("alpha", "beta", "storage1")} == {"hpet"}


def test_over_another_machine(strangers: Stand) -> None:
    assert done(strangers, "beta-by-alpha", "hostname") == "beta"


def test_who_may_not(strangers: Stand) -> None:
    assert strangers.ssh("alpha-root", "true").returncode == 255
    refused = strangers.ssh("alpha-visitor", "id -un; sudo -n true")
    assert (refused.returncode, refused.stdout) == (1, "visitor\n")


def test_nothing_of_fairlane_is_inside(strangers: Stand) -> None:
    for name in ("alpha", "storage1"):
        assert strangers.sh(name, "find / -xdev -iname '*fairlane*'; grep -rli fairlane /etc /usr/local || :") == ""


def test_what_a_lane_needs_is_there(strangers: Stand) -> None:
    programs = """
fio nvme iscsiadm iscsid multipath multipathd mount.nfs ip tar gzip sha256sum wipefs findmnt lsblk stat timeout bash
mkfifo setsid dd blkid udevadm dmsetup losetup mkfs.ext4 mkfs.xfs sudo
"""
    names = " ".join(programs.split())
    assert strangers.sh("alpha", f"for p in {names}; do command -v $p > /dev/null || echo $p; done") == ""


def test_iscsi_by_hand(strangers: Stand) -> None:
    before = {name: strangers.inventory(name) for name in ("alpha", "storage1")}
    login = f"""
sudo -n iscsiadm -m discovery -t sendtargets -p 10.20.0.1 > /dev/null
sudo -n iscsiadm -m node -T {DATA} -p 10.20.0.1 --login > /dev/null
sudo -n udevadm settle
sudo -n dd if=/dev/urandom of=/dev/disk/by-path/*{DATA}-lun-0 bs=1M count=8 oflag=direct status=none
cat /sys/block/sda/size
"""
    assert done(strangers, "alpha", login) == str(512 * 2048)
    assert strangers.inventory("alpha") != before["alpha"]
    done(strangers, "alpha", f"""
sudo -n iscsiadm -m node -T {DATA} --logout
sudo -n iscsiadm -m discoverydb -t sendtargets -p 10.20.0.1 -o delete
sudo -n iscsiadm -m node -o delete
sudo -n rmdir /etc/iscsi/nodes /etc/iscsi/send_targets 2> /dev/null || :
""")  # fmt: skip
    for name, text in before.items():
        unchanged(strangers, name, text)


def test_nvme_by_hand(strangers: Stand) -> None:
    before = {name: strangers.inventory(name) for name in ("beta", "storage1")}
    done(strangers, "beta", f"""
for p in 0 1; do sudo -n nvme connect -t tcp -a 10.20.$p.1 -s 4420 -n {SPACE} > /dev/null; done
sudo -n udevadm settle
sudo -n dd if=/dev/urandom of=/dev/nvme0n1 bs=1M count=8 oflag=direct status=none
""")  # fmt: skip
    assert done(strangers, "beta", "cat /sys/class/nvme/nvme*/nvme*/ana_state").split() == ["optimized"] * 2
    strangers.path_state(1, "inaccessible")
    states = "until grep -q inaccessible /sys/class/nvme/nvme*/nvme*/ana_state; do sleep 0.1; done"
    strangers.sh("beta", states)
    strangers.path_state(1, "optimized")
    done(strangers, "beta", f"sudo -n nvme disconnect -n {SPACE}")
    for name, text in before.items():
        unchanged(strangers, name, text)


def test_multipath_by_hand(strangers: Stand) -> None:
    done(strangers, "alpha", f"""
sudo -n iscsiadm -m discovery -t sendtargets -p 10.20.0.1 > /dev/null
sudo -n iscsiadm -m node -T {DATA} --login > /dev/null
sudo -n udevadm settle
sudo -n modprobe -a dm_multipath scsi_dh_alua dm_service_time
sudo -n multipathd
w=$(/lib/udev/scsi_id -g -u -d /dev/sda) || w=$(sudo -n /lib/udev/scsi_id -g -u -d /dev/sda)
sudo -n multipath -a $w > /dev/null
until sudo -n multipathd reconfigure | grep -q ok; do sleep 0.5; done
""")  # fmt: skip
    strangers.sh(
        "alpha", "until [ \"$(dmsetup status --target multipath | grep -o ' A ' | wc -l)\" = 2 ]; do sleep 0.2; done"
    )
    strangers.cut("alpha", 1)
    strangers.sh("alpha", "until dmsetup status --target multipath | grep -q ' F '; do sleep 0.2; done")
    strangers.cut("alpha", 1, up=True)
    strangers.sh("alpha", "until ! dmsetup status --target multipath | grep -q ' F '; do sleep 0.2; done")


def test_nfs_by_hand(strangers: Stand) -> None:
    before = strangers.inventory("beta")
    mounted = (
        "sudo -n mkdir /mnt/share; sudo -n mount -t nfs 10.20.1.1:/srv/share /mnt/share; echo me > /mnt/share/mine"
    )
    done(strangers, "beta", mounted)
    assert strangers.sh("storage1", "cat /srv/share/mine") == "me"
    done(strangers, "beta", "rm /mnt/share/mine; sudo -n umount /mnt/share; sudo -n rmdir /mnt/share")
    unchanged(strangers, "beta", before)


def test_faults_of_connections(strangers: Stand) -> None:
    with subprocess.Popen(["ssh", "alpha", "sleep 600"], env=strangers.environment()) as session:
        strangers.sh("alpha", "until pgrep -u ops sleep; do sleep 0.1; done")
        strangers.kill_connections("alpha")
        assert session.wait(60) == 255
    assert strangers.ssh("alpha", "true").returncode == 0
    strangers.kill_sshd("alpha")
    assert strangers.ssh("alpha", "true").returncode == 255
    strangers.start_sshd("alpha")
    assert strangers.ssh("alpha", "true").returncode == 0


def test_another_host_key(strangers: Stand) -> None:
    strangers.rotate_host_key("beta")
    refused = strangers.ssh("beta", "true")
    assert refused.returncode == 255
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in refused.stderr
    strangers.restore()
    assert strangers.ssh("beta", "true").returncode == 0
    strangers.rotate_host_key("beta", trusted=True)
    assert strangers.ssh("beta", "true").returncode == 0


def test_reset_loses_memory_and_keeps_disks(strangers: Stand) -> None:
    strangers.sh("alpha", "echo kept > /var/tmp/kept; sync; echo lost > /run/lost")
    strangers.reset("alpha")
    assert done(strangers, "alpha", "cat /var/tmp/kept; ls /run/lost || echo lost") == "kept\nlost"
    strangers.reset("storage1")  # exports again, as an array does
    done(strangers, "alpha", "sudo -n iscsiadm -m discovery -t sendtargets -p 10.20.1.1")


def test_restored_machines_are_as_they_were(strangers: Stand) -> None:
    before = {name: strangers.inventory(name) for name in strangers.machines}
    strangers.sh(
        "alpha", "touch /etc/iscsi/mine; echo /dev/vdb | xargs mkfs.ext4 -q; mount /dev/vdb /mnt; pkill iscsid"
    )
    strangers.set_clock("alpha", 3600)
    strangers.fill_disk("beta", "/data")
    strangers.cut("beta", 0)
    strangers.portal_down(0)
    strangers.reset("storage1")
    strangers.restore()
    for name, text in before.items():
        unchanged(strangers, name, text)
    assert done(strangers, "beta", "exec 3<> /dev/tcp/10.20.0.1/3260; ip -br link show eth1").split()[1] == "UP"


def test_disks_fail_and_fill(strangers: Stand) -> None:
    strangers.remove_device("alpha", "alpha-spare")
    assert "alpha-spare" not in strangers.sh("alpha", "ls /dev/disk/by-id")
    strangers.insert_devices("alpha")
    assert "alpha-spare" in strangers.sh("alpha", "ls /dev/disk/by-id")
    filler = strangers.fill_disk("alpha", "/data")
    status, output = strangers.machines["alpha"].run("echo more > /data/more")
    assert status != 0, output
    strangers.sh("alpha", f"rm {filler}")


def test_clocks(strangers: Stand) -> None:
    strangers.set_clock("beta", -600)
    beta, alpha = (int(strangers.sh(name, "date +%s")) for name in ("beta", "alpha"))
    assert beta < alpha


@pytest.fixture(scope="module")
def others() -> Iterator[Stand]:
    """Machines with everything that can be asked for."""
    if lacking := available():
        pytest.skip(lacking)
    alpha = Host("alpha", multipathd=True, sessions=True, root_login=True, noisy=True)
    array = Array(chap=("someone", "a secret of 16b"), dhchap=KEY)
    with Stand((alpha, Host("beta", iscsid=False, clock=-300)), array) as stand:
        yield stand


def test_what_is_asked_for(others: Stand) -> None:
    noisy = others.ssh("alpha", "true")
    assert noisy.stdout == "Welcome to alpha\n"
    assert "staff only" in noisy.stderr
    assert done(others, "alpha-root", "id -un") == "root"
    alpha = others.inventory("alpha")
    for word in (
        "iscsi iqn.2010-06.org.site:theirs",
        "nvme nqn.2010-06.org.site:theirs",
        "/mnt/share nfs4",
        "multipathd",
    ):
        assert word in alpha
    assert "process root iscsid" not in others.inventory("beta")
    assert int(others.sh("beta", "date +%s")) < int(others.sh("alpha", "date +%s"))


def test_secrets_are_needed(others: Stand) -> None:
    beta = f"sudo -n nvme connect -t tcp -a 10.20.0.1 -s 4420 -n {SPACE}"
    assert others.ssh("beta", beta).returncode != 0
    done(others, "beta", f"{beta} --dhchap-secret={KEY}")
    done(others, "beta", f"sudo -n nvme disconnect -n {SPACE}")
    node = f"sudo -n iscsiadm -m node -T {DATA} -p 10.20.0.1:3260"
    others.sh("beta", "iscsid")
    done(others, "beta", f"{node} -o new; {node} -o update -n node.session.initial_login_retry_max -v 1")
    assert others.ssh("beta", f"{node} --login").returncode != 0
    for key, value in (("authmethod", "CHAP"), ("username", "someone"), ("password", "'a secret of 16b'")):
        done(others, "beta", f"{node} -o update -n node.session.auth.{key} -v {value}")
    done(others, "beta", f"{node} --login; {node} --logout; {node} -o delete")


def test_a_plain_array() -> None:
    """storage1 as bought: disks and programs, and nothing exported. The stand leaves nothing on this machine."""
    if lacking := available():
        pytest.skip(lacking)
    with Stand((Host("alpha"),), Array(furnished=False)) as stand:
        folder, processes = stand.folder, [one.process for one in stand.machines.values()]
        inventory = stand.inventory("storage1")
        assert "target" not in {line.split()[0] for line in inventory.splitlines()}
        assert done(stand, "alpha", "exec 3<> /dev/tcp/10.20.0.1/22 4<> /dev/tcp/10.20.1.1/22; echo met") == "met"
    assert not folder.exists()
    assert all(process.poll() is not None for process in processes)

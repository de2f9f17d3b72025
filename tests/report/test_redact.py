"""``fairlane report --redact``: no name is left, one name has one placeholder, and the run stays as it is."""

import hashlib
import json
import re
from html import unescape

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit
from fairlane.report.redact import Redaction
from tests.report.test_fig_evidence import fake

NAMES = {
    "host": ("esx-bern-07.example.org", "stor-a1", "worker-zurich-2", "vm-otto", "db9.customer.internal"),
    "user": ("gertrud", "heidi"),
    "address": ("10.77.3.15", "192.168.244.9", "fd00:77::15", "2001:db8:9::1:2"),
    "mac": ("52:54:00:ab:cd:ef", "52-54-00-AB-CD-99"),
    "iqn": ("iqn.2004-04.com.vendor:ts.volume1.9f3", "iqn.1993-08.org.debian:01:77aa"),
    "nqn": ("nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0043-3510-8051-b4c04f4d3333", "nqn.2019-10.com.array:sn.0077"),
    "wwn": ("naa.600140512345678912345678abcdef01", "50:01:43:80:12:34:56:78", "0x5001438012345678",
            "wwn-0x5000c500a1b2c3d4", "eui.0025385b71b0a1c2", "360014051234567891234567800000001"),
    "serial": ("S6Z2NJ0W770815", "9b1c77de-1111-4222-8333-944444444444", "nvme-Samsung_SSD_990_S5XYZ"),
    "name": ("pool-meier",),
}  # fmt: skip
STUDY = """\
# measured by gertrud@esx-bern-07.example.org on 10.77.3.15
name: small
question: Is the path to stor-a1 (fd00:77::15) fast? Ask heidi@db9.customer.internal
platform: {kind: fake, effects: {fast: {speed: 1.3}}, noise: {sd: 1%}}
lanes:
  slow:
    transport: iscsi
    label: "iSCSI on pool-meier, esx-bern-07"
    conditions: {backend: iqn.2004-04.com.vendor:ts.volume1.9f3}
  fast: {transport: nvme_tcp, label: "NVMe/TCP to 192.168.244.9"}
baseline: slow
workloads: {main: {kind: fio, rw: [randread], bs: [4k], iodepth: [1, 16], runtime: 1s}}
design: {seed: 3, looks: [6]}
"""


def _described() -> dict[str, object]:
    """As ``hosts`` and ``kubevirt`` write it, with everything that names somebody."""
    return {
        "lanes": {
            "slow": {
                "path": ["fio", "/dev/disk/by-id/nvme-Samsung_SSD_990_S5XYZ", "10.77.3.15:3260"],
                "machines": ["vm-otto"],
                "device.serial": "S6Z2NJ0W770815",
                "initiator.iqn": NAMES["iqn"][1],
                "wwids": ", ".join(NAMES["wwn"]),
            },
            "fast": {
                "path": ["fio", "nvme", "tcp:[2001:db8:9::1:2]:4420"],
                "machines": {"worker-zurich-2": 1},
                "target.nqn": NAMES["nqn"][0],
                "subsystem": NAMES["nqn"][1],
                "log": "/home/gertrud/runs, read by heidi; see /mnt/pool-meier/x",
            },
        },
        "platform": {
            "machines": {"vm-otto": {"destination": "gertrud@esx-bern-07.example.org:22", "user": "gertrud"}},
            "nodes": {
                "worker-zurich-2": {"kernel": "6.1", "mac": ", ".join(NAMES["mac"])},
                "stor-a1": {"kernel": "6.1"},
            },
            "volume": "csi-9b1c77de-1111-4222-8333-944444444444",
            "loopback": "127.0.0.1:4422",
        },
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    (place / "study.yaml").write_text(STUDY)
    assert run(["run", str(place / "study.yaml"), "--out", str(place / "done")]) == Exit.OK
    (place / "done" / "description.json").write_text(json.dumps(_described()))
    fingerprint = {"fairlane": "0.1.0", "kernel": "vm-otto: 6.1; stor-a1: 6.12", "machine": "db9.customer.internal"}
    (place / "done" / "fingerprint.json").write_text(json.dumps(fingerprint))
    return place / "done"


def _left(text: str) -> set[str]:
    plain = unescape(text).replace("\\", "").lower()
    return {name for names in NAMES.values() for name in names if name.lower() in plain}


def _hashes(folder):
    return {p: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()}


def test_no_name_is_left_anywhere_and_the_run_is_as_before(folder, tmp_path):
    assert run(["report", str(folder)]) == Exit.OK
    before = _hashes(folder)
    assert run(["report", str(folder), "--redact", "--hide", "pool-meier"]) == Exit.OK
    assert _hashes(folder) == before
    every = {name for names in NAMES.values() for name in names}
    for kind in ("html", "md"):
        assert _left((folder / f"report.{kind}").read_text()) == every
        shared = (folder.with_name("done-redacted") / f"report.{kind}").read_text()
        assert _left(shared) == set()
        assert "esx-bern" not in shared  # nor its short name
        assert "127.0.0.1:4422" in shared  # everybody's own
        assert "raw/" not in shared
    again = run(["report", str(folder), "--hide", "pool-meier", "--out", str(tmp_path)])
    assert again == Exit.OK
    assert (tmp_path / "report.html").read_bytes() == (folder.with_name("done-redacted") / "report.html").read_bytes()


def test_a_redacted_report_never_replaces_that_of_the_run(folder, capsys):
    assert run(["report", str(folder), "--redact", "--out", str(folder)]) == Exit.USER_ERROR
    assert "another folder" in capsys.readouterr().err


def test_one_name_has_one_placeholder_in_every_finding_and_by_its_short_name_too():
    evidence, *_ = fake("rw: [randread], bs: [4k], iodepth: [1]")
    described: dict[str, object] = {"platform": {"nodes": {"n7.example.org": {}, "n8.example.org": {}}}}
    redaction = Redaction(type(evidence)(**{**vars(evidence), "description": described}))
    assert redaction.text("node n8.example.org is busy") == "node host-1 is busy"
    assert redaction.text("N8 dropped packets from 10.0.0.9:3260") == "host-1 dropped packets from address-1:3260"
    assert redaction.text("n7 and n8, not n78: 10.0.0.9/24") == "host-2 and host-1, not n78: address-1/24"
    assert redaction.counts == {"host": 2, "address": 1}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("ssh://ann@[fd00::5]:22", ["user", "address"]),
        ("portal:10.1.2.3,3260 and ip-10.1.2.4-lun", ["address", "address"]),
        ("fd00::5: unreachable", ["address"]),
        ("tcp:fd00::5", ["address"]),
        ("::ffff:10.1.2.3", ["address"]),
        ("1:2:10.1.2.3", ["address"]),
        ("mac:52:54:00:00:00:01", ["mac"]),
        ("naa.6001405aaaaaaaaaaaaaaaaaaaaaaaaa", ["wwn"]),
        ("pwwn 50:01:43:80:12:34:56:78.", ["wwn"]),
        ("C:\\Users\\ann\\fio.json", ["user"]),
        ("https://api.cluster.example.org:6443/x", ["host"]),
        ("nas.corp", ["host"]),
        ("mail bob.x@a-b.example.org", ["user", "host"]),
        # and what is none
        ("2026-11-25T13:08:16+00:00 12:30:45", []),
        ("6.12.117+deb12 1:1.35.0-4+deb12u1 fio-3.33", []),
        ("sha256:" + "5f3a" * 16 + " debian@sha256:" + "ab12" * 16, []),
        ("127.0.0.1 ::1 0.0.0.0 root@localhost 0000:00:1f.2", []),
        ("main.4k-randread-qd1.b000 at /root/x", []),
    ],
)
def test_what_has_the_form_of_a_name(text, kinds):
    redaction = Redaction(fake("rw: [randread], bs: [4k], iodepth: [1]")[0])
    made = redaction.text(text)
    assert re.findall(r"\b(user|host|address|mac|iqn|nqn|wwn|serial)-\d+\b", made) == kinds
    if not kinds:
        assert made == text

"""Results of tools that are not read: the message names the tool. First lines as these tools print them."""

import pytest

from fairlane.errors import FairlaneError
from fairlane.importers._run import import_files
from tests.importers.importer_oracle import claims, importers
from tests.words import kind

HEADS = {
    "Iometer": "'Test Type,Test Description\n0,db\n'Version\n1.1.0\n'Time Stamp\n2019-03-01 10:11:12:123\n",
    "CrystalDiskMark": (
        "-----------------------------------------------------------------------\n"
        "CrystalDiskMark 5.2.1 x64 (C) 2007-2017 hiyohiyo\n   Sequential Read (Q= 32,T= 1) :   478.103 MB/s\n"
    ),
    "KDiskMark": "                     KDiskMark (3.1.4): https://github.com/JonMagon/KDiskMark\n",
    "ATTO Disk Benchmark": "ATTO Disk Benchmark 4.01.0f1\n",
    "DISKSPD for Linux": "Input parameters:\njob: 1\nduration: 30s\nResults for job 1:\ntest time: 30s\n",
    "ioping": (
        "4 KiB <<< . (ext4 /dev/sda1): request=1 time=110.6 us\n\n--- . (ext4 /dev/sda1) ioping statistics ---\n"
        "9 requests completed in 1.61 ms, 36 KiB read, 5.59 k iops, 21.8 MiB/s\n"
    ),
    "bonnie++": "Version  1.97       ------Sequential Output------ --Sequential Input- --Random-\n",
    "dd": "1024+0 records in\n1024+0 records out\n1073741824 bytes (1.1 GB, 1.0 GiB) copied, 2.5 s, 429 MB/s\n",
    "hdparm": "/dev/sda:\n Timing cached reads:   26224 MB in  1.98 seconds = 13227.32 MB/sec\n",
    "IOzone": "\tIozone: Performance Test of File I/O\n\t        Version $Revision: 3.489 $\n",
    "rados bench": "hints = 1\nMaintaining 16 concurrent writes of 4194304 bytes to objects of size 4194304 for 10 s\n",
    "YCSB": "[OVERALL], RunTime(ms), 10110\n[OVERALL], Throughput(ops/sec), 98.91\n",
    "virtbench": '{\n  "test_type": "fio_benchmark",\n  "timestamp": "2026-03-12T21:34:30",\n  "total_vms": 2\n}\n',
}


@pytest.mark.parametrize("tool", HEADS)
def test_the_tool_and_what_to_run_are_named(tmp_path, tool):
    (tmp_path / "result.txt").write_text(HEADS[tool])
    with pytest.raises(FairlaneError, check=kind("files-left-out", "result.txt")) as caught:
        import_files([tmp_path], None)
    assert f"this is output of {tool}, which is not read: " in caught.value.message
    assert any(word in caught.value.message for word in ("fio", "diskspd", "YCSB"))


@pytest.mark.parametrize("tool", HEADS)
def test_no_importer_claims_them(tool):
    for name, plugin in importers().items():
        assert plugin.explicit or not claims(plugin, "result.txt", HEADS[tool].encode()), name


def test_other_files_stay_unknown(tmp_path):
    (tmp_path / "notes.txt").write_text("Measured with dd and fio on Monday.\n")
    with pytest.raises(FairlaneError, check=kind("files-unknown")):
        import_files([tmp_path], None)

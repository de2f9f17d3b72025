"""Two runs of one study, of the fake platform, through the command line."""

from pathlib import Path

import pytest

from fairlane.cli.main import run
from fairlane.errors import Exit

STUDY = """
name: pages
question: "Is <b>nvme</b> worth it?"
platform:
  kind: fake
  effects: {nvme: {speed: 1.3}}
  noise: {sd: 2%}
  failures: 10%
baseline: iscsi
lanes:
  iscsi: {transport: iscsi}
  nvme: {transport: nvme_tcp, label: "<i>NVMe</i>"}
  other: {transport: nvme_tcp, conditions: {copies: 3}}
workloads:
  main: {kind: fio, rw: [randread, randrw], bs: [4k], iodepth: [1, 16], runtime: 1s}
  more: {kind: fio, rw: [randread], bs: [4k], iodepth: [1], runtime: 1s}
design: {looks: [6]}
"""


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``runs/monday`` and ``runs/friday``."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "study.yaml").write_text(STUDY)
    for name, seed in (("monday", "5"), ("friday", "6")):
        line = ["run", str(folder / "study.yaml"), "--unjudged", "--seed", seed]
        assert run([*line, "--out", str(folder / "runs" / name)]) == Exit.OK
    return folder

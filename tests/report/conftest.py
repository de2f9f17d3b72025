"""A realistic run as evidence, without a run directory: chosen effects over a grid, judged by the real judge."""

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlane.records import Block, Evidence, Finding, Observation, Verdict
from fairlane.report.bundle import write_reports
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study

Case = tuple[Evidence, tuple[Verdict, ...], tuple[Finding, ...]]
MakeCase = Callable[..., Case]

STUDY = """\
name: demo
question: {question}
platform: {{kind: {platform}}}
baseline: iscsi
lanes:
  local: {{transport: local, label: {local}}}
  iscsi: {{transport: iscsi, label: iSCSI}}
  nvme-tcp: {{transport: nvme_tcp, label: {nvme}}}
workloads:
  main: {{kind: fio, rw: [randread, randwrite], bs: [{bs}], iodepth: [1, 16], runtime: 500ms}}
design: {{seed: 7, looks: [{blocks}]}}
"""

SPEED = [1.14, 1.20, 1.27, 1.002, 1.03, 1.43, 0.9, 1.03]
"""True ratio of IOPS of nvme-tcp by cell: four wins, a tie, one too small to matter, a loss, one lost in noise."""
PLACES = ("generator", "initiator", "target", "shared", "other")
CPU = {"local": (26, 0, 0, 9, 1), "iscsi": (26, 11, 31, 5, 2), "nvme-tcp": (19, 16, 19, 3, 1)}


def _figures(lane: str, number: int, params: Any, rng: random.Random) -> tuple[dict[str, float], dict[str, Any]]:
    n = number % 8
    speed = {"local": 1.9, "iscsi": 1.0, "nvme-tcp": SPEED[n]}[lane]
    noise = 0.09 if lane == "nvme-tcp" and n == 7 else 0.004
    iops = (5400 if n < 4 else 1850) * params["iodepth"] ** 0.3 * speed * math.exp(rng.gauss(0, noise))
    lat = params["iodepth"] / iops * 1e9
    cpu = [place * 1000 * math.exp(rng.gauss(0, noise)) for place in CPU[lane]]
    rng.gauss(0, noise)  # not used: what comes after it stands in tests, digit by digit
    metrics = {
        "iops": iops,
        "bw": iops * params["bs"],
        "lat_mean": lat,
        "cpu_per_io": math.fsum(cpu),
    }
    context = {"cpu": {"by_place": dict(zip(PLACES, cpu, strict=True))}, "net": {"retransmits": 0, "drops": 0}}
    return metrics, context


DESCRIPTION = {
    "lanes": {
        "local": {"device": "/dev/nullb0", "scheduler": "none", "nr_requests": 1023},
        "iscsi": {
            "device": "/dev/sda",
            "scheduler": "none",
            "nr_requests": 256,
            "negotiated": {"InitialR2T": "No", "ImmediateData": "Yes", "MaxBurstLength": 262144},
        },
        "nvme-tcp": {"device": "/dev/nvme0n1", "scheduler": "none", "nr_requests": 127, "sqsize": 127},
    },
    "platform": {"kernel": "6.1.0-35-amd64", "mtu": 9000, "link": {"delay": "10us", "rate": "25gbit"}},
}
FINGERPRINT = {
    "fairlane": "0.1.0",
    "qemu": "7.2.17",
    "fio": "fio-3.33",
    "image": {"sha256": "5f3a" * 16},
    "state": {"sha256": "9b1c" * 16},
}


def _findings(cells: list[str]) -> tuple[Finding, ...]:
    spread = {"spread": 0.27}
    drops = {"drops": 3, "by": {"lo": 3}}
    return (
        Finding("position", "info", "The order within blocks made no difference."),
        Finding("spread", "warning", "p99 varies more than 20 % between blocks.", (cells[7],), ("nvme-tcp",), spread),
        Finding("drops", "critical", "3 packets were dropped during the trial.", (cells[0],), ("local",), drops),
    )


@pytest.fixture(scope="session")
def make_case() -> MakeCase:
    """A factory: evidence, verdicts and findings of 8 cells x 3 lanes x 6 blocks, or of what the arguments ask for."""

    def make(
        *,
        blocks: int = 6,
        sizes: int = 2,
        nvme: str = "NVMe/TCP",
        local: str = "local",
        question: str = "Is NVMe/TCP faster than iSCSI on the same medium?",
        platform: str = "lab",
        modelled: bool = True,
        failed: frozenset[str] = frozenset(),
        findings: tuple[Finding, ...] | None = None,
    ) -> Case:
        quoted = {"question": question, "local": local, "nvme": nvme}
        text = STUDY.format(
            **{key: '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for key, value in quoted.items()},
            platform=platform,
            blocks=blocks,
            bs=", ".join(f"{4 + 60 * k}k" for k in range(sizes)),
        )
        study = parse_study(text, "test")
        rng = random.Random(7)  # noqa: S311
        observations, schedule = [], []
        for n, cell in enumerate(study.cells()):
            for index in range(blocks):
                order = tuple(rng.sample(list(study.lanes), 3))
                block = Block(cell, index, order, seed=rng.getrandbits(32))
                schedule.append(block)
                for lane in study.lanes:
                    metrics, context = _figures(lane, n, cell.params, rng)
                    seen = Observation(cell.key, index, lane, order.index(lane), metrics=metrics, context=context)
                    if block.trial_id(lane) in failed:
                        seen = Observation(cell.key, index, lane, order.index(lane), failed="fio ended with code 1")
                    observations.append(seen)
        told = _findings([cell.key for cell in study.cells()]) if findings is None else findings
        evidence = Evidence(
            name="demo-run",
            study=study,
            study_text=text,
            seed=7,
            blocks=tuple(rng.sample(schedule, len(schedule))),  # as in a real schedule, cells are interleaved
            observations=tuple(sorted(observations, key=lambda o: (o.cell, o.block, o.lane))),
            description=DESCRIPTION,
            fingerprint=FINGERPRINT,
            modelled=modelled,
        )
        return evidence, judge(evidence, told), told

    return make


@pytest.fixture(scope="session")
def case(make_case: MakeCase) -> Case:
    return make_case()


@pytest.fixture(scope="session")
def write() -> Callable[[Case, Path], tuple[Path, Path]]:
    """Writes a case's reports into a folder."""
    return lambda case, folder: write_reports(case[0], case[1], case[2], folder)

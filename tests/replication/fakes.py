"""Studies of the fake platform, whose truth is known, and claims about them."""

from contextlib import nullcontext
from pathlib import Path

from fairlane import registry
from fairlane.checks.base import run_all
from fairlane.runs import plan as plans
from fairlane.runs.read import load_run
from fairlane.stats.judge import judge
from fairlane.study.load import parse_study
from fairlane.study.spec import Study
from fairlane.trial.progress import Watch
from fairlane.trial.runner import carry_out
from fairlane_replication import claims
from fairlane_replication.claims import Catalogue, Claim
from fairlane_replication.judge import Ran

STUDY = """\
name: truth
platform:
  kind: fake
  noise: { sd: 0.5% }
  effects:
    up: { speed: 1.3 }
    down: { speed: 0.7 }
    small: { speed: 1.02 }
    mixed: { speed: 1.3, cells: { "64k *": 0.7 } }
lanes:
  base: { transport: iscsi }
  up: { transport: nvme_tcp }
  down: { transport: nvme_tcp }
  small: { transport: nvme_tcp }
  mixed: { transport: nvme_tcp }
  even: { transport: nvme_tcp }
  soft: { transport: nvme_rdma }
baseline: base
workloads:
  main: { kind: fio, rw: [randread], bs: [4k, 64k], iodepth: [16], runtime: 1s }
design: { seed: 6, looks: [8] }
quick: { workloads: { main: { bs: [4k] } }, design: { looks: [6] } }
"""
"""True ratios of IOPS; ``soft`` is a stand-in, which is never ranked. With this seed no comparison's blocks happen to
resemble each other, as every tenth comparison's do."""

NOISY = """\
name: noisy
platform: { kind: fake, noise: { sd: 30% }, effects: { up: { speed: 1.05 } } }
lanes: { base: { transport: iscsi }, up: { transport: nvme_tcp } }
baseline: base
workloads:
  main: { kind: fio, rw: [randread], bs: [4k], iodepth: [16], runtime: 1s }
design: { seed: 5, looks: [6] }
quick: { design: { looks: [4] } }
"""

SOURCES = """\
sources: { "900": { file: none.txt, title: a study of nothing } }
claims:
"""


class Silent(Watch):
    """Shows nothing."""


def silent(study: Study) -> "nullcontext[Watch]":
    return nullcontext(Silent())


def carried_out(text: str, folder: Path, *, quick: bool = False) -> Ran:
    """``text`` run to its end in ``folder``, with findings and verdicts."""
    study = parse_study(text, "here", quick=quick)
    work = plans.make(study, text)
    plans.create(folder, work)
    carry_out(folder, work, registry.load("platforms", "fake").of(study), Silent(), 2)
    evidence = load_run(folder)
    findings = tuple(run_all(evidence))
    return Ran(evidence, judge(evidence, findings), findings)


def lab_claim(rule: str, more: str = "", *, size: str = "", study: str = "truth", number: int = 1) -> str:
    """One claim as YAML; ``rule``: of the gate, with ``base`` and IOPS where it ends before its baseline."""
    rule = f"{rule} base in iops" if rule.endswith(("than", "over", "of", "ties")) else rule
    sized = f"    size: {size}\n" if size else ""
    return (
        f"  - id: 900-claim-{number}\n    where: here\n    says: something\n    conditions: none\n{sized}"
        f'    asks: {{ by: lab, study: {study}, rule: "{rule}"{", " + more if more else ""} }}\n'
    )


def catalogue(*texts: str, **studies: str) -> Catalogue:
    """The claims in ``texts`` about lab ``studies`` (name -> YAML)."""
    return claims.read(SOURCES + "".join(texts), "claims.yaml", studies or {"truth": STUDY})


def claim(text: str) -> Claim:
    return catalogue(text).claims[0]

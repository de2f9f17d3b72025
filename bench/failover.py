"""Failover many times: the path dies under verified load on NVMe/TCP and on iSCSI, as often as asked for; no wrong
block, no crash, the stall told each time.

    uv run python bench/failover.py --out DIR            20 faults per lane, some 25 minutes on 2 idle cores (emulated)
    uv run python bench/failover.py --out DIR --read     only reads what a run left in DIR
    uv run python bench/failover.py --out DIR --fault state

It runs the preset multipath-failover in its quick form with as many blocks, and prints what became of every trial. Exit
code 1: a wrong block, a failed trial or block, a trial without its stall, or fewer faults than asked for.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from fairlane.metrics import METRICS
from fairlane.records import Evidence
from fairlane.runs.read import load_run
from fairlane.study.load import preset_text


def run(folder: Path, faults: int, kind: str) -> None:
    """Carries it out; what went wrong is read from the run."""
    asked, text = f"fault: [{kind}]", preset_text("multipath-failover")
    if asked not in text:
        text = text.replace("fault: [link]", asked)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "study.yaml"
        file.write_text(text)
        options = ["--quick", "--blocks", str(faults), "--out", str(folder)]
        subprocess.run([sys.executable, "-m", "fairlane", "run", str(file), *options], check=False)


def told(evidence: Evidence, faults: int) -> bool:
    """Prints every trial and the sum of each lane; whether all is as it must be."""
    stall, back = METRICS["stall"].format, METRICS["recover_time"].format
    fine = True
    for lane in evidence.study.lanes:
        trials = [seen for seen in evidence.observations if seen.lane == lane]
        good = [seen for seen in trials if not seen.failed]
        for seen in trials:
            if seen.failed:
                print(f"{lane:10} {seen.block:3}  FAILED: {seen.failed}")
                continue
            data, fault = seen.context["data"], seen.context["fault"]
            carried = fault["carried"].get(f"path{fault['path']}", {})
            took = back(seen.metrics["recover_time"]) if "recover_time" in seen.metrics else "never"
            print(
                f"{lane:10} {seen.block:3}  longest I/O {stall(seen.metrics['stall']):>8}  recovered after {took:>8}  "
                f"written {data['written']:6}  checked {data['checked']:5}  wrong {data['wrong_blocks']}  "
                f"errors {data['io_errors']}  path carried {carried}"
            )
        wrong = sum(seen.context["data"]["wrong_blocks"] for seen in good)
        errors = sum(seen.context["data"]["io_errors"] for seen in good)
        stalls = [seen.metrics["stall"] for seen in good if "stall" in seen.metrics]
        if stalls:
            print(
                f"{lane}: {wrong} wrong blocks, {errors} I/O errors in {len(good)} faults; longest I/O "
                f"{stall(median(stalls))} (median), {stall(min(stalls))} to {stall(max(stalls))}; "
                f"{len(trials) - len(good)} trials failed\n"
            )
        fine &= not wrong and len(stalls) == len(trials) == faults
    lost = [event for event in evidence.events if event["type"] == "block-failed"]
    for event in lost:
        print(f"block {event['block']} failed: {event['reason']}")
    return fine and not lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--fault", choices=("link", "port", "state"), default="link")
    parser.add_argument("--read", action="store_true")
    options = parser.parse_args()
    if not options.read:
        run(options.out, options.faults, options.fault)
    return 0 if told(load_run(options.out), options.faults) else 1


if __name__ == "__main__":
    sys.exit(main())

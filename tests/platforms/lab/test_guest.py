"""Real guests under the virtual clock: transports built, read back and removed; everything that can go wrong."""

import asyncio
import gc
import os
import re
import subprocess
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from lab_study import small_study, study_of

from fairlane.errors import MachineLost, RunFailed
from fairlane.machines import script as _script
from fairlane.platforms.base import Opened
from fairlane.platforms.lab import Lab, image, qemu
from fairlane.platforms.lab.virtual import saved
from fairlane.records import Block
from fairlane.runs.observe import observe
from tests.words import kind

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab_image"), pytest.mark.timeout(1800)]


def quiet(_: str) -> None:
    pass


def running() -> set[str]:
    """Pids of every QEMU that this process started."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # it has ended meanwhile
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            if parent == str(os.getpid()) and b"qemu-system" in (entry / "cmdline").read_bytes():
                found.add(entry.name)
    return found


def build(lab: Lab) -> Opened:
    """Open and close: the state is in the cache, and can be used."""

    async def there_and_back() -> Opened:
        async with lab:
            return await lab.open(quiet)

    return asyncio.run(there_and_back())


def opened(**keys: str) -> Lab:
    lab = Lab(study_of(small_study(**keys)))
    assert lab.problems() == []
    build(lab)
    return lab


async def _run(lab: Lab, script: str, timeout: float = 600) -> dict[str, dict[str, bytes]]:
    return {n: dict(f) async for n, f in saved.VirtualGuest(lab.saved).run(script, timeout)}


def run(lab: Lab, script: str, timeout: float = 600) -> dict[str, dict[str, bytes]]:
    before = running()
    try:
        return asyncio.run(_run(lab, script, timeout))
    finally:
        assert running() <= before, "a QEMU was left behind"


VARIANTS = {
    "plain": {},
    "chap": {"iscsi": ", chap: true"},
    "digests": {
        "iscsi": ", header_digest: true, data_digest: true",
        "nvme": ", header_digest: true, data_digest: true, queue_size: 64",
    },
    "sessions": {"iscsi": ", sessions: 2", "platform": ", link: {mtu: 1500, delay: 20us, rate: 10gbit}"},
}


@pytest.mark.parametrize(
    "variant", [pytest.param(name, marks=[pytest.mark.slow] * (name != "plain")) for name in VARIANTS]
)
def test_lanes_are_built_as_asked_measured_and_removed_without_a_trace(variant: str) -> None:
    lab = Lab(study_of(small_study(**VARIANTS[variant])))
    description = build(lab).description
    iscsi, nvme = description["lanes"]["iscsi"], description["lanes"]["nvme-tcp"]
    assert iscsi["chap"] == str(int(variant == "chap"))
    assert iscsi["data_digest"] == nvme["data_digest"] == str(int(variant == "digests"))
    assert iscsi["sessions"] == ("2" if variant == "sessions" else "1")
    assert nvme["queue_size"] == ("64" if variant == "digests" else "128")
    assert description["platform"]["link.mtu"] == ("1500" if variant == "sessions" else "9000")

    (cell,) = lab.study.cells()
    block = Block(cell, 0, ("nvme-tcp", "iscsi"), seed=7)

    async def measure() -> dict[str, float]:
        seen = [observe(block, raw.lane, raw.outputs) async for raw in lab.run_block(block)]
        assert [o.failed for o in seen] == ["", ""]
        assert all(o.context["net"][lost] == 0 for o in seen for lost in ("retransmits", "drops"))
        assert all(o.metrics["cpu_per_io"] > 10_000 for o in seen)
        return {o.lane: o.metrics["iops"] for o in seen}

    assert min(asyncio.run(measure()).values()) > 1000

    steps = [*lab._platform_steps(), *(step for own in lab._lanes().values() for step in own.steps())]
    removal = _script._HEAD + "".join(
        _script.run_step(f"undo: {step.name}", step.remove) for step in reversed(steps) if step.remove
    )
    left = r"""
find /sys/kernel/config/target/core /sys/kernel/config/target/iscsi /sys/kernel/config/nvmet/ports \
  /sys/kernel/config/nvmet/subsystems /sys/kernel/config/nullb -mindepth 1 -maxdepth 1 -type d |
  grep -v -E '/(alua|discovery_auth)$'
ls -d /dev/nvme?n? /dev/sd? /dev/nullb* /dev/mapper/fairlane* 2>/dev/null
tc qdisc show dev lo | grep netem
true"""
    script = f"{removal}\nmkdir /run/left && ( {left} ) > /run/left/list\nsend left /run/left\n"
    assert run(lab, script)["left"]["list"].decode() == ""


@pytest.mark.slow
def test_two_lanes_of_a_target_that_takes_its_medium_have_one_each() -> None:
    text = small_study().replace("  nvme-tcp:", "  again: {transport: iscsi, copy_of: iscsi}\n  nvme-tcp:")
    lab = Lab(study_of(text))
    described = build(lab).description["lanes"]
    assert [described[name]["path"][-1] for name in ("iscsi", "again", "nvme-tcp")] == [
        "/dev/nullb0", "/dev/nullb1", "/dev/nullb0",
    ]  # fmt: skip
    (cell,) = lab.study.cells()
    block = Block(cell, 0, ("again", "nvme-tcp", "iscsi"), seed=7)

    async def measure() -> dict[str, float]:
        return {
            o.lane: o.metrics["iops"]
            for o in [observe(block, raw.lane, raw.outputs) async for raw in lab.run_block(block)]
        }

    iops = asyncio.run(measure())
    assert iops["again"] == pytest.approx(iops["iscsi"], rel=0.05)  # the same path, to another medium alike


@pytest.mark.slow
def test_the_secret_is_in_no_description() -> None:
    lab = Lab(study_of(small_study(iscsi=", chap: true")))
    opened_as = build(lab)
    secret = lab._lanes()["iscsi"].site.secret
    assert secret in lab.setup_script()
    assert secret not in str(opened_as)


def test_more_queues_than_the_model_has_cores_are_refused_before_anything_is_built() -> None:
    (problem,) = Lab(study_of(small_study(nvme=", queues: 4"))).problems()
    assert "queues" in problem.where
    assert problem.hint


@pytest.mark.slow
def test_the_same_state_and_script_give_the_same_bytes_on_a_loaded_machine() -> None:
    lab = opened()
    (cell,) = lab.study.cells()
    script = _script.block_script(Block(cell, 0, ("iscsi", "nvme-tcp"), 11), 0.02)
    first = run(lab, script)
    hogs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3)]
    try:
        second = run(lab, script)
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
    assert first == second
    assert b'"total_ios"' in first["iscsi"]["fio.json"]


def test_another_seed_gives_other_addresses_and_other_bytes() -> None:
    lab = opened()
    (cell,) = lab.study.cells()
    one, two = (run(lab, _script.block_script(Block(cell, 0, ("iscsi",), seed), 0.02)) for seed in (1, 2))
    assert one["iscsi"]["fio.json"] != two["iscsi"]["fio.json"]


@pytest.mark.slow
def test_a_state_built_anew_is_the_same_and_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab_image: image.Image
) -> None:
    lab = opened()
    (cell,) = lab.study.cells()
    block = Block(cell, 0, ("nvme-tcp", "iscsi"), 5)
    first = run(lab, _script.block_script(block, 0.02))
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / lab_image.key).symlink_to(lab_image.folder)
    monkeypatch.setenv("FAIRLANE_CACHE", str(tmp_path))
    again = opened()
    assert again.saved.folder.is_relative_to(tmp_path)
    assert again.saved.key == lab.saved.key
    assert again.saved.identity == lab.saved.identity
    assert run(again, _script.block_script(block, 0.02)) == first


@pytest.mark.slow
def test_states_that_differ_in_a_delay_have_another_identity() -> None:
    assert opened().saved.identity != opened(platform=", link: {mtu: 1500, delay: 20us, rate: 10gbit}").saved.identity


def test_a_block_left_after_one_trial_ends_its_vm_at_once() -> None:
    """As when the disk is full: whoever closes the block's trials does not leave the VM to the garbage collector."""
    lab = opened()
    (cell,) = lab.study.cells()
    others = running()  # machines of other tests, which stay for the session

    async def leave() -> set[str]:
        trials = lab.run_block(Block(cell, 0, ("iscsi", "nvme-tcp"), 1))
        async with aclosing(trials):
            assert (await anext(trials)).lane == "iscsi"
            assert running() - others != set()
        return running() - others

    assert asyncio.run(leave()) == set()


def test_fio_that_fails_is_a_failed_trial_with_its_reason_and_the_next_lane_goes_on() -> None:
    lab = opened()
    (cell,) = lab.study.cells()
    block = Block(cell, 0, ("iscsi", "nvme-tcp"), 1)
    out = run(lab, "rm /dev/lane/iscsi\n" + _script.block_script(block, 0.02))
    failed = observe(block, "iscsi", out["iscsi"]).failed
    assert re.search(r"\b1\b.*\bspecify size\b", failed, re.DOTALL)
    assert observe(block, "nvme-tcp", out["nvme-tcp"]).failed == ""


def test_a_kernel_panic_is_told_with_its_last_words() -> None:
    with pytest.raises(MachineLost, match=r"(?s)^the kernel of the lab VM panicked while it ran .echo c.*Call Trace"):
        run(opened(), "echo c > /proc/sysrq-trigger\nsleep 10\n")


def test_a_guest_that_never_answers_is_ended() -> None:
    with pytest.raises(RunFailed, match=r"\b4 s\b", check=kind("timeout")):
        run(opened(), "while :; do :; done\n", timeout=4)


def test_a_script_that_fails_is_told_with_its_message() -> None:
    with pytest.raises(RunFailed, match="no-such-thing", check=kind("script-failed")):
        run(opened(), "echo no-such-thing >&2; exit 3\n")


@pytest.mark.slow
def test_a_set_up_step_that_fails_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLANE_CACHE", str(cache))
    lab = Lab(study_of(small_study(nvme=", queue_size: 32")))
    monkeypatch.setattr(Lab, "setup_script", lambda self: _script._HEAD + _script.run_step("break it", "false"))
    with pytest.raises(RunFailed, match="'break it'", check=kind("set-up")):
        build(lab)
    assert not [p for p in (cache / "states").iterdir() if p.is_dir()]


def test_what_is_read_back_must_be_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = opened()
    described = {k: v.replace("sessions\t1", "sessions\t3") for k, v in lab.saved.described().items()}
    monkeypatch.setattr(saved.State, "described", lambda self: described)
    with pytest.raises(RunFailed, match=r"\bsessions\b.*\b3\b.*\b1\b", check=kind("lane-state")):
        build(lab)


def test_qemu_that_is_killed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = opened()

    before = running()

    async def killed() -> None:
        """Once the guest has said that it runs: a QEMU that is killed sooner is told in other words."""
        script = ". /fairlane/lib.sh\nmark begun\nwhile :; do :; done\n"
        async for name, _ in saved.VirtualGuest(lab.saved).run(script, 600):
            assert name == "begun"
            subprocess.run(["kill", "-9", *(running() - before)], check=True)

    with pytest.raises(MachineLost, match=r"^the lab VM ended while .*SIGKILL"):
        asyncio.run(killed())


def test_a_qemu_that_does_not_start_is_told_with_what_it_said() -> None:
    async def start() -> None:
        async with qemu.Qemu([qemu.BINARY, "-no-such-option"]):
            pass

    with pytest.raises(RunFailed, match="no-such-option"):
        asyncio.run(start())


def test_a_qemu_that_is_cancelled_while_it_ends_is_ended_whole() -> None:
    """As where another block fails meanwhile: nothing stays, and no task dies unheard."""
    unheard: list[str] = []

    async def cancelled(rounds: int) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(str(context)))
        begun, vm = asyncio.Event(), qemu.Qemu([qemu.BINARY, "-M", "q35", "-nodefaults", "-display", "none"])

        async def work() -> None:
            async with vm:
                begun.set()

        task = asyncio.create_task(work())
        await begun.wait()
        while vm.process.returncode is None:
            await asyncio.sleep(0)
        for _ in range(rounds):
            await asyncio.sleep(0)
        assert task.cancel(), "it had ended already"
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not vm.folder.exists()
        gc.collect()  # that is when asyncio complains

    for rounds in range(3):
        asyncio.run(cancelled(rounds))
    assert unheard == []


@pytest.mark.slow
def test_prefill_reaches_a_medium_that_keeps_what_is_written() -> None:
    text = small_study(platform=", medium: {size: 16m, memory_backed: true}").replace("prefill: false", "prefill: true")
    lab = Lab(study_of(text))
    assert lab.problems() == []
    build(lab)
    count = "dd if=/dev/nullb0 bs=1M count=16 2>/dev/null | tr -d '\\0' | wc -c"
    out = run(lab, f". /fairlane/lib.sh; mkdir /run/n; {count} > /run/n/bytes; send n /run/n\n")
    assert int(out["n"]["bytes"]) > 15 * 2**20  # random bytes: 1 in 256 is a zero


def test_prefill_on_a_medium_that_discards_is_refused() -> None:
    lab = Lab(study_of(small_study().replace("prefill: false", "prefill: true")))
    (problem,) = lab.problems()
    assert kind("prefill", where="workloads.main.prefill")(problem)

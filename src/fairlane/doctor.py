"""Check this machine for ``fairlane doctor``, one function per line of output, by trying where that is cheap.

``missing`` means that the requested platform cannot run; ``warn`` means that it can, but something else cannot.
"""

import asyncio
import json
import os
import platform as machine
import re
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fairlane import __version__, registry
from fairlane.checks._outlook import outlook
from fairlane.errors import FairlaneError
from fairlane.install import packages
from fairlane.platforms._examined import Line, State, able
from fairlane.platforms.lab.image import Image, cached_image
from fairlane.platforms.lab.spec import LabSpec
from fairlane.platforms.lab.wall import kvm
from fairlane.runs.files import cache_dir

if TYPE_CHECKING:
    from fairlane.study.spec import Study

__all__ = ["Line", "able", "examine"]

MIB, GIB = 2**20, 2**30
BUILD_SPACE = 2 * GIB
"""Free space in the cache while the image is built: the root tree, its archive, and a saved state."""
STATE_SPACE = 512 * MIB
"""Free space in the cache with an image there: a saved state or two."""
RUN_SPACE = 200 * MIB
"""Free space where runs are written."""
QEMU_OVERHEAD = 256 * MIB
"""Memory of a QEMU beside its guest's: translated code and devices."""
OLDEST_QEMU = (6, 0)
"""``-action`` appeared in 6.0; the lab needs it to stop a guest at an exact instruction."""
KVM_SECONDS = 10
"""Under KVM the lab's kernel needs one or two seconds to its init, and six without."""
KEYRINGS = tuple(Path("/usr/share/keyrings/debian-archive-keyring").with_suffix(s) for s in (".gpg", ".pgp"))
CEPH = ("ceph-mon", "ceph-osd", "ceph-mgr", "ceph-mds", "ceph", "ceph-fuse")
CEPH_PACKAGES = ("ceph-mon", "ceph-osd", "ceph-mgr", "ceph-mds", "ceph-common", "ceph-fuse")


def examine(platform: str, study: "Study | None" = None, *, context: str = "", namespace: str = "") -> tuple[Line, ...]:
    """Checks everything that ``platform`` needs or can use, and what ``study`` needs of it. ``context``, ``namespace``:
    of a cluster. Raises FairlaneError for an unknown platform."""
    if platform not in registry.names("platforms"):
        raise FairlaneError(
            "platform-unknown",
            f"no platform named {platform!r}",
            hint=f"known: {', '.join(registry.names('platforms'))}",
        )
    lines = [python(), processor(), disk("disk for runs", Path.cwd(), RUN_SPACE)]
    kind = registry.load("platforms", platform)
    if kind.described and study is None:  # with a study, its problems report this
        lines.append(
            Line(
                platform,
                "missing",
                f"described: {kind.described}",
                "run a study's quick form in the lab: --quick (docs/presets.md)",
            )
        )
    if platform == "lab":
        image, cache = cached_image(), cache_dir()
        lines += [
            qemu(),
            memory(_cores()),
            disk("disk for images", cache, BUILD_SPACE if image is None else STATE_SPACE),
            images(cache, image),
            builder(image),
            keyring(image),
            namespaces(image),
            tool("setpriv", "util-linux"),
            kvm_boots(image),
            *wall_clock(),
            modules(),
        ]
    lines += asyncio.run(kind.examine(study, context=context, namespace=namespace))
    lines += comparisons(study) if study else ()
    return (*lines, tool("fio", "fio", needed=False, use="only workloads that run on this machine itself need it"))


def comparisons(study: "Study") -> tuple[Line, ...]:
    """Whether the guard leaves any comparison in ``study``."""
    forecast = outlook(study)
    count, refused = len(forecast.comparisons), len(forecast.refused(*forecast.refusals))
    if not refused:
        return (
            Line(
                "comparisons",
                "ok",
                f"the study allows all {count} of them" if count != 1 else "the study allows the only one",
            ),
        )
    text = f"{refused} of {count} will be refused: {'; '.join(f.message for f in forecast.refusals)}"
    fix = (
        "allow the differences with design.vary or design.accept in the study; `fairlane study check` prints the lines"
    )
    state: State = "missing" if forecast.hopeless else "warn"
    return (
        Line("comparisons", state, text, fix if forecast.names else "run the others, or all of them with --unjudged"),
    )


def python() -> Line:
    """Versions of Fairlane and Python."""
    return Line("fairlane", "ok", f"{__version__} on Python {machine.python_version()}")


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> Line:
    """Cores that this process may use, and their model."""
    models = re.findall(r"^model name\s*: (.*)$", _read(cpuinfo), re.MULTILINE)
    text = f"{_cores()} x {models[0] if models else machine.processor() or 'unknown model'} ({machine.machine()})"
    if machine.machine() != "x86_64":
        return Line(
            "processor", "warn", text, "the lab's guests are x86_64, and Fairlane is tested on x86_64 hosts only"
        )
    return Line("processor", "ok", text)


def memory(jobs: int, meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")) -> Line:
    """Memory for ``jobs`` guests at once, against free memory and a container's limit."""
    free = int(re.findall(r"^MemAvailable:\s*(\d+) kB", _read(meminfo), re.MULTILINE)[0]) * 1024
    limit, used = _read(cgroup / "memory.max").strip(), _read(cgroup / "memory.current").strip()
    if limit.isdigit() and used.isdigit():
        free = min(free, max(0, int(limit) - int(used)))
    guest = LabSpec.model_fields["memory"].default + QEMU_OVERHEAD
    fitting = free // guest
    text = f"{_size(free)} free; {jobs} guests at once need {_size(jobs * guest)}"
    if fitting < 1:
        return Line("memory", "missing", text, "free some memory, or lower platform.memory in the study")
    if fitting < jobs:
        return Line("memory", "warn", text, f"run with --jobs {fitting}: slower, with the same result")
    return Line("memory", "ok", text)


def disk(name: str, folder: Path, need: int) -> Line:
    """Whether ``need`` bytes can be written below ``folder``, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    if not os.access(folder, os.W_OK):
        fix = "choose another with --out" if name == "disk for runs" else "set FAIRLANE_CACHE to another folder"
        return Line(name, "missing", f"this user cannot write to {folder}", fix)
    free = shutil.disk_usage(folder).free
    text = f"{_size(free)} free in {folder}"
    return Line(name, "ok", text) if free >= need else Line(name, "missing", text, f"free at least {_size(need)}")


def qemu() -> Line:
    """QEMU with the instruction counter: starts it without a machine, reads its version over QMP, and quits."""
    program = "qemu-system-x86_64"
    if not shutil.which(program):
        return Line("QEMU", "missing", f"no {program}", packages("qemu-system-x86"))
    counter = ("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off")
    words = "".join(json.dumps({"execute": word}) + "\n" for word in ("qmp_capabilities", "quit"))
    bare = ("-M", "none", "-nodefaults", "-display", "none", "-S", "-qmp", "stdio")
    code, out, err = _try(program, *bare, *counter, stdin=words)
    try:
        version = json.loads(out.splitlines()[0])["QMP"]["version"]["qemu"]
        number = (version["major"], version["minor"], version["micro"])
    except (IndexError, KeyError, TypeError, ValueError):
        reason = err.strip().splitlines() or [f"exit code {code}"]
        fix = "install your distribution's full QEMU: the lab needs emulation (TCG), which this build lacks"
        return Line("QEMU", "missing", f"does not start with the instruction counter: {reason[-1]}", fix)
    text = ".".join(map(str, number))
    if number[:2] < OLDEST_QEMU:
        return Line("QEMU", "missing", text, f"the lab needs {'.'.join(map(str, OLDEST_QEMU))} or newer")
    return Line("QEMU", "ok", f"{text}, emulation (TCG) and instruction counter work")


def images(cache: Path, image: Image | None) -> Line:
    """Cache entries by kind, with sizes on disk."""
    kinds = sorted(p for p in cache.iterdir() if p.is_dir() and p.name != "uv") if cache.is_dir() else []
    counts = [f"{sum(1 for e in p.iterdir() if e.suffix != '.lock')} in {p.name} ({_size(_usage(p))})" for p in kinds]
    text = f"{cache}: {', '.join(counts) or 'empty'}"
    if image is None:
        return Line("cache", "ok", f"{text}; no image for this version: the first run builds one")
    return Line("cache", "ok", text)


def builder(image: Image | None) -> Line:
    """mmdebstrap, which builds the image: not needed while one is cached."""
    return _for_building(tool("mmdebstrap", "mmdebstrap"), image)


def keyring(image: Image | None, places: Iterable[Path] = KEYRINGS) -> Line:
    """The keyring that verifies Debian's packages."""
    for place in places:
        if place.exists():
            return Line("Debian keys", "ok", str(place))
    fix = packages("debian-archive-keyring")
    return _for_building(Line("Debian keys", "missing", "no debian-archive-keyring", fix), image)


def namespaces(image: Image | None) -> Line:
    """User namespaces and subordinate ids, which building without root needs: tried with mmdebstrap's own helper."""
    if os.geteuid() == 0:
        return Line("user namespaces", "ok", "not needed as root")
    code, _, err = _try("mmdebstrap", "--unshare-helper", "true")
    if code == 0:
        return Line("user namespaces", "ok", "images can be built without root")
    reason = (err.strip().splitlines() or [f"exit code {code}"])[0]  # later lines are its consequences
    fix = f"{packages('uidmap')} and add a range to /etc/subuid and /etc/subgid; or build as root"
    return _for_building(Line("user namespaces", "missing", reason, fix), image)


def tool(name: str, package: str, *, needed: bool = True, use: str = "") -> Line:
    """Whether a program runs; any version will do."""
    if not shutil.which(name):
        fix = packages(package) + (f" ({use})" if use else "")
        return Line(name, "missing" if needed else "warn", "not found", fix)
    code, out, err = _try(name, "--version")
    version = re.search(r"\d+(\.\d+)+", out)
    if code or not version:
        reason = (err.strip().splitlines() or [f"exit code {code}"])[-1]
        return Line(name, "missing" if needed else "warn", f"does not run: {reason}", packages(package))
    return Line(name, "ok", version[0])


def kvm_boots(image: Image | None, device: Path = Path("/dev/kvm")) -> Line:
    """Whether KVM boots a guest. Never ``missing``: the virtual clock does not use it, and the rest runs without,
    slowly."""
    without = "none needed for the virtual clock; other guests are emulated, and marked as emulated"
    if not device.exists():
        return Line("KVM", "warn", f"no {device}", without)
    if not kvm.usable(device):
        return Line("KVM", "warn", f"this user cannot open {device}", "add the user to the group kvm")
    if image is None:
        return Line(
            "KVM", "warn", "not tested: the test boots a lab image, and there is none yet", "fairlane lab build"
        )
    if not kvm.boots(image, KVM_SECONDS):
        return Line("KVM", "warn", f"{device} is present but unusable: it does not boot the lab's kernel", without)
    return Line("KVM", "ok", "boots the lab's kernel")


def wall_clock() -> tuple[Line, ...]:
    """Further programs for `clock: wall`. Never ``missing``: the virtual clock does not use them."""
    use = "only clock: wall needs it"
    lines = [
        tool("qemu-img", "qemu-utils", needed=False, use=use),
        Line("ssh", "ok", "found") if shutil.which("ssh") else Line("ssh", "warn", "not found", use),
    ]
    formats = set(_try("qemu-img", "--help")[1].partition("Supported formats:")[2].split())
    drivers = _drivers()
    lacking = [
        f"{driver} (for {', '.join(needed_by)})" for driver, needed_by in drivers.items() if driver not in formats
    ]
    fix = packages("qemu-block-extra")
    text = f"without {', '.join(lacking)}" if lacking else f"with {', '.join(drivers)}"
    lines.append(Line("QEMU's initiators", "warn" if lacking else "ok", text, fix if lacking else ""))
    daemons = [name for name in CEPH if not shutil.which(name)]
    if daemons:
        fix = packages(*CEPH_PACKAGES)
        lines.append(Line("Ceph", "warn", f"no {', '.join(daemons)}", f"only lanes on Ceph need it: {fix}"))
    else:
        lines.append(Line("Ceph", "ok", (_try("ceph", "--version")[1].split() or ["?"] * 3)[2]))
    return tuple(lines)


def _drivers() -> dict[str, list[str]]:
    """QEMU's own initiators, and the transports that need each."""
    drivers: dict[str, list[str]] = {}
    for name, transport in registry.every("lanes"):
        if transport.driver:
            drivers.setdefault(transport.driver["driver"], []).append(name)
    return drivers


def modules(root: Path = Path("/")) -> Line:
    """Modules of transports in this machine's own kernel: for information; the lab uses its guest's."""
    wanted = sorted({module for _, transport in registry.every("lanes") for module in transport.modules})
    tree = root / "lib/modules" / machine.release()
    available = set(re.findall(r"/([^/]+)\.ko", _read(tree / "modules.dep") + _read(tree / "modules.builtin")))
    available = {name.replace("-", "_") for name in available}
    loaded = [m for m in wanted if (root / "sys/module" / m).exists()]
    loadable = [m for m in wanted if m in available and m not in loaded]
    absent = [m for m in wanted if m not in loaded and m not in loadable]
    groups = (("loaded", loaded), ("can be loaded", loadable), ("absent", absent))
    text = "; ".join(f"{word}: {', '.join(names)}" for word, names in groups if names)
    return Line("host modules", "ok", f"{text} (the lab uses its guest's)")


def _for_building(line: Line, image: Image | None) -> Line:
    """``line``, turned into a warning if an image is cached and nothing has to be built."""
    if line.state == "ok" or image is None:
        return line
    return Line(line.name, "warn", f"{line.found}; only needed to build another image", line.fix)


def _try(*command: str, stdin: str = "", seconds: float = 20) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; a program that does not start, or does not end, counts as failed."""
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, encoding="utf-8", errors="replace", timeout=seconds, check=False
        )
    except OSError as error:
        return 127, "", str(error.strerror)
    except subprocess.TimeoutExpired:
        return 124, "", f"no answer within {seconds:.0f} s"
    return done.returncode, done.stdout, done.stderr


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _read(path: Path) -> str:
    """The file's text; empty if it cannot be read: /proc, /sys and /lib/modules differ from machine to machine."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _usage(path: Path) -> int:
    """Bytes that ``path`` takes on disk, contents included."""
    total = 0
    for folder, _, files in os.walk(path):  # passes over folders that others remove meanwhile
        for name in (".", *files):
            with suppress(FileNotFoundError):
                total += Path(folder, name).lstat().st_blocks * 512
    return total


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.0f} MiB"

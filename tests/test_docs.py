"""What the documentation tells a reader to type exists, and what it says will be printed is printed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, suppress
from itertools import pairwise
from pathlib import Path

import click
import pytest
import yaml

from fairlane import __version__
from fairlane.cli.main import main
from fairlane.cli.main import run as fairlane
from fairlane.errors import Exit
from fairlane.importers._map import parse_map
from fairlane.runs.raw import unpack
from fairlane.study.load import parse_study, preset_text

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").rglob("*.md")
)
FRAGMENTS = sorted((ROOT / "changes").glob("*.md"))
EXECUTED = "<!-- executed by tests/test_docs.py -->"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_ENDS = re.compile(r"[|&;<>]+")
_UVX = re.compile(r"^uvx --from \S+ (?=fairlane\s)")


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def words(line: str) -> list[str]:
    """The first simple command of a shell line, without comment, redirection and what it is piped into."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    out: list[str] = []
    for word in lexer:
        if _ENDS.fullmatch(word):
            break
        out.append(word)
    return out


def commands(*, inline: bool) -> list[tuple[Path, str]]:
    """Every command line of ours: in console and sh blocks, or in the running text."""
    out = []
    for page in PAGES + FRAGMENTS:
        blocks = [body for kind, body in _FENCE.findall(text(page)) if kind in ("console", "sh")]
        blocks = [re.sub(r"\\\n\s*", " ", body) for body in blocks]
        lines = [_UVX.sub("", line.removeprefix("$ ").strip()) for body in blocks for line in body.splitlines()]
        if inline:
            lines = _INLINE.findall(_FENCE.sub("", text(page)))
        out += [(page, line) for line in lines if re.match(r"(\.venv/bin/)?fairlane(\s|$)", line)]
    return out


def understand(line: str) -> None:
    """Parse a command line as the program would, without carrying it out. Raises click's errors."""
    context: click.Context | None = None
    command: click.Command = main
    called, rest = "fairlane", words(line)[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        context = click.Context(command, parent=context, info_name=called)
        _, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command, called = found, found.name or ""
    with suppress(click.exceptions.Exit):  # --help and --version are answered, successfully, while parsing
        command.make_context(called, rest, parent=context)


def label(value: object) -> str:
    return name(value) if isinstance(value, Path) else str(value)


def test_commands_are_found_in_every_page_that_teaches_some() -> None:
    pages = {name(page) for page, _ in commands(inline=False)}
    assert {"docs/tutorial.md", "docs/lab.md", "docs/nvme-tcp-stall.md"} <= pages
    assert "README.md" in {name(page) for page, _ in commands(inline=True)}


@pytest.mark.parametrize(("page", "line"), commands(inline=False), ids=label)
def test_a_command_in_a_block_would_be_taken(page: Path, line: str) -> None:
    understand(line)


@pytest.mark.parametrize(("page", "line"), commands(inline=True), ids=label)
def test_a_command_in_the_text_exists_with_its_options(page: Path, line: str) -> None:
    with suppress(click.MissingParameter):  # the text may only name a command: `fairlane run`
        understand(line)


@pytest.mark.parametrize("line", ["fairlane rnu demo", "fairlane run demo --job 1", "fairlane verdicts a --format xml"])
def test_a_wrong_command_would_be_seen(line: str) -> None:
    with pytest.raises(click.UsageError):
        understand(line)


def anchors(page: Path) -> set[str]:
    """The anchors that a forge makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", text(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(_FENCE.sub("", text(page))):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{name(page)} links to {target}"
        if anchor and found.suffix == ".md":
            assert anchor in anchors(found), f"{name(page)} links to {target}"


def test_the_readme_is_short_and_its_pictures_light() -> None:
    assert len(text(ROOT / "README.md").splitlines()) <= 120
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', text(ROOT / "README.md"))
    assert len(pictures) == 2
    assert all((ROOT / picture).stat().st_size < 200_000 for picture in pictures)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_make_is_asked_for_is_a_target(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text(ROOT / "Makefile"), re.MULTILINE))
    blocks = [body for kind, body in _FENCE.findall(text(page)) if kind in ("console", "sh")]
    lines = _INLINE.findall(_FENCE.sub("", text(page))) + [line for body in blocks for line in body.splitlines()]
    asked = {found[1] for line in lines if (found := re.match(r"(?:\$ )?make ([a-z-]+)", line))}
    assert asked <= targets


def test_the_readme_names_the_wheel_of_this_version() -> None:
    assert set(re.findall(r"dist/(\S+\.whl)", text(ROOT / "README.md"))) == {f"fairlane-{__version__}-py3-none-any.whl"}


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target in _LINK.findall(text(index))}
    assert {page for page in PAGES if page.is_relative_to(index.parent)} <= linked | {index}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_whole_studies_and_import_maps_in_a_page_are_valid(page: Path) -> None:
    for kind, body in _FENCE.findall(text(page)):
        if kind == "yaml" and page.name == "import.md":
            parse_map(body, name(page))
        elif kind == "yaml" and re.search(r"^name:", body, re.MULTILINE):
            parse_study(body, name(page))


def test_the_tutorial_changes_lines_that_the_demo_has() -> None:
    (change,) = (body for kind, body in _FENCE.findall(text(ROOT / "docs" / "tutorial.md")) if kind == "diff")
    study = preset_text("demo")
    for old, new in re.findall(r"^-(.*)\n\+(.*)$", change, re.MULTILINE):
        assert study.count(f"\n{old}\n") == 1
        study = study.replace(f"\n{old}\n", f"\n{new}\n")
    assert parse_study(study, "tutorial").name == "far-link"


def sessions() -> Iterator[tuple[Path, list[tuple[str, str]]]]:
    """Of each block that is marked so: (command line, what it is said to print)."""
    for page in PAGES:
        for body in re.findall(re.escape(EXECUTED) + r"\n```console\n(.*?)^```$", text(page), re.MULTILINE | re.DOTALL):
            parts = re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]
            yield page, [(line, said) for line, _, said in (part.partition("\n") for part in parts)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "session"), list(sessions()), ids=lambda x: name(x) if isinstance(x, Path) else "session"
)
def test_a_session_prints_what_the_page_shows(page: Path, session: list[tuple[str, str]], tmp_path: Path) -> None:
    wide = {**os.environ, "COLUMNS": "160"}
    for line, said in session:
        done = subprocess.run(
            [sys.executable, "-m", *words(line)], cwd=tmp_path, env=wide, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        if said:
            assert [row.rstrip() for row in done.stdout.splitlines()] == said.splitlines(), f"{name(page)}: {line}"


# --- and every command of a block is run


ELSEWHERE = (
    (r"run (demo|far\.yaml)\b.*", "tests/platforms/lab/test_lab_presets.py", 'derived("demo"'),
    (r"run (nvme-tcp-stall|mine\.yaml)", "tests/platforms/lab/test_lab_presets.py", 'derived("nvme-tcp-stall"'),
    (r"versus sc:.+", "tests/platforms/kubevirt/test_kv_end_to_end.py", '"versus", "old=sc:slow", "new=sc:fast"'),
    (r"versus .+", "tests/cli/test_versus.py", '"versus"'),
    (r"report runs/demo --open", "tests/cli/test_runs_argument.py", '"report", "--open"'),
    (r"run .* --resume", "tests/cli/test_run.py", '"--resume"'),
    (r"run protocols --quick", "tests/platforms/lab/wall/test_transports.py", "nvme_rdma"),
    (r"run initiator-place --quick", "tests/platforms/lab/wall/test_devices.py", "initiator: hypervisor"),
    (r"run virtio-blk-vs-virtio-scsi --quick", "tests/platforms/lab/wall/test_devices.py", "virtio-scsi"),
    (r"run ceph-pools --quick", "tests/platforms/lab/wall/test_ceph.py", "transport: rbd"),
    (r"run multipath-failover --quick", "tests/platforms/lab/wall/test_wall_failover.py", "kind: failover"),
    (r"lab build", "tests/platforms/lab/conftest.py", "image.build("),
    (r"replicate( --quick)?( --study \d+)?( --resume)?", "tests/cli/test_replicate.py", '"replicate", "--quick"'),
    (r"serve\b.*", "tests/cli/test_serve.py", '"serve"'),
    (
        r"capture /dev/nvme0n1 --for 5m --out captured\.yaml",
        "tests/capture/test_capture_live.py",
        '"--for", "10m", "--out"',
    ),
    (r"capture --replay .*", "tests/capture/test_capture_live.py", "replay.replay("),
    (r"capture --from .*", "tests/cli/test_capture_command.py", '"capture", "--from"'),
    (r"doctor", "tests/test_doctor.py", 'run(["doctor"])'),
    (r"doctor two-disks\.yaml", "tests/platforms/hosts/test_hosts_ssh.py", 'bench.run("doctor", str(file)'),
    (
        r"doctor my-hypervisor\.yaml",
        "tests/platforms/libvirt/test_libvirt_domains.py",
        'bench.run("doctor", str(file)',
    ),
    (r"run my-hypervisor\.yaml", "tests/platforms/libvirt/domains_bench.py", 'bench.run("run", str(file)'),
    (r"run oltp-lab --quick", "tests/platforms/lab/test_databases.py", 'carried_out("run", "db.yaml"'),
    (r"run db\.yaml", "tests/platforms/hosts/test_hosts_databases.py", 'bench.run("run", str(file)'),
    (r"run two-disks\.yaml", "tests/platforms/hosts/test_hosts_here.py", 'bench.run("run", str(file)'),
    (r"hosts clean( .*)?", "tests/platforms/hosts/test_hosts_here.py", 'bench.run("hosts", "clean"'),
    (
        r"doctor study-000-fio",
        "tests/platforms/kubevirt/test_kv_preflight.py",
        'run(["doctor", "--platform", "kubevirt"',
    ),
    (
        r"lab clean --platform kubevirt",
        "tests/platforms/kubevirt/test_kv_end_to_end.py",
        '"lab", "clean", "--platform", "kubevirt"',
    ),
)
"""Commands that boot machines, wait, or ask what machine this is: pattern -> the test that does it, and its words. The
presets' tests build the same lanes in a smaller study. Whatever is not in this table is run here."""

NOT_DECIDED = ("check", "gate")
"""Commands whose answer may be no: exit code 4."""


IN_VAIN = "run pools.yaml"
"""The page's example of a study that is refused before its first trial."""


def elsewhere(line: str) -> tuple[Path, str] | None:
    """The test that carries this command out, and the words it does it with; None: it is run here."""
    called = " ".join(words(line)[1:])
    return next(((ROOT / test, said) for pattern, test, said in ELSEWHERE if re.fullmatch(pattern, called)), None)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages' commands name: studies, runs, other tools' results. Figures are invented."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "examples").symlink_to(ROOT / "examples")
    demo = yaml.safe_load(preset_text("demo"))
    demo["platform"] = {"kind": "fake"}
    longer = {**demo, "workloads": {"main": {**demo["workloads"]["main"], "ramp": "1s"}}}
    (folder / "fake-demo.yaml").write_text(yaml.safe_dump(demo))
    (folder / "longer.yaml").write_text(yaml.safe_dump(longer))
    for name in ("study.yaml", "far.yaml"):
        (folder / name).write_text(preset_text("demo"))
    (folder / "mine.yaml").write_text(preset_text("nvme-tcp-stall"))
    (folder / "fake.yaml").write_text(preset_text("fake"))
    (folder / "db.yaml").write_text(preset_text("oltp-postgresql").replace("EDIT-ME-", ""))
    for page, named in (("hosts", "two-disks"), ("libvirt", "my-hypervisor")):
        (folder / f"{named}.yaml").write_text(_FENCE.findall(text(ROOT / f"docs/{page}.md"))[0][1])
    pools = {"ec": "4+2", "rep3": 3}
    lanes = {name: {"transport": "iscsi", "conditions": {"copies": copies}} for name, copies in pools.items()}
    vain = {**demo, "name": "pools", "baseline": "ec", "lanes": lanes}
    vain["workloads"] = {"main": {"kind": "fio", "runtime": "1s"}}
    (folder / "pools.yaml").write_text(yaml.safe_dump(vain))
    (folder / "rules.txt").write_text("nvme-tcp ties iscsi # a rule a line\nno critical finding\n")
    (folder / "mapping.yaml").write_text((ROOT / "examples/study-003/mapping.yaml").read_text())
    (folder / "import.yaml").write_text("baseline: iscsi\nconditions: {prefill: yes}\n")
    study = "examples/study-003"
    with chdir(folder):
        for made, run, *same in (
            ("fake-demo.yaml", "demo", "array", "far-link", "before", "monday"),
            ("longer.yaml", "after", "friday"),
            ("fake.yaml", "fake"),
        ):
            assert fairlane(["run", made, "--out", f"runs/{run}"]) == Exit.OK
            for other in same:
                shutil.copytree(f"runs/{run}", f"runs/{other}", copy_function=os.link)
        for name, table in (("roks",) * 2, ("vcf",) * 2, ("roks-corrected",) * 2, ("vcf-corrected", "vcf")):
            line = ["import", f"{study}/{table}.csv", "--map", f"{study}/{name}.yaml", "--out", f"runs/{name}"]
            assert fairlane(line) == Exit.OK
        for archive in Path("runs/fake/raw").iterdir():
            if found := re.fullmatch(r"main\.64k-randread-qd1\.(b\d+)\.(.+)\.tar\.gz", archive.name):
                place = Path("results", found[2])
                place.mkdir(parents=True, exist_ok=True)
                (place / f"{found[1]}.json").write_bytes(unpack(archive.read_bytes())["fio.json"])
        assert fairlane(["import", "results", "--out", "runs/imported"]) == Exit.OK
    return folder


def arguments(line: str, here: Path) -> list[str]:
    """The words after ``fairlane``; places outside the folder become places in it, what is to be made is removed."""
    out = [str(here / "outside" / word[1:]) if word.startswith("/") else word for word in words(line)[1:]]
    for option, value in pairwise(out):
        if option in ("-o", "--out") and value != "-":
            made = here / value
            made.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(made) if made.is_dir() else made.unlink(missing_ok=True)
    return out


ONCE = list({" ".join(words(line)): (page, line) for page, line in commands(inline=False)}.values())


@pytest.mark.slow
@pytest.mark.parametrize(("page", "line"), [pair for pair in ONCE if not elsewhere(pair[1])], ids=label)
def test_a_command_in_a_block_works(
    page: Path, line: str, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    shutil.copytree(prepared, here, copy_function=os.link, symlinks=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("FAIRLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where `lab clean` looks for what killed runs left
    asked = arguments(line, here)
    answers = (Exit.OK, Exit.NOT_DECIDED) if asked[0] in NOT_DECIDED else (Exit.OK,)
    if " ".join(asked) == IN_VAIN:
        answers = (Exit.NOT_DECIDED,)
    assert fairlane(asked) in answers, f"{name(page)}: {line}"


def test_the_page_of_the_guard_has_what_is_said_before_a_run(
    prepared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with chdir(prepared):
        assert fairlane(IN_VAIN.split()) == Exit.NOT_DECIDED
    assert f"$ fairlane {IN_VAIN}\n{capsys.readouterr().err}" in (ROOT / "docs/guard.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("page", "line"), [pair for pair in ONCE if elsewhere(pair[1])], ids=label)
def test_a_command_that_is_run_elsewhere_is(page: Path, line: str, prepared: Path) -> None:
    found = elsewhere(line)
    assert found
    test, said = found
    assert said in test.read_text(encoding="utf-8"), f"{test.name} does not do {line} of {name(page)}"
    asked = words(line)[1:]
    if asked[0] == "run" and "--resume" not in asked:  # the study, and its quick form, are there at least
        study = [asked[1], *(["--quick"] if "--quick" in asked else [])]
        with chdir(prepared):
            assert fairlane(["study", "check", *study]) == Exit.OK


def test_the_table_of_what_is_run_elsewhere_has_nothing_idle() -> None:
    called = [" ".join(words(line)[1:]) for _, line in ONCE]
    for pattern, _, _ in ELSEWHERE:
        assert any(re.fullmatch(pattern, line) for line in called), f"no page has {pattern}"


@pytest.mark.parametrize("file", sorted((ROOT / "examples/ci").glob("*.yml")), ids=name)
def test_the_commands_of_the_ci_examples_exist(file: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def texts(node: object) -> Iterator[str]:
        if isinstance(node, str):
            yield node
        elif isinstance(node, dict | list):
            for child in node.values() if isinstance(node, dict) else node:
                yield from texts(child)

    lines = [line for line in texts(yaml.safe_load(text(file))) if line.startswith("fairlane ")]
    assert [words(line)[1] for line in lines] == ["versus", "gate"]
    for line in lines:
        understand(line)
    monkeypatch.chdir(prepared)
    rules = [rule.replace("new", "nvme-tcp").replace("old", "iscsi") for rule in
             text(ROOT / "examples/ci/rules.txt").splitlines()]  # fmt: skip
    asked = [word for rule in rules for word in ("--rule", rule.partition(" #")[0])]
    assert fairlane(["gate", "runs/demo", *asked]) in (Exit.OK, Exit.NOT_DECIDED)


CHEAP = (
    "fairlane --help",
    "fairlane --version",
    "fairlane study check demo",
    "fairlane schema",
    "fairlane init demo -o -",
)


@pytest.mark.parametrize("line", CHEAP)
def test_a_cheap_command_works(line: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words(line)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout

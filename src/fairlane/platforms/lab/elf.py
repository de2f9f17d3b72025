"""The little of ELF that the lab image needs: read what a program links to, write stand-ins, write a port poker.

Debian's fio links eight client libraries (Ceph, Gluster, RDMA, NBD, PMDK) that make up 70 of its 100 MB and are never
called in a lab guest. Loading them would cost memory in every saved state and time in every trial, so the image holds
stand-ins: libraries of the same name that define the entry points fio asks for, and trap if one is called.

Formats: System V ABI ("Object Files", "Dynamic Linking") and the Linux Standard Base ("Symbol Versioning");
64-bit little-endian x86-64 only.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from fairlane.errors import FairlaneError

_DT_NEEDED, _DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 1, 4, 5, 6, 10, 11, 14
_DT_VERSYM, _DT_VERDEF, _DT_VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
_SHT_DYNAMIC, _SHT_DYNSYM, _SHT_VERNEED, _SHT_VERSYM = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF
_PT_LOAD, _PT_DYNAMIC = 1, 2
_SYMBOL = struct.Struct("<IBBHQQ")
_PAGE = 0x1000


@dataclass(frozen=True)
class Links:
    """What a program or library asks for and offers."""

    needed: tuple[str, ...]
    """Names of the libraries it needs, in order."""
    undefined: Mapping[str, str]
    """Symbols it expects from them -> version, empty for none."""
    defined: frozenset[str]
    """Symbols it offers."""


def links(data: bytes) -> Links:
    """Read the dynamic part of an ELF file. Raises FairlaneError if it is none."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise FairlaneError("not-elf", "not a 64-bit little-endian ELF file")
    table, size, count = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    needed: list[str] = []
    symbols: list[tuple[str, bool]] = []
    versions: dict[int, str] = {}
    indices: list[int] = []

    def text(strings: int, offset: int) -> str:
        start = sections[strings][4] + offset
        return data[start : data.index(b"\0", start)].decode()

    for _, kind, _, _, offset, length, link, info, *_ in sections:
        part = data[offset : offset + length]
        if kind == _SHT_DYNAMIC:
            needed += [text(link, value) for tag, value in struct.iter_unpack("<QQ", part) if tag == _DT_NEEDED]
        elif kind == _SHT_DYNSYM:
            symbols = [(text(link, name), bool(home)) for name, _, _, home, _, _ in _SYMBOL.iter_unpack(part)]
        elif kind == _SHT_VERSYM:
            indices = [index & 0x7FFF for (index,) in struct.iter_unpack("<H", part)]
        elif kind == _SHT_VERNEED:
            at = 0
            for _ in range(info):
                _, entries, _, aux, following = struct.unpack_from("<HHIII", part, at)
                aux += at
                for _ in range(entries):
                    _, _, index, name, aux_next = struct.unpack_from("<IHHII", part, aux)
                    versions[index] = text(link, name)
                    aux += aux_next
                at += following
    indices = indices or [0] * len(symbols)
    return Links(
        tuple(needed),
        {name: versions.get(i, "") for (name, home), i in zip(symbols, indices, strict=True) if name and not home},
        frozenset(name for name, home in symbols if name and home),
    )


def _elf_hash(name: str) -> int:
    """The ABI's symbol hash."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def stand_in(soname: str, symbols: Mapping[str, str]) -> bytes:
    """A shared library called ``soname`` that defines ``symbols`` (name -> version) as functions that trap (ud2)."""
    versions = [soname, *sorted({v for v in symbols.values() if v})]  # the first is the ABI's base version
    names = list(dict.fromkeys([*versions, *symbols]))
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    place, at = {}, 1
    for name in names:
        place[name] = at
        at += len(name.encode()) + 1
    total = len(symbols) + 1
    # One bucket: a look-up walks one chain through all symbols.
    chain = [0, *range(2, total), 0][:total]
    parts: dict[str, bytes] = {
        "code": b"\x0f\x0b",
        "hash": struct.pack(f"<III{total}I", 1, total, 1 if symbols else 0, *chain),
        "versym": struct.pack(f"<{total}H", 0, *(versions.index(v) + 1 if v else 1 for v in symbols.values())),
        "verdef": b"".join(
            struct.pack(
                "<HHHHIII", 1, 1 if i == 0 else 0, i + 1, 1, _elf_hash(v), 20, 28 if i + 1 < len(versions) else 0
            )
            + struct.pack("<II", place[v], 0)
            for i, v in enumerate(versions)
        ),
        "strings": strings,
    }
    where, at = {}, 64 + 2 * 56
    for name, part in parts.items():
        at = (at + 15) & ~15
        where[name] = at
        at += len(part)
    symbols_at = where["symbols"] = (at + 15) & ~15
    parts["symbols"] = _SYMBOL.pack(0, 0, 0, 0, 0, 0) + b"".join(
        _SYMBOL.pack(place[name], 0x12, 0, 1, where["code"], 2)
        for name in symbols  # a global function, in section 1
    )
    dynamic_at = where["dynamic"] = (symbols_at + len(parts["symbols"]) + 15) & ~15
    parts["dynamic"] = b"".join(
        struct.pack("<QQ", tag, value)
        for tag, value in (
            (_DT_SONAME, place[soname]), (_DT_HASH, where["hash"]),
            (_DT_SYMTAB, symbols_at), (_DT_SYMENT, _SYMBOL.size),
            (_DT_STRTAB, where["strings"]), (_DT_STRSZ, len(strings)),
            (_DT_VERSYM, where["versym"]), (_DT_VERDEF, where["verdef"]), (_DT_VERDEFNUM, len(versions)), (0, 0),
        )
    )  # fmt: skip
    end = dynamic_at + len(parts["dynamic"])
    where["elf"] = 0
    parts["elf"] = b"".join(
        (
            struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0),
            struct.pack("<IIQQQQQQ", _PT_LOAD, 7, 0, 0, 0, end, end, _PAGE),
            struct.pack(
                "<IIQQQQQQ", _PT_DYNAMIC, 6, dynamic_at, dynamic_at, dynamic_at, *[len(parts["dynamic"])] * 2, 8
            ),
        )
    )
    out = bytearray(end)
    for name, part in parts.items():
        out[where[name] : where[name] + len(part)] = part
    return bytes(out)


def port_writer(port: int, value: int) -> bytes:
    """A static program that writes one byte to an I/O port: how a guest stops or ends itself at an exact instruction.

    Debian's cloud kernel has no /dev/port, and no compiler is wanted on the user's machine. Exits with ioperm's error,
    0 if the byte was written."""
    code = b"".join(
        (
            b"\xbf" + struct.pack("<I", port),  # mov edi, port
            b"\xbe\x01\x00\x00\x00",  # mov esi, 1
            b"\xba\x01\x00\x00\x00",  # mov edx, 1
            b"\xb8\xad\x00\x00\x00",  # mov eax, 173 (ioperm)
            b"\x0f\x05",  # syscall
            b"\x89\xc7",  # mov edi, eax: the exit code
            b"\x85\xc0",  # test eax, eax
            b"\x75\x08",  # jnz over the write
            b"\xba" + struct.pack("<I", port),  # mov edx, port
            b"\xb0" + bytes([value]),  # mov al, value
            b"\xee",  # out dx, al
            b"\xb8\x3c\x00\x00\x00",  # mov eax, 60 (exit)
            b"\x0f\x05",  # syscall
        )
    )
    base, headers = 0x400000, 64 + 56
    size = headers + len(code)
    elf = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 62, 1, base + headers, 64, 0, 0, 64, 56, 1, 64, 0, 0
    )
    return elf + struct.pack("<IIQQQQQQ", _PT_LOAD, 5, 0, base, base, size, size, _PAGE) + code

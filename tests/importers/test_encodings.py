"""Files with a byte order mark and in UTF-16, as PowerShell and editors write them: every importer reads them as it
reads the plain file."""

import codecs
import io
from functools import partial
from typing import BinaryIO

import pytest

from fairlane.importers.base import HEAD, Source
from tests.importers.importer_oracle import claims, fixtures, groups, importers, judged

ENCODINGS = {
    "utf-8-sig": lambda text: codecs.BOM_UTF8 + text.encode(),
    "utf-16-le": lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    "utf-16-be": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
}


def plain_groups(tool):
    """Fixtures, without those that are stored as PowerShell wrote them."""
    return [files for files in groups(tool) if not any(data.startswith(codecs.BOM_UTF16_LE) for data in files.values())]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("tool", sorted(importers()))
def test_every_importer_reads_every_encoding(tool, encoding):
    plugin = importers()[tool]
    for files in plain_groups(tool):
        encoded = {name: ENCODINGS[encoding](content.decode("utf-8-sig")) for name, content in files.items()}
        assert all(plugin.explicit or claims(plugin, name, content) for name, content in encoded.items())
        assert judged(plugin, encoded) == judged(plugin, files)


@pytest.mark.parametrize("buffered", [True, False])
def test_bytes_are_kept_and_text_is_utf_8(buffered):
    text = "a🚀é\n" * 50_000  # 4 bytes in UTF-16, in pairs that a part of the file may cut
    data = text.encode("utf-16")

    def opened() -> BinaryIO:
        return io.BufferedReader(io.BytesIO(data)) if buffered else io.BytesIO(data)

    file = Source("a", opened)
    assert file.read() == text.encode()
    assert file.head() == text.encode()[:HEAD]
    with file.open() as content:
        assert content.read() == data


def test_half_a_character_and_lone_surrogates_are_replaced():
    file = Source("a", lambda: io.BytesIO(codecs.BOM_UTF16_LE + b"a\0\x00\xd8b\0c"))
    assert file.read().decode() == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"


def test_files_without_a_mark_are_read_as_they_are():
    for name, data in fixtures().items():
        file = Source(name, partial(io.BytesIO, data))
        if data[:2] != codecs.BOM_UTF16_LE:
            assert file.read() == data

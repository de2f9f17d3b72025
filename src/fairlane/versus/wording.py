"""Errors of a study that a command line stands for, in words of the command line: options, and a job file's own lines.

Pure."""

import re

from fairlane.errors import SEVERAL, FairlaneError

_OPTION = re.compile(r"(?:[^\s:][^\n:]*:\d+: )?workloads\.main\.([a-z_]+)(?:\.\d+)?(?=:)")
_ACCEPT = re.compile(r"(?:[^\s:][^\n:]*:\d+: )?design\.accept\.([^\s:]+): .* is not a parameter")
_PLATFORM = re.compile(r"(?:[^\s:][^\n:]*:\d+: )?platform\.(?:kubevirt\.)?(context|namespace|image)(?=:)")
_VOLUME = re.compile(r"(?:[^\s:][^\n:]*:\d+: )?platform\.(?:kubevirt\.)?disk_size(?=:)")
_FILE = re.compile(r"(?:[^\s:][^\n:]*:\d+: )?workloads\.job\.job_file: ")
_LINE = re.compile(r"^line (\d+): ")
"""A message about several lines names them itself."""


def of_options(error: FairlaneError) -> FairlaneError:
    """``workloads.main.bs.0: ...`` becomes ``--bs: ...``."""

    def option(match: re.Match[str]) -> str:
        return f"--{match[1].replace('_', '-')}"

    text = _PLATFORM.sub(option, _VOLUME.sub("--size", _OPTION.sub(option, error.message)))
    text = _ACCEPT.sub(r"--accept: no parameter \1", text)
    if text == error.message:
        return error
    where = "the command line" if error.kind == SEVERAL else ""
    text = re.sub(r"^[^\n:]+(?=: \d+ problems)", "the command line", text)
    return FairlaneError(error.kind, text, hint=error.hint, where=where if where not in text else "", code=error.code)


def of_job_file(error: FairlaneError, file: str) -> FairlaneError:
    """The place is a line of the job file ``file``."""
    where, message = file, _FILE.sub("", error.message)
    if match := _LINE.match(message):
        where, message = f"{file}:{match[1]}", message[match.end() :]
    return FairlaneError(error.kind, message, hint=error.hint, where=where, code=error.code)

"""Takes pictures of a command on a terminal: its screen while it runs, and its last one, in Chromium.

    uv run --with pyte docs/_make/terminal.py NAME SECONDS COMMAND...

writes docs/pictures/NAME-running.png, after so many seconds, and docs/pictures/NAME.png. The command is to run on an
idle machine: its figures are in the picture. Not part of a test: a browser's fonts differ from machine to machine.
"""

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
import time
from io import StringIO

import first_screen  # beside this file
import pyte  # type: ignore[import-not-found] # brought by the command above
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COLUMNS, ROWS = 92, 60
_NAMES = {"brown": "yellow", "default": "default"}
_THEME = TerminalTheme(
    (24, 27, 32), (222, 226, 230),
    [(60, 64, 72), (240, 113, 120), (120, 200, 120), (230, 190, 90), (110, 160, 240), (200, 140, 230), (90, 200, 200),
     (222, 226, 230)],
)  # fmt: skip


def main() -> None:
    """Runs the command and writes both pictures."""
    name, seconds, *command = sys.argv[1:]
    running, last = screens(command, float(seconds))
    page_and_pictures = ((f"{name}-running", running), (name, last))
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        blank, page = browser.new_page(), browser.new_page(device_scale_factor=1.5)
        for file, screen in page_and_pictures:
            page.set_content(page_of(screen))
            image = first_screen.pixels(blank, page.locator("pre").screenshot())
            (first_screen.PICTURES / f"{file}.png").write_bytes(first_screen.indexed(image))
        browser.close()


def screens(command: list[str], seconds: float) -> tuple[list[Text], list[Text]]:
    """What the terminal shows after so many seconds, and at the end."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began = time.monotonic()
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"}):
        os.close(theirs)
        running: list[Text] = []
        while True:
            try:
                stream.feed(os.read(ours, 65536))
            except OSError:  # the command has ended
                return running, lines(screen)
            if not running and time.monotonic() - began > seconds:
                running = lines(screen)


def lines(screen: pyte.Screen) -> list[Text]:
    """The screen's lines up to the last that is not empty."""
    made = []
    for row in range(screen.lines):
        line = Text()
        for column in range(screen.columns):
            cell = screen.buffer[row][column]
            colour = _NAMES.get(cell.fg, cell.fg if cell.fg in ("red", "green", "blue", "magenta", "cyan") else None)
            line.append(cell.data, Style(color=colour, bold=cell.bold, italic=cell.italics))
        line.rstrip()
        made.append(line)
    while made and not made[-1].plain:
        made.pop()
    return made


def page_of(screen: list[Text]) -> str:
    """The lines as a page, in a terminal's colours."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    for line in screen:
        console.print(line, no_wrap=True, crop=False)
    style = "margin:0; padding:16px 20px; display:inline-block; font:14px/1.35 'DejaVu Sans Mono', monospace"
    shell = (
        f"<body style='margin:0'><pre style=\"{style}; background:{{background}}; color:{{foreground}}\">{{code}}</pre>"
    )
    return console.export_html(theme=_THEME, inline_styles=True, code_format=shell)


if __name__ == "__main__":
    main()

"""Takes the picture of README and the documentation's first page: the first screen of a report, in Chromium.

    docs/_make/first_screen.py [RUN_DIRECTORY]

Without a run: that of the sample report, which is made if need be. It is to be a run of the demo in the lab, on an idle
machine (its duration is in the picture), never one of the platform fake. Not part of a test: a browser's fonts differ
from machine to machine.
"""

import base64
import shutil
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import sample  # beside this file
from numpy.typing import NDArray
from playwright.sync_api import Page, sync_playwright

PICTURES = Path(__file__).resolve().parent.parent / "pictures"
WIDTH, HEIGHT = 1180, 700

_PIXELS = """async png => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const bytes = canvas.getImageData(0, 0, image.width, image.height).data;
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
}"""


def main() -> None:
    """Writes first-screen-light.png and first-screen-dark.png."""
    if len(sys.argv) == 1:
        sample.make()
    run = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else sample.run_directory()
    sample.must_be_of_the_lab(run)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        blank = browser.new_page()
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
            page.goto((run / "report.html").as_uri())
            image = pixels(blank, page.screenshot())
            (PICTURES / f"first-screen-{scheme}.png").write_bytes(indexed(image))
        browser.close()


def pixels(page: Page, png: bytes) -> NDArray[np.uint8]:
    """Of a picture without transparency, decoded by the browser: height x width x 3."""
    width, height = struct.unpack(">II", png[16:24])
    data = base64.b64decode(page.evaluate(_PIXELS, base64.b64encode(png).decode()))
    return np.frombuffer(data, np.uint8).reshape(height, width, 4)[:, :, :3]


def indexed(image: NDArray[np.uint8]) -> bytes:
    """A PNG in the picture's 256 commonest colours, of a third of the bytes. A pixel of another colour gets the nearest
    of them: edges of letters, where nobody sees it."""
    height, width, _ = image.shape
    colours, where, count = np.unique(image.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    palette = colours[np.argsort(count)[::-1][:256]]
    distance = ((colours[:, None].astype(int) - palette[None].astype(int)) ** 2).sum(axis=2)
    indices = distance.argmin(axis=1).astype(np.uint8)[where].reshape(height, width)
    rows = np.pad(indices, ((0, 0), (1, 0)))  # each row begins with its filter, 0: none
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = {b"IHDR": head, b"PLTE": palette.tobytes(), b"IDAT": zlib.compress(rows.tobytes(), 9), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts.items()
    )


if __name__ == "__main__":
    main()

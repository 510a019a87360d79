"""Make the README's pictures from the real app: a fresh data folder, the shipped studies, Chromium.

    python scripts/screenshots.py [NAME ...]

writes docs/images/NAME.png. Nothing is drawn by hand; look at them before they are committed.
"""

import argparse
import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1280, 860
MOST_BYTES = 200_000
START_LIMIT_S = 120.0


@dataclass(frozen=True)
class Shot:
    """One picture.

    Attributes:
        path: Page and query.
        title: Heading of the page.
        heading: Section or words to scroll to; empty for the page's top.
    """

    path: str
    title: str
    heading: str = ""


SHOTS = {
    "overview": Shot("", "Overview"),
    "allreduce": Shot("allreduce", "AllReduce", "Fixed cost (alpha)"),
    "speedup": Shot("speedup", "Speedup", "Where a step's time goes"),
    "hardware": Shot("hardware", "Hardware", "Links"),
    "link-ab": Shot("link-ab", "Link A/B", "All arms: what TP, the link and the kernel give"),
    "roi": Shot("roi", "ROI"),
}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def app() -> Iterator[str]:
    """The app on a data folder of its own; yields its address."""
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="linkworth-pictures-") as folder:
        ours = {"LINKWORTH_DATA_DIR": folder, "LINKWORTH_START_WORKER": "0"}
        others = {k: v for k, v in os.environ.items() if not k.startswith("LINKWORTH_")}
        process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)],
            cwd=ROOT,
            env=others | ours,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(f"http://127.0.0.1:{port}", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(timeout=20)


def _wait(address: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):  # noqa: S310
                return
        except OSError:
            try:
                process.wait(timeout=0.3)
            except subprocess.TimeoutExpired:
                continue
            raise SystemExit("The app ended before it answered; try `make run`.") from None
    raise SystemExit("The app did not answer.")


def take(page: Page, address: str, shot: Shot) -> bytes:
    """One picture as PNG, with as many colours as fit the limit."""
    page.goto(f"{address}/{shot.path}")
    expect(page.get_by_role("heading", name=shot.title, exact=True, level=1)).to_be_visible(
        timeout=30_000
    )
    _settle(page)
    if shot.heading:
        named = page.get_by_role("heading", name=shot.heading, exact=True)
        place = named.or_(page.get_by_text(shot.heading, exact=True)).first
        place.evaluate("element => element.scrollIntoView({block: 'start'})")
        _settle(page)
    return smaller(page.screenshot())


def _settle(page: Page) -> None:
    app_state = page.get_by_test_id("stApp")
    expect(app_state).to_have_attribute("data-test-script-state", "notRunning", timeout=60_000)
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0, timeout=30_000)
    for chart in page.get_by_test_id("stVegaLiteChart").all():
        if not chart.evaluate("element => element.offsetParent === null"):
            expect(chart.locator("svg, canvas").first).to_be_attached(timeout=30_000)


def smaller(png: bytes) -> bytes:
    """The same picture below the limit: with every colour where it fits, else with fewer."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    target = io.BytesIO()
    # few pixels of a colour (a mark in a legend) would be given to another one
    picture.save(target, "PNG", optimize=True)
    for colours in (256, 128, 64):
        if target.tell() < MOST_BYTES:
            break
        target = io.BytesIO()
        picture.quantize(colours, dither=Image.Dither.NONE).save(target, "PNG", optimize=True)
    return target.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SHOTS)}; all by default")
    names = parser.parse_args().names or list(SHOTS)
    if unknown := set(names) - set(SHOTS):
        parser.error(f"no such picture: {', '.join(sorted(unknown))}")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        raise SystemExit("Chromium is not installed (Debian: apt-get install chromium).")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with app() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        context = browser.new_context(
            viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light"
        )
        for name in names:
            data = take(context.new_page(), address, SHOTS[name])
            (IMAGES / f"{name}.png").write_bytes(data)
            print(f"{name}.png {len(data) // 1000} kB")
        browser.close()


if __name__ == "__main__":
    main()

"""What the browser tests share: the app server under test, waiting, screenshots."""

import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from playwright.sync_api import Page, expect

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "test-results" / "screenshots"
# two browser tests may share two cores with others: what is waited for is an event, not a time
expect.set_options(timeout=60_000)
START_LIMIT_S = 60


@dataclass
class Server:
    """A running app: its address, data folder and process."""

    url: str
    data_dir: Path
    process: subprocess.Popen[bytes]
    env: dict[str, str]
    port: int

    def stop(self) -> None:
        """End the app server only; its worker lives on."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)

    def start(self) -> None:
        """Start the app server (again) on the same port and wait until it answers."""
        command = [sys.executable, "-m", "streamlit", "run", "app.py"]
        with (self.data_dir / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--server.port", str(self.port)],
                cwd=ROOT,
                env=self.env,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/_stcore/health", timeout=2).status_code == 200:
                    return
            except httpx.TransportError:
                # not listening yet: the connection attempt itself is the wait
                self._still_alive()
        raise AssertionError(f"no answer within {START_LIMIT_S} s")

    def _still_alive(self) -> None:
        try:
            self.process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError((self.data_dir / "server.log").read_text())


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end_everything(data_dir: Path) -> None:
    """End every process that was started for this data folder, workers and runners too."""
    mark = f"LINKWORTH_DATA_DIR={data_dir}"
    for process in psutil.process_iter():
        try:
            if mark in (f"{k}={v}" for k, v in process.environ().items()):
                process.kill()
        except psutil.Error:
            continue


def settled(page: Page) -> None:
    """Wait until Streamlit has finished the run of the page."""
    app = page.get_by_test_id("stApp")
    expect(app).to_have_attribute("data-test-script-state", "notRunning", timeout=60_000)
    expect(page.get_by_test_id("stStatusWidget")).to_have_count(0, timeout=60_000)
    expect(page.locator('[data-stale="true"]')).to_have_count(0, timeout=60_000)
    # widgets load their code when they first appear; until then a grey box stands there
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0, timeout=60_000)


def shoot(page: Page, name: str) -> Path:
    """Keep a full screenshot for people to look at."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    path = SHOTS / f"{name}.png"
    settled(page)
    # Streamlit scrolls inside the window, so a full page picture needs a window that holds it all
    size = page.viewport_size or {"width": 1280, "height": 900}
    height = page.evaluate("document.querySelector('[data-testid=stMain]')?.scrollHeight ?? 900")
    page.set_viewport_size({"width": size["width"], "height": max(900, min(height + 20, 6000))})
    settled(page)
    page.screenshot(path=path)
    page.set_viewport_size(size)
    return path

"""A freshly started server with a data folder of its own, and a real headless Chromium."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from e2e_support import Server, end_everything, free_port
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start an app server: start_server(LINKWORTH_READ_ONLY="1")."""
    yield from _servers(tmp_path)


@pytest.fixture(scope="session")
def shipped_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One app for all tests that only look at what is shipped and store nothing; no worker."""
    starts = _servers(tmp_path_factory.mktemp("shipped"))
    yield next(starts)(LINKWORTH_START_WORKER="0")
    next(starts, None)


def _servers(folder: Path) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(**settings: str) -> Server:
        data_dir = folder / f"server-{len(servers)}"
        data_dir.mkdir()
        env = {k: v for k, v in os.environ.items() if not k.startswith("LINKWORTH_")}
        env |= {"LINKWORTH_DATA_DIR": str(data_dir), **settings}
        port = free_port()
        server = Server(f"http://127.0.0.1:{port}", data_dir, None, env, port)  # type: ignore[arg-type]
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.process.kill()
        server.process.wait()
        end_everything(server.data_dir)


@pytest.fixture
def server(start_server: Callable[..., Server]) -> Server:
    """One fresh app with its worker."""
    return start_server()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, driven by Playwright."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A new browser window of 1280 x 900."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


@pytest.fixture
def browser_window(browser: Browser) -> Iterator[Callable[[], Page]]:
    """Further browser sessions: each call opens one of its own."""
    contexts = []

    def another() -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        contexts.append(context)
        return context.new_page()

    yield another
    for context in contexts:
        context.close()

"""A visitor of a real app server without a browser: speaks Streamlit's own messages."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx
import psutil
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect

from pages import PAGES

ROOT = Path(__file__).resolve().parents[2]
START_LIMIT_S = 120
ANSWER_LIMIT_S = 300


@dataclass
class Seen:
    """What one run of a page sent."""

    headings: list[str] = field(default_factory=list)
    exceptions: list[str] = field(default_factory=list)
    size: int = 0


class Server:
    """An app server on a data folder, in a process of its own."""

    def __init__(self, data_dir: Path, port: int) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith("LINKWORTH_")}
        env |= {"LINKWORTH_DATA_DIR": str(data_dir), "LINKWORTH_START_WORKER": "0"}
        self.port = port
        self._log = data_dir / "server.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)],
                cwd=ROOT,
                env=env,
                stdout=log,
                stderr=log,
            )
        self._facts = psutil.Process(self._process.pid)

    def __enter__(self) -> Self:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            try:
                answer = httpx.get(f"http://127.0.0.1:{self.port}/_stcore/health", timeout=5)
                if answer.status_code == 200:
                    return self
            except httpx.TransportError:
                assert self._process.poll() is None, self._log.read_text()
                time.sleep(0.1)
        raise AssertionError(f"no answer within {START_LIMIT_S} s: {self._log.read_text()}")

    def __exit__(self, *_error: object) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)

    def settle(self) -> None:
        """Wait until it has nothing to do: after its first page it loads the others."""
        before = -1.0
        while self.cpu_s() - before > 0.02:
            before = self.cpu_s()
            time.sleep(1)

    def cpu_s(self) -> float:
        """Processor time that the process has used so far."""
        times = self._facts.cpu_times()
        return float(times.user + times.system)

    def memory_bytes(self) -> int:
        """Resident memory at this moment."""
        return int(self._facts.memory_info().rss)


class Visitor:
    """One browser session."""

    def __init__(self, server: Server) -> None:
        self._connection: ClientConnection = connect(
            f"ws://127.0.0.1:{server.port}/_stcore/stream",
            origin=f"http://127.0.0.1:{server.port}",  # type: ignore[arg-type]
            subprotocols=["streamlit"],  # type: ignore[list-item]
            max_size=None,
        ).__enter__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def open(self, slug: str, query: str = "") -> Seen:
        """Open a page, or have it drawn again; returns when all of it has arrived."""
        message = BackMsg()
        # the first page of the table answers at the root alone
        message.rerun_script.page_name = "" if slug == next(iter(PAGES)) else slug
        message.rerun_script.query_string = query
        self._connection.send(message.SerializeToString())
        seen = Seen()
        while True:
            data = self._connection.recv(timeout=ANSWER_LIMIT_S)
            assert isinstance(data, bytes)
            seen.size += len(data)
            answer = ForwardMsg()
            answer.ParseFromString(data)
            kind = answer.WhichOneof("type")
            if kind == "script_finished":
                if answer.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                    return seen
            elif kind == "delta":
                element = answer.delta.new_element
                if element.WhichOneof("type") == "heading":
                    seen.headings.append(element.heading.body)
                elif element.WhichOneof("type") == "exception":
                    seen.exceptions.append(element.exception.message)

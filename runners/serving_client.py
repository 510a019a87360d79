"""A small client for any OpenAI-compatible server: single requests, and timed streams.

Used for the checks around a benchmark, for sustained load, and for servers that run elsewhere when
no vLLM is installed here. Benchmarks of started servers use `vllm bench serve`.
A server that wants a key gets the one in the environment variable OPENAI_API_KEY.
"""

import http.client
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from models.errors import RunnerUnavailable

CONNECT_S = 10.0


@dataclass
class Timed:
    """One streamed request as the client saw it; times on the monotonic clock, seconds.

    Attributes:
        start_s: When it was sent.
        ttft_s: To the first chunk with a choice; None where none came.
        e2el_s: To the last chunk with a choice.
        gaps_s: Between the chunks.
        output_tokens: As the server counts them, else one a chunk.
        input_tokens: As the server counts them.
        error: Empty for success.
        timed_out: Whether the error was a time limit.
    """

    start_s: float
    ttft_s: float | None = None
    e2el_s: float | None = None
    gaps_s: list[float] = field(default_factory=list)
    output_tokens: int = 0
    input_tokens: int | None = None
    error: str = ""
    timed_out: bool = False


class Client:
    """One connection to a server; a thread keeps its own.

    Args:
        base_url: Scheme, host and port, and a path in front of ``/v1`` where there is one.
        timeout_s: Longest wait for one piece of an answer.
    """

    def __init__(self, base_url: str, timeout_s: float = 300.0) -> None:
        parts = urlsplit(base_url)
        self._path = parts.path.rstrip("/").removesuffix("/v1")
        self._timeout = timeout_s
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        try:
            self._connection = kind(
                parts.hostname or "", parts.port, timeout=min(CONNECT_S, timeout_s)
            )
        except ValueError as error:
            raise RunnerUnavailable(f"{base_url} is no address of a server: {error}.") from None

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of a GET request."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any] | bytes) -> tuple[int, str]:
        """Status and text of a POST request; bytes are sent as they are, broken JSON included."""
        return self._ask("POST", path, body)

    def model(self) -> str:
        """The name of the first model that the server offers.

        Raises:
            RunnerUnavailable: It does not answer, or offers none.
        """
        try:
            status, text = self.get("/v1/models")
            return str(json.loads(text)["data"][0]["id"])
        except (OSError, http.client.HTTPException) as error:
            raise RunnerUnavailable(
                f"The server does not answer: {error}.", "Check its address and that it runs."
            ) from None
        except (ValueError, LookupError, TypeError):
            raise RunnerUnavailable(
                f"The server answers {status} and names no model.",
                "Check that the address is that of an OpenAI-compatible server.",
            ) from None

    def stream(self, body: Mapping[str, Any]) -> Timed:
        """Send a completion request, read its stream and time it."""
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        timed = Timed(start_s=time.perf_counter())
        last = timed.start_s
        try:
            answer = self._send("POST", "/v1/completions", json.dumps(asked).encode())
            if answer.status != 200:
                text = answer.read().decode("utf-8", "replace")
                timed.error = f"{answer.status} {_message(text)}"
                return timed
            for chunk in _events(answer):
                if chunk.get("choices"):
                    now = time.perf_counter()
                    if timed.ttft_s is None:
                        timed.ttft_s = now - timed.start_s
                    else:
                        timed.gaps_s.append(now - last)
                    last = now
                    timed.output_tokens += 1
                if "error" in chunk:
                    timed.error = str(chunk["error"])[:300]
                usage = chunk.get("usage")
                if usage:
                    timed.output_tokens = int(usage.get("completion_tokens") or 0)
                    timed.input_tokens = usage.get("prompt_tokens")
            timed.e2el_s = last - timed.start_s
            if timed.ttft_s is None and not timed.error:
                timed.error = "the stream held no token"
        except TimeoutError:
            timed.error, timed.timed_out = "no answer within the time limit", True
            self._connection.close()
        except (OSError, http.client.HTTPException, ValueError) as error:
            timed.error = f"{type(error).__name__}: {error}"
            self._connection.close()
        return timed

    def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | bytes | None
    ) -> tuple[int, str]:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            answer = self._send(method, path, data)
            return answer.status, answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            self._connection.close()  # a broken connection must not serve the next request
            raise

    def _send(self, method: str, path: str, data: bytes | None) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("OPENAI_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        reused = self._connection.sock is not None
        try:
            return self._once(method, path, data, headers)
        except (ConnectionError, http.client.RemoteDisconnected):
            self._connection.close()
            if not reused:
                raise
            # a server may close an idle connection at any time: that is no failure of a request
            return self._once(method, path, data, headers)

    def _once(
        self, method: str, path: str, data: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        if self._connection.sock is None:
            self._connection.connect()
        self._connection.sock.settimeout(self._timeout)
        self._connection.request(method, self._path + path, body=data, headers=dict(headers))
        return self._connection.getresponse()


def _events(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """The JSON objects of a server-sent stream, up to its end mark."""
    for raw in answer:
        line = raw.strip()
        if not line.startswith(b"data:"):
            continue
        content = line[5:].strip()
        if content == b"[DONE]":
            answer.read()
            return
        chunk = json.loads(content)
        if isinstance(chunk, dict):
            yield chunk


def _message(text: str) -> str:
    """The server's own words for a refusal, short."""
    try:
        content = json.loads(text)
        error = content.get("error", content)
        return str(error.get("message", error))[:300]
    except (ValueError, AttributeError):
        return text[:300]

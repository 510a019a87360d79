"""A small OpenAI-compatible server with counters, and faults on request."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN_S = 0.002
FIRST_S = 0.005


class State:
    """What the handlers share."""

    def __init__(self, model: str, fault: str) -> None:
        self.model, self.fault = model, fault
        self.lock = threading.Lock()
        self.slots = threading.Semaphore(1 if fault == "queue" else 64)
        self.streams = 0
        self.sums = dict.fromkeys(("queue", "prefill", "decode", "e2e"), 0.0)
        self.ended = 0
        self.is_ending = False


def serve(model: str, port: int, fault: str) -> int:
    state = State(model, fault)
    if fault == "stubborn":
        # ignores the polite request, and has a child in a session of its own that does too
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        httpd = ThreadingHTTPServer(("127.0.0.1", port), type("H", (Handler,), {"state": state}))
    except OSError as error:
        print(f"OSError: [Errno {error.errno}] {error.strerror}", flush=True)
        return 1
    print("CPU KV cache size: 4,096 tokens, Maximum concurrency", flush=True)
    httpd.serve_forever()
    return 0


class Handler(BaseHTTPRequestHandler):
    state: State
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            row = {"id": self.state.model, "max_model_len": 512}
            if self.state.fault == "no_length":
                del row["max_model_len"]
            self._json(200, {"data": [row]})
        elif self.path == "/version":
            self._json(200, {"version": "0.33.0"})
        elif self.path == "/metrics":
            self._text(200, self._metrics())
        else:
            self._text(503 if self.state.is_ending else 200, "")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            body = json.loads(raw)
        except ValueError:
            self._json(400, {"error": {"message": "broken JSON"}})
            return
        fault = self.state.fault
        if len(body.get("prompt", "")) > 500 or body.get("temperature", 0) < 0:
            if fault == "crash_on_bad_input":
                os._exit(1)
            status = 500 if fault == "rude" else 400
            self._json(status, {"error": {"message": "refused"}})
        elif body.get("stream"):
            self._stream(body)
        else:
            self._answer(body)

    def _answer(self, body: dict) -> None:
        fault = self.state.fault
        if fault == "nan":
            message = "Out of range float values are not JSON compliant"
            self._json(500, {"error": {"message": message}})
            return
        count = body["max_tokens"]
        words = [f"w{i}" for i in range(count)]
        if fault == "garbage":
            words = ["!"] * count
        prompt = ["Hello", " there", " you"]
        tokens = [*prompt, *words] if body.get("echo") else words
        logprobs = [None if i == 0 and body.get("echo") else -0.5 for i in range(len(tokens))]
        if fault == "null_logprobs":
            logprobs = [None] * len(tokens)
        choice = {"text": "x", "logprobs": {"tokens": tokens, "token_logprobs": logprobs}}
        self._json(200, {"choices": [choice], "usage": {"completion_tokens": count}})

    def _stream(self, body: dict) -> None:
        state = self.state
        with state.lock:
            state.streams += 1
            number = state.streams
        if state.fault == "all_fail":
            self._json(500, {"error": {"message": "no"}})
            return
        if number > {"dies": 6, "dies_later": 14}.get(state.fault, number):
            print("RuntimeError: the card fell off the bus", flush=True)
            sys.stdout.flush()
            os._exit(1)
        if state.fault == "dies_slowly" and number > 6:
            # the engine is gone, and the server in front of it answers until it is too
            if not state.is_ending:
                print("RuntimeError: the card fell off the bus", flush=True)
                threading.Timer(1.0, os._exit, (1,)).start()
            state.is_ending = True
            self._json(500, {"error": {"message": "EngineCore died"}})
            return
        if state.fault == "hang" and number > 6:
            time.sleep(600)
        arrived = time.perf_counter()
        with state.slots:
            begun = time.perf_counter()
            time.sleep(FIRST_S)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            first = time.perf_counter()
            slow = 4 if state.fault == "slow_compute" else 1
            for i in range(body["max_tokens"]):
                if i:
                    time.sleep(TOKEN_S * slow)
                self._event({"choices": [{"text": f" w{i}"}]})
            ended = time.perf_counter()
        usage = {"completion_tokens": body["max_tokens"], "prompt_tokens": 8}
        with state.lock:
            state.ended += 1
            state.sums["queue"] += begun - arrived
            state.sums["prefill"] += first - begun
            state.sums["decode"] += ended - first
            state.sums["e2e"] += ended - arrived
        self._event({"choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, content: dict) -> None:
        self._chunk(b"data: " + json.dumps(content).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _metrics(self) -> str:
        state = self.state
        names = {
            "queue": "request_queue_time",
            "prefill": "request_prefill_time",
            "decode": "request_decode_time",
            "e2e": "e2e_request_latency",
        }
        lines = ["# HELP a stand-in"]
        with state.lock:
            for key, name in names.items():
                lines.append(f'vllm:{name}_seconds_sum{{engine="0"}} {state.sums[key]}')
                lines.append(f'vllm:{name}_seconds_count{{engine="0"}} {state.ended}.0')
        lines.append('vllm:num_preemptions_total{engine="0"} 3.0')
        lines.append('vllm:cache_config_info{kv_cache_size_tokens="4096"} 1.0')
        return "\n".join(lines) + "\n"

    def _json(self, status: int, content: dict) -> None:
        self._text(status, json.dumps(content))

    def _text(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

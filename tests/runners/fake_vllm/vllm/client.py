"""`vllm bench serve` in small: the same options, output lines and result file."""

import argparse
import http.client
import json
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit


def bench(words: list[str], fault: str) -> int:
    parser = argparse.ArgumentParser()
    for name in ("base-url", "model", "max-concurrency", "num-prompts", "random-input-len"):
        parser.add_argument(f"--{name}")
    for name in ("random-output-len", "num-warmups", "seed", "result-dir", "result-filename"):
        parser.add_argument(f"--{name}")
    args, _ = parser.parse_known_args(words)
    if fault == "client_fails":
        print("ValueError: the tokenizer cannot be read", file=sys.stderr)
        return 1
    print("Starting initial single prompt test run...", flush=True)
    url = urlsplit(args.base_url)
    asked = {
        "model": args.model,
        "prompt": "w " * int(args.random_input_len),
        "max_tokens": int(args.random_output_len),
        "stream": True,
    }
    total, cap = int(args.num_prompts), int(args.max_concurrency or args.num_prompts)
    _many(url, asked, int(args.num_warmups), cap, fault)
    print("Starting main benchmark run...", flush=True)
    began = time.perf_counter()
    rows = _many(url, asked, total, cap, fault, show=True)
    result = _result(args, rows, time.perf_counter() - began, fault)
    Path(args.result_dir, args.result_filename).write_text(json.dumps(result))
    return 0


def _many(url, asked, total, cap, fault, show=False):
    rows, slots, threads = [], threading.Semaphore(cap), []

    def one():
        with slots:
            rows.append(_request(url, asked, fault))
            if show:
                print(
                    f"50%|##  | {len(rows)}/{total} [00:01", end="\r", file=sys.stderr, flush=True
                )

    for _ in range(total):
        threads.append(threading.Thread(target=one))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return rows


def _request(url, asked, fault):
    connection = http.client.HTTPConnection(url.hostname, url.port)
    start = last = time.perf_counter()
    row = {"start": start, "ttft": 0.0, "itl": [], "tokens": 0, "error": ""}
    try:
        connection.request("POST", "/v1/completions", json.dumps(asked))
        answer = connection.getresponse()
        if answer.status != 200:
            row["error"] = answer.reason
            return row
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            if json.loads(line[6:])["choices"]:
                now = time.perf_counter()
                if row["tokens"]:
                    row["itl"].append(now - last)
                else:
                    row["ttft"] = now - start
                row["tokens"] += 1
                last = now
    except OSError as error:
        row["error"] = str(error)
    if fault == "slow_client":
        time.sleep(0.2)
        last = time.perf_counter()
    row["latency"] = last - start
    return row


def _result(args, rows, duration, fault):
    fine = [row for row in rows if not row["error"]]
    e2els = sorted(row["latency"] for row in fine)
    ttfts = sorted(row["ttft"] for row in fine)
    outputs = sum(row["tokens"] for row in fine)
    inputs = len(fine) * int(args.random_input_len)

    def median(values):
        if not values:
            return 0.0
        half = len(values) // 2
        return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2

    return {
        "date": "20261129-120000",
        "backend": "openai",
        "model_id": args.model,
        "num_prompts": len(rows),
        "request_rate": "inf",
        "max_concurrency": int(args.max_concurrency) if args.max_concurrency else None,
        "duration": duration,
        "completed": len(fine),
        "failed": len(rows) - len(fine),
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(fine) / duration,
        "output_throughput": outputs / duration * (1.2 if fault == "liar" else 1),
        "total_token_throughput": (inputs + outputs) / duration,
        "input_lens": [int(args.random_input_len)] * len(rows),
        "output_lens": [row["tokens"] for row in rows],
        "ttfts": [row["ttft"] for row in rows],
        "itls": [row["itl"] for row in rows],
        "latencies": [row.get("latency", 0.0) for row in rows],
        "start_times": [row["start"] for row in rows],
        "errors": [row["error"] for row in rows],
        "generated_texts": ["" for _ in rows],
        "median_ttft_ms": median(ttfts) * 1000,
        "median_e2el_ms": median(e2els) * 1000,
        "median_tpot_ms": median(sorted(_tpots(fine))) * 1000,
        "mean_tpot_ms": _mean_tpot(fine),
    }


def _tpots(rows):
    return [(r["latency"] - r["ttft"]) / (r["tokens"] - 1) for r in rows if r["tokens"] > 1]


def _mean_tpot(rows):
    values = _tpots(rows)
    return sum(values) / len(values) * 1000 if values else 0.0

"""Results of a lab that has measured for months, invented from a seed: what make_load.py stores.

Shapes, dimensions and definitions are those that the runners and importers write; the numbers are
plausible and no more. Nothing here may be read as a measurement.
"""

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from models.architecture import message_bytes, read_config
from models.result import EvaluationRef, Gpu, Kind, Measurement, Notice, Result, Tool, Validity
from scripts.load_lab import (
    LABS,
    Dims,
    Lab,
    environment,
    host_facts,
    one,
    raw_values,
    summary,
)

ROOT = Path(__file__).resolve().parents[1]
BEGIN = datetime(2026, 3, 2, 6, tzinfo=UTC)
APART = timedelta(minutes=35)
ROUNDS = 3

MODELS = ("qwen2.5-0.5b", "qwen2.5-1.5b", "qwen2.5-3b", "qwen2.5-7b", "qwen2.5-14b")
CONFIGS = {
    name: json.loads((ROOT / "data" / "models" / f"{name}.json").read_text()) for name in MODELS
}
SIZES = (1024, 3072, 8192, 32768, 131072, 1048576)
LOADS = ((1, 1024, 256), (4, 1024, 256), (16, 1024, 256), (32, 512, 128))
TAILS = (("mean", 1.02), ("median", 1.0), ("p95", 1.3), ("p99", 1.6), ("std", 0.1))
# what twenty runs that follow each other are
MIX: tuple[Kind, ...] = (
    "allreduce", "allreduce", "serving", "serving", "decode", "allreduce", "allreduce",
    "serving", "serving", "decode", "allreduce", "allreduce", "serving", "topology",
    "decode", "allreduce", "allreduce", "serving", "decode", "p2p",
)  # fmt: skip
ALONE = ("topology", "p2p")  # kinds without arms
OURS = Tool(name="linkworth", version="0.1.0")


class Maker:
    """Makes one result after the other; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._evaluation_ids: dict[Kind, str] = {}

    def results(self, count: int) -> Iterator[Result]:
        """The first ``count`` results of the lab, oldest first."""
        seen = dict.fromkeys(MIX, 0)
        for number in range(count):
            kind = MIX[number % len(MIX)]
            yield self._result(number, kind, seen[kind])
            seen[kind] += 1

    def _result(self, number: int, kind: Kind, place: int) -> Result:
        # the two arms of an evaluation follow each other on the same machine
        pair, is_second = divmod(place, 2)
        turn, machine = divmod(pair, len(LABS))
        lab, link = LABS[machine], "off" if is_second else "on"
        if kind == "allreduce":
            made = self._nccl_tests(lab, link) if turn % 2 else self._allreduce(lab, link)
        elif kind == "decode":
            made = self._decode(lab, link, turn)
        elif kind == "serving":
            made = self._serving(lab, link, turn)
        else:
            made = _topology(lab, link) if kind == "topology" else _p2p(lab)
        validity, reasons = _verdict(number)
        begun = BEGIN + number * APART
        return Result(
            id=self._uuid(),
            kind=kind,
            validity=validity,
            reasons=reasons,
            evaluation=self._evaluation(kind, pair, link),
            host=host_facts(lab, turn // 20),
            environment=environment(lab),
            started_at=begun,
            finished_at=begun + timedelta(minutes=4),
            **made,
        )

    def _evaluation(self, kind: Kind, pair: int, link: str) -> EvaluationRef | None:
        if kind in ALONE or pair % 5 == 4:
            return None  # every fifth pair was measured without a plan
        if link == "on":
            self._evaluation_ids[kind] = self._uuid()
        order = 0 if link == "on" else 1
        return EvaluationRef(id=self._evaluation_ids[kind], arm=f"link-{link}", order=order)

    def _uuid(self) -> str:
        return str(uuid.UUID(bytes=self._rng.bytes(16), version=4))

    def _spread(self, typical: float, size: int, share: float = 0.04) -> list[float]:
        values = self._rng.lognormal(np.log(typical), share, size)
        return [round(float(value), 4) for value in values]

    def _allreduce(self, lab: Lab, link: str) -> dict[str, Any]:
        measurements, samples = [], []
        for round_ in range(ROUNDS):
            for mode, launch_us in (("graph", 0.0), ("eager", 11.0)):
                definition = f"linkworth:allreduce-{mode}:1"
                for size in SIZES:
                    dims: Dims = {"bytes": size, "mode": mode, "link": link, "ranks": 2}
                    dims |= {"dtype": "bfloat16", "placement": "in_place"}
                    values = self._spread(launch_us + _call_us(lab, link, size), 8)
                    measurements += summary("allreduce_latency", values, round_, dims, definition)
                    measurements.append(
                        one("wrong_values", 0, round_, dims, "linkworth:exact-sum:1")
                    )
                    samples.append(raw_values("allreduce_latency", values, round_, dims))
        return {
            "origin": "measured",
            "title": f"AllReduce on {lab.name}, link {link}",
            "spec": {
                "kind": "allreduce",
                "device": "cuda",
                "gpus": lab.gpus(2),
                "sizes_bytes": list(SIZES),
                "modes": ["graph", "eager"],
                "link": link,
                "rounds": ROUNDS,
                "dtype": "bfloat16",
            },
            "tool": OURS,
            "measurements": measurements,
            "samples": samples,
        }

    def _nccl_tests(self, lab: Lab, link: str) -> dict[str, Any]:
        rows = []
        for size in (1 << power for power in range(10, 28, 2)):
            dims: Dims = {"bytes": size, "mode": "graph", "ranks": 2, "op": "sum"}
            dims |= {"dtype": "bfloat16", "placement": "in_place"}
            latency = self._spread(_call_us(lab, link, size), 1)[0]
            rate = round(size / latency / 1e3, 2)
            definition = "nccl-tests:graph:1"
            rows += [
                one("allreduce_latency", latency, None, dims, definition, "mean"),
                one("algbw", rate, None, dims, definition),
                one("busbw", rate, None, dims, definition),
            ]
        return {
            "origin": "imported",
            "title": f"all_reduce_perf on {lab.name}",
            "tool": Tool(name="nccl-tests", version="2.17.6"),
            "measurements": rows,
        }

    def _decode(self, lab: Lab, link: str, turn: int) -> dict[str, Any]:
        model = MODELS[turn % len(MODELS)]
        tp = (1, 2)[turn // len(MODELS) % 2]
        batch = (1, 8)[turn // (2 * len(MODELS)) % 2]
        arch = read_config(CONFIGS[model])
        dims: Dims = {"tp": tp, "model": model, "batch": batch, "kv_len": 1024}
        dims |= {"link": link} if tp > 1 else {}
        compute_ms = 0.9 + message_bytes(arch, 1) * arch.layers * 18 / tp / lab.memory_gbps / 1e3
        calls_ms = 0.0
        if tp > 1:
            calls_ms = 2 * arch.layers * _call_us(lab, link, message_bytes(arch, batch)) / 1e3
        steps_ms = {"wall_graph": 1.06 * (compute_ms + calls_ms), "replay": compute_ms + calls_ms}
        if tp > 1:
            steps_ms["replay_no_allreduce"] = compute_ms
        measurements, samples = [], []
        for clock, typical in steps_ms.items():
            named: Dims = {**dims, "clock": clock}
            definition = f"linkworth:decode-{clock.replace('_', '-')}:1"
            for round_ in range(ROUNDS):
                values = self._spread(typical, 12, 0.01)
                measurements += summary("decode_step", values, round_, named, definition)
                rate = batch / float(np.median(values)) * 1e3
                measurements.append(
                    one("decode_throughput", rate, round_, named, definition, "median")
                )
                samples.append(raw_values("decode_step", values, round_, named))
        for name in lab.gpus(tp):
            on_device: Dims = {"device": name, "bytes": 1 << 28}
            definition = "linkworth:probe-copy:1"
            measurements.append(one("copy_bandwidth", lab.memory_gbps, None, on_device, definition))
        return {
            "origin": "measured",
            "title": f"{model}: decode step at TP={tp}" + (f", link {link}" if tp > 1 else ""),
            "spec": {
                "kind": "decode",
                "device": "cuda",
                "gpus": lab.gpus(tp),
                "tp": tp,
                "model": CONFIGS[model],
                "model_name": model,
                "batches": [batch],
                "kv_lens": [1024],
                "clocks": list(steps_ms),
                "rounds": ROUNDS,
                "link": link if tp > 1 else None,
                "dtype": "bfloat16",
            },
            "tool": OURS,
            "measurements": measurements,
            "samples": samples,
        }

    def _serving(self, lab: Lab, link: str, turn: int) -> dict[str, Any]:
        model = MODELS[turn % len(MODELS)]
        concurrency, inputs, outputs = LOADS[turn // len(MODELS) % len(LOADS)]
        load: Dims = {"concurrency": concurrency, "input_len": inputs, "output_len": outputs}
        load |= {"num_prompts": 10 * concurrency, "scenario": "online"}
        tpot_ms = (6.0 + 24e3 / lab.memory_gbps) * (1.0 if link == "on" else 1.13)
        measurements, samples = [], []
        for round_ in range(ROUNDS):
            measurements += self._served_round(lab, load, tpot_ms, outputs, round_)
            for name, typical, size in (("ttft", 9 * tpot_ms, 10), ("itl", tpot_ms, 30)):
                values = self._spread(typical, size, 0.2)
                samples.append(raw_values(name, values, round_, load))
        return {
            "origin": "imported" if turn % 4 == 3 else "measured",
            "title": f"{model} on {lab.name}, TP=2, link {link}",
            "spec": {
                "kind": "serving",
                "device": "cuda",
                "model": f"Qwen/{model}-Instruct",
                "load_format": "dummy",
                "arm": {"gpus": lab.gpus(2), "tp": 2, "replicas": 1, "link": link},
                "workloads": [load],
                "rounds": ROUNDS,
                "seed": 1000,
            },
            "warnings": [Notice(code="dummy_weights", text="The weights were random numbers.")],
            "tool": Tool(name="vllm", version="0.33.0"),
            "measurements": measurements,
            "samples": samples,
        }

    def _served_round(
        self, lab: Lab, load: Dims, tpot_ms: float, outputs: int, round_: int
    ) -> list[Measurement]:
        requests = int(str(load["num_prompts"]))
        rate = self._spread(requests / 10 / tpot_ms * 1e3, 1, 0.01)[0]
        plain = {
            "output_throughput": rate,
            "total_token_throughput": 5 * rate,
            "request_throughput": rate / outputs,
            "duration": 10 * outputs * tpot_ms / 1e3,
            "completed": requests,
            "failed": 0,
        }
        rows = [one(name, plain[name], round_, load, f"vllm:{name}:1") for name in plain]
        rows.append(one("energy_per_token", 700 / rate, round_, load, "linkworth:energy-counter:1"))
        for name, tokens in (("ttft", 9), ("tpot", 1), ("itl", 1), ("e2el", outputs)):
            middle = self._spread(tpot_ms * tokens, 1, 0.01)[0]
            rows += [
                one(name, middle * factor, round_, load, f"vllm:{name}:2", statistic)
                for statistic, factor in TAILS
            ]
        phases = (("queue", 0.1), ("prefill", 8.5), ("decode", outputs), ("client", 0.6))
        for phase, tokens in phases:
            there: Dims = {**load, "phase": phase}
            definition = "vllm:metrics-phase:1"
            rows.append(one("phase_time", tpot_ms * tokens, round_, there, definition, "mean"))
        for name in lab.gpus(2):
            on_gpu: Dims = {**load, "gpu": name}
            rows.append(one("sm_clock", 1950.0, round_, on_gpu, "nvml:sm_clock:1", "median"))
        return rows


def _call_us(lab: Lab, link: str, size: int) -> float:
    alpha_us, gbps = lab.alpha_us, lab.gbps
    return alpha_us + size / gbps / 1e3 if link == "on" else 2.4 * alpha_us + 3 * size / gbps / 1e3


def _verdict(number: int) -> tuple[Validity, list[str]]:
    if number % 25 == 7:
        return "invalid", ["3 elements differ from the exact sum."]
    if number % 9 == 4:
        return "suspect", ["The clock fell from 1980 to 1410 MHz in round 2."]
    return "valid", []


def _topology(lab: Lab, link: str) -> dict[str, Any]:
    every = range(lab.n_gpus)
    names = lab.gpus(lab.n_gpus)
    return {
        "origin": "measured" if link == "on" else "described",
        "title": f"{lab.n_gpus}x {lab.gpu}",
        "spec": {"kind": "topology"},
        "tool": OURS,
        "gpus": [Gpu(index=n, name=lab.gpu, numa=n // 4, uuid=names[n]) for n in every],
        "links": [["X" if left == right else lab.link for left in every] for right in every],
        "nics": 1,
        "complete": True,
    }


def _p2p(lab: Lab) -> dict[str, Any]:
    rows = []
    for src, dst in ((0, 1), (1, 0)):
        dims: Dims = {"src": src, "dst": dst, "bytes": 1 << 28, "link": "on"}
        rows += [
            one("p2p_bandwidth", lab.gbps, 0, dims, "linkworth:p2p-copy:1", "median"),
            one("p2p_latency", 2.1, 0, dims, "linkworth:p2p-copy:1", "median"),
            one("wrong_values", 0, 0, dims, "linkworth:exact-copy:1"),
        ]
    return {
        "origin": "measured",
        "title": f"Peer-to-peer check on {lab.name}",
        "spec": {"kind": "p2p", "device": "cuda", "gpus": lab.gpus(2)},
        "tool": OURS,
        "measurements": rows,
    }

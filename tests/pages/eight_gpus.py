"""What the runners write on a host of eight GPUs, with times worked out from a simple model.

No study here has more than two GPUs yet: these results show that the pages are ready for more, and
say nothing of any machine.
"""

import json
from pathlib import Path

from models.architecture import message_bytes, read_config
from models.decode import step_cost
from models.result import dump, utc_now
from runners import allreduce_result, decode_result
from runners.spec import parse_spec

MODELS = Path(__file__).parents[2] / "data" / "models"
UUIDS = [f"GPU-{number:08d}" for number in range(8)]
HOST = {
    "hostname": "0123456789abcdef",
    "cpu_model": "Example CPU",
    "gpus": [
        {"index": index, "uuid": uuid, "name": "Example 80GB", "memory_bytes": 80 * 10**9}
        for index, uuid in enumerate(UUIDS)
    ],
}
ENVIRONMENT = {"variables": {}, "python": "3.12.3", "torch": "2.9.0"}
COPY_GBPS = 2000.0
CPU_MS, ENGINE_MS = 0.10, 0.30  # of the host, whatever the size
READ_SHARE = 0.85  # of the copy bandwidth that a step's weights come in with
ROUNDS = (0.995, 1.0, 1.005)  # what the rounds of a step differ by
# link -> TP size -> one small all-reduce, microseconds
LATENCY_US = {"on": {2: 8.0, 4: 10.0, 8: 14.0}, "off": {2: 25.0, 4: 45.0, 8: 90.0}}
CLOCKS = ("wall_eager", "wall_served", "wall_graph", "replay", "replay_no_allreduce")


def config(name):
    """A built-in shape's config.json."""
    return json.loads((MODELS / f"{name}.json").read_text())


def step_ms(name, tp, link, batch=1, kv_len=1024):
    """Clock -> milliseconds of a step."""
    cost = step_cost(read_config(config(name)), tp, batch, kv_len)
    compute = cost.bytes_read / COPY_GBPS / READ_SHARE / 1e6
    replay = compute + (cost.calls * LATENCY_US[link][tp] / 1e3 if tp > 1 else 0.0)
    return {
        "wall_eager": replay + 4.0,
        "wall_served": replay + CPU_MS + ENGINE_MS,
        "wall_graph": replay + CPU_MS,
        "replay": replay,
        "replay_no_allreduce": compute,
    }


def decode_document(name, tp, link=None, *, batches=(1,)):
    """A decode run's result.json."""
    spec = parse_spec(
        {
            "kind": "decode",
            "device": "cuda",
            "gpus": UUIDS[:tp],
            "link": link if tp > 1 else None,
            "model": config(name),
            "model_name": name,
            "tp": tp,
            "batches": list(batches),
            "clocks": [clock for clock in CLOCKS if tp > 1 or clock != "replay_no_allreduce"],
            "steps_per_round": 5,
        }
    )
    cases = []
    for batch in batches:
        times = step_ms(name, tp, link or "on", batch)
        samples = {
            clock: [[times[clock] * scale] * spec.steps_per_round for scale in ROUNDS]
            for clock in spec.clocks
        }
        cases.append({"batch": batch, "kv_len": 1024, "is_fused": True, "samples": samples})
    rank = {
        "cases": cases,
        "probe": [
            {
                "metric": "copy_bandwidth",
                "statistic": "max",
                "unit": "GB/s",
                "value": COPY_GBPS,
                "n": 5,
                "dims": {"device": "cuda:0"},
                "definition": "linkworth:probe-copy:1",
            }
        ],
        "conditions": {"threads": 1, "python": "3.12.3"},
        "environment": ENVIRONMENT,
        "transports": [],
        "numerics": "",
    }
    found = decode_result.assemble(spec, [rank] * tp, UUIDS[:tp], [])
    return dump(found.model_copy(update={"host": HOST}))


def sweep_document(name, tp, link):
    """A sweep's result.json, with the message of a model's step among its sizes."""
    size = message_bytes(read_config(config(name)), 1)
    spec = parse_spec(
        {
            "kind": "allreduce",
            "device": "cuda",
            "gpus": UUIDS[:tp],
            "link": link,
            "sizes_bytes": sorted({1024, size, 1 << 20}),
            "modes": ["graph"],
        }
    )
    sweep = allreduce_result.Sweep(spec, HOST, utc_now())
    sweep.take(0, {"environment": ENVIRONMENT, "fault": ""})
    for number in range(spec.rounds):
        for n_bytes in spec.sizes_bytes:
            latency = LATENCY_US[link][tp] * max(1.0, n_bytes / 65_536)
            unit = {"round": number, "mode": "graph", "bytes": n_bytes, "wrong": 0, "layout": {}}
            sweep.take(0, {"unit": {**unit, "values_us": [latency] * 5}})
    return dump(sweep.result())


def documents(name, tps, **more):
    """Decode runs of one model at several TP sizes, link on and off, and the sweeps beside them."""
    found = []
    for tp in tps:
        for link in ("on", "off") if tp > 1 else (None,):
            found.append(decode_document(name, tp, link, **more))
            if link is not None:
                found.append(sweep_document(name, tp, link))
    return found

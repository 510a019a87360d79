"""Decode runs and sweeps as their programs leave them, and the Speedup page under a URL."""

from streamlit.testing.v1 import AppTest

from models.result import Measurement, Result, Tool

MODEL = {
    "model_type": "qwen2",
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}
LARGE = MODEL | {"hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 48}
LARGE |= {"num_attention_heads": 40, "num_key_value_heads": 8, "tie_word_embeddings": False}
HOST = {
    "hostname": "0123456789abcdef",
    "cpu_model": "Example CPU",
    "gpus": [{"index": 0, "uuid": "GPU-aaaa", "name": "Example GPU"}],
}


def decode_run(tp, steps, *, batch=1, model=MODEL, name="small", link=None, **changes):
    """A measured decode run; steps: clock -> step times by round, milliseconds."""
    dims = {"tp": tp, "batch": batch, "kv_len": 1024, "model": name}
    if link:
        dims["link"] = link
    rows = [
        Measurement(
            metric="decode_step",
            statistic="median",
            unit="ms",
            value=value,
            n=100,
            round=number,
            dims={**dims, "clock": clock},
            definition=f"linkworth:decode-{clock.replace('_', '-')}:1",
        )
        for clock, values in steps.items()
        for number, value in enumerate(values)
    ]
    rows.append(
        Measurement(
            metric="copy_bandwidth",
            statistic="max",
            unit="GB/s",
            value=4300.0,
            dims={"device": "GPU-aaaa"},
            definition="linkworth:probe-copy:1",
        )
    )
    fields = {
        "kind": "decode",
        "origin": "measured",
        "title": f"{name} TP={tp}",
        "spec": {"kind": "decode", "device": "cuda", "tp": tp, "model": model, "model_name": name},
        "host": HOST,
        "environment": {"variables": {}, "python": "3.12.3"},
        "tool": Tool(name="linkworth"),
        "measurements": rows,
    }
    return Result(**(fields | changes))


def allreduce_run(*sizes, latency_us, mode="exposed", link="on"):
    rows = [
        Measurement(
            metric="allreduce_latency",
            statistic="median",
            unit="us",
            value=latency_us,
            round=0,
            dims={"bytes": size, "mode": mode, "ranks": 2, "link": link},
            definition=f"linkworth:allreduce-{mode}:1",
        )
        for size in sizes
    ]
    return Result(
        kind="allreduce",
        origin="measured",
        spec={"kind": "allreduce", "link": link},
        host=HOST,
        tool=Tool(name="linkworth"),
        measurements=rows,
    )


def single(scale=1.0, **more):
    return decode_run(
        1,
        {"wall_graph": [1.80 * scale, 1.81 * scale, 1.79 * scale], "replay": [1.70 * scale] * 3},
        **more,
    )


def pair(scale=1.0, **more):
    clocks = {
        "wall_graph": [1.87 * scale, 1.88 * scale, 1.86 * scale],
        "replay": [1.77 * scale] * 3,
        "replay_no_allreduce": [1.39 * scale] * 3,
    }
    return decode_run(2, clocks, **({"link": "on"} | more))


def at_url(**query):
    """The page alone under a URL: opening a page inside the frame begins without a query."""
    at = AppTest.from_string("from pages.speedup_page import render\nrender()", default_timeout=30)
    for name, value in query.items():
        at.query_params[name] = value
    return at.run()


def text_of(at):
    """All words that the page shows."""
    parts = (at.markdown, at.caption, at.info, at.warning, at.success, at.subheader)
    return "\n".join(element.value for kind in parts for element in kind)

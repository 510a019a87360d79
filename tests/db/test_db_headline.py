"""One line a run, worked by hand."""

import pytest

from db.headline import amount, headline, size_words
from models.result import Gpu, Measurement, Result, Tool

UNITS = {
    "allreduce_latency": "us", "decode_step": "ms", "output_throughput": "tok/s", "tpot": "ms",
    "soak_hours": "h", "incidents": "", "p2p_bandwidth": "GB/s", "wrong_values": "",
    "batch_latency": "ms",
}  # fmt: skip


def rows(metric, *cases, statistic="median"):
    return [
        Measurement(
            metric=metric, statistic=statistic, unit=UNITS[metric], value=value, dims=dims,
            round=number, definition="x:1",
        )
        for number, (value, dims) in enumerate(cases)
    ]  # fmt: skip


def line(kind, *groups, **fields):
    return headline(
        Result(
            kind=kind,
            origin="measured",
            tool=Tool(name="x"),
            measurements=[row for group in groups for row in group],
            **fields,
        )
    )


def ar(n_bytes, mode=None):
    return {"bytes": n_bytes, **({"mode": mode} if mode else {})}


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        ([(6.532, ar(3072, "graph")), (20.0, ar(3072, "eager"))], "6.53 us at 3 KB (graph)"),
        ([(20.0, ar(3072, "eager")), (22.0, ar(3072, "eager"))], "21 us at 3 KB (eager)"),
        ([(1.0, ar(512, "eager")), (5.0, ar(4096, "eager"))], "5 us at 4 KB (eager)"),
        ([(1.0, ar(512)), (2.0, ar(1024))], "2 us at 1 KB"),
        ([(1234.5, ar(1 << 30, "exposed"))], "1,234 us at 1 GB (exposed)"),
    ],
)
def test_allreduce(cases, words):
    assert line("allreduce", rows("allreduce_latency", *cases)) == words


def test_rounds_go_before_a_value_over_them():
    over_all = rows("allreduce_latency", (9.0, ar(3072)))
    over_all[0].round = None
    measured = rows("allreduce_latency", (6.0, ar(3072)), (8.0, ar(3072)))
    assert line("allreduce", over_all, measured) == "7 us at 3 KB"


def test_decode_takes_the_clock_that_a_user_feels_and_the_smallest_case():
    cases = rows(
        "decode_step",
        (9.0, {"batch": 8, "kv_len": 1024, "clock": "wall_graph"}),
        (1.893, {"batch": 1, "kv_len": 1024, "clock": "wall_graph"}),
        (1.7, {"batch": 1, "kv_len": 1024, "clock": "replay"}),
    )
    assert line("decode", cases) == "1.89 ms a step (batch 1, KV 1024, graph)"


@pytest.mark.parametrize(
    ("clocks", "words"),
    [
        (("wall_eager", "wall_served", "wall_graph", "replay"), "graph"),
        (("wall_eager", "wall_served", "replay"), "as served"),
        (("wall_eager", "replay"), "replay"),
        (("wall", "replay"), "wall"),  # as an author printed them
        (("wall_eager",), "eager"),
        (("replay_no_allreduce",), "replay without all-reduce"),
    ],
)
def test_of_several_clocks_the_line_names_the_one_it_is_of(clocks, words):
    found = rows("decode_step", *((2.0, {"batch": 1, "clock": clock}) for clock in clocks))
    assert line("decode", found) == f"2 ms a step (batch 1, {words})"


def test_serving_shows_the_best_throughput_and_its_tpot():
    words = line(
        "serving",
        rows("output_throughput", (66.0, {"concurrency": 1}), (182.4, {"concurrency": 4}),
             statistic="value"),
        rows("tpot", (13.4, {"concurrency": 1}), (19.04, {"concurrency": 4})),
    )  # fmt: skip
    assert words == "182 tok/s, TPOT 19 ms at concurrency 4"


def test_soak_p2p_and_topology():
    hours = rows("soak_hours", (12.0, {}), statistic="value")
    assert line("soak", hours, rows("incidents", (1.0, {}), statistic="value")) == (
        "12 h, 1 incident"
    )
    bandwidth = rows("p2p_bandwidth", (45.21, {"src": 0, "dst": 1}), (44.0, {"src": 1, "dst": 0}))
    assert line("p2p", bandwidth) == "up to 45.2 GB/s"
    wrong = rows("wrong_values", (12.0, {"src": 0, "dst": 1}), statistic="value")
    assert line("p2p", bandwidth, wrong) == "12 wrong values"
    gpus = [Gpu(index=n, name=f"GPU{n}") for n in range(2)]
    assert line("topology", gpus=gpus, links=[["X", "NV4"], ["NV4", "X"]]) == "2 GPUs, links NV4"
    assert line("topology", gpus=gpus[:1], links=[["X"]]) == "1 GPU"


def test_other_kinds_show_their_first_number():
    assert line("engine", rows("batch_latency", (812.3, {}), statistic="mean")) == (
        "Batch latency: 812 ms"
    )


def test_a_gain_says_against_what():
    gain = Measurement(
        metric="output_throughput", statistic="change_pct", unit="%", low=8, high=10,
        relative_to="link off", definition="x:1",
    )  # fmt: skip
    assert line("serving", [gain]) == "Output throughput: +8 to 10 % against link off"


def test_without_a_number_the_reason_or_nothing():
    assert line("decode", validity="invalid", reasons=["It hung."]) == "It hung."
    assert line("decode") == ""


def test_numbers_and_sizes():
    assert amount(0.12345, "ms") == "0.123 ms"
    assert amount(3.0, "") == "3"
    assert [size_words(n) for n in (512, 3072, 1 << 20, 3 << 29)] == [
        "512 B", "3 KB", "1 MB", "1.5 GB",
    ]  # fmt: skip

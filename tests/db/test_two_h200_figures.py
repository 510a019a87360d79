"""Figures of the study of two H200: computed from its runs, and found in its own words."""

from statistics import median

import pytest
from shipped import bundle, step, told, value

from models.architecture import calls_per_step, message_bytes, read_config
from models.scaling_fits import Agreement

STUDY = "two-h200"
SMALL, LARGE = "qwen2.5-1.5b", "qwen2.5-14b"
CLOCKS = ("wall_eager", "wall_served", "wall_graph", "replay", "replay_no_allreduce")


@pytest.fixture(scope="module")
def words():
    return told(STUDY)


@pytest.fixture(scope="module")
def steps():
    """(model, TP, link) -> decode run."""
    found = [run for run in bundle(STUDY).results if run.kind == "decode"]
    return {(run.spec["model_name"], run.spec["tp"], run.spec["link"]): run for run in found}


@pytest.fixture(scope="module")
def sweeps():
    """(calls a graph, link) -> AllReduce run."""
    found = [run for run in bundle(STUDY).results if run.kind == "allreduce"]
    return {(run.spec["calls_per_graph"], run.spec["link"]): run for run in found}


@pytest.fixture(scope="module")
def exposed(steps, sweeps):
    """The table of the exposed communication, from the runs."""
    rows = {}
    for (model, tp, link), run in steps.items():
        if tp == 1:
            continue
        arch = read_config(run.spec["model"])
        calls = calls_per_step(arch, vocab_parallel_embedding=True)
        for batch in (1, 8):
            size = message_bytes(arch, batch)
            dims = {"mode": "exposed", "bytes": size, "link": link, "ranks": 2}
            latency = value(sweeps[calls, link], "allreduce_latency", **dims)
            without = step(run, "replay_no_allreduce", batch)
            apart, gives = step(run, "replay", batch) - without, calls * latency / 1e3
            rows[model, link, batch] = {
                "message (B)": size,
                "by difference (ms)": apart,
                "calls": calls,
                "latency (us)": latency,
                "gives (ms)": gives,
                "ratio": gives / apart,
                "remainder (ms)": apart - gives,
                "remainder a call (us)": 1e3 * (apart - gives) / calls,
                "kernels between two calls (us)": 1e3 * without / calls,
            }
    return rows


def spreads(run, *clocks):
    """How far the rounds of each load lie apart, of their median."""
    for clock in clocks:
        for batch in (1, 8):
            rows = run.find("decode_step", "median", clock=clock, batch=batch)
            rounds = [row.value for row in rows]
            if rounds:
                assert len(rounds) == 3
                yield (max(rounds) - min(rounds)) / median(rounds)


def test_one_pair_of_cards_in_one_sitting(steps, sweeps):
    assert set(steps) == {
        (m, *arm) for m in (SMALL, LARGE) for arm in ((1, None), (2, "on"), (2, "off"))
    }
    assert set(sweeps) == {(calls, link) for calls in (57, 97) for link in ("on", "off")}
    every = [*steps.values(), *sweeps.values()]
    assert len({run.host["boot_id"] for run in every}) == 1
    cards = {tuple(gpu["uuid"] for gpu in run.host["gpus"]) for run in every}
    assert len(cards) == 1
    others = ("allreduce-on-2-h200", "decode-on-h200", "hardware-2-h200", "one-h200")
    elsewhere = {
        gpu.get("uuid")
        for study in others
        for run in bundle(study).results
        for gpu in run.host.get("gpus") or []
    }
    assert not set(cards.pop()) & elsewhere
    for (_, tp, link), run in steps.items():
        clocks = CLOCKS if tp == 2 else CLOCKS[:-1]
        for clock in clocks:
            for batch in (1, 8):
                rows = run.find("decode_step", "median", clock=clock, batch=batch, kv_len=1024)
                assert [row.round for row in rows] == [0, 1, 2]
                assert {row.n for row in rows} == {100 if clock.startswith("wall") else 30}
        (served,) = {row.definition for row in run.find("decode_step", clock="wall_served")}
        assert served == "linkworth:decode-wall-served:2"
        transport = {None: {}, "on": {"P2P/CUMEM": 24}, "off": {"SHM/direct/direct": 4}}[link]
        assert run.environment["transports"] == transport
    for run in sweeps.values():
        rows = run.find("allreduce_latency", "median")
        assert {(row.dims["mode"], row.round) for row in rows} == {
            (mode, number) for mode in ("graph", "exposed") for number in range(3)
        }
        assert {row.n for row in rows} == {30}


def test_only_the_clock_that_launches_each_kernel_is_unsteady(steps, words):
    suspect = {key for key, run in steps.items() if run.validity == "suspect"}
    assert suspect == {(LARGE, 1, None), (SMALL, 1, None), (LARGE, 2, "on")}
    for run in steps.values():
        assert all(text.startswith("wall_eager") for text in run.reasons)
        assert all("first round differs" in text for text in run.reasons)
        assert all(notice.text.startswith("wall_eager") for notice in run.warnings)
    every = steps.values()
    eager = [step(run, "wall_eager", batch) for run in every for batch in (1, 8)]
    assert (round(min(eager)), round(max(eager))) == (26, 75)
    assert round(100 * max(max(spreads(run, "wall_eager")) for run in every)) == 107
    assert max(max(spreads(run, *CLOCKS[1:3])) for run in every) == pytest.approx(0.068, abs=5e-4)
    assert max(max(spreads(run, *CLOCKS[3:])) for run in every) < 0.006
    assert "26 to 75 ms a step, rounds up to 107 % apart" in words
    assert "all other clocks lie within 7 %, of the replays within 0.6 %" in words
    (values,) = [
        sample.values
        for sample in steps[LARGE, 1, None].samples
        if sample.dims["clock"] == "wall_eager" and sample.round == 2 and sample.dims["batch"] == 1
    ]
    # one pace, then another, each for dozens of steps
    assert (round(median(values[:20])), round(median(values[30:80]))) == (64, 31)
    assert "about 31 ms and 64" in words


@pytest.mark.parametrize(
    ("model", "batch", "alone_ms", "pairs_ms", "gains", "served"),
    [
        (LARGE, 1, 8.252, (5.972, 6.549), (1.38, 1.26), (1.37, 1.27)),
        (LARGE, 8, 9.027, (6.543, 7.544), (1.38, 1.20), (1.33, 1.16)),
        (SMALL, 1, 1.801, (2.029, 2.333), (0.89, 0.77), (0.85, 0.76)),
        (SMALL, 8, 1.968, (2.103, 2.335), (0.94, 0.84), (0.90, 0.82)),
    ],
)
def test_what_tp_2_does_to_a_step_with_and_without_the_link(
    steps, words, model, batch, alone_ms, pairs_ms, gains, served
):
    alone = steps[model, 1, None]
    assert step(alone, batch=batch) == pytest.approx(alone_ms, abs=6e-4)
    for link, pair_ms, gain, engine in zip(("on", "off"), pairs_ms, gains, served, strict=True):
        pair = steps[model, 2, link]
        assert set(alone.spec["gpus"]) < set(pair.spec["gpus"])
        assert step(pair, batch=batch) == pytest.approx(pair_ms, abs=6e-4)
        assert round(step(alone, batch=batch) / step(pair, batch=batch), 2) == gain
        both = (step(run, "wall_served", batch) for run in (alone, pair))
        assert round(next(both) / next(both), 2) == engine
        assert f"{gain:.2f}" in words
    assert f"{alone_ms:.3f} to {pairs_ms[0]:.3f}" in words
    assert f"{pairs_ms[1]:.3f} ms" in words


def test_what_the_link_itself_gives(steps, words):
    def gain(model, batch):
        off, on = (step(steps[model, 2, link], batch=batch) for link in ("off", "on"))
        return round(off / on, 2)

    assert [gain(model, batch) for model in (LARGE, SMALL) for batch in (1, 8)] == [
        1.10, 1.15, 1.15, 1.11,
    ]  # fmt: skip
    assert "14B 1.10 at batch 1 and 1.15 at batch 8, 1.5B 1.15 and 1.11" in words
    saved = step(steps[SMALL, 1, None], "replay") - step(
        steps[SMALL, 2, "on"], "replay_no_allreduce"
    )
    assert round(saved, 3) == 0.288
    assert "save 0.288 ms of replay" in words


@pytest.mark.parametrize(
    ("model", "link", "batch", "apart_ms", "gives_ms", "ratio"),
    [
        (LARGE, "on", 1, 0.901, 0.853, 0.95),
        (LARGE, "on", 8, 0.990, 0.834, 0.84),
        (LARGE, "off", 1, 1.429, 1.371, 0.96),
        (LARGE, "off", 8, 1.965, 1.836, 0.93),
        (SMALL, "on", 1, 0.482, 0.462, 0.96),
        (SMALL, "on", 8, 0.514, 0.462, 0.90),
        (SMALL, "off", 1, 0.801, 0.771, 0.96),
        (SMALL, "off", 8, 0.761, 0.694, 0.91),
    ],
)
def test_exposed_communication_by_difference_and_by_calls(
    exposed, words, model, link, batch, apart_ms, gives_ms, ratio
):
    row = exposed[model, link, batch]
    assert row["by difference (ms)"] == pytest.approx(apart_ms, abs=6e-4)
    assert row["gives (ms)"] == pytest.approx(gives_ms, abs=6e-4)
    assert round(row["ratio"], 2) == ratio
    unexplained = Agreement(row["by difference (ms)"], row["gives (ms)"]).unexplained_ms
    assert (unexplained is not None) == ((model, link, batch) == (LARGE, "on", 8))
    assert f"{apart_ms:.3f} against {gives_ms:.3f}" in words.replace(" ms against", " against")


def test_the_table_of_the_study_is_that_of_its_runs(exposed):
    table = bundle(STUDY).study.facts["exposed"]
    assert len(table) == len(exposed) == 8
    for row in table:
        found = exposed[row["shape"], row["link"], row["batch"]]
        assert {name: row[name] for name in found} == pytest.approx(found, rel=2e-3)


def test_the_remainder_rises_with_the_message_under_either_link(exposed, words):
    a_call = {key: row["remainder a call (us)"] for key, row in exposed.items()}
    arms = [(model, link) for model in (LARGE, SMALL) for link in ("on", "off")]
    ones, eights = ([a_call[*arm, batch] for arm in arms] for batch in (1, 8))
    assert (round(min(ones), 2), round(max(ones), 2)) == (0.34, 0.60)
    assert (round(min(eights), 2), round(max(eights), 2)) == (0.91, 1.61)
    times = [eight / one for one, eight in zip(ones, eights, strict=True)]
    assert (round(min(times), 1), round(max(times), 1)) == (2.2, 3.2)
    for text in ("0.34 to 0.60 us a call at batch 1", "0.91 to 1.61 us", "2.2 to 3.2 times"):
        assert text in words
    for link, told_us in (
        ("on", "0.34, 0.50, 0.91 and 1.61"),
        ("off", "0.53, 0.60, 1.17 and 1.34"),
    ):
        by_size = sorted(
            (row["message (B)"], row["remainder a call (us)"])
            for (_, other, _), row in exposed.items()
            if other == link
        )
        assert [size // 1024 for size, _ in by_size] == [3, 10, 24, 80]
        rising = [us for _, us in by_size]
        assert rising == sorted(rising)
        assert "{:.2f}, {:.2f}, {:.2f} and {:.2f}".format(*rising) == told_us
        assert told_us in words
    links = [
        a_call[model, "off", batch] - a_call[model, "on", batch]
        for model in (LARGE, SMALL)
        for batch in (1, 8)
    ]
    assert (round(min(map(abs, links)), 2), round(max(map(abs, links)), 2)) == (0.10, 0.27)
    assert min(links) < 0 < max(links)
    assert "0.10 to 0.27 us, and not always the same way" in words
    shapes = [
        a_call[LARGE, link, batch] / a_call[SMALL, link, batch]
        for link in ("on", "off")
        for batch in (1, 8)
    ]
    assert (round(min(shapes), 1), round(max(shapes), 1)) == (1.1, 1.8)
    assert "1.1 to 1.8 times as much a call" in words


def test_what_the_remainder_is_compatible_with(exposed, words):
    between = {key: row["kernels between two calls (us)"] for key, row in exposed.items()}
    for model, one, eight in ((SMALL, 25, 26), (LARGE, 51, 56)):
        for link in ("on", "off"):
            assert [round(between[model, link, batch]) for batch in (1, 8)] == [one, eight]
    assert "26 us instead of 25 at batch 8 (1.5B) and 56 instead of 51 (14B)" in words
    smallest = {link: exposed[SMALL, link, 1]["latency (us)"] for link in ("on", "off")}
    assert {link: round(us, 1) for link, us in smallest.items()} == {"on": 8.1, "off": 13.5}
    shares = [smallest[link] / 1e3 / row["remainder (ms)"] for (_, link, _), row in exposed.items()]
    assert (round(100 * min(shares)), round(100 * max(shares))) == (5, 45)
    assert "it is 5 to 45 % of a remainder" in words
    left = [exposed[LARGE, "on", batch]["remainder (ms)"] for batch in (1, 8)]
    assert [round(ms, 3) for ms in left] == [0.048, 0.156]
    assert "0.048 and 0.156 ms are left" in words
    earlier = told("decode-on-h200")
    assert "leaves +0.215 ms" in earlier
    assert "+0.188 ms" in earlier
    assert "left 0.215 ms of the 14B step unexplained at batch 1 and 0.188 ms" in words


@pytest.fixture(scope="module")
def served():
    """Times per output token that vLLM took in other starts, milliseconds."""
    decode, alone = bundle("decode-on-h200"), bundle("one-h200")
    found = {
        (run.spec["model_name"], run.evaluation.arm): value(run, "tpot", concurrency=1)
        for run in decode.results
        if run.kind == "serving"
    }
    (graphs,) = [run for run in alone.results if run.evaluation.arm == "cuda-graphs"]
    found[LARGE, "one-h200"] = value(graphs, "tpot", concurrency=1)
    table = alone.study.facts["vllm_1_5b_with_graphs"]
    rounds = [row["median TPOT (ms)"] for row in table if row["concurrency"] == 1]
    return found | {(SMALL, f"round {number}"): ms for number, ms in enumerate(rounds)}


@pytest.mark.parametrize(
    ("arm", "clock", "step_ms", "other", "tpot_ms", "apart"),
    [
        ((SMALL, 1, None), "wall_served", 1.987, (SMALL, "tp1"), 2.035, "-2.4"),
        ((SMALL, 1, None), "wall_served", 1.987, (SMALL, "round 0"), 2.137, "-7.0"),
        ((SMALL, 1, None), "wall_served", 1.987, (SMALL, "round 1"), 1.950, "+1.9"),
        ((LARGE, 1, None), "wall_served", 8.749, (LARGE, "tp1"), 8.626, "+1.4"),
        ((LARGE, 1, None), "wall_served", 8.749, (LARGE, "one-h200"), 8.633, "+1.3"),
        ((LARGE, 2, "on"), "wall_graph", 5.972, (LARGE, "tp2-link-on"), 5.642, "+5.8"),
        ((LARGE, 2, "on"), "wall_served", 6.369, (LARGE, "tp2-link-on"), 5.642, "+12.9"),
    ],
)
def test_the_step_beside_a_server_of_other_cards(
    steps, served, words, arm, clock, step_ms, other, tpot_ms, apart
):
    found = step(steps[arm], clock)
    assert found == pytest.approx(step_ms, abs=6e-4)
    assert served[other] == pytest.approx(tpot_ms, abs=6e-4)
    assert f"{100 * (found / served[other] - 1):+.1f}" == apart
    for figure in (f"{step_ms:.3f} ms", f"{tpot_ms:.3f}", apart):
        assert figure in words
    assert "vLLM was not measured on this pair" in words


def test_copies_beside_cudas_own(words):
    table = bundle(STUDY).study.facts["copies"]
    rows = {(row["what"], row["src"]): row for row in table}
    assert len(rows) == len(table) == 9
    barred = [row for row in table if row["what"] != "small"]
    assert all(row["ok"] for row in barred)
    assert max(1 - row["ratio"] for row in barred) < 0.022
    assert all(len(row[f"{side}_all"]) == 3 for row in table for side in ("linkworth", "cuda"))
    for what, src, ours, cuda in (
        ("one way", 0, "387.5", "394.8"),
        ("one way", 1, "387.1", "394.3"),
        ("both ways", 0, "763.1", "779.2"),
    ):
        row = rows[what, src]
        assert row["linkworth"] == pytest.approx(float(ours), abs=0.06)
        assert row["cuda"] == pytest.approx(float(cuda), abs=0.06)
        assert ours in words
        assert cuda in words
    inside = [f"{rows['inside, loop', src]['linkworth']:,.0f}" for src in (0, 1)]
    assert "{} and {} GB/s against".format(*inside) in words
    for what, told_rates in (("loop", "4,243 and 4,242"), ("fastest", "4,195 and 4,199")):
        rates = [f"{rows[f'inside, {what}', src]['cuda']:,.0f}" for src in (0, 1)]
        assert " and ".join(rates) == told_rates
        assert told_rates in words
    small = rows["small", 0]
    assert small["ok"] is None
    assert (round(small["linkworth"], 1), round(small["cuda"], 1)) == (11.3, 2.3)
    assert "11.3 us against 2.3" in words

"""Figures of the two studies of served models on two H200: from their runs, in their own words."""

import re
from statistics import mean, median

import pytest
from shipped import bundle, step, told, value

from models.layout_gain import changes, split_words
from models.layout_worth import worth
from models.layouts import alike, questions
from models.rounds import Round
from models.serving_words import cell_rounds, cell_widths, paired_change

LARGE, SMALL = "served-14b-on-2-h200", "served-1-5b-on-2-h200"
CAPS = (1, 4, 16)
TWO = ["tp1", "2xtp1", "tp2-link-on", "tp2-no-custom-all-reduce", "tp2-link-off"]


@pytest.fixture(scope="module", params=[LARGE, SMALL])
def study(request):
    return request.param


def arms(study):
    """Arm -> served run."""
    return {run.evaluation.arm: run for run in bundle(study).results if run.kind == "serving"}


@pytest.fixture(scope="module")
def served():
    return {name: arms(name) for name in (LARGE, SMALL)}


@pytest.fixture(scope="module")
def words():
    return {name: told(name) for name in (LARGE, SMALL)}


def steps(study):
    """(TP, batches) -> decode run."""
    found = [run for run in bundle(study).results if run.kind == "decode"]
    return {(run.spec["tp"], tuple(run.spec["batches"])): run for run in found}


def by_cap(run, name, statistic="median"):
    """Rounds of a figure at each concurrency."""
    return {cell[1]: rounds for cell, rounds in cell_rounds(run, name, statistic).items()}


def change(reference, other, name, cap, statistic="median"):
    """Change in percent with its interval, as the study's sentences write it."""
    left, right = (by_cap(run, name, statistic)[cap] for run in (reference, other))
    percent, low, high, n = paired_change(left, right)
    assert n == 3
    return f"{percent:+.1f} % [{low:+.1f}, {high:+.1f}]"


def bare(text):
    """The change alone, without its interval."""
    return re.sub(r" \[.*", "", text)


def output(runs, reference, other, cap):
    return change(runs[reference], runs[other], "output_throughput", cap, "value")


def test_five_arms_of_one_start_with_three_rounds_each(served, study):
    runs = served[study]
    assert list(runs) == TWO + (["enforce-eager"] if study == SMALL else [])
    every = bundle(study).results
    assert {tuple(gpu["uuid"] for gpu in run.host["gpus"]) for run in every} == {
        tuple(gpu["uuid"] for gpu in bundle(LARGE).results[0].host["gpus"])
    }
    assert {run.host["boot_id"] for run in every} == {bundle(LARGE).results[0].host["boot_id"]}
    for run in runs.values():
        assert run.tool.version == "0.25.1"
        for name in ("tpot", "ttft", "e2el", "itl"):
            assert {cap: len(by_cap(run, name)[cap]) for cap in CAPS} == dict.fromkeys(CAPS, 3)
        assert not any(row.value for row in run.find("failed"))
        for cap in CAPS:
            assert value(run, "completed", "value", concurrency=cap) == 4 * cap
        foreign = max(row.value for row in run.find("foreign_load"))
        assert foreign < 3.5
        # the plan says which single gaps were kept
        gaps = {sample.round for sample in run.samples if sample.metric == "itl"}
        assert gaps == (set() if run.evaluation.arm == "enforce-eager" else {1})
        assert any("Single gaps between tokens are" in notice.text for notice in run.warnings)
    elsewhere = {
        gpu.get("uuid")
        for other in ("allreduce-on-2-h200", "decode-on-h200", "one-h200", "two-h200")
        for run in bundle(other).results
        for gpu in run.host.get("gpus") or []
    }
    assert not {gpu["uuid"] for gpu in every[0].host["gpus"]} & elsewhere


def test_the_clock_stood_and_other_load_was_small(served, words):
    for study, runs in served.items():
        clocks = [row.value for run in runs.values() for row in run.find("sm_clock", "median")]
        assert min(clocks) > 1960
        assert "1,980 MHz" in words[study]
    large = [row.value for run in served[LARGE].values() for row in run.find("sm_clock", "median")]
    assert set(large) == {1980.0}
    load = max(row.value for run in served[LARGE].values() for row in run.find("foreign_load"))
    assert round(load) == 3
    assert "other processes took 3 % of the CPU at most" in words[LARGE]


@pytest.mark.parametrize(
    ("study", "cap", "token", "output_change"),
    [
        (LARGE, 1, "-36.5 % [-36.6, -36.5]", "+54.9 % [+53.0, +56.8]"),
        (LARGE, 4, "-36.6 % [-36.9, -36.3]", "+46.1 % [+44.4, +47.8]"),
        (LARGE, 16, "-29.4 % [-34.7, -23.7]", "+34.8 % [+32.9, +36.8]"),
        (SMALL, 1, "+17.9 % [-17.5, +68.4]", "-10.7 % [-30.0, +13.8]"),
        (SMALL, 4, "+9.8 % [-30.2, +72.6]", "+2.7 % [-10.9, +18.4]"),
        (SMALL, 16, "-10.5 % [-19.1, -1.0]", "+2.2 % [-26.4, +41.9]"),
    ],
)
def test_whether_tp_2_with_the_link_pays(served, words, study, cap, token, output_change):
    runs = served[study]
    assert change(runs["tp1"], runs["tp2-link-on"], "tpot", cap) == token
    assert output(runs, "2xtp1", "tp2-link-on", cap) == output_change
    assert token in words[study]
    assert output_change in words[study]


@pytest.mark.parametrize(
    ("study", "cap", "token", "output_change"),
    [
        (LARGE, 1, "-24.4 %", "+29.8 % [+29.4, +30.2]"),
        (LARGE, 4, "-22.1 %", "+13.6 % [+13.2, +13.9]"),
        (LARGE, 16, "-2.4 % [-7.3, +2.8]", "-11.5 % [-12.3, -10.7]"),
        (SMALL, 1, "+47.0 % [+40.5, +53.8]", "-28.2 % [-36.3, -19.1]"),
        (SMALL, 4, None, "-16.8 % [-27.8, -4.0]"),
        (SMALL, 16, None, "-22.0 % [-38.2, -1.4]"),
    ],
)
def test_whether_tp_2_pays_without_the_link(served, words, study, cap, token, output_change):
    runs = served[study]
    found = change(runs["tp1"], runs["tp2-link-off"], "tpot", cap)
    if token is None:
        low, high = map(float, re.findall(r"[-+][\d.]+(?=[,\]])", found))
        assert low < 0 < high  # told as not shown
    else:
        assert found.startswith(token)
        assert token in words[study]
    assert output(runs, "2xtp1", "tp2-link-off", cap) == output_change
    assert output_change in words[study]


def layouts_and_rounds(runs):
    layouts = alike({name: run.spec for name, run in runs.items()})

    def rounds(arm, name, statistic, cap):
        mine = by_cap(runs[arm], name, statistic)[cap]
        return [Round(value, number) for number, value in sorted(mine.items())]

    return layouts, rounds


def test_what_the_link_is_worth_between_the_best_layouts(served, words):
    layouts, rounds = layouts_and_rounds(served[LARGE])
    found = worth(layouts, CAPS, rounds, is_paired=True)
    told_of = {
        (w.figure[0], w.concurrency): (w.without, w.best, round(w.result.change_pct, 1))
        for w in found
    }
    assert told_of == {
        ("output_throughput", 1): ("tp2-link-off", "tp2-link-on", 19.4),
        ("output_throughput", 4): ("tp2-link-off", "tp2-link-on", 28.6),
        ("output_throughput", 16): ("2xtp1", "tp2-link-on", 34.8),
        ("tpot", 1): ("tp2-link-off", "tp2-link-on", -16.1),
        ("tpot", 4): ("tp2-link-off", "tp2-link-on", -18.7),
        ("tpot", 16): ("2xtp1", "tp2-link-on", -26.0),
    }
    assert bare(output(served[LARGE], "tp2-link-off", "tp2-link-on", 16)) == "+52.4 %"
    for text in ("+19.4 % [+17.6, +21.2]", "+28.6 % [+26.9, +30.4]", "+52.4 %"):
        assert text in words[LARGE]
    assert "the link is worth 19, 29 and 35 % of output" in words[LARGE]
    layouts, rounds = layouts_and_rounds(served[SMALL])
    found = worth(layouts, CAPS, rounds, is_paired=True)
    assert [w.best for w in found if w.figure[0] == "tpot"] == ["tp1", "tp1", "2xtp1"]


def test_which_part_of_the_gain_is_the_link(served, words):
    layouts, rounds = layouts_and_rounds(served[LARGE])
    found = {
        (c.question.code, c.figure[0], c.concurrency): c.result
        for c in changes(questions(layouts), CAPS, rounds, is_paired=True)
    }

    def parts(name, cap):
        return split_words(*(found[code, name, cap] for code in ("both", "link", "kernel")))

    shares = [re.findall(r"(\d+) %", parts("tpot", cap)) for cap in CAPS]
    assert shares == [["48", "52"], ["51", "49"], ["83", "17"]]
    assert [re.findall(r"link (\d+) %", parts("ttft", cap)) for cap in (4, 16)] == [["93"], ["91"]]
    assert parts("ttft", 1) == ""
    gains = [round(found["both", "tpot", cap].change_pct, 1) for cap in CAPS]
    assert gains == [-16.1, -18.7, -27.7]
    assert [round(found["both", "ttft", cap].change_pct, 1) for cap in (4, 16)] == [-50.1, -57.8]
    for text in ("-16.1, -18.7 and -27.7 %", "48, 51 and 83 %", "-50.1 and -57.8 %", "93 and 91 %"):
        assert text in words[LARGE]


def test_where_the_two_uses_of_two_gpus_part(served, words):
    ttft = {arm: by_cap(run, "ttft") for arm, run in served[LARGE].items()}
    middle = {arm: {cap: median(ttft[arm][cap].values()) for cap in CAPS} for arm in ttft}
    assert [round(middle["2xtp1"][cap]) for cap in (4, 16)] == [94, 338]
    assert [round(middle["tp2-link-on"][cap]) for cap in (4, 16)] == [121, 285]
    for cap in CAPS:
        assert max(middle, key=lambda arm, cap=cap: middle[arm][cap]) == "tp2-link-off"
    library = ttft["tp2-no-custom-all-reduce"][1].values()
    assert (round(min(library)), round(max(library))) == (44, 65)
    for text in ("(94 ms against 121)", "(285 ms against 338)", "between 44 and 65 ms"):
        assert text in words[LARGE]


def test_energy_a_token(served, words):
    joules = {
        arm: value(run, "energy_per_token", "value", concurrency=16)
        for arm, run in served[LARGE].items()
    }
    told_of = {"tp2-link-on": "0.50", "tp2-link-off": "0.55", "2xtp1": "0.68", "tp1": "0.42"}
    for arm, text in told_of.items():
        assert f"{joules[arm]:.2f}" == text
        assert f"{text} J" in words[LARGE]


def test_how_sure_the_cells_are(served, words):
    widths = {
        (arm, cell[1]): width
        for arm, run in served[LARGE].items()
        for cell, width in cell_widths(run).items()
    }
    wide = {place: round(width, 1) for place, width in widths.items() if width > 1.95}
    assert wide == {("tp1", 16): 14.3, ("tp2-link-off", 16): 9.0}
    assert len(widths) == 15
    first = [w for run in served[LARGE].values() for w in cell_widths(run, "ttft").values()]
    assert (round(min(first)), round(max(first))) == (3, 117)
    small = [w for run in served[SMALL].values() for w in cell_widths(run).values()]
    assert (round(min(small)), round(max(small))) == (9, 84)
    assert len(small) == 18
    assert "at most 1.9 % of its mean in 13 of 15 cells" in words[LARGE]
    assert "14.3 % on one GPU and 9.0 %" in words[LARGE]
    assert "3 to 117 %" in words[LARGE]
    assert "known to 9 to 84 %" in words[SMALL]


def test_the_small_shape_waits_for_the_host(served, words):
    assert {run.validity for run in served[LARGE].values()} == {"valid"}
    assert {run.validity for run in served[SMALL].values()} == {"suspect"}
    run = served[SMALL]["tp2-link-on"]
    times = by_cap(run, "tpot")[1]
    assert [f"{times[number]:.2f}" for number in range(3)] == ["2.50", "2.34", "1.84"]
    first = run.host["gpus"][0]["uuid"]
    watts = {row.round: row.value for row in run.find("power", "median", concurrency=1, gpu=first)}
    assert [round(watts[number]) for number in range(3)] == [226, 232, 244]
    assert "2.50, 2.34 and 1.84 ms" in words[SMALL]
    assert "226, 232 and 244 W" in words[SMALL]
    link = [change(served[SMALL]["tp2-link-off"], run, "tpot", cap) for cap in CAPS]
    assert link == [
        "-19.8 % [-43.7, +14.3]", "-19.5 % [-33.5, -2.7]", "-19.9 % [-39.1, +5.3]",
    ]  # fmt: skip
    assert all(text in words[SMALL] for text in link)


def test_what_graphs_give(served, words):
    means = {
        arm: [mean(by_cap(served[SMALL][arm], "tpot")[cap].values()) for cap in CAPS]
        for arm in ("tp1", "enforce-eager")
    }
    assert [f"{ms:.2f}" for ms in means["tp1"]] == ["1.87", "2.03", "2.65"]
    assert [f"{ms:.1f}" for ms in means["enforce-eager"]] == ["14.2", "13.8", "13.3"]
    ratios = [slow / fast for fast, slow in zip(*means.values(), strict=True)]
    assert (round(min(ratios)), round(max(ratios))) == (5, 8)
    assert "1.87, 2.03 and 2.65 ms" in words[SMALL]
    assert "14.2, 13.8 and 13.3 ms" in words[SMALL]


@pytest.mark.parametrize(
    ("study", "tp", "arm", "tpot_ms", "step_ms", "apart"),
    [
        (LARGE, 1, "tp1", 8.858, (8.488, 8.744), ("-4.2", "-1.3")),
        (LARGE, 2, "tp2-no-custom-all-reduce", 6.157, (6.150, 6.374), ("-0.1", "+3.5")),
        (LARGE, 2, "tp2-link-on", 5.621, (6.150, 6.374), ("+9.4", "+13.4")),
        (SMALL, 1, "tp1", 1.847, (1.768, 1.986), ("-4.3", "+7.5")),
        (SMALL, 2, "tp2-no-custom-all-reduce", 2.324, (1.983, 2.210), ("-14.7", "-4.9")),
        (SMALL, 2, "tp2-link-on", 2.339, (1.983, 2.210), ("-15.2", "-5.5")),
    ],
)
def test_the_bare_step_beside_the_server(served, words, study, tp, arm, tpot_ms, step_ms, apart):
    run = steps(study)[tp, (1,)]
    assert run.validity == "valid"
    server = value(served[study][arm], "tpot", concurrency=1)
    assert server == pytest.approx(tpot_ms, abs=6e-4)
    for clock, ms, percent in zip(("wall_graph", "wall_served"), step_ms, apart, strict=True):
        found = step(run, clock)
        assert found == pytest.approx(ms, abs=6e-4)
        assert f"{100 * (found / server - 1):+.1f}" == percent
        assert f"{ms:.3f}" in words[study]
        assert percent in words[study]
    assert f"{tpot_ms:.3f} ms" in words[study]
    (definition,) = {row.definition for row in run.find("decode_step", clock="wall_served")}
    assert definition == "linkworth:decode-wall-served:2"


def test_times_as_fast(served, words):
    large = {arm: value(run, "tpot", concurrency=1) for arm, run in served[LARGE].items()}
    gains = [f"{large['tp1'] / large[arm]:.2f}" for arm in TWO[2:]]
    assert gains == ["1.58", "1.44", "1.32"]
    alone, pair = (step(steps(LARGE)[tp, (1,)]) for tp in (1, 2))
    assert f"{alone / pair:.2f}" == "1.38"
    for text in (*gains, "1.38", "6.699 ms"):
        assert text in words[LARGE]


def test_the_small_step_at_tp_2_and_what_its_all_reduces_cost(words):
    small = steps(SMALL)
    assert set(small) == {(1, (1,)), (2, (1,)), (2, (3, 27))}
    alone, pair, batches = small[1, (1,)], small[2, (1,)], small[2, (3, 27)]
    assert round(100 * (step(pair) / step(alone) - 1)) == 12
    assert round(100 * (step(pair, "wall_served") / step(alone, "wall_served") - 1)) == 11
    saved = step(alone, "replay") - step(pair, "replay_no_allreduce")
    assert f"{saved:.3f}" == "0.269"
    without = [step(run, "replay_no_allreduce", b) for run, b in
               ((pair, 1), (batches, 3), (batches, 27))]  # fmt: skip
    cost = [
        step(run, "replay", b) - ms
        for (run, b), ms in zip(((pair, 1), (batches, 3), (batches, 27)), without, strict=True)
    ]
    assert [f"{ms:.3f}" for ms in cost] == ["0.506", "0.606", "0.589"]
    assert [f"{1e3 * ms / 57:.1f}" for ms in cost] == ["8.9", "10.6", "10.3"]
    assert [f"{ms:.3f}" for ms in without] == ["1.417", "1.353", "1.589"]
    for text in (
        "0.506, 0.606 and 0.589 ms", "8.9, 10.6 and 10.3 us", "1.417, 1.353 and 1.589 ms",
        "save 0.269 ms of replay",
    ):  # fmt: skip
        assert text in words[SMALL]


def test_power_limits(served, words):
    """Which arms were at the power limit, and in how many of the busy samples."""
    found = {
        arm: [
            int(re.search(r"in (\d+) % of the busy samples", notice.text)[1])
            for notice in run.warnings
            if notice.code == "power_capped"
        ]
        for arm, run in served[LARGE].items()
    }
    assert found["tp2-link-off"] == []
    shares = [share for arm, several in found.items() for share in several]
    assert all(found[arm] for arm in TWO[:-1])
    assert (min(shares), max(shares)) == (20, 25)
    assert "20 to 25 % of the busy samples" in words[LARGE]

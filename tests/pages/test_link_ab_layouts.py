"""Link A/B over all arms of an evaluation: what TP, the link and the engine's kernel give."""

import pytest
from serving_runs import EVALUATION, arm_result, row, said

from db import runs
from models.result import Samples
from pages.widgets import serving_layouts
from pages.widgets.serving_arms import groups

HEADING = "All arms: what TP, the link and the kernel give"
ARMS = {
    "tp1": (1.5, {"gpus": [0], "tp": 1}),
    "2xtp1": (1.4, {"gpus": [0, 1], "tp": 1, "replicas": 2}),
    "tp2-link-on": (1.0, {"gpus": [0, 1], "tp": 2, "link": "on"}),
    "tp2-library": (1.1, {"gpus": [0, 1], "tp": 2, "link": "on", "custom_all_reduce": False}),
    "tp2-link-off": (1.2, {"gpus": [0, 1], "tp": 2, "link": "off"}),
    "eager": (3.0, {"gpus": [0], "tp": 1, "engine_args": {"enforce-eager": True}}),
}


def keep(database, *names, **changes):
    for name in names:
        factor, arm = ARMS[name]
        result = arm_result(name, factor, **changes)
        result.spec["arm"] = arm
        runs.store(database, result)


def plain_load(cap):
    """The load of `arm_result` at a concurrency."""
    scenario = "single_stream" if cap == 1 else "online"
    lengths = {"input_len": 1024, "output_len": 256}
    return {"concurrency": cap, "num_prompts": 10 * cap, "scenario": scenario, **lengths}


def headings(at):
    return [item.value for item in at.subheader]


def test_all_arms_are_told_in_sentences(database, open_page):
    keep(database, *ARMS)
    at = open_page("link-ab", evaluation=EVALUATION)
    assert not at.exception, at.exception
    assert HEADING in headings(at)
    text = said(at)
    assert (
        "Does TP=2 pay here? For the speed of an answer, against one GPU, it pays at every" in text
    )
    assert "against 2 single GPUs, it pays at every concurrency measured." in text
    # ln(1.1/1.2) / ln(1/1.2) = 48 %
    parts = "(link 48 %, kernel 52 %)"
    split = f"-16.7 % at concurrency 1 {parts}, -16.7 % at 4 {parts}."
    for phase in ("decode, time per output token", "prefill, time to first token"):
        assert f"Link and kernel in {phase}: {split}" in text
    assert (
        "Arms tp1, 2xtp1, tp2-link-on, tp2-library, tp2-link-off; 1024 tokens in, 256 out" in text
    )


def test_the_links_worth_is_told_between_the_best_layouts_of_each_side(database, open_page):
    keep(database, "tp1", "tp2-link-on", "tp2-library")
    for name, factor in (("2xtp1", 1.1), ("tp2-link-off", 1.2)):
        result = arm_result(name, factor)
        result.spec["arm"] = ARMS[name][1]
        runs.store(database, result)
    text = said(open_page("link-ab", evaluation=EVALUATION)).replace("\\", "")
    best = "(TP=2 against 2 single GPUs)"
    best_of = "the best measured layout with it against the best without"
    told = f"What the link is worth on 2 GPUs, {best_of}"
    gain = "+10.0 % [+10.0, +10.0]"
    assert f"{told}, output throughput: {gain} at concurrency 1 {best}; {gain} at 4 {best}." in text
    assert f"{told}, time per output token: -9.1 % [-9.1, -9.1] at concurrency 1 {best}" in text


def test_a_best_layout_with_other_outputs_is_worth_nothing_that_is_told(database, open_page):
    for name in ("tp1", "2xtp1", "tp2-link-on", "tp2-library", "tp2-link-off"):
        factor, arm = ARMS[name]
        is_other = name == "tp2-library"
        result = arm_result(name, 0.9 if is_other else factor)
        result.spec["arm"] = arm
        result.samples.append(logprobs(-3.0 if is_other else -1.0))
        runs.store(database, result)
    text = said(open_page("link-ab", evaluation=EVALUATION))
    assert "No verdict on" in text
    assert "What the link is worth" not in text


def test_a_rate_without_limit_is_one_load_whether_said_or_left_out(database, open_page):
    for name in ("tp1", "2xtp1", "tp2-link-on", "tp2-link-off"):
        factor, arm = ARMS[name]
        result = arm_result(name, factor)
        result.spec["arm"] = arm
        if name != "2xtp1":  # the tool says it, figures of several servers leave it out
            for measured in result.measurements:
                measured.dims["request_rate"] = "inf"
        runs.store(database, result)
    at = open_page("link-ab", evaluation=EVALUATION)
    assert not at.exception, at.exception
    assert "against 2 single GPUs, it pays at every concurrency measured." in said(at)
    (table,) = [frame.value for frame in at.dataframe if "question" in frame.value]
    rows = table.set_index(["question", "figure"])
    asked = "TP=2 instead of 2 single GPUs, on the same 2 GPUs"
    assert (rows.loc[(asked, "TPOT, median (%)")] != "").all()


def test_every_question_is_a_row_with_its_intervals(database, open_page):
    keep(database, *ARMS)
    at = open_page("link-ab", evaluation=EVALUATION)
    (table,) = [frame.value for frame in at.dataframe if "question" in frame.value]
    assert list(table.columns) == ["question", "figure", "concurrency 1", "concurrency 4"]
    assert len(table) == 15  # 5 questions x 3 figures
    rows = table.set_index(["question", "figure"])
    larger = rows.loc[("TP=2 instead of one GPU", "TPOT, median (%)")]
    assert larger["concurrency 1"] == "-33.3 [-33.3, -33.3]: better"
    assert table["concurrency 4"].str.endswith(": better").all()


def logprobs(level):
    """Answers of a fixed prompt, before the load."""
    dims = {"prompt": 1, "phase": "before"}
    return Samples(metric="output_logprob", unit="", dims=dims, values=[level, level - 1])


def test_an_arm_with_other_outputs_gets_no_verdict(database, open_page):
    for name in ("tp1", "2xtp1", "tp2-link-on", "tp2-library", "tp2-link-off"):
        factor, arm = ARMS[name]
        result = arm_result(name, factor)
        result.spec["arm"] = arm
        result.samples.append(logprobs(-3.0 if name == "tp2-library" else -1.0))
        runs.store(database, result)
    at = open_page("link-ab", evaluation=EVALUATION)
    assert not at.exception, at.exception
    text = said(at)
    assert "Does TP=2 pay here?" in text
    assert "Link and kernel in decode" not in text
    kernel = "TP=2, the engine's own all-reduce over the link"
    assert f"**No verdict on {kernel}.** Outputs differ" in text
    (table,) = [frame.value for frame in at.dataframe if "question" in frame.value]
    assert sorted(set(table["question"])) == [
        "TP=2 instead of 2 single GPUs, on the same 2 GPUs",
        "TP=2 instead of one GPU",
        "TP=2: the link on instead of off",
    ]


def test_an_arm_that_is_suspect_is_named_with_its_reason(database, open_page):
    keep(database, "2xtp1", "tp2-link-on", "tp2-link-off")
    keep(database, "tp1", validity="suspect", reasons=["GPU 0 throttled for 20 % of the time."])
    text = said(open_page("link-ab", evaluation=EVALUATION))
    assert "To be read with care, tp1: GPU 0 throttled for 20 % of the time." in text


def test_what_differs_unasked_is_named_at_its_question(database, open_page):
    for name in ("tp1", "2xtp1", "tp2-link-on", "tp2-link-off"):
        factor, arm = ARMS[name]
        threads = 1 if name == "tp2-link-off" else 8
        workers = [f"cpus 0-15, OMP_NUM_THREADS {threads}"]
        result = arm_result(name, factor, environment={"server": {"workers": workers}})
        result.spec["arm"] = arm
        rate = 60.0 if name == "tp1" else 80.0
        result.measurements += [
            row("spec_decode_acceptance_rate", "value", rate, "%", number, plain_load(cap))
            for number in range(3)
            for cap in (1, 4)
        ]
        runs.store(database, result)
    at = open_page("link-ab", evaluation=EVALUATION)
    assert not at.exception, at.exception
    (care,) = [c.value for c in at.caption if c.value.startswith("To be read with care")]
    link, larger = "TP=2: the link on instead of off", "TP=2 instead of one GPU"
    assert f"{link}: OMP_NUM_THREADS of the servers' processes differs" in care
    assert f"{larger}: At concurrency 1: " in care
    assert care.count("OMP") == 1
    assert "2 single GPUs" not in care


def test_the_tables_file_holds_numbers(database):
    keep(database, *ARMS)
    engine = database
    (group,) = [one for one in groups(engine) if one.code == EVALUATION]
    found = serving_layouts._found(engine, "now", group)
    frame = serving_layouts._numbers(found.changes)
    assert len(frame) == 30  # 15 rows of the table at two concurrencies
    first = frame.iloc[0]
    assert (first.reference, first.other, first.concurrency) == ("tp1", "tp2-link-on", 1)
    assert first.change_pct == pytest.approx(100 * (1 / 1.5 - 1))
    assert first.low_pct <= first.change_pct <= first.high_pct
    assert (first.verdict, first.counted, first.n_reference) == ("better", "round", 3)


def test_an_invalid_arm_answers_no_question(database, open_page):
    keep(database, "tp1", "2xtp1", "tp2-link-on", "tp2-library")
    keep(database, "tp2-link-off", validity="invalid")
    text = said(open_page("link-ab", evaluation=EVALUATION))
    assert "Does TP=2 pay here?" in text
    assert "Link and kernel in decode" not in text


@pytest.mark.parametrize(
    "names", [("tp2-link-on", "tp2-link-off"), ("tp1", "tp2-link-on", "eager")]
)
def test_a_single_question_needs_no_section(database, open_page, names):
    keep(database, *names)
    at = open_page("link-ab", evaluation=EVALUATION)
    assert not at.exception
    assert HEADING not in headings(at)


EIGHT = {
    "8xtp1": (1.4, {"tp": 1, "replicas": 8}),
    "4xtp2": (1.2, {"tp": 2, "replicas": 4, "link": "on"}),
    "2xtp4": (1.0, {"tp": 4, "replicas": 2, "link": "on"}),
    "tp1": (1.6, {"tp": 1}),
    "tp2": (1.3, {"tp": 2, "link": "on"}),
    "tp4": (1.1, {"tp": 4, "link": "on"}),
    "tp8": (0.9, {"tp": 8, "link": "on"}),
    "tp8-library": (0.95, {"tp": 8, "link": "on", "custom_all_reduce": False}),
    "tp8-link-off": (1.5, {"tp": 8, "link": "off"}),
}


def test_eight_gpus_are_told_layout_by_layout(database, open_page):
    for name, (factor, arm) in EIGHT.items():
        result = arm_result(name, factor, concurrencies=(1, 4, 16))
        result.spec["arm"] = {**arm, "gpus": list(range(arm["tp"] * arm.get("replicas", 1)))}
        runs.store(database, result)
    at = open_page("link-ab", evaluation=EVALUATION)
    assert not at.exception, at.exception
    text = said(at)
    # each layout against what the same eight GPUs could be instead, said once where alike
    same = "for the output of the same GPUs, against 2 x TP=4, 4 x TP=2 and 8 single GPUs, it pays"
    assert same in text
    assert "Does 4 x TP=2 pay here? For the output of the same GPUs, against 8 single GPUs" in text
    assert "Does 2 x TP=4 pay here?" in text
    (table,) = [frame.value for frame in at.dataframe if "question" in frame.value]
    assert table["question"].nunique() == 11  # 3 larger, 5 of replicas, 3 of link and kernel
    chosen = [at.selectbox(key=f"ab-{place}-{EVALUATION}").value for place in "ab"]
    assert chosen == [f"{EVALUATION}|tp8-link-off", f"{EVALUATION}|tp8"]


def test_of_many_arms_the_link_is_looked_at_first(database, open_page):
    keep(database, *ARMS)
    at = open_page("link-ab", evaluation=EVALUATION)
    chosen = [at.selectbox(key=f"ab-{place}-{EVALUATION}").value for place in "ab"]
    assert chosen == [f"{EVALUATION}|tp2-link-off", f"{EVALUATION}|tp2-link-on"]


def test_without_the_link_among_the_arms_the_names_decide(database, open_page):
    keep(database, "tp1", "2xtp1", "tp2-link-on")
    at = open_page("link-ab", evaluation=EVALUATION)
    chosen = [at.selectbox(key=f"ab-{place}-{EVALUATION}").value for place in "ab"]
    assert chosen == [f"{EVALUATION}|tp1", f"{EVALUATION}|tp2-link-on"]

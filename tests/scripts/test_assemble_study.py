"""Putting result files together as one study: merged, in order, without places, the same bytes."""

import json
import sys
from pathlib import Path

import pytest

from models.result import Bundle, EvaluationRef, Measurement, Result, Samples, Tool, dump

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import assemble_study  # noqa: E402

PERF = """# nThread 1 nGpus 2 minBytes 1024 maxBytes 2048 step: 2(factor) warmup iters: 20 \
iters: 56 agg iters: 1 validation: 1 graph: 20
#  Rank  0 Group  0 Pid   7 on   somebody device  0 [0000:00:06] Invented GPU
#  Rank  1 Group  0 Pid   7 on   somebody device  1 [0000:00:07] Invented GPU
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   \
algbw   busbw  #wrong
        1024           512  bfloat16     sum      -1     {0}    0.17    0.17       0     {0}    \
0.17    0.17       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.17
"""
PLAN = """
[study]
title = "A study"
summary = "What was seen."
limits = ["One machine."]
[[study.claims]]
claim = "It is so."
check = "2 of 2."
[[runs]]
match = "*.result.json"
title = "Sweep, {kind}"
evaluation = "e"
arm = "link on"
unite = ["modes"]
warnings = ["Mode exposed: one round."]
[[runs]]
match = "*-perf.txt"
title = "nccl-tests"
evaluation = "e"
arm = "nccl-tests"
said = { link = "on" }
[[facts]]
match = "table.json"
key = "rows"
name = "table"
leave_out = ["all"]
"""


def sweep(number: int, modes: list[str]) -> Result:
    dims = {"bytes": 1024, "link": "on", "ranks": 2}
    return Result(
        id=f"00000000-0000-4000-8000-00000000000{number}",
        kind="allreduce",
        origin="measured",
        spec={"kind": "allreduce", "modes": modes, "python": "/opt/some/bin/python3"},
        host={"hostname": "0123456789abcdef", "boot_id": "b"},
        environment={
            "variables": {"NCCL_DEBUG_FILE": f"/tmp/ranks-{number}/nccl-0.log"},
            "gpu_clocks": [{"round": 0, "before_mhz": 1980 - number}],
        },
        tool=Tool(name="linkworth"),
        measurements=[
            Measurement(
                metric="allreduce_latency",
                statistic="median",
                unit="us",
                value=6.0 + number + 1 / 3,
                n=2,
                round=0,
                dims={**dims, "mode": mode},
                definition=f"linkworth:allreduce-{mode}:1",
            )
            for mode in modes
        ],
        samples=[
            Samples(
                metric="allreduce_latency",
                unit="us",
                round=0,
                dims={**dims, "mode": "graph"},
                values=[6.0 + 1 / 3, 6.1],
            )
        ],
    )


@pytest.fixture
def folder(tmp_path):
    for number, modes in enumerate((["graph", "exposed"], ["graph"])):
        content = json.dumps(dump(sweep(number, modes)))
        (tmp_path / f"{number}-on.result.json").write_text(content)
        (tmp_path / f"{number}-perf.txt").write_text(PERF.format(f"6.0{number}"))
    rows = [{"bytes": 1024, "ratio": 0.98765432, "all": [1, 2]}]
    (tmp_path / "table.json").write_text(json.dumps({"rows": rows, "command": "/tmp/x"}))
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def run(folder: Path, *more: str, files: list[Path] | None = None) -> int:
    named = files or sorted({*folder.glob("*.json"), *folder.glob("*.txt")} - {folder / "out.json"})
    out, plan = folder / "out.json", folder / "plan.toml"
    options = ["--id", "a-study", "--plan", str(plan), "--out", str(out)]
    return assemble_study.main([*options, *more, *map(str, named)])


def read(folder: Path) -> Bundle:
    return Bundle.model_validate_json((folder / "out.json").read_bytes())


def lines(folder: Path) -> list[str]:
    return (folder / "out.json").read_text().splitlines()


def test_rounds_of_an_arm_become_one_run_as_in_the_store(folder):
    assert run(folder) == 0
    ours, theirs = read(folder).results
    assert ours.id == sweep(0, []).id
    assert ours.title == "Sweep, allreduce"
    assert [(row.round, row.dims["mode"]) for row in ours.measurements] == [
        (0, "graph"), (0, "exposed"), (1, "graph"),
    ]  # fmt: skip
    assert ours.spec["modes"] == ["graph", "exposed"]
    assert [note["round"] for note in ours.environment["gpu_clocks"]] == [0, 1]
    assert [note["before_mhz"] for note in ours.environment["gpu_clocks"]] == [1980, 1979]
    assert [(notice.code, notice.text) for notice in ours.warnings] == [
        ("assembled", "Mode exposed: one round.")
    ]
    assert theirs.origin == "imported"
    assert {row.round for row in theirs.measurements} == {0, 1}
    assert {row.dims["link"] for row in theirs.measurements} == {"on"}
    assert theirs.said == {"link": "on"}


def test_the_study_says_what_the_plan_says(folder):
    run(folder)
    study = read(folder).study
    assert (study.id, study.title, study.origin) == ("a-study", "A study", "measured")
    assert study.claims[0].check == "2 of 2."
    assert study.facts == {"table": [{"bytes": 1024, "ratio": 0.98765}]}
    assert run(folder, "--title", "Another") == 0
    assert read(folder).study.title == "Another"


def test_the_same_files_in_any_order_give_the_same_bytes(folder):
    run(folder)
    first = (folder / "out.json").read_bytes()
    files = sorted({*folder.glob("*.json"), *folder.glob("*.txt")} - {folder / "out.json"})
    assert run(folder, files=files[::-1]) == 0
    assert (folder / "out.json").read_bytes() == first


def test_no_place_and_no_name_is_left(folder):
    run(folder)
    text = (folder / "out.json").read_text()
    for trace in ("/tmp", "/opt", "0123456789abcdef", "somebody", str(folder)):
        assert trace not in text
    ours = read(folder).results[0]
    assert ours.spec["python"] == "python3"
    assert ours.environment["variables"]["NCCL_DEBUG_FILE"] == "nccl-0.log"
    assert len(ours.host["hostname"]) == 16


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("/home/somebody/.cache/models/shape-1", "shape-1"),
        ("~/.venv/bin/python3", "python3"),
        ("389 GB/s, 41 tok/s, 3/4", "389 GB/s, 41 tok/s, 3/4"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("Qwen/Qwen2.5-14B", "Qwen/Qwen2.5-14B"),
        ("see /etc/nccl.conf and on / off", "see nccl.conf and on / off"),
    ],
)
def test_a_path_becomes_its_file(text, kept):
    assert assemble_study._PATH.sub(r"\1", text) == kept


def test_values_are_rounded_and_short_things_stand_on_one_line(folder):
    run(folder)
    ours = read(folder).results[0]
    assert ours.measurements[0].value == 6.33333
    assert ours.samples[0].values == [6.33333, 6.1]
    rows = [json.loads(line.rstrip(",")) for line in lines(folder) if '"median"' in line]
    assert [row["value"] for row in rows] == [6.33333, 6.33333, 7.33333]
    assert not any('"low": null' in line for line in lines(folder))


def test_results_that_no_part_of_the_plan_names_come_last(folder):
    (folder / "plan.toml").write_text(
        '[[runs]]\nmatch = "*-perf.txt"\n[[facts]]\nmatch = "table.json"\nkey = "rows"\nname = "t"'
    )
    assert run(folder) == 0
    assert [result.tool.name for result in read(folder).results] == [
        "nccl-tests", "nccl-tests", "linkworth", "linkworth",
    ]  # fmt: skip


def test_a_part_may_pick_and_drop(folder):
    (folder / "plan.toml").write_text(
        '[[runs]]\nmatch = "*.result.json"\npick = { modes = ["graph"] }\ndrop = true\n'
        '[[facts]]\nmatch = "table.json"\nkey = "rows"\nname = "t"'
    )
    assert run(folder) == 0
    measured = [result for result in read(folder).results if result.origin == "measured"]
    assert [result.spec["modes"] for result in measured] == [["graph", "exposed"]]


@pytest.mark.parametrize(
    ("kept", "left", "words"),
    [
        ("[1]", [1], "are kept of round 1 alone; their statistics are of every round."),
        ("[0, 2]", [0, 2], "are kept of round 0 and 2 alone; their statistics"),
        ("[]", [], "are not kept; their statistics are, of every round."),
    ],
)
def test_single_gaps_between_tokens_may_be_left_out(folder, kept, left, words):
    def gaps(number):
        return Samples(metric="itl", unit="ms", round=number, dims={"concurrency": 1}, values=[2.5])

    times = Samples(metric="ttft", unit="ms", round=0, dims={"concurrency": 1}, values=[40.0])
    served = {
        arm: sweep(number, ["graph"]).model_copy(
            update={
                "kind": "serving",
                "samples": [times, *map(gaps, range(3))],
                "evaluation": EvaluationRef(id="e", arm=arm),
            }
        )
        for number, arm in enumerate(("tp1", "tp2"))
    }
    both = Bundle(results=list(served.values())).model_dump(mode="json", by_alias=True)
    file = folder / "served.json"
    file.write_text(json.dumps({**both, "results": [dump(one) for one in served.values()]}))
    (folder / "plan.toml").write_text(
        f'[[runs]]\nmatch = "served.json"\narms = ["tp2"]\ngaps_of_rounds = {kept}\n'
        'evaluation = "of-{kind}"'
    )
    assert run(folder, files=[file]) == 0
    by_arm = {one.evaluation.arm: one for one in read(folder).results}
    rounds = {
        arm: [s.round for s in one.samples if s.metric == "itl"] for arm, one in by_arm.items()
    }
    assert rounds == {"tp1": [0, 1, 2], "tp2": left}
    assert {arm: one.evaluation.id for arm, one in by_arm.items()} == {
        "tp1": "e", "tp2": "of-allreduce",
    }  # fmt: skip
    assert all(any(s.metric == "ttft" for s in one.samples) for one in by_arm.values())
    assert [notice.text for notice in by_arm["tp1"].warnings] == []
    (notice,) = by_arm["tp2"].warnings
    assert words in notice.text


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ('[[runs]]\nmatch = "none-*.json"', "No file fits the plan's pattern none-*.json."),
        ('[[runs]]\nmatch = "*-perf.txt"\npick = { mode = "eager" }', "No result fits"),
        ('[[runs]]\nmatch = "*-perf.txt"\nevaluation = "e"', "names an arm."),
        ("[[runs", "Expected"),
    ],
)
def test_a_plan_that_does_not_fit_is_one_line(folder, capsys, plan, sentence):
    facts = (
        '\n[[facts]]\nmatch = "table.json"\nkey = "rows"\nname = "t"' if "[[runs]]" in plan else ""
    )
    (folder / "plan.toml").write_text(plan + facts)
    assert run(folder) == 2
    assert sentence in capsys.readouterr().err
    assert not (folder / "out.json").exists()


def test_a_file_of_no_known_format_is_refused(folder, capsys):
    (folder / "9.txt").write_text("nothing of interest")
    assert run(folder) == 2
    assert "no result file" in capsys.readouterr().err


def test_a_study_too_large_to_ship_is_refused(folder, capsys, monkeypatch):
    monkeypatch.setattr(assemble_study, "MOST_BYTES", 100)
    assert run(folder) == 2
    assert "too large to ship" in capsys.readouterr().err
    assert not (folder / "out.json").exists()

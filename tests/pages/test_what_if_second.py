"""The second opinion: a stand-in for AIConfigurator, its failures, and its absence."""

import importlib.util
import json
import sys
import types
from pathlib import Path

import pytest

from models.errors import RunnerUnavailable, RunTimedOut
from pages.widgets import what_if_second

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "second_opinion.py"
QUESTION = {
    "config": {"hidden_size": 1},
    "system": "h200_sxm",
    "engine": "vllm",
    "batch": 4,
    "input_tokens": 1024,
    "output_tokens": 256,
    "sizes": [1, 2, 4],
    "is_moe": True,
    "expert_parallel": False,
}


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Replace the program by lines of Python."""

    def written(code: str) -> None:
        path = tmp_path / "program.py"
        path.write_text(f"import json, sys\nasked = json.load(sys.stdin)\n{code}\n")
        monkeypatch.setattr(what_if_second, "PROGRAM", path)
        monkeypatch.setattr(what_if_second, "is_installed", lambda: True)

    return written


ANSWERS = """
steps = [{"tp": tp, "tpot_ms": 9.0 / tp, "engine_version": "9.9", "why": ""}
         for tp in asked["sizes"]]
steps[-1] |= {"tpot_ms": None, "why": "no table for this size"}
print(json.dumps({"version": "0.0", "steps": steps}))
"""


def test_both_stand_side_by_side(empty_database, open_page, program):
    program(ANSWERS)
    at = open_page("what-if")
    at.button(key="what-if-ask-second").click().run()
    assert not at.exception
    frame = next(each.value for each in at.dataframe if "AIConfigurator (ms)" in each.value)
    assert list(frame["TP"]) == [1, 2, 4, 8]
    first = frame.iloc[0]
    assert first["AIConfigurator (ms)"] == 9.0
    assert first["geometric mean (ms)"] == pytest.approx(
        (9.0 * first["ours (ms)"]) ** 0.5, abs=0.01
    )
    assert first["inside our interval"] == "yes"
    assert frame.iloc[-1]["why not"] == "no table for this size"


def test_an_answer_to_another_question_is_not_shown(empty_database, open_page, program):
    program(ANSWERS)
    at = open_page("what-if")
    at.button(key="what-if-ask-second").click().run()
    at.number_input(key="what-if-c").set_value(8).run()
    assert not any("AIConfigurator (ms)" in each.value for each in at.dataframe)


@pytest.mark.parametrize("code", ["print('no JSON')", "sys.exit(3)", "print('{}')"])
def test_a_wrong_answer_is_a_sentence(program, code):
    program(code)
    with pytest.raises(RunnerUnavailable, match="gave no answer"):
        what_if_second.ask(QUESTION)


def test_no_answer_in_time(program, monkeypatch):
    program("import threading; threading.Event().wait(60)")
    monkeypatch.setattr(what_if_second, "TIME_LIMIT_S", 0.5)
    with pytest.raises(RunTimedOut):
        what_if_second.ask(QUESTION)


def test_where_it_is_not_installed_the_page_says_so(empty_database, open_page, monkeypatch):
    monkeypatch.setattr(what_if_second, "is_installed", lambda: False)
    at = open_page("what-if")
    assert any("pip install aiconfigurator" in caption.value for caption in at.caption)


def test_cards_without_tables_are_not_asked(empty_database, open_page, program):
    program(ANSWERS)
    at = open_page("what-if", card="rtx-4090")
    assert not [button for button in at.button if button.key == "what-if-ask-second"]
    assert any("no measured tables for this card" in caption.value for caption in at.caption)


def test_the_program_asks_the_tool_size_by_size(monkeypatch):
    spec = importlib.util.spec_from_file_location("second_opinion", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    asked = []

    def cli_estimate(model, system, **keys):
        config = json.loads((Path(model) / "config.json").read_text())
        asked.append((config, system, keys))
        if keys["tp_size"] == 4:
            raise ValueError("no table")
        return types.SimpleNamespace(tpot=8.0 / keys["tp_size"], backend_version="9.9")

    api = types.SimpleNamespace(cli_estimate=cli_estimate)
    monkeypatch.setitem(sys.modules, "aiconfigurator", types.ModuleType("aiconfigurator"))
    monkeypatch.setitem(sys.modules, "aiconfigurator.cli", types.ModuleType("aiconfigurator.cli"))
    monkeypatch.setitem(sys.modules, "aiconfigurator.cli.api", api)
    monkeypatch.setattr(module, "version", lambda name: "0.0")
    answer = module.ask(QUESTION)
    assert [step["tpot_ms"] for step in answer["steps"]] == [8.0, 4.0, None]
    assert answer["steps"][2]["why"] == "ValueError: no table"
    config, system, keys = asked[1]
    assert (config, system) == (QUESTION["config"], "h200_sxm")
    assert (keys["moe_tp_size"], keys["moe_ep_size"], keys["batch_size"]) == (2, 1, 4)

"""A sitting: its steps in order, each with its time, none beyond the whole."""

import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import sitting  # noqa: E402
from sitting import SITTINGS, Step, budget_of_first, main, run_steps  # noqa: E402

SAY = "import sys; print(sys.argv[1:])"


@pytest.fixture
def python_steps(monkeypatch):
    """Steps whose command is Python code; what they are told comes behind it."""

    def told(step, out, budget_s=None):
        words = [sys.executable, "-c", *step.command]
        return [*words, f"{budget_s:.0f}"] if step.has_budget and budget_s else words

    monkeypatch.setattr(sitting, "line", told)


def test_every_step_says_what_it_would_do(capsys):
    for name in SITTINGS:
        assert main([name, "--out", "there", "--dry-run"]) == 0
        said = capsys.readouterr().out
        assert all(f"there/{step.name}.json" in said for step in SITTINGS[name])


@pytest.mark.parametrize("name", sorted(SITTINGS))
def test_every_command_is_one_that_its_script_takes(name, tmp_path):
    for step in SITTINGS[name]:
        words = sitting.line(step, tmp_path, 500)
        assert Path(ROOT / words[1]).is_file()
        assert all((ROOT / word).is_file() for word in words if word.startswith("data/"))
        asked = [*words, "--dry-run"]
        done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert len({step.name for step in SITTINGS[name]}) == len(SITTINGS[name])


def test_two_gpus_need_less_than_half_an_hour():
    assert sum(step.needs_s for step in SITTINGS["two-gpu"]) < 1620


def test_an_unknown_step_is_named(capsys, tmp_path):
    assert main(["two-gpu", "--out", str(tmp_path / "x"), "--steps", "served-7b"]) == 2
    assert "no step served-7b; there are decode-1.5b" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_step_is_told_what_the_later_ones_leave(tmp_path, python_steps, capsys):
    steps = [
        Step("first", (SAY,), 30, has_budget=True),
        Step("second", (SAY,), 40, has_budget=True),
    ]
    assert run_steps(steps, tmp_path, 115) == [True, True]
    assert (tmp_path / "first.log").read_text() == "['60']\n"  # 115 - 15 to end - 40
    left = int((tmp_path / "second.log").read_text().strip("[]'\n"))
    assert 90 <= left <= 100
    assert "second: ended with 0" in capsys.readouterr().out


def test_a_step_that_fails_does_not_keep_the_others_from_running(tmp_path, python_steps):
    steps = [Step("broken", ("import sys; sys.exit('no card')",), 1), Step("fine", (SAY,), 1)]
    assert run_steps(steps, tmp_path, 60) == [False, True]
    assert "no card" in (tmp_path / "broken.log").read_text()


HANGS = """
import signal, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
try:
    child.wait()
except KeyboardInterrupt:
    print("told to end", flush=True)
    sys.exit(5)
"""


def test_a_step_that_hangs_is_ended_with_all_that_it_started(tmp_path, python_steps, capsys):
    began = time.monotonic()
    assert run_steps([Step("hangs", (HANGS,), 1)], tmp_path, sitting.END_S + 2) == [False]
    assert time.monotonic() - began < sitting.END_S + 2
    pid, said = (tmp_path / "hangs.log").read_text().split("\n", 1)
    assert said == "told to end\n"
    with suppress(ProcessLookupError):  # it is gone already
        ended = os.pidfd_open(int(pid))
        assert select.select([ended], [], [], 10)[0]
        os.close(ended)
    assert "had no time" in capsys.readouterr().out


def test_a_step_that_hangs_leaves_the_others_their_time(tmp_path, python_steps):
    steps = [Step("hangs", (HANGS,), 2), Step("fine", (SAY,), 100)]
    assert run_steps(steps, tmp_path, 60) == [False, True]
    assert "told to end" in (tmp_path / "hangs.log").read_text()


def test_a_step_is_ended_when_it_takes_half_as_much_again():
    bare, served = Step("bare", (), 80), Step("served", (), 800, has_budget=True)
    assert sitting.longest_s(bare, 100, 1650) == 120
    assert sitting.longest_s(bare, 400, 1650) == 400
    assert sitting.longest_s(served, 900, 1650) == 1260
    assert sitting.longest_s(served, 900, 1000) == 985  # never beyond the whole


def test_nothing_is_begun_without_time(tmp_path, python_steps):
    code = f"import pathlib; pathlib.Path({os.fspath(tmp_path / 'ran')!r}).touch()"
    assert run_steps([Step("late", (code,), 1)], tmp_path, 10) == [False]
    assert not (tmp_path / "ran").exists()


@given(
    needs=st.lists(st.floats(1, 2000), min_size=1, max_size=6),
    left=st.floats(0, 5000),
)
def test_shares_are_what_is_there(needs, left):
    steps = [Step(str(place), (), need) for place, need in enumerate(needs)]
    own = budget_of_first(steps, left)
    assert 0 <= own <= left * (1 + 1e-12)
    if left >= sum(needs):
        assert own >= needs[0] * (1 - 1e-9)
    if len(needs) == 1:
        assert own == pytest.approx(left)

"""One sitting on a machine that is there for a limited time: its measurements, in order, in time.

    python scripts/sitting.py two-gpu --out sitting --budget-s 1650
    python scripts/sitting.py four-gpu --out sitting --budget-s 1650 --steps decode-14b served-14b

Runs the studies that belong together, one after the other, each into files of its own in the
folder: results, and a log with everything that it said. A step that can be cut short is told how
long it may take, so that the steps after it keep what they need; a step that takes half as much
again is ended, and none outlives the whole. What was measured is written after each round, so a
machine that goes away early takes one round with it.

With --dry-run it says what it would do and for how long. Ends with 0 where all steps did.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
END_S = 15.0  # to end a step that took too long, and to write
PATIENCE = 1.5  # a step that takes so many times what it needs hangs: the others want their turn
LAST_ROUND_S = 60.0  # a step that ends by itself still finishes the round that it is in


@dataclass(frozen=True)
class Step:
    """One study of a sitting.

    Attributes:
        name: Of its files, and on the command line.
        command: Script and options; its output is added.
        needs_s: What it takes (GPUs: H200): kept free for it by the steps before.
        has_budget: Whether the script ends early by itself (``--budget-s``).
    """

    name: str
    command: tuple[str, ...]
    needs_s: float
    has_budget: bool = False


def _decode(shape: str, *tp: str, links: str = "on off", needs_s: float) -> Step:
    options = ["--models", shape, "--tp", *tp, "--links", *links.split(), "--batches", "1"]
    command = ("decode_study.py", *options, "--no-eager", "--no-allreduce")
    return Step(f"decode-{shape.removeprefix('qwen2.5-')}", command, needs_s)


def _served(plan: str, shape: str, *more: str, needs_s: float) -> Step:
    options = ["--models", f"data/models/{shape}.json", "--prompts-per-slot", "4"]
    options += ["--max-rounds", "3", "--clients-at-once", "80"]
    name = f"served-{shape.removeprefix('qwen2.5-')}"
    return Step(name, ("serving_study.py", plan, *options, *more), needs_s, has_budget=True)


# the bare step first: it is short, and every served figure is held against it
SITTINGS: dict[str, list[Step]] = {
    # a rehearsal of the whole way, minutes on two cores
    "cpu": [
        Step(
            "decode-tiny",
            (
                *("decode_study.py", "--cpu", "--models", "tiny-test-shape", "--tp", "1", "2"),
                *("--batches", "1", "--kv", "64", "--no-allreduce"),
            ),
            60,
        ),
        _served(
            *("cpu", "tiny-test-shape", "--input-len", "64", "--output-len", "16"),
            *("--concurrency", "1", "2", "--clients-at-once", "10"),
            needs_s=300,
        ),
    ],
    "one-gpu": [
        _decode("qwen2.5-1.5b", "1", needs_s=40),
        _decode("qwen2.5-14b", "1", needs_s=50),
        _served("one-gpu", "qwen2.5-1.5b", needs_s=420),
        _served("one-gpu", "qwen2.5-14b", needs_s=800),
    ],
    "two-gpu": [
        _decode("qwen2.5-1.5b", "1", "2", links="on", needs_s=60),
        _decode("qwen2.5-14b", "1", "2", links="on", needs_s=80),
        # the quicker one first: what it leaves over goes to the one whose rounds take long
        _served("two-gpu-and-eager", "qwen2.5-1.5b", needs_s=680),
        _served("two-gpu", "qwen2.5-14b", needs_s=780),
    ],
    "four-gpu": [
        _decode("qwen2.5-14b", "1", "2", "4", needs_s=180),
        _decode("llama-3.1-70b", "2", "4", needs_s=250),
        _served("four-gpu", "qwen2.5-14b", needs_s=1040),
        _served("four-gpu", "llama-3.1-70b", "--only", "^(2xtp2|tp4)$", needs_s=600),
    ],
    "eight-gpu": [
        _decode("qwen2.5-14b", "1", "2", "4", "8", needs_s=260),
        _decode("llama-3.1-70b", "2", "4", "8", needs_s=350),
        _served("eight-gpu", "qwen2.5-14b", needs_s=1140),
        _served("eight-gpu", "llama-3.1-70b", "--only", "^(2xtp4|tp8)$", needs_s=600),
    ],
}


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    steps = SITTINGS[options.sitting]
    known = [step.name for step in steps]
    unknown = sorted(set(options.steps) - set(known))
    if unknown:
        print(f"There is no step {unknown[0]}; there are {', '.join(known)}.", file=sys.stderr)
        return 2
    steps = [step for step in steps if not options.steps or step.name in options.steps]
    needed = sum(step.needs_s for step in steps)
    print(f"{len(steps)} steps, about {needed:.0f} s; {options.budget_s:.0f} s are there.")
    if options.dry_run:
        for step in steps:
            print(f"{step.name:<20} {step.needs_s:>5.0f} s  {' '.join(line(step, options.out))}")
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    steps = [_with_vllm(step, options.vllm_python) for step in steps]
    return 0 if all(run_steps(steps, options.out.resolve(), options.budget_s)) else 1


def _with_vllm(step: Step, python: str) -> Step:
    named = ("--vllm-python", python) if step.has_budget else ()
    return replace(step, command=(*step.command, *named))


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sitting", choices=list(SITTINGS))
    parser.add_argument("--out", type=Path, required=True, help="folder for results and logs")
    parser.add_argument("--budget-s", type=float, default=1650, help="for all steps together")
    parser.add_argument("--steps", nargs="+", default=[], help="these only")
    parser.add_argument("--vllm-python", default=sys.executable, help="interpreter with vLLM")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args(argv)


def line(step: Step, out: Path, budget_s: float | None = None) -> list[str]:
    """The command of a step."""
    script, *rest = step.command
    words = [sys.executable, f"scripts/{script}", *rest, "--out", str(out / f"{step.name}.json")]
    if budget_s is not None and step.has_budget:
        words += ["--budget-s", f"{budget_s:.0f}", "--state", str(out / "state")]
    return words


def budget_of_first(steps: Sequence[Step], left_s: float) -> float:
    """What the first of the steps may take so that the others keep what they need, seconds.

    Where not all have what they need, the first takes its share of what is there.
    """
    first, *others = steps
    wanted = sum(step.needs_s for step in others)
    share = left_s * first.needs_s / (first.needs_s + wanted)
    return max(left_s - wanted, share)


def longest_s(step: Step, own_s: float, left_s: float) -> float:
    """When a step is ended, seconds: it hangs, and the steps after it want their turn.

    Args:
        step: Which.
        own_s: What it may take, as `budget_of_first` says.
        left_s: What is there for it and all after it.
    """
    longest = max(own_s, PATIENCE * step.needs_s) + (LAST_ROUND_S if step.has_budget else 0.0)
    return min(longest, left_s - END_S)


def run_steps(steps: Sequence[Step], out: Path, budget_s: float) -> list[bool]:
    """Run them in order; a step that fails does not keep the others from being run.

    Args:
        steps: What to run.
        out: Folder, which exists.
        budget_s: Seconds for all together.

    Returns:
        For each step whether it ended well.
    """
    began = time.monotonic()
    fine = []
    for place, step in enumerate(steps):
        left = budget_s - (time.monotonic() - began)
        own = budget_of_first(steps[place:], left - END_S)
        print(f"{step.name}: begins, {own:.0f} of {left:.0f} s", flush=True)
        code = _run(step, out, own, longest_s(step, own, left)) if own > 0 else None
        took = time.monotonic() - began
        words = "had no time" if code is None else f"ended with {code}"
        print(f"{step.name}: {words} after {took:.0f} s in all", flush=True)
        fine.append(code == 0)
    return fine


def _run(step: Step, out: Path, budget_s: float, limit_s: float) -> int | None:
    """One step, its words in a log; None where it had to be ended."""
    with (out / f"{step.name}.log").open("a", encoding="utf-8") as log:
        running = subprocess.Popen(
            line(step, out, budget_s),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return running.wait(limit_s)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)  # it ends its servers itself
            with suppress(subprocess.TimeoutExpired):
                running.wait(END_S / 2)
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # whatever it left
            running.wait()


if __name__ == "__main__":
    sys.exit(main())

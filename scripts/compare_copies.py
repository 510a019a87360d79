"""Our copy figures and plain loops of CUDA's own copies, alternately, in one session, side by side.

    python scripts/compare_copies.py --out copies.json [--gpus 0,1]

Our side is the program of the app's peer-to-peer check (``runners.p2p``): for each GPU the probe's
copy bandwidth, for two also copies between them one way, both ways and small. The other side
(cuda_copies.py) is ``cudaMemcpyAsync`` device to device, and ``cudaMemcpyPeerAsync`` with peer
access enabled, in a process of its own. Who begins changes with each alternation; figures are
medians over the alternations. Needs torch, numpy and pydantic, nothing else.

Convention, on both sides: inside a GPU bytes read plus bytes written (each byte counts twice),
between GPUs bytes copied (each once), both directions together where it says both ways; 1 GB = 1e9
bytes.

Both sides end in the same call of the driver: for contiguous tensors of one dtype torch's ``copy_``
is ``cudaMemcpyAsync`` on the source's stream, also between two GPUs. What may differ:

- The probe reports its *fastest* copy of many that are timed one by one, a loop its mean. So the
  probe stands beside both: the loop, and the fastest of CUDA's copies timed one by one.
- The probe copies ones, the loop a pattern that shows misplaced data.
- Between GPUs ``copy_`` also records two events and makes both streams wait. A copy of 256 MiB does
  not notice; one of 16 bytes does, so the small copies have no bar.

Ends with 0 where all agree within 5 %, 1 where one does not, data arrived wrong or a side failed, 2
where there is no GPU.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from side_by_side import BAR, VERDICTS, agrees, cell, gpu_names, in_turn, save  # noqa: E402

from models.errors import LinkworthError  # noqa: E402
from runners.allreduce_plan import size_words  # noqa: E402
from runners.environment import environment, host_facts  # noqa: E402
from runners.nvml import open_nvml  # noqa: E402
from runners.ranks import rank_environment  # noqa: E402

OURS, CUDA = "linkworth", "cuda"
SIDES = (OURS, CUDA)
NO_BAR = ("small",)
# our side's own sizes: runners.probe, P2PSpec.bandwidth_bytes, runners.p2p_copies
INSIDE_BYTES, BETWEEN_BYTES, SMALL_BYTES = 2**30, 2**28, 16
STEP_LIMIT_S = 240
_LOOK_S = 0.25
_SHOWN = ("sm_clock_mhz", "mem_clock_mhz")


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    try:
        options.gpus = options.gpus or list(range(_count()))[:2]
        if not options.gpus:
            raise LinkworthError("There is no NVIDIA GPU here that torch can use.")
        variables = rank_environment("cuda", options.gpus, "on")
    except LinkworthError as error:
        print(error.sentence, file=sys.stderr)
        return 2
    options.out.parent.mkdir(parents=True, exist_ok=True)
    report: dict = {
        "gpus": options.gpus,
        "alternations": options.alternations,
        "bar": BAR,
        "convention": "inside a GPU: bytes read plus written; between GPUs: bytes copied",
        "host": host_facts(),
        "environment": environment(),
        "steps": [],
    }
    for step in plan(options.alternations):
        began = time.time()
        with ClockWatch(variables["CUDA_VISIBLE_DEVICES"].split(",")) as watch:
            done = run_side(step["side"], options.gpus, variables)
        taken = {"seconds": round(time.time() - began, 1), "clocks": watch.summary()}
        report["steps"].append({**step, **done, **taken})
        report["table"] = table(report["steps"])
        save(options.out, report)
        print(f"{done['status']:>7} alternation {step['alternation'] + 1}, {step['side']}")
        for reason in done["why"]:
            print(f"        {reason}", flush=True)
    print(conditions(report))
    print(render(report["table"], options.gpus))
    return verdict(report)


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="JSON with all rounds")
    parser.add_argument("--gpus", type=gpu_names, help="one or two; default: the first two")
    parser.add_argument("--alternations", type=int, default=3)
    options = parser.parse_args(argv)
    if options.gpus and len(options.gpus) > 2:
        parser.error("name one GPU or two")
    return options


def _count() -> int:
    try:
        import torch
    except ImportError:
        raise LinkworthError("torch is not installed here.") from None
    return torch.cuda.device_count()


def plan(alternations: int) -> list[dict]:
    """Which side runs when."""
    return [
        {"alternation": index, "side": side}
        for index in range(alternations)
        for side in in_turn(index, [OURS], [CUDA])
    ]


def run_side(side: str, gpus: list[int | str], variables: dict[str, str]) -> dict:
    """Run one side once; a failure is part of the report, not the end of it."""
    with tempfile.TemporaryDirectory() as folder:
        request, result = Path(folder) / "request.json", Path(folder) / "result.json"
        if side == OURS:
            spec: dict = {"kind": "p2p", "device": "cuda", "gpus": gpus}
            spec |= {"bandwidth_bytes": BETWEEN_BYTES, "time_limit_s": STEP_LIMIT_S}
            command = ["-m", "runners.p2p", "--spec", str(request), "--events", f"{folder}/events"]
        else:
            spec = {"n_gpus": len(gpus), "inside_bytes": INSIDE_BYTES}
            spec |= {"between_bytes": BETWEEN_BYTES, "small_bytes": SMALL_BYTES}
            command = [str(ROOT / "scripts" / "cuda_copies.py"), "--request", str(request)]
        request.write_text(json.dumps(spec))
        try:
            ended = subprocess.run(
                [sys.executable, *command, "--result", str(result)],
                cwd=ROOT,
                # the runner chooses its GPUs itself
                env=None if side == OURS else variables,
                capture_output=True,
                text=True,
                timeout=STEP_LIMIT_S + 20,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return {"status": "failed", "why": [str(error)], "spec": spec, "rows": []}
        found = json.loads(result.read_text()) if result.exists() else None
    read = judged(side, ended.returncode, found)
    tail = {} if read["status"] == "ok" else {"tail": (ended.stdout + ended.stderr)[-1500:]}
    if tail and not read["rows"]:
        read["why"].append(tail["tail"])
    return {**read, **tail, "spec": spec, "exit_code": ended.returncode}


def judged(side: str, exit_code: int, found: dict | None) -> dict:
    """What one side's file says, and whether it may be compared: nothing failed, nothing wrong."""
    why = [f"It ended with {exit_code}."] if exit_code else []
    if found is None:
        return {"status": "failed", "why": [*why, "It left no result."], "rows": []}
    read = own_side(found) if side == OURS else dict(found)
    why += read.pop("reasons", [])
    n_wrong = int(sum(row["wrong"] for row in read["wrong"]))
    if n_wrong:
        why.append(f"{n_wrong} values arrived wrong.")
    if not read["rows"]:
        why.append("It measured nothing.")
    return {"status": "failed" if why else "ok", "why": why, **read}


def own_side(result: dict) -> dict:
    """Rows of a peer-to-peer check, GPUs by their place, as the other side names them."""
    rows: list[dict] = []
    wrong: list[dict] = []
    measured = result["measurements"]
    probed = [row for row in measured if row["metric"] == "copy_bandwidth"]
    places = {row["dims"]["device"]: place for place, row in enumerate(probed)}
    for row in measured:
        dims = row["dims"]
        value = {"bytes": dims.get("bytes"), "value": row["value"], "unit": row["unit"]}
        value |= {"n": row.get("n"), "statistic": row.get("statistic")}
        if row["metric"] == "copy_bandwidth":
            place = places[dims["device"]]
            for what in ("inside, loop", "inside, fastest"):
                rows.append({"what": what, "src": place, "dst": place, **value})
        elif row["metric"] in ("p2p_bandwidth", "p2p_latency", "wrong_values"):
            ends = {end: places[dims[end]] for end in ("src", "dst")}
            if row["metric"] == "wrong_values":
                counted = {"bytes": dims["bytes"], "test": dims["test"], "wrong": row["value"]}
                wrong.append({**ends, **counted})
            elif row["metric"] == "p2p_latency":
                rows.append({"what": "small", **ends, **value})
            else:
                what = "both ways" if dims["direction"] == "both" else "one way"
                rows.append({"what": what, **ends, **value})
    reasons = result["reasons"] or ["The result is not valid."]
    return {
        "rows": rows,
        "wrong": wrong,
        "reasons": [] if result["validity"] == "valid" else reasons,
        "warnings": result["warnings"],
        "facts": result["environment"],
    }


def table(steps: list[dict]) -> list[dict]:
    """One row a kind of copy: both medians, their ratio, and whether the bar is met."""
    values: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for step in steps:
        for row in step["rows"]:
            key = (row["what"], row["src"], row["dst"], row["bytes"], row["unit"])
            values[key][step["side"]].append(row["value"])
    rows = []
    for (what, src, dst, n_bytes, unit), sides in values.items():
        ours, theirs = (median(sides[side]) if sides.get(side) else None for side in SIDES)
        ratio = ours / theirs if ours and theirs else None
        rows.append(
            {
                **{"what": what, "src": src, "dst": dst, "bytes": n_bytes, "unit": unit},
                **{OURS: ours, CUDA: theirs, "ratio": ratio},
                **{f"{side}_all": sides.get(side, []) for side in SIDES},
                # a figure that only one side has is no agreement
                "ok": None if what in NO_BAR else ratio is not None and agrees(ratio),
            }
        )
    return rows


def verdict(report: dict) -> int:
    """0: every side ran, no value wrong, every bar met."""
    all_ran = all(step["status"] == "ok" for step in report["steps"])
    rows = report["table"]
    return 0 if all_ran and rows and all(row["ok"] is not False for row in rows) else 1


def render(rows: list[dict], gpus: list[int | str]) -> str:
    lines = [f"{'copy':<30} {'size':>9} {'ours':>9} {'CUDA':>9} unit  ratio  verdict"]
    for row in rows:
        src, dst = gpus[row["src"]], gpus[row["dst"]]
        pair = {"both ways": f"GPUs {src} and {dst}"}.get(row["what"], f"GPU {src} to {dst}")
        name = f"{f'GPU {src}' if src == dst else pair}, {row['what']}"
        ours, theirs = cell(row[OURS], 2), cell(row[CUDA], 2)
        lines.append(
            f"{name:<30} {size_words(row['bytes']):>9} {ours:>9} {theirs:>9} {row['unit']:<4} "
            f"{cell(row['ratio'], 3):>6}  {VERDICTS[row['ok']]}"
        )
    return "\n".join(lines)


def conditions(report: dict) -> str:
    """What the figures were measured under, a few lines."""
    facts = next(
        (step["facts"] for step in report["steps"] if step["side"] == CUDA and step["rows"]), {}
    )
    host = report["host"]
    names = ", ".join(gpu["name"] for gpu in host.get("gpus") or []) or "unknown GPUs"
    lines = [
        f"{names}; driver {host.get('driver')}, torch {facts.get('torch')}, "
        f"CUDA runtime {facts.get('cuda_runtime')}; {report['convention']}"
    ]
    for step in report["steps"]:
        for uuid, clocks in step["clocks"].items():
            seen = ", ".join(
                f"{name.removesuffix('_clock_mhz')} {one['before']:g}, then {one['low']:g} to "
                f"{one['high']:g} MHz"
                for name, one in clocks.items()
            )
            lines.append(f"  {step['alternation'] + 1} {step['side']:<9} {uuid[:12]}: {seen}")
    return "\n".join(lines)


class ClockWatch:
    """Reads the GPUs' clocks beside a step: before it began, and the range while it ran."""

    def __init__(self, uuids: list[str]) -> None:
        self._uuids = set(uuids)
        self._samples: list[dict] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "ClockWatch":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        try:
            with open_nvml() as nvml:
                while True:
                    self._samples += nvml.sample(self._uuids)
                    if self._is_over.wait(_LOOK_S):
                        return
        except LinkworthError:
            return  # clocks are then unknown, which the report shows by their absence

    def summary(self) -> dict[str, dict]:
        """UUID -> clock -> before, low and high (MHz)."""
        return clock_ranges(self._samples)


def clock_ranges(samples: list[dict]) -> dict[str, dict]:
    """UUID -> clock -> its first reading, and the range of the others that lie in the upper half.

    Between its parts a step leaves the GPU idle: low readings say nothing about the copies.
    """
    found: dict[str, dict] = {}
    for uuid in dict.fromkeys(sample["uuid"] for sample in samples):
        for name in _SHOWN:
            read = [one.get(name) for one in samples if one["uuid"] == uuid]
            known = [value for value in read if value is not None]
            if known:
                busy = [value for value in known if value >= max(known) / 2]
                spread = {"before": known[0], "low": min(busy), "high": max(busy)}
                found.setdefault(uuid, {})[name] = spread
    return found


if __name__ == "__main__":
    sys.exit(main())

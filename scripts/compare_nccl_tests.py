"""Our AllReduce sweep and nccl-tests, alternately, on the same GPUs in one session, side by side.

    python scripts/compare_nccl_tests.py --all-reduce-perf PATH --out DIR

Build nccl-tests beforehand (`make MPI=0`); this script only starts its `all_reduce_perf`. Both
sides use the NCCL that torch carries (LD_PRELOAD), the same variables, bfloat16, in-place messages.
The numbers are medians over the alternations. nccl-tests replays graphs of 56 calls 20 times (graph
mode) or launches one by one (its default mode). Needs torch, numpy and pydantic, nothing else.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from side_by_side import (  # noqa: E402
    VERDICTS,
    agrees,
    cell,
    gpu_names,
    in_turn,
    mapped_library,
    save,
)

from runners.allreduce_plan import size_words  # noqa: E402
from runners.nccl_log import transports  # noqa: E402
from runners.ranks import rank_environment  # noqa: E402

# (mode) -> from which size agreement is required: below it the eager mode measures the CPU
REQUIRED_FROM = {"graph": 1024, "eager": 4 * 2**20}
CALLS = 56
PERF_FLAGS = {
    "graph": ["-n", str(CALLS), "-w", "20", "-G", "20"],
    "eager": [],
}
STEP_LIMIT_S = 570


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    options.out = options.out.resolve()  # the runner works in another folder
    options.out.mkdir(parents=True, exist_ok=True)
    steps = plan(options)
    if options.dry_run:
        for step in steps:
            print(json.dumps({**step, "command": _command(options, step)}))
        return 0
    library = options.preload or _torch_nccl()
    said = {name: str(value) for name, value in vars(options).items()}
    report: dict = {"options": said, "nccl": library, "steps": []}
    for step in steps:
        began = time.time()
        done = _run(options, step, library)
        report["steps"].append({**step, **done, "seconds": round(time.time() - began, 1)})
        report["table"] = table(report["steps"])
        # after each step: what was measured survives whatever happens next
        save(options.out / "comparison.json", report)
        print(f"{done['status']:>7} {began:.0f} {_label(step)}", flush=True)
    print(render(report["table"]))
    all_ran = all(step["status"] == "ok" for step in report["steps"])
    return 0 if all_ran and all(row["ok"] is not False for row in report["table"]) else 1


def plan(options: argparse.Namespace) -> list[dict]:
    """Which side runs when."""
    steps = []
    for index in range(options.alternations):
        for link in options.links:
            ours = [{"tool": "linkworth", "modes": _own_modes(options, index)}]
            shared = [mode for mode in options.modes if mode != "exposed"]
            perf = [{"tool": "nccl-tests", "modes": [mode]} for mode in shared]
            pair = in_turn(index, ours, perf)
            steps += [{"alternation": index, "link": link, **part} for part in pair]
    return steps


def _own_modes(options: argparse.Namespace, index: int) -> list[str]:
    # nothing of nccl-tests stands beside the exposed mode: once is enough
    return [mode for mode in options.modes if mode != "exposed" or index == 0]


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all-reduce-perf", type=Path, required=True, help="built beforehand")
    parser.add_argument("--out", type=Path, required=True, help="folder for results and raw texts")
    parser.add_argument("--gpus", type=gpu_names, default=[0, 1], help="indices or UUIDs, by comma")
    parser.add_argument("--links", type=_words, default=["on", "off"])
    parser.add_argument("--modes", type=_words, default=["graph", "eager", "exposed"])
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--min-bytes", type=int, default=1024)
    parser.add_argument("--max-bytes", type=int, default=64 * 2**20)
    parser.add_argument("--samples", type=int, default=30, help="timed batches a size, our side")
    parser.add_argument(
        "--buffers", choices=["torch", "nccl"], default="torch", help="our side's memory"
    )
    parser.add_argument(
        "--layout",
        choices=["single", "threads", "mpi"],
        default="single",
        help="nccl-tests: one process with all GPUs (-g N), a thread a GPU (-t N), or a process a "
        "GPU (mpirun, nccl-tests built with MPI=1) as on our side",
    )
    parser.add_argument(
        "--perf-env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for nccl-tests only, to find a cause: NCCL_GRAPH_REGISTER=0",
    )
    parser.add_argument("--preload", help="libnccl for nccl-tests; default: the one torch loads")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, run nothing")
    return parser.parse_args(argv)


def _words(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _label(step: dict) -> str:
    modes = "+".join(step["modes"])
    return f"alternation {step['alternation'] + 1}, link {step['link']}, {step['tool']} {modes}"


def _stem(options: argparse.Namespace, step: dict) -> Path:
    name = f"{step['alternation']}-{step['link']}-{step['tool']}-{'+'.join(step['modes'])}"
    return options.out / name


def _command(options: argparse.Namespace, step: dict) -> list[str]:
    if step["tool"] == "linkworth":
        stem = _stem(options, step)
        files = {name: f"{stem}.{name}.json" for name in ("spec", "result")}
        return [
            *(sys.executable, "-m", "runners.allreduce"),
            *("--spec", files["spec"], "--result", files["result"]),
            *("--events", f"{stem}.events.jsonl"),
        ]
    count = str(len(options.gpus))
    layout = {"single": ["-g", count], "threads": ["-t", count, "-g", "1"], "mpi": ["-g", "1"]}
    starter = ["mpirun", "--allow-run-as-root", "-np", count] if options.layout == "mpi" else []
    return [
        *starter,
        str(options.all_reduce_perf),
        *("-b", str(options.min_bytes), "-e", str(options.max_bytes), "-f", "2"),
        *("-d", "bfloat16"),
        *layout[options.layout],
        *PERF_FLAGS[step["modes"][0]],
    ]


def _spec(options: argparse.Namespace, step: dict) -> dict:
    sizes = []
    size = options.min_bytes
    while size <= options.max_bytes:
        sizes.append(size)
        size *= 2
    return {
        "kind": "allreduce",
        "device": "cuda",
        "gpus": options.gpus,
        "link": step["link"],
        "sizes_bytes": sizes,
        "modes": step["modes"],
        "rounds": 1,
        "planned_rounds": options.alternations,
        "calls_per_graph": CALLS,
        "samples_per_round": options.samples,
        "buffers": options.buffers,
        "time_limit_s": STEP_LIMIT_S,
    }


def _run(options: argparse.Namespace, step: dict, library: str) -> dict:
    """Run one side once; a failure is part of the report, not the end of it."""
    stem = _stem(options, step)
    command = _command(options, step)
    own = step["tool"] == "linkworth"
    if own:
        Path(command[command.index("--spec") + 1]).write_text(json.dumps(_spec(options, step)))
        environment = None
    else:
        environment = rank_environment("cuda", options.gpus, step["link"])
        environment |= {
            "LD_PRELOAD": library,
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,P2P,SHM",
            "NCCL_DEBUG_FILE": f"{stem}.nccl.log",
        }
        environment |= dict(pair.split("=", 1) for pair in options.perf_env)
    try:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=STEP_LIMIT_S + 20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"status": "failed", "command": command, "why": str(error)}
    Path(f"{stem}.txt").write_text(ended.stdout + ended.stderr)
    try:
        if own:
            read = _read_own(Path(f"{stem}.result.json"))
        else:
            read = _read_perf(ended.stdout, Path(f"{stem}.nccl.log"), step["modes"][0])
    except (OSError, ValueError, KeyError) as error:
        read = {"rows": [], "why": f"{type(error).__name__}: {error}"}
    wrong = sum(row["wrong"] or 0 for row in read["rows"])
    good = ended.returncode == 0 and read["rows"] and not wrong
    tail = (ended.stdout + ended.stderr)[-1500:]
    return {
        "status": "ok" if good else "failed",
        "exit_code": ended.returncode,
        "command": command,
        **({} if good else {"tail": tail}),
        **read,
    }


def _read_own(path: Path) -> dict:
    result = json.loads(path.read_text())
    rows = [
        {
            "mode": row["dims"]["mode"],
            "bytes": row["dims"]["bytes"],
            "us": row["value"],
            "wrong": next(
                other["value"]
                for other in result["measurements"]
                if other["metric"] == "wrong_values" and other["dims"] == row["dims"]
            ),
        }
        for row in result["measurements"]
        if row["metric"] == "allreduce_latency" and row["statistic"] == "median"
    ]
    return {
        "rows": rows,
        "transports": result["environment"].get("transports"),
        "validity": result["validity"],
        "warnings": result["warnings"],
        "nccl": result["environment"].get("nccl"),
    }


def _read_perf(text: str, log: Path, mode: str) -> dict:
    return {
        "rows": [{"mode": mode, **row} for row in in_place_rows(text)],
        "transports": transports(log.read_text(errors="replace")) if log.exists() else None,
        "header": [line for line in text.splitlines() if line.startswith("# nccl-tests version")],
    }


def in_place_rows(text: str) -> list[dict]:
    """Size, time and wrong count of the in-place columns, the last four of each row."""
    rows = []
    for line in text.splitlines():
        parts = line.split()
        if len(parts) < 12 or not parts[0].isdigit():
            continue
        time_us, wrong = parts[-4], parts[-1]
        rows.append(
            {
                "bytes": int(parts[0]),
                "us": float(time_us),
                "wrong": None if wrong == "N/A" else int(float(wrong)),
            }
        )
    return rows


def table(steps: list[dict]) -> list[dict]:
    """One row a link, mode and size: both medians, their ratio, and whether the bar is met."""
    values: dict[tuple, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for step in steps:
        for row in step.get("rows", []):
            values[step["link"], row["mode"], row["bytes"]][step["tool"]].append(row["us"])
    rows = []
    for (link, mode, n_bytes), sides in sorted(values.items()):
        ours, theirs = (sides.get(tool) for tool in ("linkworth", "nccl-tests"))
        ratio = median(ours) / median(theirs) if ours and theirs else None
        required = n_bytes >= REQUIRED_FROM.get(mode, float("inf"))
        rows.append(
            {
                "link": link,
                "mode": mode,
                "bytes": n_bytes,
                "linkworth_us": median(ours) if ours else None,
                "nccl_tests_us": median(theirs) if theirs else None,
                "linkworth_all": ours,
                "nccl_tests_all": theirs,
                "ratio": ratio,
                # None: nothing to compare, or no agreement asked for at this size
                "ok": None if ratio is None or not required else agrees(ratio),
            }
        )
    return rows


def render(rows: list[dict]) -> str:
    lines = ["link mode          size  ours (us)  nccl-tests (us)  ratio  verdict"]
    for row in rows:
        ours, theirs, ratio = (
            cell(row[key], places)
            for key, places in (("linkworth_us", 2), ("nccl_tests_us", 2), ("ratio", 3))
        )
        lines.append(
            f"{row['link']:<4} {row['mode']:<8} {size_words(row['bytes']):>9} {ours:>10} "
            f"{theirs:>16} {ratio:>6}  {VERDICTS[row['ok']]}"
        )
    return "\n".join(lines)


def _torch_nccl() -> str:
    """The libnccl that torch has mapped into this process."""
    import torch

    version = ".".join(str(part) for part in torch.cuda.nccl.version())
    path = mapped_library("libnccl.so")
    if path is not None:
        print(f"NCCL {version}: {path}", flush=True)
        return path
    sys.exit("torch has NCCL built in, not as a library: name one with --preload.")


if __name__ == "__main__":
    sys.exit(main())

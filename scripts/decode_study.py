"""One command on a GPU machine: measure decode steps and write them as one study.

    python scripts/decode_study.py --out decode-on-h200.json                       # one GPU
    python scripts/decode_study.py --out decode-on-2-h200.json --tp 1 2            # two GPUs

Starts the measuring programs one after the other: a decode run for each model, TP size and link
arm, and for TP sizes above 1 an AllReduce sweep of the same messages on the same GPUs, so that
calls x latency can be held against the difference of the replays. Needs torch, numpy and pydantic.
The file is a Bundle; put it into data/studies/ and every explorer shows it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from models.architecture import calls_per_step, message_bytes, read_config  # noqa: E402
from models.decode import floor_ms, step_cost  # noqa: E402
from models.result import Bundle, EvaluationRef, Result, Study, dump, parse, study_id, utc_now  # noqa: E402
from models.scaling import StepTimes  # noqa: E402
from models.scaling_fits import Agreement  # noqa: E402
from models.scaling_words import agreement_sentence, verdict  # noqa: E402
from runners.spec import parse_spec  # noqa: E402

CLOCKS = ["wall_eager", "wall_served", "wall_graph", "replay"]


Part = tuple[dict[str, Any], str, str]  # spec, name of its files, arm


def main() -> int:
    options = arguments()
    if options.dry_run:
        for spec, stem, arm_name in (part for arm in arms(options) for part in arm):
            print(f"{stem} ({arm_name}): {json.dumps(parse_spec(spec).model_dump(mode='json'))}")
        print(f"Nothing was run; the study {options.id} would be {options.out}")
        return 0
    options.work.mkdir(parents=True, exist_ok=True)
    began = time.time()
    results: list[Result] = []
    for parts in arms(options):
        found = [run(options, *part) for part in parts]
        results += [result for result in found if result is not None]
        print(f"   {time.time() - began:.0f} s so far", flush=True)
        write(options, results)  # what is there survives if the machine goes away
    for sentence in sentences(options, results):
        print(sentence)
    print(f"{len(results)} results in {options.out}")
    return 0 if results and all(result.validity != "invalid" for result in results) else 3


def arms(options: argparse.Namespace) -> Iterator[list[Part]]:
    """What is measured, arm by arm."""
    for name in options.models:
        config = json.loads((ROOT / "data" / "models" / f"{name}.json").read_text())
        for tp in options.tp:
            for link in options.links if tp > 1 else [None]:
                for fusion in options.fusion:
                    yield arm(options, name, config, tp, link, fusion)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the study's file")
    parser.add_argument("--id", default="", help="name of the study; default: the file's")
    parser.add_argument("--title", default="", help="default: made from models and GPUs")
    parser.add_argument("--models", nargs="+", default=["qwen2.5-1.5b", "qwen2.5-14b"])
    parser.add_argument("--tp", nargs="+", type=int, default=[1])
    parser.add_argument("--links", nargs="+", choices=["on", "off"], default=["on", "off"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--kv", nargs="+", type=int, default=[1024])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100, help="steps a round and clock")
    parser.add_argument("--gpus", nargs="+", default=[], help="indices or UUIDs, in rank order")
    parser.add_argument(
        "--fusion",
        nargs="+",
        choices=["default", "combo", "matvec", "max-autotune"],
        default=["default"],
        help="several: each is an arm of its own, to see which is fastest here",
    )
    parser.add_argument("--no-eager", action="store_true", help="leave wall_eager out")
    parser.add_argument("--no-allreduce", action="store_true", help="leave the sweeps out")
    parser.add_argument("--cpu", action="store_true", help="a rehearsal on CPU ranks, wall only")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each run")
    parser.add_argument("--dry-run", action="store_true", help="show what would be measured")
    parser.add_argument(
        "--work", type=Path, default=Path(tempfile.gettempdir()) / "linkworth-decode-study"
    )
    options = parser.parse_args()
    options.out, options.work = options.out.resolve(), options.work.resolve()
    try:
        options.id = study_id(options.id or options.out.stem)
    except ValueError as error:
        parser.error(str(error))
    options.gpus = [int(name) if name.isdigit() else name for name in options.gpus]
    options.gpus = options.gpus or list(range(max(options.tp)))
    return options


def arm(
    options: argparse.Namespace, name: str, config: dict, tp: int, link: str | None, fusion: str
) -> list[Part]:
    """The decode run of one arm, and the AllReduce sweep of its messages."""
    placed = {"device": "cpu"} if options.cpu else {"device": "cuda", "gpus": options.gpus[:tp]}
    if not options.cpu:
        placed["link"] = link
    clocks = [clock for clock in CLOCKS if not (options.no_eager and clock == "wall_eager")]
    clocks += ["replay_no_allreduce"] if tp > 1 else []
    label = f"{name}-tp{tp}" + (f"-link-{link}" if link else "")
    arm_name = f"TP={tp}" + (f" link {link}" if link else "")
    if fusion != "default":
        label, arm_name = f"{label}-{fusion}", f"{arm_name} {fusion}"
    spec = {
        "kind": "decode",
        **placed,
        "model": config,
        "model_name": name,
        "tp": tp,
        "batches": options.batches,
        "kv_lens": options.kv,
        "clocks": ["wall_eager"] if options.cpu else clocks,
        "rounds": options.rounds,
        "steps_per_round": options.steps,
        "fusion": fusion,
        "time_limit_s": options.limit,
    }
    found = [(spec, f"decode-{label}", arm_name)]
    if tp > 1 and not options.no_allreduce and fusion == options.fusion[0]:
        arch = read_config(config)
        sweep = {
            "kind": "allreduce",
            **placed,
            "sizes_bytes": sorted({message_bytes(arch, batch) for batch in options.batches}),
            "modes": ["eager"] if options.cpu else ["graph", "exposed"],
            "rounds": options.rounds,
            "calls_per_graph": calls_per_step(arch, vocab_parallel_embedding=True),
            "time_limit_s": options.limit,
        }
        if options.cpu:
            sweep["ranks"] = tp
        found.append((sweep, f"allreduce-{label}", f"link {link}"))
    return found


def run(options: argparse.Namespace, spec: dict, stem: str, arm_name: str) -> Result | None:
    """Start one measuring program and read what it wrote, valid or not."""
    files = {part: options.work / f"{stem}.{part}.json" for part in ("spec", "result", "events")}
    for path in files.values():
        path.unlink(missing_ok=True)
    files["spec"].write_text(json.dumps(spec))
    print(f"== {stem}", flush=True)
    began = time.time()
    command = [sys.executable, "-m", f"runners.{spec['kind']}"]
    command += [item for part, path in files.items() for item in (f"--{part}", str(path))]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    print(f"   exit {code} after {time.time() - began:.0f} s")
    if not files["result"].exists():
        return None
    result = parse(json.loads(files["result"].read_text()))
    evaluation = f"{options.id}:{spec['kind']}:{spec.get('model_name', stem)}"
    result = result.model_copy(
        update={
            "study": options.id,
            "evaluation": EvaluationRef(id=evaluation, arm=arm_name),
            "samples": [
                sample.model_copy(update={"values": [float(f"{v:.6g}") for v in sample.values]})
                for sample in result.samples
            ],
        }
    )
    show(result)
    return result


def show(result: Result) -> None:
    """The numbers of one run, a line each."""
    for text in (*result.reasons, *(notice.text for notice in result.warnings)):
        print(f"   ! {text}")
    bandwidth = copy_bandwidth(result)
    for batch, kv_len in cases(result):
        line = f"   batch {batch:>3} KV {kv_len:>6}"
        for clock in (*CLOCKS, "replay_no_allreduce"):
            step = step_ms(result, batch, kv_len, clock)
            line += f"  {clock} {step:.3f} ms" if step is not None else ""
        if bandwidth:
            cost = step_cost(read_config(result.spec["model"]), result.spec["tp"], batch, kv_len)
            line += f"  floor {floor_ms(cost, bandwidth):.3f} ms at {bandwidth:.0f} GB/s"
        print(line)
    for row in result.find("allreduce_latency", "median"):
        print(f"   {row.dims['mode']} {row.dims['bytes']} B round {row.round}: {row.value:.2f} us")


def cases(result: Result) -> list[tuple[int, int]]:
    """Batch and KV length of each case of a decode run."""
    rows = result.find("decode_step", "median")
    return list(dict.fromkeys((row.dims["batch"], row.dims["kv_len"]) for row in rows))


def step_ms(result: Result, batch: int, kv_len: int, clock: str) -> float | None:
    """Median over the rounds of one clock."""
    rows = result.find("decode_step", "median", batch=batch, kv_len=kv_len, clock=clock)
    return median(row.value for row in rows) if rows else None


def copy_bandwidth(result: Result) -> float | None:
    """The slowest rank's, GB/s."""
    return min((row.value for row in result.find("copy_bandwidth")), default=None)


def times(result: Result, batch: int, kv_len: int) -> StepTimes:
    """One case as the decomposition takes it."""
    arch = read_config(result.spec["model"])
    return StepTimes(
        tp=result.spec["tp"],
        wall_ms=step_ms(result, batch, kv_len, "wall_graph"),
        replay_ms=step_ms(result, batch, kv_len, "replay"),
        no_allreduce_ms=step_ms(result, batch, kv_len, "replay_no_allreduce"),
        calls=calls_per_step(arch, vocab_parallel_embedding=True),
    )


def sentences(options: argparse.Namespace, results: list[Result]) -> list[str]:
    """What the study says: verdicts of TP, and calls x latency against the difference."""
    found = []
    decodes = [result for result in results if result.kind == "decode"]
    for result in decodes:
        for batch, kv_len in cases(result):
            here = times(result, batch, kv_len)
            place = f"{result.spec['model_name']}, batch {batch}, KV {kv_len}, "
            place += f"link {result.spec['link']}: " if result.spec["link"] else ""
            alone = [r for r in decodes if r.spec["tp"] == 1]
            alone = [r for r in alone if r.spec["model_name"] == result.spec["model_name"]]
            alone = [r for r in alone if r.spec["fusion"] == result.spec["fusion"]]
            if here.tp > 1 and alone:
                said = verdict(times(alone[0], batch, kv_len), here)
                found += [place + said.sentence] if said else []
            latency = exposed_us(results, result, batch)
            if here.exposed_ms is not None and latency is not None:
                agreement = Agreement(here.exposed_ms, here.calls * latency / 1e3)
                found.append(place + agreement_sentence(agreement, here.calls, latency))
    return found


def exposed_us(results: list[Result], decode: Result, batch: int) -> float | None:
    """Latency of the arm's message in exposed mode, median over rounds, microseconds."""
    size = message_bytes(read_config(decode.spec["model"]), batch)
    rows = [
        row.value
        for result in results
        if result.kind == "allreduce" and result.spec["link"] == decode.spec["link"]
        for row in result.find("allreduce_latency", "median", bytes=size, mode="exposed")
        if row.dims.get("ranks") == decode.spec["tp"]
    ]
    return median(rows) if rows else None


def write(options: argparse.Namespace, results: list[Result]) -> None:
    """The study so far, whole or not at all."""
    gpus = [gpu["name"] for result in results for gpu in result.host.get("gpus") or []]
    machine = gpus[0] if gpus else "CPU ranks"
    title = options.title or f"Decode steps of {', '.join(options.models)} on {machine}"
    study = Study(
        id=options.id,
        title=title,
        origin="measured",
        source=f"scripts/decode_study.py, {utc_now():%Y-%m-%d}",
        summary=f"Random weights, bf16, TP {options.tp}, batch {options.batches}, "
        f"KV {options.kv}, {options.rounds} rounds of {options.steps} steps.",
        notes=sentences(options, results),
        limits=["Random weights and random cache: speed is real, text is not."],
    )
    bundle = Bundle(study=study, results=results)
    data = bundle.model_dump(mode="json", by_alias=True)
    data["results"] = [dump(result) for result in results]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    draft = options.out.with_suffix(".part")
    draft.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n")
    draft.replace(options.out)


if __name__ == "__main__":
    sys.exit(main())

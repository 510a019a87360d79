"""One command on a GPU machine, under three minutes: do all three AllReduce modes work here?

    python scripts/gpu_smoke.py [--out DIR] [--gpus 0,1] [--p2p]

One GPU alone first, then two with the link on and off where two are there. Prints one table each.
With --p2p the peer-to-peer check of these GPUs instead.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from runners.allreduce_plan import size_words  # noqa: E402

SIZES = [1024, 3072, 65536, 1 << 20, 64 << 20]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "linkworth-smoke")
    parser.add_argument("--gpus", default="", help="indices by comma; default: the first two")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--p2p", action="store_true", help="check peer-to-peer instead")
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    gpus = [int(part) for part in options.gpus.split(",") if part] or list(range(_count()))[:2]
    if options.p2p:
        return _p2p(options, gpus)
    arms = [("one GPU", gpus[:1], None)]
    if len(gpus) > 1:
        arms += [("link on", gpus[:2], "on"), ("link off", gpus[:2], "off")]
    codes = [_arm(options, name, members, link) for name, members, link in arms]
    return max(codes)


def _count() -> int:
    import torch

    return torch.cuda.device_count()


def _p2p(options: argparse.Namespace, gpus: list[int]) -> int:
    spec = {"kind": "p2p", "device": "cuda", "gpus": gpus, "time_limit_s": 400}
    code, result = _program(options, "p2p", spec)
    for pair in result["environment"]["pairs"] if result else []:
        print(f"  {pair['src']} and {pair['dst']}: {pair['sentence']} {pair['next_step']}")
        print(f"    {pair['tiers']}\n    {pair['collective_us']}")
    for row in result["measurements"] if result else []:
        if row["metric"] != "wrong_values":
            print(f"  {row['metric']:<15} {row['value']:>10.4g} {row['unit']:<8} {row['dims']}")
    return code


def _arm(options: argparse.Namespace, name: str, gpus: list[int], link: str | None) -> int:
    spec = {
        "kind": "allreduce",
        "device": "cuda",
        "gpus": gpus,
        "link": link,
        "sizes_bytes": SIZES,
        "modes": ["graph", "eager", "exposed"],
        "rounds": options.rounds,
        "samples_per_round": 30,
        "time_limit_s": 170,
    }
    code, result = _program(options, name, spec)
    if result:
        _print(result)
    return code


def _program(options: argparse.Namespace, name: str, spec: dict) -> tuple[int, dict | None]:
    stem = options.out / name.replace(" ", "-")
    files = {part: Path(f"{stem}.{part}") for part in ("spec.json", "result.json", "events.jsonl")}
    files["spec.json"].write_text(json.dumps(spec))
    files["result.json"].unlink(missing_ok=True)
    began = time.time()
    code = subprocess.run(
        [
            *(sys.executable, "-m", f"runners.{spec['kind']}"),
            *("--spec", str(files["spec.json"]), "--result", str(files["result.json"])),
            *("--events", str(files["events.jsonl"])),
        ],
        cwd=ROOT,
        check=False,
    ).returncode
    print(f"\n== {name}: exit {code} after {time.time() - began:.1f} s")
    found = files["result.json"].exists()
    return code, json.loads(files["result.json"].read_text()) if found else None


def _print(result: dict) -> None:
    seen = result["environment"]
    print(f"{result['validity']}: {'; '.join(result['reasons']) or 'no reason to doubt it'}")
    for notice in result["warnings"]:
        print(f"  {notice['code']}: {notice['text']}")
    print(f"  torch {seen.get('torch')}, NCCL {seen.get('nccl')}, {seen.get('transports')}")
    for row in result["measurements"]:
        if row["metric"] in ("matmul_rate", "copy_bandwidth"):
            print(f"  {row['dims']['device']}: {row['metric']} {row['value']:.4g} {row['unit']}")
    clocks = {(c["round"], c["mode"], c["bytes"], c["rank"]): c for c in seen["gpu_clocks"]}
    layouts = {(c["round"], c["mode"], c["bytes"]): c for c in seen["layouts"]}
    print("  mode       size   median us       p10       p90  wrong  calls x replays  SM MHz")
    cells: dict[tuple, dict] = {}
    for row in result["measurements"]:
        if row["metric"] in ("allreduce_latency", "wrong_values"):
            key = (row["round"], row["dims"]["mode"], row["dims"]["bytes"])
            cells.setdefault(key, {})[row["statistic"]] = row["value"]
    for key, cell in cells.items():
        layout, clock = layouts[key], clocks.get((*key, 0), {})
        print(
            f"  {key[1]:<8} {size_words(key[2]):>6} {cell['median']:>11.2f} {cell['p10']:>9.2f} "
            f"{cell['p90']:>9.2f} {cell['value']:>6.0f} {layout['calls']:>6} x "
            f"{layout['replays']:<6} {clock.get('before_mhz')}/{clock.get('during_mhz')}"
        )


if __name__ == "__main__":
    sys.exit(main())

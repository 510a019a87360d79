"""Ask AIConfigurator, where it is installed, for the same steps that we predict.

A program of its own, so that its tables never load into the app: a JSON request on standard
input, a JSON answer on standard output (its own chatter goes to standard error).

    {"config": {…}, "system": "h200_sxm", "engine": "vllm", "batch": 4, "input_tokens": 1024,
     "output_tokens": 256, "sizes": [1, 2], "is_moe": false, "expert_parallel": false}
    -> {"version": "0.12.0", "steps": [{"tp": 1, "tpot_ms": 9.5, "engine_version": "…", "why": ""}]}
"""

import contextlib
import io
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Every TP size of a request; a size that the tool refuses carries its reason."""
    from aiconfigurator.cli.api import cli_estimate

    steps = []
    with tempfile.TemporaryDirectory() as folder:
        # the tool reads a local model folder, and so needs no network
        place = Path(folder) / "model"
        place.mkdir()
        (place / "config.json").write_text(json.dumps(request["config"]), encoding="utf-8")
        for tp in request["sizes"]:
            experts = {}
            if request["is_moe"]:
                by_expert = request["expert_parallel"]
                experts = {
                    "moe_tp_size": 1 if by_expert else tp,
                    "moe_ep_size": tp if by_expert else 1,
                }
            try:
                found = cli_estimate(
                    str(place),
                    request["system"],
                    backend_name=request["engine"],
                    isl=request["input_tokens"],
                    osl=request["output_tokens"],
                    batch_size=request["batch"],
                    tp_size=tp,
                    **experts,
                )
            except Exception as error:
                # whatever it stumbles over is its answer for this size
                why = f"{type(error).__name__}: {error}"[:300]
                steps.append({"tp": tp, "tpot_ms": None, "engine_version": "", "why": why})
                continue
            steps.append(
                {
                    "tp": tp,
                    "tpot_ms": float(found.tpot),
                    "engine_version": str(getattr(found, "backend_version", "") or ""),
                    "why": "",
                }
            )
    return {"version": version("aiconfigurator"), "steps": steps}


def main() -> int:
    request = json.load(sys.stdin)
    with contextlib.redirect_stdout(io.StringIO()) as chatter:
        answer = ask(request)
    sys.stderr.write(chatter.getvalue())
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

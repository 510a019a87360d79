"""`python -m vllm.entrypoints.cli.main`, as far as the fault tests need it.

FAKE_VLLM names one fault (see `FAULT`); everything else works.
"""

import itertools
import os
import sys
import time

from vllm import client, server

FAULT = os.environ.get("FAKE_VLLM", "")
HELP = """usage: vllm serve [model_tag] [options]

options:
  --host HOST           Host name. (default: None)
  --max-model-len MAX_MODEL_LEN
                        Model context length.
  --dtype {auto,bfloat16,float16}
                        Data type. (default: auto)
  --enforce-eager, --no-enforce-eager
                        Always use eager-mode.
  --cudagraph-capture-sizes CUDAGRAPH_CAPTURE_SIZES [CUDAGRAPH_CAPTURE_SIZES ...]
                        Sizes.
  --gpu-memory-utilization GPU_MEMORY_UTILIZATION, --device-memory-utilization X
                        Share.
  --enable-prefix-caching, --no-enable-prefix-caching
                        Prefix cache.
  --num-gpu-blocks-override NUM_GPU_BLOCKS_OVERRIDE
"""
LOGS = {
    "bad_flag": ["vllm: error: unrecognized arguments: --no-such-flag 3"],
    "too_long": [
        "  Value error, User-specified max_model_len (99999) is greater than the derived "
        "max_model_len (max_position_embeddings=4096.0 or model_max_length=None in model's "
        "config.json). To allow overriding this maximum, set the env var"
    ],
    "no_kv": [
        "(EngineCore pid=25) ERROR 08-18 02:57:12 [core.py:1231] ValueError: To serve at least "
        "one request with the model's max seq len (32768), (1.75 GiB KV cache is needed, which is "
        "larger than the available KV cache memory (0.62 GiB). Try increasing",
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.",
    ],
    "silent": [],
}


def main(words: list[str]) -> int:
    if words[:2] == ["serve", "--help=all"]:
        print(HELP)
        return 0
    if words[0] == "serve":
        if FAULT in LOGS:
            for line in LOGS[FAULT]:
                print(line, flush=True)
            return 1
        if FAULT == "never_ready":
            time.sleep(600)
        options = dict(itertools.pairwise(words))
        return server.serve(words[1], int(options["--port"]), FAULT)
    return client.bench(words[2:], FAULT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The reference tables that are shipped with the code (source and licence: NOTICE).

``allreduce_reference.csv``: all-reduce latencies of other people's hosts, from the communication
tables of AIConfigurator 0.12.0. What to know before using a row:

- Several tables are copies under another version label: a version is a label, not evidence.
- One table may hold the same point more than once (repeated measurements); take their median.
- ``mode`` is empty for TRT-LLM, which is in a graph, and for NCCL, which is nccl-tests launching
  one by one: at small sizes it reads 6 to 7 us, so a graph compares with it only loosely. vLLM's
  own kernel stands under ``vllm_graph``.
- A100, 8 GPUs, 4 KB, vLLM (14.8 us) is noise between neighbours of 5.7 and 6.3.
- For more than two PCIe GPUs the vLLM rows are NCCL: vLLM turns its own kernel off there.
- There are no rows for RTX 3090, 4090, 5090, A6000, PCIe A100 or H100, MI300X: "no reference for
  this card".
- Two hosts with the same RTX PRO 6000 differ 4.4 times at 4 KB: a reference tells what the link
  can do, never what this host does.

``silicon_tp_sample.csv``: measured TTFT and TPOT by system, model, engine, precision, lengths,
batch and TP, an extract of AIConfigurator's silicon sample. An empty precision is bf16 and is
filled in here; an empty version is unknown and stays empty; expert parallelism 0 means that the
source did not say. The same configuration on another engine version differs by 13 % in the
median: for calibration and for showing errors, never as the truth about one host.
"""

from functools import lru_cache
from pathlib import Path

import pandas as pd

from models.errors import UnreadableFile

FOLDER = Path(__file__).resolve().parents[1] / "data" / "reference"

_WHOLE = ("isl", "osl", "batch_size", "tp_size", "moe_ep_size")


def allreduce_reference() -> pd.DataFrame:
    """All-reduce latencies; the frame is the caller's own.

    Returns:
        Columns system, aic_path, device, library_version, mode ("" where the source names none),
        num_gpus, bytes, latency_us, dtype.

    Raises:
        UnreadableFile: The shipped table is not there.
    """
    return _allreduce().copy()


def silicon_rows() -> pd.DataFrame:
    """Measured serving points; the frame is the caller's own.

    Returns:
        Columns system, model_path, backend, backend_version ("" where unknown), precision, isl,
        osl, batch_size, tp_size, moe_ep_size, silicon_ttft_ms, silicon_tpot_ms,
        silicon_data_source.

    Raises:
        UnreadableFile: The shipped table is not there.
    """
    return _silicon().copy()


@lru_cache(maxsize=1)
def _allreduce() -> pd.DataFrame:
    return _read("allreduce_reference.csv")


@lru_cache(maxsize=1)
def _silicon() -> pd.DataFrame:
    frame = _read("silicon_tp_sample.csv")
    frame["precision"] = frame["precision"].replace("", "bf16")
    for name in _WHOLE:  # the source wrote some of them as 4.0
        frame[name] = frame[name].astype("int64")
    return frame


def _read(name: str) -> pd.DataFrame:
    try:
        return pd.read_csv(FOLDER / name, keep_default_na=False)
    except (OSError, pd.errors.ParserError) as error:
        raise UnreadableFile(
            f"The reference table {name} cannot be read.",
            "Restore the folder data/reference from the repository.",
            detail=repr(error),
        ) from error

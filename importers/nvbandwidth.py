"""nvbandwidth, printed or ``--json``: copies between GPUs and between host and GPU.

The title says which way data flow (``GPU(row) <- GPU(column)``); some versions title a copy between
GPUs as one with the CPU, so the test's name decides who the rows are. 0.00 and N/A are no values.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from importers.draft import Draft
from importers.pair_matrix import PairMatrix, columns, read_rows
from importers.pasted import clean, listed, number, numbered
from models.errors import UnreadableFile
from models.result import Result, Scalar

TOOL = "nvbandwidth"
WRONG_VALUES = "Invalid value when checking the pattern"

_TITLE = re.compile(
    r"^\s*(.*(?:GPU|CPU)\((?:row|column)\).*?\((GB/s|ns|us)\))\s*$|^\s*(mem.*\(column\).*)$"
)
_RUNNING = re.compile(r"^\s*Running ([a-z0-9_]+)\.?\s*$")
_SUM = re.compile(r"^\s*SUM ([a-z0-9_]+) (\d+(?:\.\d+)?)\s*$")
_VERSION = re.compile(r"^\s*nvbandwidth Version:\s*v?(\S+)", re.IGNORECASE)
_DEVICE = re.compile(r"^\s*Device (\d+): (.+?)(?: \([0-9a-f:]+\))?:?\s*$", re.IGNORECASE)
_FACTS = {
    "CUDA Runtime Version": "cuda_runtime",
    "CUDA Driver Version": "cuda_driver",
    "Driver Version": "driver",
}


@dataclass
class _Run:
    """What one run of the tool left, whichever form it was printed in."""

    version: str | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    devices: list[tuple[int, str]] = field(default_factory=list)
    matrices: list[PairMatrix] = field(default_factory=list)
    waived: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def looks_like(text: str) -> bool:
    """Whether this is nvbandwidth's output, printed or JSON."""
    if text.lstrip()[:1] == "{":
        return '"nvbandwidth"' in text and '"testcases"' in text
    plain = clean(text)
    if "nvbandwidth Version:" in plain or "SUM device_to_device_memcpy" in plain:
        return True
    return any(_TITLE.match(line) for line in plain.split("\n"))


def read(text: str, name: str = "") -> list[Result]:
    """One result for each run of the tool.

    A run whose copied data were wrong is returned as invalid, with the reason.

    Args:
        text: What was pasted or uploaded.
        name: File name, for the title only.

    Raises:
        UnreadableFile: Nothing was measured.
    """
    runs = _json_runs(text) if text.lstrip()[:1] == "{" else _text_runs(clean(text))
    results = [_result(run, name) for run in runs if run.matrices or run.failures]
    if not results:
        raise UnreadableFile(
            "nvbandwidth measured nothing in this output: there is no matrix.",
            "Tests that were waived did not run; look at the tool's messages.",
        )
    return numbered(results, "run")


def _text_runs(plain: str) -> list[_Run]:
    runs = [_Run()]
    lines = plain.split("\n")
    test: str | None = None
    title: re.Match[str] | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        version, running, total = _VERSION.match(line), _RUNNING.match(line), _SUM.match(line)
        device = _DEVICE.match(line)
        if version:
            if runs[-1].matrices or runs[-1].failures or runs[-1].version:
                runs.append(_Run())
            runs[-1].version = version[1]
            test = title = None
        elif running:
            test, title = running[1], None
        elif total:
            _name_by_sum(runs[-1].matrices, total)
        elif device and not runs[-1].matrices:
            runs[-1].devices.append((int(device[1]), device[2]))
        elif WRONG_VALUES in line:
            runs[-1].failures.append(_wrong(test))
        elif line.strip().startswith("Waived"):
            runs[-1].waived.append(test or "a test")
        elif _TITLE.match(line):
            title = _TITLE.match(line)
        elif title is not None and (header := columns(line)) is not None:
            matrix = _matrix(title, test, header[1])
            at = read_rows(lines, at, matrix, square=_rows_are_gpus(matrix))
            runs[-1].matrices.append(matrix)
        else:
            label, _, value = (part.strip() for part in line.partition(":"))
            if label in _FACTS and value:
                runs[-1].environment[_FACTS[label]] = value
    return runs


def _wrong(test: str | None) -> str:
    return f"The copied data were wrong{f' in {test}' if test else ''}: nothing of it may be used."


def _matrix(title: re.Match[str], test: str | None, cols: list[int]) -> PairMatrix:
    words = title[1] or title[3]
    unit = title[2]
    latency = unit in ("ns", "us") or "atency" in words
    return PairMatrix(
        title=words.strip(),
        quantity="latency" if latency else "bandwidth",
        unit=unit or ("ns" if latency else "GB/s"),
        cols=cols,
        test=test,
    )


def _name_by_sum(matrices: Sequence[PairMatrix], total: re.Match[str]) -> None:
    """The SUM line names the test above it, and is the only one that does where a paste is cut."""
    if matrices and matrices[-1].sum is None:
        base = matrices[-1].test
        if base is None or total[1].startswith(base):
            matrices[-1].test = base or total[1]
            matrices[-1].sum = float(total[2])


def _rows_are_gpus(matrix: PairMatrix) -> bool:
    if matrix.test:
        return matrix.test.startswith("device_to_device")
    return "GPU(row)" in matrix.title


def _json_runs(text: str) -> list[_Run]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    root = data.get("nvbandwidth") if isinstance(data, dict) else None
    if not isinstance(root, dict) or not isinstance(root.get("testcases"), list):
        raise UnreadableFile(
            "This is not a whole nvbandwidth JSON file.", "Import the file as the tool wrote it."
        )
    run = _Run(version=str(root["version"]).lstrip("v") if root.get("version") else None)
    run.environment = {_FACTS[key]: str(root[key]) for key in _FACTS if root.get(key)}
    errors = [root.get("error")]
    for case in root["testcases"]:
        if not isinstance(case, dict):
            continue
        test, status = str(case.get("name") or "") or None, case.get("status")
        errors.append(case.get("error"))
        if status == "Waived":
            run.waived.append(test or "a test")
        elif status == "Passed" and (matrix := _json_matrix(case, test)) is not None:
            run.matrices.append(matrix)
        elif status == "Error":
            run.failures.append(f"{test or 'A test'} failed: {case.get('error') or 'no reason'}.")
    for error in errors:
        if error and (WRONG_VALUES in str(error) or not run.failures):
            run.failures.append(
                _wrong(None) if WRONG_VALUES in str(error) else f"nvbandwidth stopped: {error}"
            )
    return [run]


def _json_matrix(case: Mapping[str, Any], test: str | None) -> PairMatrix | None:
    cells = case.get("bandwidth_matrix")
    if not isinstance(cells, list) or not cells or not all(isinstance(row, list) for row in cells):
        return None
    words = str(case.get("bandwidth_description") or "")
    width = max(len(row) for row in cells)
    if test and test.startswith("device_to_device") and len(cells) == 3 * width:
        cells = cells[-width:]  # both ways: first read, second read and total stand in one list
    latency = "atency" in words or "(ns)" in words
    matrix = PairMatrix(
        title=words,
        quantity="latency" if latency else "bandwidth",
        unit="ns" if latency else "GB/s",
        rows=list(range(len(cells))),
        cols=list(range(width)),
        values=[[number(str(cell)) for cell in row] + [None] * (width - len(row)) for row in cells],
        test=test,
    )
    total = case.get("sum")
    matrix.sum = float(total) if isinstance(total, int | float) and total > 0 else None
    return matrix


def _result(run: _Run, name: str) -> Result:
    draft = Draft(
        kind="p2p",
        tool=TOOL,
        version=run.version,
        title=TOOL + (f" ({name})" if name else ""),
        environment=run.environment,
    )
    if run.devices:
        draft.host = {"gpus": [{"index": index, "name": label} for index, label in run.devices]}
    for matrix in run.matrices:
        unmeasured = matrix.forget_zeros()
        if _rows_are_gpus(matrix):
            matrix.forget_own()
        if unmeasured:
            draft.warn(
                "not_measured",
                f"{matrix.test or 'A test'}: {unmeasured} pairs read 0.00, which means that the "
                "GPUs cannot reach each other; they are left unknown.",
            )
        _put(draft, matrix)
    draft.spec = {"matrices": [matrix.as_dict() for matrix in run.matrices]}
    if run.waived:
        draft.warn("waived", f"Not run on this machine: {listed(run.waived)}.")
    if any(matrix.is_cut for matrix in run.matrices):
        draft.suspect("truncated", "The text is cut: cells that are not printed are unknown.")
    for failure in run.failures:
        wrong = "data were wrong" in failure
        draft.invalid("verification_failed" if wrong else "test_failed", failure)
    return draft.result()


def _put(draft: Draft, matrix: PairMatrix) -> None:
    """Every cell as a measurement of the metric that its test measures."""
    test = matrix.test or "unnamed"
    definition = f"{TOOL}:{test}:1"
    between_gpus = _rows_are_gpus(matrix) or test.startswith(("all_to_one", "one_to_all"))
    both = "<->" in matrix.title and not re.search(r"(Read|Write)[12]", matrix.title)
    method = next((word for word in ("CE", "SM") if f" {word} " in f" {matrix.title} "), None)
    if matrix.quantity == "latency" and not between_gpus:
        return  # how soon a GPU reads host memory: no metric of ours, the matrix is kept whole
    for i, row in zip(matrix.rows, matrix.values, strict=True):
        for j, value in zip(matrix.cols, row, strict=True):
            if test.startswith("device_local") or "local" in matrix.title:
                local: dict[str, Scalar] = {"device": j, "test": test}
                draft.put("copy_bandwidth", value, definition, dims=local)
                continue
            near, far = _ends(matrix, test, i, j)
            dims: dict[str, Scalar] = {"src": near, "dst": far, "test": test, "method": method}
            if matrix.quantity == "latency":
                in_us = None if value is None else value / (1000 if matrix.unit == "ns" else 1)
                draft.put("p2p_latency", in_us, definition, dims=dims)
            else:
                metric = "p2p_bandwidth" if between_gpus else "host_copy_bandwidth"
                dims["direction"] = "both" if both else "one"
                draft.put(metric, value, definition, dims=dims)


def _ends(matrix: PairMatrix, test: str, i: int, j: int) -> tuple[int | str, int | str]:
    """Source and destination of a cell, by the arrow of the title."""
    row: int | str = i if _rows_are_gpus(matrix) else "cpu"
    if test.startswith(("all_to_one", "one_to_all")):
        row = "all"  # one row: the sum over all other GPUs
        return (row, j) if test.startswith("all") else (j, row)
    return (j, row) if "<-" in matrix.title and "<->" not in matrix.title else (row, j)

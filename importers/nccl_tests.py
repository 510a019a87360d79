"""What nccl-tests and RCCL's copy of it print, in every variant, also cut, tagged or tail only."""

import re
from collections.abc import Sequence

from importers.nccl_row import Columns, columns_of, headless_row, is_cut_row, row_of
from importers.nccl_run import REASONS, Run, to_draft
from importers.text import decimal_comma, has_decimal_comma, refusal, unquoted
from models.result import Result
from models.secrets import is_secret

COLLECTIVES = {
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "alltoall",
    "sendrecv",
    "gather",
    "scatter",
    "hypercube",
    "alltoallv",
}
_TAG = re.compile(r"\[\d+(?:,\d+)*\](?:<std(?:out|err)>:?)?")
_COMMAND = re.compile(r"\b([a-z_]+?)_perf\b")
_CONFIG = re.compile(r"\bnThreads?\s+\d+\s+nGpus\s+\d+\s+minBytes\b")
_DEVICE = re.compile(r"Rank\s+(\d+)\s.*?\bdevice\s+\d+\s+\[[^\]]*\]\s*(.*)$")
_VERSION = re.compile(r"nccl-tests version (\S+).*?nccl-library=(\d+)")
_LIBRARY = re.compile(r"NCCL version (\d+\.\d+\.\d+)")
_RCCL = re.compile(r"\bRCCL version\s*:\s*(\S+)")
_STARTING = re.compile(r"Collective test (starting|concluded):\s*(\w+)_perf")
_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d+)")
_FAILURE = re.compile(r"Test (?:NCCL |CUDA )?failure|NCCL WARN|unhandled \w+ error", re.IGNORECASE)
_ENVIRONMENT = re.compile(r"\b((?:NCCL|RCCL|CUDA|HSA)_[A-Z0-9_]+)=([^\s\"']{1,100})")
_INFO = re.compile(r"\bNCCL (?:INFO|WARN|TRACE)\b")
_NUMBER_FIRST = re.compile(r"[\s|\d\[\],:>]*\d")
_LABEL = re.compile(r"^\s*\d+:\s")  # srun --label


def looks_like(text: str) -> bool:
    """Whether a table, a header or a configuration line of nccl-tests stands in the text."""
    if _CONFIG.search(text) or "Collective test starting" in text:
        return True
    for line in text.split("\n"):
        if "algbw" in line and columns_of(_clean(line).split()) is not None:
            return True
        is_long = line[:300].count(" ") > 8
        if is_long and _NUMBER_FIRST.match(line) and headless_row(_clean(line).split()) is not None:
            return True
    return False


def read(text: str, name: str = "") -> list[Result]:
    """Every run of the text, in order; settings and rows of one never reach the next.

    Raises:
        UnreadableFile: No run can be used; says why of the first.
    """
    drafts = [to_draft(run) for run in runs_of(text)]
    usable = [draft for draft in drafts if draft.validity != "invalid" or draft.measurements]
    if not usable:
        code = drafts[0].code if drafts else "no_rows"
        sentence = drafts[0].reasons[0] if drafts else REASONS["no_rows"]
        step = "Paste the whole output, from the command to the last line."
        if code in ("single_gpu", "two_single_runs"):
            step = "Run the test over two or more GPUs."
        raise refusal(code, sentence, step)
    return [draft.result() for draft in drafts]


def runs_of(text: str) -> list[Run]:
    """The runs as they were printed."""
    reader = _Reader()
    lines = unquoted(text).split("\n")
    last = max((i for i, line in enumerate(lines) if line.strip()), default=-1)
    for index, line in enumerate(lines):
        reader.line(_clean(line), is_last=index == last)
    return [run for run in reader.runs if not run.is_empty]


def _clean(line: str) -> str:
    if "[" in line:
        line = _TAG.sub(" ", line)
    if ":" in line[:12]:
        line = _LABEL.sub("", line)
    return line.strip().strip("|").replace("|", " ").strip()


class _Reader:
    """Walks the lines and keeps what belongs to the present run."""

    def __init__(self) -> None:
        self.runs = [Run()]
        self.columns: Columns | None = None

    @property
    def run(self) -> Run:
        return self.runs[-1]

    def _new(self) -> Run:
        """Start another run unless the present one has nothing yet that a new one would repeat."""
        run = self.run
        if run.rows or run.has_footer or run.has_header or run.failed or run.ranks:
            self.runs.append(Run())
            self.columns = None
        return self.run

    def line(self, line: str, *, is_last: bool) -> None:
        bare = line.lstrip("#").strip()
        if not bare or bare.startswith("NCCL INFO") or self._log(bare):
            return
        if self._heading(bare):
            return
        tokens = bare.split()
        columns = columns_of(tokens)
        if columns is not None:
            if self.run.rows:
                self._new()
            self.columns = columns
            self.run.has_header = columns.is_standard
            self.run.cpu_time = columns.is_cpu_time
            return
        self._data(tokens, bare, is_last=is_last)

    def _log(self, bare: str) -> bool:
        library = _LIBRARY.search(bare)
        if library and self.run.library is None:
            self.run.library = library[1]
        if _FAILURE.search(bare):
            self.run.failed = True
            if not self.run.error_text and "failure" in bare.lower():
                self.run.error_text = bare[:160]
            return True
        return bool(_INFO.search(bare))

    def _heading(self, bare: str) -> bool:
        version = _VERSION.search(bare)
        if version:
            run = self._new()
            run.version, run.library = version[1], release(int(version[2]))
            return True
        rccl = _RCCL.search(bare)
        if rccl:
            run = self._new()
            run.tool, run.library = "rccl-tests", rccl[1]
            return True
        test = _STARTING.search(bare)
        if test:
            run = self._new() if test[1] == "starting" else self.run
            run.collective = run.collective or _collective(test[2])
            run.has_footer |= test[1] == "concluded"
            return True
        if _CONFIG.search(bare):
            self._config(bare)
            return True
        device = _DEVICE.search(bare)
        if device:
            self._device(int(device[1]), device[2].strip())
            return True
        bounds = _BOUNDS.search(bare)
        if bounds:
            self.run.has_footer = True
            self.run.out_of_bounds = int(bounds[1]) if len(bounds[1]) < 18 else 1
            return True
        if bare.startswith("Avg bus bandwidth"):
            self.run.has_footer = True
            return True
        return self._command(bare)

    def _command(self, bare: str) -> bool:
        command = _COMMAND.search(bare)
        if command is None or _collective(command[1]) is None:
            return False
        run = self._new()
        run.collective = _collective(command[1])
        run.environment = {
            key: value for key, value in _ENVIRONMENT.findall(bare) if not is_secret(key)
        }
        return True

    def _config(self, bare: str) -> None:
        run = self._new()
        graph = re.search(r"\bgraph:\s*(\d+)", bare)
        if graph:
            run.mode = "graph" if int(graph[1][:9]) > 0 else "eager"
        for pattern, attribute in (
            (r"(?<!agg )(?<!warmup )\biters:\s*(\d+)", "iterations"),
            (r"agg iters:\s*(\d+)", "aggregated"),
        ):
            found = re.search(pattern, bare)
            if found:
                setattr(run, attribute, int(found[1][:9]))
        validation = re.search(r"validation:\s*(\d)", bare)
        if validation:
            run.validation = validation[1] != "0"

    def _device(self, rank: int, name: str) -> None:
        run = self.run
        if run.rows:
            run = self._new()
        if rank == 0:
            run.rank_zero_lists += 1
        if rank < 100_000:
            run.ranks.add(rank)
        if name and len(run.gpus) < 1024:
            run.gpus[rank] = name[:100]

    def _data(self, tokens: Sequence[str], bare: str, *, is_last: bool) -> None:
        row = row_of(tokens, self.columns) if self.columns else headless_row(tokens)
        run = self.run
        if row is None:
            if is_last and is_cut_row(tokens):
                run.cut = True
            elif _COMMA_ROW.match(bare) and has_decimal_comma(bare):
                raise decimal_comma(bare[:60])
            return
        if run.has_footer and run.rows:
            run = self._new()
        if row.size == 0:
            run.zero_sizes += 1
        else:
            run.rows.append(row)


_COMMA_ROW = re.compile(r"\d+\s+\d+\s+(?:float|half|bfloat16|double|u?int\d+)\s")


def _collective(name: str) -> str | None:
    found = name.lower().strip("_")
    return found if found in COLLECTIVES else None


def release(number: int) -> str:
    """A library version as NCCL counts: 23007 is 2.30.7, 2708 is 2.7.8."""
    big = 10_000 if number >= 10_000 else 1_000
    return f"{number // big}.{number % big // 100}.{number % 100}"

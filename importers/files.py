"""Many files at once: uploads, zip files and folders, each read on its own, none counted twice."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from importers import archive, recognise, vllm_sweep
from importers.draft import experiment_id
from importers.text import check_size
from models.errors import UnreadableFile
from models.result import Bundle, Notice, Result


@dataclass
class Reading:
    """What became of one file.

    Attributes:
        name: Its path as given.
        data: Its bytes.
        bundle: What it holds, or None.
        error: Why it was refused, or None.
        skipped: Why it was left out on purpose; empty where it was not.
    """

    name: str
    data: bytes = field(repr=False)
    bundle: Bundle | None = None
    error: UnreadableFile | None = None
    skipped: str = ""

    @property
    def results(self) -> list[Result]:
        """The results of the file, none where it was refused or skipped."""
        return self.bundle.results if self.bundle is not None else []


def expand(files: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """The files with every zip replaced by what it holds.

    Raises:
        UnreadableFile: A zip is damaged, encrypted or too large.
    """
    for name, data in files:
        if archive.looks_like(data):
            for inner, content in archive.members(data):
                yield f"{PurePosixPath(name).stem}/{inner}", content
        else:
            yield name, data


def of_folder(folder: Path) -> list[tuple[str, bytes]]:
    """Every visible file below a folder, in the order of names.

    Raises:
        UnreadableFile: A file is too large.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder.parent).parts
        if path.is_file() and not path.is_symlink() and not any(p.startswith(".") for p in parts):
            check_size(path.stat().st_size)
            found.append(("/".join(parts), path.read_bytes()))
    return found


def read_each(
    files: Sequence[tuple[str, bytes]], on_file: Callable[[int, str], None] | None = None
) -> list[Reading]:
    """Read files, bind the rounds of a sweep, and drop what is there twice.

    Args:
        files: Name and bytes of each; zip files already expanded.
        on_file: Told the number of files done and the name of the next one.
    """
    names = [name for name, _ in files]
    readings = []
    for index, (name, data) in enumerate(files):
        if on_file is not None:
            on_file(index, name)
        readings.append(_read_one(name, data, names))
    _bind_sweeps(readings)
    _drop_repeated(readings)
    if on_file is not None:
        on_file(len(files), "")
    return readings


def _read_one(name: str, data: bytes, names: Sequence[str]) -> Reading:
    reading = Reading(name, data)
    if len(names) > 1 and vllm_sweep.repeats(name, names):
        reading.skipped = "It only repeats the runs beside it."
    elif vllm_sweep.is_failure(name):
        reading.skipped = "It reports a run of the sweep that failed."
    else:
        try:
            reading.bundle = recognise.read(data, name)
        except UnreadableFile as error:
            if error.detail == "warmup" and len(names) > 1:
                reading.skipped = error.sentence
            else:
                reading.error = error
    return reading


def _bind_sweeps(readings: Sequence[Reading]) -> None:
    """Runs that lie in the folders of one sweep become rounds of one evaluation."""
    experiments: dict[str, list[Result]] = {}
    for reading in readings:
        folder = vllm_sweep.experiment_of(reading.name)
        if folder is not None and len(reading.results) == 1:
            experiments.setdefault(folder, []).append(reading.results[0])
    for results in experiments.values():
        identity = experiment_id(result.id for result in results)
        vllm_sweep.bind(results, identity)


def _drop_repeated(readings: Sequence[Reading]) -> None:
    """The same record in two files is one result: the first keeps it."""
    seen: set[str] = set()
    for reading in readings:
        if reading.bundle is None:
            continue
        fresh = [result for result in reading.bundle.results if result.id not in seen]
        repeated = len(reading.bundle.results) - len(fresh)
        if repeated:
            reading.bundle.warnings.append(
                Notice(code="duplicate", text=f"{repeated} results were in an earlier file.")
            )
            reading.bundle.results = fresh
        seen.update(result.id for result in fresh)

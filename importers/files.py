"""Many files at once: uploads, zip files and folders, each read on its own, none counted twice."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from importers import archive, own_zip, recognise, vllm_sweep
from importers.draft import experiment_id
from importers.text import check_size, decode
from models.errors import UnreadableFile
from models.result import Bundle, Notice, Result


class File(NamedTuple):
    """A file on its way in: what is read, and what is kept as its raw file where that differs."""

    name: str
    data: bytes
    raw: tuple[str, bytes] | None = None


@dataclass
class Reading:
    """What became of one file.

    Attributes:
        file: The file as given.
        bundle: What it holds, or None.
        error: Why it was refused, or None.
        skipped: Why it was left out on purpose; empty where it was not.
    """

    file: File = field(repr=False)
    bundle: Bundle | None = None
    error: UnreadableFile | None = None
    skipped: str = ""

    @property
    def name(self) -> str:
        """Path of the file as given."""
        return self.file.name

    @cached_property
    def raw(self) -> tuple[str, bytes]:
        """Name and bytes to keep: UTF-8 wherever possible, so that secrets can be found in them."""
        if self.file.raw is not None:
            return self.file.raw
        data = self.file.data
        try:
            data.decode("utf-8")
        except UnicodeDecodeError:
            data = decode(data).encode()
        return PurePosixPath(self.name).name, data

    @cached_property
    def sha256(self) -> str:
        """Hash of what is kept, by which a file that is stored already is known."""
        return hashlib.sha256(self.raw[1]).hexdigest()

    @property
    def results(self) -> list[Result]:
        """The results of the file, none where it was refused or skipped."""
        return self.bundle.results if self.bundle is not None else []


def expand(files: Iterable[File]) -> Iterator[File]:
    """The files with every zip replaced by what it holds.

    Raises:
        UnreadableFile: A zip is damaged, encrypted or too large.
    """
    for file in files:
        if own_zip.looks_like(file.data):
            for part in own_zip.read(file.data):
                yield File(part.name, json.dumps(part.results).encode(), own_zip.raw_of(part))
        elif archive.looks_like(file.data):
            for inner, content in archive.members(file.data):
                yield File(f"{PurePosixPath(file.name).stem}/{inner}", content)
        else:
            yield file


def of_folder(folder: Path) -> list[File]:
    """Every visible file below a folder, in the order of names.

    Raises:
        UnreadableFile: A file is too large.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not path.is_symlink() and not any(p.startswith(".") for p in parts):
            check_size(path.stat().st_size)
            found.append(File("/".join((folder.resolve().name, *parts)), path.read_bytes()))
    return found


def read_each(
    files: Sequence[File], on_file: Callable[[int, str], None] | None = None
) -> list[Reading]:
    """Read files, bind the rounds of a sweep, and drop what is there twice.

    Args:
        files: The files, zip files already expanded.
        on_file: Told the number of files done and the name of the next one.
    """
    names = [file.name for file in files]
    readings = []
    for index, file in enumerate(files):
        if on_file is not None:
            on_file(index, file.name)
        readings.append(_read_one(file, names))
    _bind_sweeps(readings)
    _drop_repeated(readings)
    if on_file is not None:
        on_file(len(files), "")
    return readings


def _read_one(file: File, names: Sequence[str]) -> Reading:
    reading = Reading(file)
    if len(names) > 1 and vllm_sweep.repeats(file.name, names):
        reading.skipped = "It only repeats the runs beside it."
    elif vllm_sweep.is_failure(file.name):
        reading.skipped = "It reports a run of the sweep that failed."
    else:
        try:
            reading.bundle = recognise.read(file.data, file.name)
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

"""``python -m importers FILE…``: the results of files, zip files and folders as one JSON array."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from importers import files
from importers.text import check_size
from models.errors import UnreadableFile
from models.result import dumps


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the named files; 0 with an array on stdout, 2 with one line on stderr.

    A file that is refused among others does not hide them: it is named on stderr, and the exit
    code is 2 only when nothing could be read.
    """
    parser = argparse.ArgumentParser(
        prog="python -m importers",
        description="Read other tools' results, and our own, and print them in one shape.",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", type=Path, help="file, zip or folder")
    parsed = parser.parse_args(arguments)
    try:
        readings = files.read_each(list(files.expand(_load(parsed.files))))
    except UnreadableFile as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{error.filename} cannot be read: {error.strerror}.")
    results = [result for reading in readings for result in reading.results]
    refused = [reading for reading in readings if reading.error is not None]
    if not results:
        skipped = next((reading.skipped for reading in readings if reading.skipped), "")
        reason = str(refused[0].error) if refused else skipped or "There is no file to read."
        prefix = f"{refused[0].name}: " if refused and len(readings) > 1 else ""
        return _refuse(prefix + reason)
    for reading in refused:
        print(f"{reading.name}: {_one_line(str(reading.error))}", file=sys.stderr)
    try:
        print(dumps(results), flush=True)
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _load(paths: Sequence[Path]) -> list[files.File]:
    found: list[files.File] = []
    for path in paths:
        if path.is_dir():
            found.extend(files.of_folder(path))
        else:
            check_size(path.stat().st_size)
            name = str(path) if len(paths) > 1 else path.name
            found.append(files.File(name, path.read_bytes()))
    return found


def _refuse(sentence: str) -> int:
    print(_one_line(sentence), file=sys.stderr)
    return 2


def _one_line(sentence: str) -> str:
    return " ".join(sentence.split())


if __name__ == "__main__":
    sys.exit(main())

"""Zip files and folders: many files through the one door, nothing is ever written to disk."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath

from importers.text import MAX_BYTES, megabytes, refusal

MAX_MEMBERS = 5_000
MAX_TOTAL = 1_000_000_000  # bytes unpacked

_SKIPPED_FOLDERS = {"__MACOSX"}


def looks_like(data: bytes) -> bool:
    """Whether the bytes are a zip file."""
    return data[:4] in (b"PK\x03\x04", b"PK\x05\x06")


def members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of every file of a zip, in the order of names.

    Hidden files, folders of the operating system and entries whose name leads out of the archive
    are left out; sizes are counted while unpacking, not believed from the directory.

    Raises:
        UnreadableFile: Damaged, encrypted, or beyond the limits.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = sorted(archive.infolist(), key=lambda entry: entry.filename)
            if len(entries) > MAX_MEMBERS:
                raise refusal(
                    "too_many",
                    f"This zip holds {len(entries)} files; {MAX_MEMBERS} are the limit.",
                    "Import it in parts.",
                )
            total = 0
            for entry in entries:
                if entry.is_dir() or not _is_plain(entry.filename):
                    continue
                if entry.flag_bits & 1:
                    raise refusal("encrypted", "This zip is encrypted.", "Unpack it first.")
                content = _unpack(archive, entry)
                total += len(content)
                if total > MAX_TOTAL:
                    raise refusal(
                        "too_large",
                        f"This zip unpacks to more than {megabytes(MAX_TOTAL)}.",
                        "Import it in parts.",
                    )
                yield entry.filename, content
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
        raise refusal(
            "damaged",
            "This zip file is damaged or uses a packing that is not known.",
            "Pack the folder again.",
        ) from error


def _unpack(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise refusal(
            "too_large",
            f"{PurePosixPath(entry.filename).name} in this zip is larger than "
            f"{megabytes(MAX_BYTES)}.",
            "Leave it out, or save without per-request details.",
        )
    return content


def _is_plain(name: str) -> bool:
    if "\\" in name or name.startswith("/") or ":" in name.split("/", 1)[0]:
        return False
    parts = PurePosixPath(name).parts
    return not any(
        part == ".." or part.startswith(".") or part in _SKIPPED_FOLDERS for part in parts
    )

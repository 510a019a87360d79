"""All results of a machine as one zip: our JSON, and the raw files they came from.

History of ``version`` in the manifest:
    1: ``manifest.json``, ``results/<id>.json``, ``raw/<id>/<name>``.
"""

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from importers import archive
from importers.text import refusal
from models.result import Result, dump

FORMAT = "linkworth-bundle"
VERSION = 1
MANIFEST = "manifest.json"


@dataclass
class OwnFile:
    """Results that came from the same raw files, which are kept with them."""

    name: str
    results: list[Any]
    raw: list[tuple[str, bytes]] = field(default_factory=list)


def pack(runs: Iterable[tuple[Result, Sequence[Mapping[str, Any]]]]) -> bytes:
    """Pack runs and their raw files.

    Args:
        runs: Each run with its raw files as ``db.runs.raw`` gives them (name, sha256, data).

    Returns:
        The bytes of a zip file.
    """
    stream = io.BytesIO()
    listed = []
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        kept: set[str] = set()
        for result, files in runs:
            target.writestr(f"results/{result.id}.json", json.dumps(dump(result)))
            listed.append({"id": result.id, "raw": [[f["sha256"], f["name"]] for f in files]})
            for file in files:
                if file["sha256"] not in kept:
                    kept.add(file["sha256"])
                    target.writestr(f"raw/{file['sha256']}", file["data"])
        manifest = {"format": FORMAT, "version": VERSION, "runs": listed}
        target.writestr(MANIFEST, json.dumps(manifest, indent=1))
    return stream.getvalue()


def looks_like(data: bytes) -> bool:
    """Whether the bytes are one of our zips."""
    if not archive.looks_like(data):
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as opened, opened.open(MANIFEST) as manifest:
            return f'"{FORMAT}"'.encode() in manifest.read(4096)
    except (KeyError, OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return False


def read(data: bytes) -> Iterator[OwnFile]:
    """The results of a zip, those of the same raw files together.

    Raises:
        UnreadableFile: Damaged, made by a newer version, or a result is missing in it.
    """
    members = dict(archive.members(data))
    try:
        manifest = json.loads(members[MANIFEST])
        version = manifest["version"]
        entries = [
            (str(run["id"]), [(str(sha), str(name)) for sha, name in run["raw"]])
            for run in manifest["runs"]
        ]
        documents = {run: json.loads(members[f"results/{run}.json"]) for run, _ in entries}
        contents = {sha: members[f"raw/{sha}"] for _, files in entries for sha, _ in files}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise refusal(
            "damaged",
            "This Linkworth bundle is damaged: its manifest does not fit its files.",
            "Export it again.",
        ) from error
    if version != VERSION:
        raise refusal(
            "too_new",
            f"This bundle has version {version}; this Linkworth knows {VERSION}.",
            "Update Linkworth on this machine.",
        )
    groups: dict[tuple[str, ...], OwnFile] = {}
    for run, files in entries:
        key = tuple(sha for sha, _ in files) or (run,)
        if key not in groups:
            raw = [(_plain(name), contents[sha]) for sha, name in files]
            groups[key] = OwnFile(raw[0][0] if raw else f"{run}.json", [], raw)
        groups[key].results.append(documents[run])
    yield from groups.values()


def raw_of(file: OwnFile) -> tuple[str, bytes] | None:
    """The one raw file to store: the only one, or all of them in a zip."""
    if len(file.raw) < 2:
        return file.raw[0] if file.raw else None
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        for index, (name, data) in enumerate(file.raw):
            # a fixed time, so that the same files always give the same bytes
            target.writestr(zipfile.ZipInfo(f"{index}-{name}"), data)
    return "raw-files.zip", stream.getvalue()


def _plain(name: str) -> str:
    return re.sub(r"[^\w.=\- ]+", "_", name)[:120] or "raw"

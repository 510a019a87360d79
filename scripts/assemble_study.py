"""Result files of any known format put together as one shipped study.

    python scripts/assemble_study.py --id ID --plan docs/studies/ID.toml \\
        --out data/studies/ID.json FILES…

Files are read as the app imports them, and rounds of one arm are merged by the store itself, in a
database that lives as long as the program. The plan says in which order the files come, to which
arm they belong and what the study says; without one, every file's results are taken as they are.
The same files and plan give the same bytes. Paths become file names, and the hash of a host's name
is hashed once more: nobody's own machine of that name may be taken for the study's.
"""

import argparse
import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from db import runs  # noqa: E402
from db.engine import connect  # noqa: E402
from db.migrations import upgrade  # noqa: E402
from importers import recognise  # noqa: E402
from importers.said import with_said  # noqa: E402
from models.errors import LinkworthError, UnreadableFile  # noqa: E402
from models.machine import hidden_name  # noqa: E402
from models.result import Bundle, EvaluationRef, Notice, Result, Study, dump  # noqa: E402

MOST_BYTES = 1_500_000
# of samples as many: a spread of 0.02 % must still be found in values that are rounded
DIGITS = {"measurements": 6, "samples": 6, "facts": 5}
LINE = 400  # characters of JSON that stay on one line: one measurement
# a path: its last part says which program or file; the rest only where it lay
_PATH = re.compile(r"(?<![\w.~/-])(?:~|[A-Za-z]:)?/(?:[\w.+@-]+/)*([\w.+@-]+)")
_NOTED = ("gpu_clocks", "layouts")  # lists in which a program notes something of each round


def main(argv: Sequence[str] | None = None) -> int:
    """Read, merge, write; 2 and one line where a file cannot be used."""
    options = _options(argv)
    try:
        plan = tomllib.loads(options.plan.read_text(encoding="utf-8")) if options.plan else {}
        bundle = assemble(options.files, plan, options.id, title=options.title)
        text = write(bundle)
    except (LinkworthError, OSError, tomllib.TOMLDecodeError) as error:
        print(error, file=sys.stderr)
        return 2
    if len(text.encode()) > MOST_BYTES:
        print(f"{len(text):,} bytes: too large to ship, leave files out.", file=sys.stderr)
        return 2
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text, encoding="utf-8")
    for result in bundle.results:
        rounds = sorted({row.round for row in result.measurements if row.round is not None})
        print(f"{result.kind:<10} {result.validity:<8} rounds {rounds} {result.title}")
    print(f"{len(bundle.results)} runs, {len(text.encode()):,} bytes in {options.out}")
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--id", required=True, help="id of the study: letters, digits, hyphens")
    parser.add_argument("--title", default="", help="default: the plan's, else the id")
    parser.add_argument("--plan", type=Path, help="TOML: [study], [[runs]], [[facts]]")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args(argv)


def assemble(
    paths: Iterable[Path], plan: Mapping[str, Any], study_id: str, *, title: str = ""
) -> Bundle:
    """The study of these files.

    Args:
        paths: Result files: ours, bundles, other tools' outputs.
        plan: Tables ``study`` (title, source, summary, claims, limits, notes), ``runs`` (``match``:
            pattern of file names, ``pick``: values that a result's spec must hold, ``drop``: leave
            them out, ``title``, ``evaluation``, ``arm``, ``said``, ``unite``: lists of the spec
            that become those of all, ``arms``: only these of the file's arms, ``gaps_of_rounds``:
            rounds whose single gaps between tokens are kept, said by a notice) and ``facts``
            (``match``, ``key``, ``name``, ``leave_out``).
        study_id: Id of the study.
        title: Wins over the plan's.

    Raises:
        UnreadableFile: A file is of no known format, or a part of the plan fits no file.
    """
    ordered = sorted(paths, key=lambda path: (path.name, str(path)))
    facts, rest = _facts(ordered, plan.get("facts", []))
    taken = _ordered(rest, plan.get("runs", []))
    results = _merged([_rounded(_without_places(item)) for item in taken], study_id)
    told = plan.get("study", {})
    study = Study(
        id=study_id,
        title=title or told.get("title", study_id),
        origin=told.get("origin", "measured"),
        source=told.get("source", "scripts/assemble_study.py"),
        **{key: told[key] for key in ("summary", "claims", "limits", "notes") if key in told},
        facts=facts,
    )
    return Bundle(study=study, results=results)


def _facts(
    paths: Sequence[Path], wanted: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], list[Path]]:
    """Tables that a tool wrote beside its results, and the files that are left."""
    facts: dict[str, Any] = {}
    used: list[Path] = []
    for want in wanted:
        for path in _matching(paths, want["match"]):
            table = json.loads(path.read_text(encoding="utf-8"))[want["key"]]
            out = set(want.get("leave_out", []))
            rows = [{k: v for k, v in row.items() if k not in out} for row in table]
            facts[want["name"]] = _walk(rows, lambda v: _digits(v, DIGITS["facts"]))
            used.append(path)
    return facts, [path for path in paths if path not in used]


def _matching(paths: Sequence[Path], pattern: str) -> list[Path]:
    found = [path for path in paths if PurePath(path).match(pattern)]
    if not found:
        raise UnreadableFile(f"No file fits the plan's pattern {pattern}.", "Name all files.")
    return found


def _ordered(paths: Sequence[Path], parts: Sequence[Mapping[str, Any]]) -> list[Result]:
    """Results in the plan's order, then those that it does not name."""
    read = {path: recognise.read(path.read_bytes(), path.name).results for path in paths}
    named: list[str] = []
    taken: list[Result] = []
    for part in parts:
        found = [
            result
            for path in _matching(paths, part["match"])
            for result in read[path]
            if result.id not in named
            and all(result.spec.get(key) == value for key, value in part.get("pick", {}).items())
            and ("arms" not in part or _arm(result) in part["arms"])
        ]
        if not found:
            raise UnreadableFile(f"No result fits the plan's part {dict(part)}.")
        named += [result.id for result in found]
        taken += [] if part.get("drop") else _as_planned(found, part)
    return taken + [item for path in paths for item in read[path] if item.id not in named]


def _arm(result: Result) -> str | None:
    return result.evaluation.arm if result.evaluation else None


def _as_planned(results: Sequence[Result], part: Mapping[str, Any]) -> list[Result]:
    united = {
        name: list(dict.fromkeys(value for item in results for value in item.spec[name]))
        for name in part.get("unite", [])
    }
    planned = []
    for result in results:
        changed = with_said(result, part.get("said", {}))
        update: dict[str, Any] = {"spec": {**changed.spec, **united}}
        if "title" in part:
            update["title"] = part["title"].format_map(result.spec)
        if "evaluation" in part:
            evaluation = part["evaluation"].format_map(result.spec)
            # an arm that the file names keeps its name
            arm = part["arm"].format_map(result.spec) if "arm" in part else _arm(result)
            if arm is None:
                raise UnreadableFile(
                    f"Neither the plan's part {dict(part)} nor its file names an arm.",
                    "Give the part an arm.",
                )
            update["evaluation"] = EvaluationRef(id=evaluation, arm=arm)
        notices = [Notice(code="assembled", text=text) for text in part.get("warnings", [])]
        if "gaps_of_rounds" in part:
            kept = set(part["gaps_of_rounds"])
            update["samples"] = [s for s in result.samples if s.metric != "itl" or s.round in kept]
            notices.append(Notice(code="assembled", text=_gaps_words(sorted(kept))))
        update["warnings"] = [*changed.warnings, *notices]
        planned.append(changed.model_copy(update=update))
    return planned


def _gaps_words(rounds: Sequence[int]) -> str:
    """Which gaps between tokens are left: all of them are nine tenths of a served run's bytes."""
    if not rounds:
        return "Single gaps between tokens are not kept; their statistics are, of every round."
    numbers = " and ".join(map(str, rounds))
    return (
        f"Single gaps between tokens are kept of round {numbers} alone; their statistics are of "
        "every round."
    )


def _merged(results: Sequence[Result], study_id: str) -> list[Result]:
    """As the store merges rounds and reads runs back, in the order of first results."""
    named = [result.model_copy(update={"study": study_id}) for result in results]
    with tempfile.TemporaryDirectory() as folder:
        engine = connect(f"sqlite:///{folder}/study.sqlite")
        try:
            upgrade(engine)
            ids = list(dict.fromkeys(runs.store(engine, result) for result in named))
            by_id = {result.id: result for result in named}
            loaded = [runs.load(engine, run_id) for run_id in ids]
            rounds = [runs.rounds(engine, run_id) for run_id in ids]
        finally:
            engine.dispose()
    for result, frame in zip(loaded, rounds, strict=True):
        for name in _NOTED:
            if name in result.environment:
                # a run keeps its first result's environment: what was noted of others comes along
                result.environment[name] = [
                    {**note, "round": int(row.round)}
                    for row in frame.itertuples()
                    for note in by_id[row.result_id].environment.get(name, [])
                    if note.get("round") == row.source_round
                ]
    return loaded


def _without_places(result: Result) -> Result:
    """Nothing that tells where files lay, or what the machine is called."""
    data = _walk(dump(result), lambda value: _PATH.sub(r"\1", value) if _is_text(value) else value)
    if data["host"].get("hostname"):
        data["host"]["hostname"] = hidden_name(f"shipped {data['host']['hostname']}")
    return Result.model_validate(data)


def _rounded(result: Result) -> Result:
    data = dump(result)
    for name in ("measurements", "samples"):
        data[name] = _walk(data[name], lambda v, name=name: _digits(v, DIGITS[name]))
    return Result.model_validate(data)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _digits(value: Any, digits: int) -> Any:
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def _walk(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {name: _walk(item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [_walk(item, change) for item in value]
    return change(value)


def write(bundle: Bundle) -> str:
    """The bundle as JSON that a person can read and a diff can follow: short things on one line."""
    data = bundle.model_dump(mode="json", by_alias=True)
    for result in data["results"]:
        for name in ("measurements", "samples"):
            result[name] = [_known(row) for row in result[name]]
    data["results"] = [_known(result) for result in data["results"]]
    return _lines(data, "") + "\n"


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is not known: a missing key and null say the same."""
    return {name: value for name, value in row.items() if value is not None}


def _lines(value: Any, indent: str) -> str:
    short = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    is_numbers = isinstance(value, list) and not any(isinstance(v, dict | list) for v in value)
    is_leaf = not isinstance(value, dict | list) or not value
    if is_leaf or len(short) <= LINE or (is_numbers and not any(map(_is_text, value))):
        return short
    inner = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(name)}: {_lines(item, inner)}" for name, item in value.items()]
        return "{\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(inner + _lines(item, inner) for item in value) + f"\n{indent}]"


if __name__ == "__main__":
    sys.exit(main())

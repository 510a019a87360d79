"""What a serving study keeps between its calls: a file an arm, and the study made of them."""

import argparse
import json
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from serving_plans import arms_of  # noqa: E402

from models.errors import InvalidSpec  # noqa: E402
from models.result import Bundle, EvaluationRef, Result, Study, dump, parse, utc_now  # noqa: E402
from models.serving_words import study_sentences  # noqa: E402
from runners.serving_draft import Draft, new_draft  # noqa: E402
from runners.serving_host import Fleet  # noqa: E402
from runners.serving_interleaved import Arm  # noqa: E402

# of a spec: what makes two rounds rounds of one arm
_ASKED = ("arm", "workloads", "model_config_json", "load_format", "device", "seed")


def state_file(options: argparse.Namespace, model: Path, arm: Arm) -> Path:
    return options.state / f"{model.stem}--{arm.name}.json"


def stored(options: argparse.Namespace, model: Path, arm: Arm) -> Result | None:
    path = state_file(options, model, arm)
    return parse(json.loads(path.read_text())) if path.exists() else None


def files_of(options: argparse.Namespace, model: Path, arm: Arm) -> Path:
    """The tool's own result files, beside the study: they come back with it."""
    return options.out.with_suffix(".files") / f"{model.stem}--{arm.name}"


def rounds_of(result: Result | None) -> list[int]:
    # counted by requests, which a round without any figure has too: it is not measured again
    rows = result.find("completed") if result else []
    return sorted({row.round for row in rows if row.round is not None})


def refuse_other_options(options: argparse.Namespace, model: Path, arms: Sequence[Arm]) -> None:
    """Rounds that were asked for otherwise are no rounds of the same arm.

    Raises:
        InvalidSpec: What is kept was measured with other options.
    """
    for arm in arms:
        before = stored(options, model, arm)
        asked = arm.spec.model_dump(mode="json")
        other = [name for name in _ASKED if before and before.spec.get(name) != asked[name]]
        if other:
            raise InvalidSpec(
                f"The rounds of {arm.name} that are there were measured with other options "
                f"({', '.join(name.replace('_', ' ') for name in other)}).",
                "Repeat those options, or give this study another --id.",
            )


def draft_of(options: argparse.Namespace, model: Path, arm: Arm, servers: Fleet) -> Draft:
    """The arm's result so far, or a new one; the plan's place is part of it."""
    before = stored(options, model, arm)
    if before is not None:
        cards = before.host.get("ranks", [])
        if cards != servers.uuids:
            raise InvalidSpec(
                f"The rounds of {arm.name} that are there were measured on other GPUs "
                f"({', '.join(cards) or 'none'}).",
                "Give this study another --id.",
            )
        draft = Draft(before, files_of(options, model, arm))
        done = rounds_of(before)
        draft.warn("another_start", f"The rounds after round {done[-1]} are of a later start.")
        return draft
    draft = new_draft("serving", arm.spec, servers, files_of(options, model, arm))
    evaluation = uuid.uuid5(uuid.NAMESPACE_URL, f"{options.id}/{model.stem}")
    draft.result.evaluation = EvaluationRef(id=str(evaluation), arm=arm.name)
    draft.result.study = options.id
    draft.result.title = f"{model.stem}, {arm.name}"
    return draft


def save(options: argparse.Namespace) -> tuple[list[str], int]:
    """Write what is there as one Bundle, the larger models first, whole or not at all.

    Returns:
        What the study says, and the number of its results.
    """
    results = []
    for model in options.models:
        for arm in arms_of(options, model):
            result = stored(options, model, arm)
            if result is not None:
                results.append(rounded(result, options.digits))
    sentences = study_sentences(results)
    cards = sorted({gpu["name"] for r in results for gpu in r.host.get("gpus", [])})
    versions = sorted({r.tool.version or "" for r in results})
    title = options.title or f"Served models on {' and '.join(cards) or 'a CPU'}: {options.plan}"
    study = Study(
        id=options.id,
        title=title,
        origin="measured",
        source=f"scripts/serving_study.py {options.plan}, {utc_now():%Y-%m-%d}, "
        f"vLLM {', '.join(versions)}",
        summary=" ".join(sentences),
        limits=[
            "Dummy weights: speed is real; texts, acceptance and quality are not.",
            "One machine, random prompts of one length, no prefix cache.",
        ],
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    bundle = Bundle(study=study, results=results)
    data = bundle.model_dump(mode="json", by_alias=True)
    data["results"] = [dump(result) for result in results]
    draft = options.out.with_suffix(".part")
    draft.write_text(json.dumps(data, allow_nan=False) + "\n")
    draft.replace(options.out)
    return sentences, len(results)


def rounded(result: Result, digits: int) -> Result:
    """Per-request values to the microsecond: nobody needs more, and the file is kept for good."""
    samples = [
        sample.model_copy(update={"values": [round(v, digits) for v in sample.values]})
        if sample.unit == "ms"
        else sample
        for sample in result.samples
    ]
    return result.model_copy(update={"samples": samples})

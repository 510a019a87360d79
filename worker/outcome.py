"""How a run ended: exit code, result and the worker's own reason give a state and a sentence."""

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from models import result as shape
from models.errors import UnreadableFile
from models.result import Result

# why the worker ended a run by itself
Ended = Literal["cancelled", "time_limit", "worker_stopped", "given_up"]

EXIT_SPEC = 2
EXIT_FAILED = 3
EXIT_TIME_LIMIT = 4
EXIT_CANCELLED = 130


@dataclass(frozen=True)
class Outcome:
    """State and reason of the job; the result where there is a whole one, with its bytes."""

    state: str
    reason: str = ""
    result: Result | None = None
    raw: bytes | None = None


def judge(
    returncode: int | None,
    result_path: Path,
    *,
    ended: Ended | None = None,
    log_tail: str = "",
    where: str = "",
    limit_s: float | None = None,
) -> Outcome:
    """Decide how a job ended.

    Args:
        returncode: Of the runner; negative for a signal, None if it never ended.
        result_path: Where its result is, if it wrote one.
        ended: Why the worker ended it, or None.
        log_tail: What it wrote last.
        where: The stage it last announced.
        limit_s: The time limit that applied.
    """
    result, raw, flaw = _read(result_path)
    if returncode == 0 and result is not None:
        return _whole(result, raw)  # also where a person cancelled at the very last moment
    if ended == "cancelled":
        return Outcome("cancelled", "Cancelled by a person.")
    if ended == "worker_stopped":
        return Outcome("lost", "The worker was stopped while this ran.")
    if ended == "given_up":
        return Outcome("lost", "Another worker gave this job up while this one did not answer.")
    if ended == "time_limit" or returncode == EXIT_TIME_LIMIT:
        said = ""
        if returncode == EXIT_TIME_LIMIT and result is not None and result.reasons:
            # what ended it stands last, behind what the kept rounds say of themselves. A program
            # that the worker ended says only how it went down.
            said = result.reasons[-1]
        limit = f"of {limit_s:g} s " if limit_s is not None else ""
        at = f" It stood at: {where}." if where else ""
        reason = said or f"The time limit {limit}ended the run.{at}"
        return Outcome("timed_out", reason, result and _invalid(result, reason), raw)
    if result is not None:
        return _after_all(returncode, result, raw)
    if returncode == EXIT_CANCELLED:
        return Outcome("cancelled", "The program was ended from outside.")
    return Outcome("failed", _why(returncode, flaw, log_tail, where))


def _whole(result: Result, raw: bytes | None) -> Outcome:
    """A program that ended well; numbers that are wrong make the run invalid all the same."""
    wrong = sum(row.value or 0 for row in result.measurements if row.metric == "wrong_values")
    if wrong:
        result = _invalid(result, f"{wrong:g} values were wrong.")
    if result.validity == "invalid":
        return Outcome("failed", " ".join(result.reasons), result, raw)
    return Outcome("succeeded", "", result, raw)


def _after_all(returncode: int | None, result: Result, raw: bytes | None) -> Outcome:
    """A program that says it failed, or that broke while it was leaving."""
    if returncode == EXIT_FAILED or result.validity == "invalid":
        reason = " ".join(result.reasons) or "The measurement failed."
        return Outcome("failed", reason, _invalid(result, reason), raw)
    # libraries crash while they are unloaded; the numbers were whole by then
    reason = f"The program {_how(returncode)} after it had written its result."
    changes = {"validity": "suspect", "reasons": [*result.reasons, reason]}
    return Outcome("succeeded", reason, result.model_copy(update=changes), raw)


def _invalid(result: Result, reason: str) -> Result:
    if result.validity == "invalid":
        return result
    reasons = [*result.reasons, reason]
    return result.model_copy(update={"validity": "invalid", "reasons": reasons})


def _read(path: Path) -> tuple[Result | None, bytes | None, str]:
    """The result and its bytes, or what is wrong with the file."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None, None, ""
    except OSError as error:
        return None, None, f"its result cannot be read ({error.strerror})"
    try:
        result = shape.parse(json.loads(raw))
    except UnreadableFile as error:
        return None, None, f"its result is not usable ({error.sentence.rstrip('.')})"
    except (ValueError, RecursionError):
        return None, None, "its result is not JSON"
    if result.origin != "measured":
        return None, None, f"its result calls itself {result.origin}, not measured"
    return result, raw, ""


def _why(returncode: int | None, flaw: str, log_tail: str, where: str) -> str:
    said = next((line for line in reversed(log_tail.splitlines()) if line.strip()), "").strip()
    if returncode == EXIT_SPEC:
        return said or "The program could not carry out the spec."
    if returncode == 0:
        return f"The program ended, but {flaw or 'it wrote no result'}."
    at = f" at: {where}" if where else ""
    reason = f"The program {_how(returncode)}{at}"
    if flaw:
        reason += f", and {flaw}"
    return f"{reason}. {said}" if said and (returncode or 0) > 0 else f"{reason}."


def _how(returncode: int | None) -> str:
    if returncode is None:
        return "could not be ended"
    if returncode >= 0:
        return f"failed with exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    words = {
        "SIGKILL": "was killed (SIGKILL): by a person, or because memory ran out",
        "SIGTERM": "was ended from outside (SIGTERM)",
    }
    return words.get(name, f"crashed ({name})")

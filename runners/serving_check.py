"""Does the server under test give right answers, and does it refuse wrong questions politely?

A fast arm with wrong outputs is no arm. The same fixed prompts go to every arm; the server states
the log-probabilities of the prompts' own tokens, so that arms can be compared token by token.
"""

import http.client
import json
import math
from dataclasses import dataclass, field
from typing import Any

from models.errors import ServerDied
from runners.serving_client import Client

PROMPTS = (
    "The capital of France is",
    "One, two, three, four, five, six,",
    "def add(a, b):\n    return",
    "Water boils at a temperature of",
    "A link between two graphics cards carries",
)
MAX_TOKENS = 16
REPEATED_SHARE = 0.9  # of one text's tokens being the same one: garbage, not language
CHECK_LIMIT_S = 120.0


@dataclass
class OutputCheck:
    """What the fixed prompts brought.

    Attributes:
        logprobs: One list a prompt: log-probabilities of its tokens, then of the generated ones'
            where the server cannot echo.
        checkable: False with dummy weights: only finiteness was looked at.
        problems: Sentences; any of them makes the arm invalid.
        notes: What could not be checked.
    """

    logprobs: list[list[float]] = field(default_factory=list)
    checkable: bool = True
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_outputs(base_url: str, model: str, *, dummy: bool) -> OutputCheck:
    """Send the fixed prompts at temperature 0 and look at what comes back.

    Raises:
        ServerDied: The server does not answer at all.
    """
    check = OutputCheck(checkable=not dummy)
    client = Client(base_url, timeout_s=CHECK_LIMIT_S)
    try:
        for number, prompt in enumerate(PROMPTS, 1):
            _one(client, model, prompt, number, check)
    except (OSError, http.client.HTTPException) as error:
        raise ServerDied(
            f"The server did not answer the output check: {error}.",
            "See the last lines of its log.",
        ) from None
    finally:
        client.close()
    return check


def _one(client: Client, model: str, prompt: str, number: int, check: OutputCheck) -> None:
    body: dict[str, Any] = {
        "model": model,
        "prompt": prompt,
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
        "logprobs": 1,
    }
    status, text = client.post("/v1/completions", {**body, "echo": True})
    echoed = status == 200
    if not echoed and "JSON compliant" not in text and "nan" not in text.lower():
        status, text = client.post("/v1/completions", body)  # a server that cannot echo
    if status != 200:
        # a NaN cannot be written as JSON: the server fails on its own answer
        check.problems.append(
            f"Fixed prompt {number} was answered with status {status}: {_short(text)}"
        )
        return
    logprobs, generated = _logprobs(text)
    values = logprobs.get("token_logprobs")
    if not isinstance(values, list):
        check.notes.append(f"The server states no log-probabilities for fixed prompt {number}.")
        return
    numbers = [value for value in values if value is not None]  # the first token has none
    is_finite = all(isinstance(v, int | float) and math.isfinite(v) for v in numbers)
    # a server that writes JSON strictly puts nothing in place of a NaN
    if not is_finite or len(values) - len(numbers) > 1:
        check.problems.append(
            f"Fixed prompt {number} brought log-probabilities that are not finite."
        )
        return
    # the prompt's own tokens are the same in every arm; generated ones may part ways
    own = numbers[: max(1, len(numbers) - generated)] if echoed else numbers
    check.logprobs.append([float(value) for value in own])
    tokens = (logprobs.get("tokens") or [])[-generated:]
    if check.checkable and _is_garbage(tokens):
        check.problems.append(f"Fixed prompt {number} was answered with one token over and over.")


def _is_garbage(tokens: list[str]) -> bool:
    if len(tokens) < MAX_TOKENS:
        return False
    commonest = max(tokens.count(token) for token in set(tokens))
    return commonest / len(tokens) >= REPEATED_SHARE


def _logprobs(text: str) -> tuple[dict[str, Any], int]:
    """The answer's log-probabilities, and how many tokens were generated."""
    try:
        content = json.loads(text)
        logprobs = content["choices"][0]["logprobs"]
        generated = int((content.get("usage") or {}).get("completion_tokens") or MAX_TOKENS)
    except (ValueError, LookupError, TypeError):
        return {}, MAX_TOKENS
    return (logprobs if isinstance(logprobs, dict) else {}), generated


def _short(text: str) -> str:
    return " ".join(text.split())[:200]


@dataclass(frozen=True)
class Abnormal:
    """One wrong question and what became of it.

    Attributes:
        name: over-long prompt, empty prompt, bad parameter, broken JSON.
        behaved: It got a clear refusal (4xx), or for the empty prompt an answer, and the next
            request worked.
        what: In words.
    """

    name: str
    behaved: bool
    what: str


def abnormal_inputs(base_url: str, model: str, max_len: int) -> list[Abnormal]:
    """Ask wrongly on purpose; after each question an ordinary one must work.

    Args:
        base_url: The server.
        model: Its model's name.
        max_len: Tokens that its context holds; 0 where not known, and no prompt is too long.

    Raises:
        ServerDied: The server is gone after one of them.
    """
    good = {"model": model, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
    cases: list[tuple[str, dict[str, Any] | bytes]] = [
        # token numbers, so that the length does not depend on the tokenizer
        ("over-long prompt", {**good, "prompt": [5] * (max_len + 8)}),
        ("empty prompt", {**good, "prompt": ""}),
        ("bad parameter", {**good, "temperature": -1}),
        ("broken JSON", b'{"model": '),
    ]
    found = []
    for name, body in cases if max_len else cases[1:]:
        client = Client(base_url, timeout_s=60.0)
        try:
            status, text = client.post("/v1/completions", body)
            refused = 400 <= status < 500 or (name == "empty prompt" and status == 200)
            what = f"answered with status {status}: {_short(text)[:120]}"
        except (OSError, http.client.HTTPException) as error:
            refused, what = False, f"not answered: {error}"
        finally:
            client.close()
        after = Client(base_url, timeout_s=60.0)
        try:
            next_status, _ = after.post("/v1/completions", good)
        except (OSError, http.client.HTTPException) as error:
            raise ServerDied(
                f"The server does not answer any more after the {name}: {error}.",
                "See the last lines of its log.",
            ) from None
        finally:
            after.close()
        if next_status != 200:
            what += f"; the next request got status {next_status}"
        found.append(Abnormal(name, refused and next_status == 200, what))
    return found

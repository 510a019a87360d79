"""Every shared sample of serving and NCCL output against its expected answer."""

import pytest
from sample_answers import SAMPLES, attempt, expected, hold_nccl, hold_serving, records_of

SERVING = expected("serving")
NCCL = expected("nccl")

needs_samples = pytest.mark.skipif(
    not SAMPLES.exists(), reason="the shared samples lie beside the project only where it is built"
)


@needs_samples
@pytest.mark.parametrize("name", SERVING or ["absent"])
def test_serving_sample(name: str) -> None:
    answer = SERVING[name]
    results, refusal = attempt(SAMPLES / "serving" / name)
    usable = any(record["usable"] for record in records_of(answer))
    if refusal is not None:
        assert refusal.sentence.endswith((".", "?")), refusal.sentence
        accepted = not usable or answer["support"] == "extra"
        assert accepted, f"refused: {refusal}"
    elif not usable:
        assert results
        assert all(result.validity == "invalid" and result.reasons for result in results)
    else:
        assert hold_serving(results, answer) == []


@needs_samples
@pytest.mark.parametrize("name", NCCL or ["absent"])
def test_nccl_sample(name: str) -> None:
    answer = NCCL[name]
    results, refusal = attempt(SAMPLES / "nccl" / name)
    if refusal is not None:
        assert refusal.sentence.endswith((".", ")")), refusal.sentence
        accepted = not answer["usable"] or answer["support"] == "extra"
        assert accepted, f"refused: {refusal}"
    else:
        assert hold_nccl(results, answer) == []


@needs_samples
def test_a_reason_says_what_the_answer_says() -> None:
    # a refusal for the wrong reason helps nobody: the code is the answer's, or one that is truer
    truer = {"two_single_runs": "no_rows", "unknown_format": "no_rows"}
    wrong = []
    for folder, answers in (("serving", SERVING), ("nccl", NCCL)):
        for name, answer in answers.items():
            _, refusal = attempt(SAMPLES / folder / name)
            record = records_of(answer)[0]
            if refusal is None or answer["support"] == "extra" or record["usable"] is not False:
                continue
            code = refusal.detail
            if record["reason_code"] not in (code, truer.get(code)):
                wrong.append((name, code, record["reason_code"]))
    assert wrong == []

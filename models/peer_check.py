"""Does peer-to-peer work between two GPUs? What the tiers of a check say together.

A driver's claim is not enough: patched drivers have granted access and then moved wrong data or
stopped. Each tier is a stronger promise than the one before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Tier = Literal["grant", "copies", "collective", "load"]
State = Literal["passed", "refused", "wrong", "hang", "failed", "slower", "skipped"]
Code = Literal["works", "wrong", "hangs", "fails", "not_granted", "not_tested"]

TIERS: tuple[Tier, ...] = ("grant", "copies", "collective", "load")
TIER_WORDS: dict[Tier, str] = {
    "grant": "the driver grants it",
    "copies": "copies arrive right",
    "collective": "a collective is right and not slower than through the host",
    "load": "all-reduces stay right under load",
}
VERDICT_WORDS: dict[Code, str] = {
    "works": "works as far as tested",
    "wrong": "granted but wrong",
    "hangs": "granted but hangs",
    "fails": "granted but fails",
    "not_granted": "not granted",
    "not_tested": "not tested",
}
_NEXT_STEPS: dict[Code, str] = {
    "works": "",
    "wrong": (
        "Use NCCL_P2P_DISABLE=1 and --disable-custom-all-reduce, or the driver as its maker ships "
        "it; switch off ACS and the IOMMU in the firmware, and check again."
    ),
    "hangs": (
        "Use NCCL_P2P_DISABLE=1 and --disable-custom-all-reduce; switch off ACS and the IOMMU in "
        "the firmware (they turn direct transfers round), and look at the kernel's log for Xid."
    ),
    "fails": "Read the log of this check, and the kernel's log for Xid, then check again.",
    "not_granted": (
        "Nothing is broken: NCCL goes through the host. Consumer cards need a driver that grants "
        "peer access; on others switch off ACS and the IOMMU, or try NCCL_P2P_LEVEL=SYS."
    ),
    "not_tested": "Start the check again with more time.",
}
_AROUND_STEP = "Try NCCL_P2P_LEVEL=SYS, which lets NCCL use peer-to-peer across the whole machine."
_SLOWER_STEP = "Try NCCL_P2P_LEVEL=PIX or NCCL_P2P_DISABLE=1: the way through the host is faster."


@dataclass(frozen=True)
class TierOutcome:
    """What one tier showed for one pair."""

    tier: Tier
    state: State
    sentence: str = ""


@dataclass(frozen=True)
class PeerVerdict:
    """The answer for one pair.

    Attributes:
        code: Key of VERDICT_WORDS.
        tier: The last tier that passed; None when none did.
        sentence: The answer in words.
        next_step: What to do; empty where nothing is to be done.
    """

    code: Code
    tier: Tier | None
    sentence: str
    next_step: str


def verdict(outcomes: Sequence[TierOutcome]) -> PeerVerdict:
    """Put the tiers of one pair together.

    Args:
        outcomes: In the order of TIERS; tiers that were not run may be absent or ``skipped``.

    Returns:
        The verdict: a wrong value outweighs everything, then a hang, then a failure; a pair whose
        driver refuses is not granted, whatever else went through the host.
    """
    by_state = {outcome.state: outcome for outcome in reversed(outcomes)}
    tier = _last_passed(outcomes)
    refused = by_state.get("refused")
    codes: tuple[tuple[State, Code], ...] = (
        ("wrong", "wrong"),
        ("hang", "hangs"),
        ("failed", "fails"),
    )
    for state, code in codes:
        if state in by_state:
            said = by_state[state].sentence
            if refused is not None:
                # no peer-to-peer was used, so it is not to blame: the way through the host is
                said = f"{said} The driver grants no peer access: this went through the host."
            return PeerVerdict(code, tier, _sentence(code, said), _NEXT_STEPS[code])
    if refused is not None:
        return _plain("not_granted", None, refused.sentence)
    if tier is None:
        return _plain("not_tested", None, "")
    said = f"{TIER_WORDS[tier]}."
    notes: tuple[tuple[State, str], ...] = (("slower", _SLOWER_STEP), ("skipped", _AROUND_STEP))
    for state, step in notes:
        outcome = by_state.get(state)
        if outcome is not None and outcome.sentence:
            return PeerVerdict(
                "works", tier, _sentence("works", f"{said} {outcome.sentence}"), step
            )
    return _plain("works", tier, said)


def _plain(code: Code, tier: Tier | None, said: str) -> PeerVerdict:
    return PeerVerdict(code, tier, _sentence(code, said), _NEXT_STEPS[code])


def _last_passed(outcomes: Sequence[TierOutcome]) -> Tier | None:
    passed: Tier | None = None
    for outcome in outcomes:
        if outcome.state != "passed":
            break
        passed = outcome.tier
    return passed


def _sentence(code: Code, said: str) -> str:
    words = VERDICT_WORDS[code].capitalize()
    return f"{words}: {said}" if said else f"{words}."

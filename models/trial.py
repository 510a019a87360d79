"""No candidate yet: what any link could bring at most, and the cheapest way to find out."""

from dataclasses import dataclass

from models.economics import exposed_share, link_ceiling, request_share
from models.gain import Gain, point
from models.wording import money


@dataclass(frozen=True)
class Ceilings:
    """What the link-off arm alone allows.

    Attributes:
        decode: Exposed share of a decode step, None where not known.
        prefill: Exposed share of the prefill, None where not known.
        request: Of a whole request; None where a phase is not known.
    """

    decode: float | None
    prefill: float | None
    request: float | None

    @property
    def factor(self) -> float | None:
        """The most by which any link multiplies speed: of the request, else of decode alone.

        Without the prefill's share the decode ceiling stands in, as for long outputs.
        """
        share = self.request if self.request is not None else self.decode
        return None if share is None else link_ceiling(share)


def ceilings(
    *,
    calls: float,
    decode_latency_us: float | None,
    prefill_latency_us: float | None,
    tpot_ms: float | None,
    ttft_ms: float | None,
    output_tokens: float,
) -> Ceilings:
    """Ceilings from an all-reduce latency and the times of the link-off arm.

    Args:
        calls: All-reduces a step.
        decode_latency_us: Exposed latency of one decode message, microseconds.
        prefill_latency_us: Likewise of one prefill message.
        tpot_ms: Time per output token, ms.
        ttft_ms: Time to first token without queueing, ms.
        output_tokens: Of one request.
    """
    decode = _share(calls, decode_latency_us, tpot_ms)
    prefill = _share(calls, prefill_latency_us, ttft_ms)
    both = request_share(prefill, decode, ttft_ms or 0.0, tpot_ms or 0.0, output_tokens)
    return Ceilings(decode, prefill, both)


def _share(calls: float, latency_us: float | None, step_ms: float | None) -> float | None:
    if calls <= 0 or latency_us is None or step_ms is None or latency_us < 0:
        return None
    return exposed_share(calls, latency_us, step_ms)


def ceiling_gain(factor: float) -> Gain:
    """The gain of a link that takes no time at all."""
    return point(
        factor - 1, origin="predicted", words="the ceiling: a link that takes no time at all"
    )


@dataclass(frozen=True)
class Trial:
    """A way to find out before paying in full.

    Attributes:
        words: What to do.
        cost: What it costs.
    """

    words: str
    cost: float


def trials(
    *,
    price: float,
    resale: float,
    labour: float,
    rent: float | None,
    gpus: float,
    hours: float = 1.0,
    symbol: str = "$",
) -> list[Trial]:
    """Ways to try the link, cheapest first.

    Args:
        price: Of the upgrade.
        resale: Share of it that comes back when it is sold again.
        labour: Cost of fitting and measuring it.
        rent: Of a GPU and hour in the cloud, None where not known.
        gpus: GPUs to rent.
        hours: Rented.
        symbol: Of the currency.
    """
    lost = price * (1 - resale)
    found = [
        Trial(
            f"Buy it, measure, and sell it again if it does not pay: {money(lost, symbol)} lost at "
            f"resale and {money(labour, symbol)} of labour.",
            lost + labour,
        )
    ]
    if rent is not None and rent > 0 and gpus > 0:
        cost = rent * gpus * hours
        found.append(
            Trial(
                f"Rent {gpus:g} cards with that link for {hours:g} h and run the same evaluation: "
                f"{money(cost, symbol)}.",
                cost,
            )
        )
    return sorted(found, key=lambda trial: trial.cost)

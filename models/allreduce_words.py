"""What an all-reduce sweep shows, in sentences for people. Numbers in, words out."""

from models.curve import size_words, step_cost_ms

# Shares of transfer in one call's time where the advice changes.
NEGLIGIBLE_TRANSFER = 0.05
DOMINANT_TRANSFER = 0.5


def percent(value: float) -> str:
    """A percentage with two significant digits: 0.21 %, 3.4 %, 41 %."""
    return f"{value:.2g} %" if value < 100 else f"{value:.0f} %"


def sentence(
    message_bytes: float,
    fixed_us: float,
    transfer_us: float,
    calls: int | None = None,
) -> str:
    """What decides the time of one all-reduce, and what a better link would change.

    Args:
        message_bytes: Size of the message, bytes.
        fixed_us: Part of the latency that does not depend on the size, microseconds.
        transfer_us: Part that grows with the size, microseconds.
        calls: All-reduces a decode step, None where no model is chosen.

    Returns:
        One sentence, two with ``calls``.
    """
    total = fixed_us + transfer_us
    share = transfer_us / total
    start = f"At {size_words(message_bytes)} the transfer is {percent(100 * share)} of the time: "
    if share < NEGLIGIBLE_TRANSFER:
        first = "a link with more bandwidth and the same latency changes nothing"
    elif share < DOMINANT_TRANSFER:
        first = (
            "latency counts more than bandwidth; twice the bandwidth would save "
            f"{percent(50 * share)}, half the latency {percent(50 * (1 - share))}"
        )
    else:
        first = (
            "bandwidth counts more than latency; twice the bandwidth would save "
            f"{percent(50 * share)}, half the latency {percent(50 * (1 - share))}"
        )
    words = f"{start}{first}."
    if calls is not None:
        cost = step_cost_ms(total, calls)
        saved = step_cost_ms(fixed_us / 2, calls)
        words += (
            f" With {calls} calls a step that is {cost:.2f} ms a step; half the latency would "
            f"save {saved:.2f} ms."
        )
    return words


def link_sentence(message_bytes: float, on_us: float, off_us: float, calls: int | None) -> str:
    """What switching the link off does to one message and to a step."""
    change = 100 * (off_us / on_us - 1)
    size = size_words(message_bytes)
    if abs(change) < 2:
        words = f"At {size} the link makes less than 2 % of difference to one all-reduce"
    else:
        more = "longer" if change > 0 else "less long"
        words = (
            f"Without the link one all-reduce of {size} takes {off_us:.1f} us instead of "
            f"{on_us:.1f} us, {percent(abs(change))} {more}"
        )
    if calls is None:
        return f"{words}."
    difference = step_cost_ms(off_us - on_us, calls)
    return f"{words}: {difference:+.2f} ms a step of {calls} calls."


def launch_sentence(message_bytes: float, graph_us: float, eager_us: float) -> str:
    """What launching each call from the CPU adds, and why it is not paid once a call."""
    return (
        f"Launched one by one, the same all-reduce of {size_words(message_bytes)} takes "
        f"{eager_us:.1f} us instead of {graph_us:.1f} us in a graph: {eager_us - graph_us:.1f} us "
        "are launch cost, a property of the CPU and not of the link. Never multiply an eager "
        "figure by the calls of a step."
    )


def exposed_sentence(message_bytes: float, graph_us: float, exposed_us: float) -> str:
    """What work between the calls adds: arrival skew, which back-to-back calls hide."""
    if exposed_us <= graph_us:
        return (
            f"With work between the calls an all-reduce of {size_words(message_bytes)} costs "
            f"{exposed_us:.1f} us, no more than back to back ({graph_us:.1f} us)."
        )
    return (
        f"With work between the calls an all-reduce of {size_words(message_bytes)} costs "
        f"{exposed_us:.1f} us, back to back {graph_us:.1f} us: the difference is ranks arriving "
        "at different times, which a real step pays too."
    )


def kink_sentence(below_bytes: float, above_bytes: float, jump_pct: float) -> str:
    """One protocol switch: a jump, or only another slope."""
    if abs(jump_pct) < 5:
        return (
            f"Between {size_words(below_bytes)} and {size_words(above_bytes)} the slope changes: "
            "two stretches, each with its own line."
        )
    way = "jumps up" if jump_pct > 0 else "drops"
    return (
        f"Between {size_words(below_bytes)} and {size_words(above_bytes)} the library changes its "
        f"way of working: the latency {way} by {percent(abs(jump_pct))} there, so no line is drawn "
        "through it."
    )

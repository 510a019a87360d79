"""Where each input of the ROI page stands at first, with its source and date. Draws nothing."""

from datetime import date

from db import runs
from db.engine import Engine
from models.architecture import calls_per_step, message_bytes, read_config
from models.curve import interpolate_us, make_curve
from models.errors import LinkworthError
from models.gates import Thresholds
from models.prices import OLD_AFTER_DAYS, Card, Catalogue, Price, age_days
from pages.widgets.roi_arms import Known
from pages.widgets.roi_evidence import Pair
from pages.widgets.roi_facts import busy_watts, gpu_of, lengths_of
from pages.widgets.roi_fields import Default

IDLE_W_A_GPU = 30.0
FALLBACK_CARD = "rtx-3090"
_MODES = ("exposed", "graph")  # an eager latency is launch cost, never multiplied by calls
_LIGHT_DEMAND = (1e5, 3e5, 6e5)


def defaults(
    engine: Engine, catalogue: Catalogue, pair: Pair | None, *, prior: str = ""
) -> dict[str, Default]:
    """The defaults of every input.

    Args:
        engine: The database.
        catalogue: With the person's edits.
        pair: The arms that are weighed; None where everything is entered by hand.
        prior: Failure prior asked for; the first of the catalogue where it is none.
    """
    gpu_name, gpus = gpu_of(pair.base) if pair is not None else ("", 2)
    card = catalogue.card_named(gpu_name) if gpu_name else None
    key = card.key if card is not None else FALLBACK_CARD
    found = _assumed(catalogue, prior)
    found |= _prices(catalogue, key, gpus, is_known=card is not None)
    found |= _watts(pair, card, gpus)
    found["parts_base"] = Default(float(gpus), "the baseline's GPUs")
    found["parts_cand"] = Default(float(gpus + 1), "its GPUs and the added link")
    found["cloud_gpus"] = Default(float(gpus), "as many as the baseline has")
    if pair is not None:
        found |= _of_arms(engine, pair)
    else:
        found["speed"] = Default(50.0)
    return found


def _assumed(catalogue: Catalogue, prior: str) -> dict[str, Default]:
    limits = Thresholds()
    priors = list(catalogue.priors)
    start = prior if prior in priors else "data-centre-gpu" if "data-centre-gpu" in priors else ""
    chosen = catalogue.priors.get(start or priors[0])
    plain: dict[str, object] = {
        "gain": (5.0, 15.0, 30.0),
        "extras": 0.0,
        "labour": (2.0, 4.0, 8.0),
        "labour_rate": 30.0,
        "operations": 0.0,
        "resale": (30.0, 50.0, 70.0),
        "months": 36.0,
        "discount": 8.0,
        "box_resale": 30.0,
        "warranty": "unknown",
        "currency": "USD",
        "rate": 1.0,
        "rate_date": "",
        "demand": _LIGHT_DEMAND,
        "peak": 3.0,
        "growth": 0.0,
        "speed": 0.0,
        "token_value": (0.0, 0.0, 0.0),
        "input_value": (0.0, 0.0, 0.0),
        "input_ratio": 1.0,
        "cloud_speed": 0.0,
        "step": 1.0,
        "idle": 0.0,
        "wait": (0.5, 1.0, 2.0),
        "hour_value": (0.0, 0.0, 0.0),
        "hours_base": 0.0,
        "incidents_base": 0.0,
        "hours_cand": 0.0,
        "incidents_cand": 0.0,
        "repair": 4.0,
        "repair_p90": 24.0,
        "service_value": 2.0,
        "incident_labour": 60.0,
        "restart_loss": 0.0,
        "calls": 0.0,
        "decode_us": 0.0,
        "prefill_us": 0.0,
        "tpot": 0.0,
        "ttft": 0.0,
        "out_tokens": 256.0,
        "layout": (0.0, 0.0, 0.0),
        "layout_hours": 1.0,
        "software": (0.0, 0.0, 0.0),
        "software_hours": 4.0,
        "buy": 100 * limits.buy,
        "dont": 100 * limits.dont,
        "min_rounds": float(limits.rounds),
        "min_soak": limits.soak_hours,
        "errors": 100 * limits.errors,
        "spread": 10.0,
        "engine": "",
        "person": "",
    }
    found = {code: Default(value) for code, value in plain.items()}  # type: ignore[arg-type]
    for code in ("calls", "decode_us", "prefill_us", "tpot", "ttft", "speed"):
        found[code] = Default(0.0, "not known")
    for code in ("hours_base", "incidents_base", "hours_cand", "incidents_cand"):
        found[code] = Default(0.0, "no sustained load was found")
    rule = "Linkworth's rule"
    for code in ("buy", "dont", "min_rounds", "min_soak", "errors"):
        found[code] = Default(found[code].value, rule)
    if chosen is not None:
        found["prior"] = Default(chosen.key, chosen.source, chosen.date)
    return found


def _of_price(price: Price, factor: float = 1.0) -> Default:
    value = (price.low * factor, price.likely * factor, price.high * factor)
    return Default(value, price.source, price.date)


def _prices(catalogue: Catalogue, key: str, gpus: int, *, is_known: bool) -> dict[str, Default]:
    prices = catalogue.prices
    stem = key.removesuffix("-sxm")
    bridge = prices.get(f"bridge-{key.removeprefix('rtx-')}")
    found = {
        "price": _of_price(bridge)
        if bridge is not None and is_known
        else Default((0.0, 0.0, 0.0), "no price of a link for this card: enter yours"),
        "box": Default(0.0, "not known: left out of the cost of a token"),
        "rent": Default((0.0, 0.0, 0.0), "no cloud price of this card: enter one"),
    }
    used = prices.get(f"used-{key}")
    if used is not None and is_known:
        source = f"{gpus} x {used.label}: {used.source}"
        found["box"] = Default(used.likely * gpus, source, used.date)
    rent = prices.get(f"cloud-{key}") or prices.get(f"cloud-{stem}")
    if rent is not None:
        known = "" if is_known else "the card is not stated, so an RTX 3090 stands in; "
        found["rent"] = Default(_of_price(rent).value, known + rent.source, rent.date)
    home, pue = prices.get("electricity-residential"), prices.get("pue-home")
    found["electricity"] = _of_price(home) if home else Default((0.0, 0.0, 0.0))
    found["pue"] = Default(pue.likely, pue.source, pue.date) if pue else Default(1.0)
    return found


def _watts(pair: Pair | None, card: Card | None, gpus: int) -> dict[str, Default]:
    found: dict[str, Default] = {}
    for code, item in (
        ("base", pair.base if pair else None),
        ("cand", pair.other if pair else None),
    ):
        load = _load_of(pair, item)
        measured = busy_watts(item, load) if item is not None else None
        if measured is not None:
            busy = Default(round(measured), "measured: energy a token times tokens a second (GPUs)")
        elif card is not None:
            busy = Default(
                card.board_power_w * gpus,
                f"{gpus} x board power, not measured: {card.source}",
                None,
            )
        else:
            busy = Default(350.0 * gpus, "assumed: 350 W a GPU; measure it")
        found[f"busy_{code}"] = busy
        found[f"idle_{code}"] = Default(IDLE_W_A_GPU * gpus, "assumed: 30 W a GPU; measure it")
    return found


def _load_of(pair: Pair | None, item: Known | None) -> int | None:
    if pair is None or item is None:
        return None
    if item is pair.base or pair.carried[1] is None:
        return pair.base_load
    return pair.carried[1].concurrency


def _of_arms(engine: Engine, pair: Pair) -> dict[str, Default]:
    """What the arms themselves tell."""
    found: dict[str, Default] = {}
    inputs, outputs = lengths_of(pair.base)
    if inputs and outputs:
        found["input_ratio"] = Default(inputs / outputs, "the workload that was measured")
        found["out_tokens"] = Default(float(outputs), "the workload that was measured")
    for code, seen in (("base", pair.seen[0]), ("cand", pair.seen[1])):
        if seen.hours > 0:
            source = "sustained loads of this arm"
            found[f"hours_{code}"] = Default(round(seen.hours, 2), source)
            found[f"incidents_{code}"] = Default(float(seen.incidents), source)
    load = pair.base_load
    if pair.base_tok_s is not None:
        found["speed"] = Default(0.0, f"as measured: {pair.base_tok_s:,.1f} tok/s")
    lowest = pair.base.loads[0].concurrency if pair.base.loads else None
    tpot, ttft = pair.base.middle("tpot", load), pair.base.middle("ttft", lowest)
    if tpot:
        found["tpot"] = Default(round(tpot, 3), f"the baseline at concurrency {load}")
    if ttft:
        words = f"the baseline at concurrency {lowest}, where it waits least"
        found["ttft"] = Default(round(ttft, 1), words)
    return found | _latencies(engine, pair.base, load)


def _latencies(engine: Engine, base: Known, load: int | None) -> dict[str, Default]:
    """Calls and latencies from an AllReduce sweep on the same GPUs, where there is one."""
    spec = base.facts[0]["spec"] if base.facts else {}
    config, arm = spec.get("model_config_json"), spec.get("arm") or {}
    inputs, _ = lengths_of(base)
    if not config or not base.host or int(arm.get("tp") or 1) < 2:
        return {}
    try:
        shape = read_config(config)
        calls = calls_per_step(shape, vocab_parallel_embedding=True)
    except LinkworthError:
        return {}
    found = {"calls": Default(float(calls), "from the model's layers")}
    rows = runs.measurements(
        engine, kinds=["allreduce"], metrics=["allreduce_latency"], include_invalid=False
    )
    same = rows[
        (rows["host"] == base.host)
        & (rows["link"] == arm.get("link"))
        & (rows["ranks"] == arm.get("tp"))
        & (rows["statistic"] == "median")
    ]
    for mode in _MODES:
        part = same[same["mode"] == mode].dropna(subset=["value", "bytes"])
        if part.empty:
            continue
        curve = make_curve(part["bytes"].tolist(), part["value"].tolist())
        source = f"AllReduce sweep on this host, {mode} mode, link {arm.get('link') or 'as it is'}"
        for code, tokens in (("decode_us", load or 1), ("prefill_us", inputs or 0)):
            try:
                us = interpolate_us(curve, message_bytes(shape, tokens)) if tokens else None
            except LinkworthError:
                us = None
            if us is not None:
                found[code] = Default(round(us, 2), source)
        break
    return found


def old_codes(given: dict[str, Default], changed: set[str], today: date) -> tuple[str, ...]:
    """Catalogue figures older than 90 days that nobody has replaced."""
    return tuple(
        code
        for code, default in given.items()
        if default.day is not None
        and code not in changed
        and age_days(default.day, today) > OLD_AFTER_DAYS
    )

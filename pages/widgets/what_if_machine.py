"""Which cards the What-if page looks at: the catalogue's, or those of a known machine."""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from db import hosts, runs
from db.engine import Engine
from models.catalogue import Card, named
from pages.widgets import store, this_machine, what_if_sources
from pages.widgets.badges import plain
from pages.widgets.what_if_state import choice

DEFAULT = "h200-sxm"


@dataclass(frozen=True)
class Machine:
    """Cards of one kind.

    Attributes:
        card: Which.
        gpus: How many the machine has; None for cards that are not bought yet.
    """

    card: Card
    gpus: int | None


def choose() -> Machine:
    """Draw the choice; machines that were measured or described come after the catalogue."""
    cards = what_if_sources.cards()
    known = machines(store.engine(), cards)
    words = {key: f"{card.label} (catalogue)" for key, card in cards.items()}
    words |= {code: label for code, (label, _) in known.items()}
    code = choice(
        "card",
        "Machine",
        (*cards, *known),
        DEFAULT,
        words,
        help="Cards from the catalogue, or a machine that was measured or described on the "
        "Hardware page. A machine limits the TP sizes to its GPUs.",
    )
    return known[code][1] if code in known else Machine(cards[code], None)


def machines(engine: Engine, cards: dict[str, Card]) -> dict[str, tuple[str, Machine]]:
    """Machines whose GPUs are all one card of the catalogue: code -> label and machine."""
    found: dict[str, tuple[str, Machine]] = {}
    here = this_machine.host_id()
    for host in hosts.list_hosts(engine):
        machine = _machine([_name(gpu) for gpu in host["facts"].get("gpus") or []], cards)
        if machine:
            # the machines of imported results are known too
            words = "this machine" if host["id"] == here else f"machine {host['id'][:4]}"
            label = f"{machine.gpus} x {machine.card.label} ({words})"
            found[f"host-{host['id'][:12]}"] = (label, machine)
    return found | _of_runs(engine, runs.version(engine), cards)


@st.cache_resource(show_spinner=False, max_entries=8)
def _of_runs(
    _engine: Engine, version: str, _cards: dict[str, Card]
) -> dict[str, tuple[str, Machine]]:
    """Machines that were described or imported, kept while the runs are the same."""
    listed = runs.list_runs(_engine, kinds=["topology"], origins=["described", "imported"])
    found: dict[str, tuple[str, Machine]] = {}
    for run_id, run in runs.heads(_engine, list(listed["id"])).items():
        machine = _machine([_name(gpu) for gpu in run.gpus or run.host.get("gpus") or []], _cards)
        if machine:
            label = f"{machine.gpus} x {machine.card.label}, {run.title or plain(run.origin)}"
            found[f"run-{run_id[:8]}"] = (label, machine)
    return found


def _name(gpu: Any) -> str:
    name = gpu.get("name") if isinstance(gpu, dict) else getattr(gpu, "name", gpu)
    return str(name or "")


def _machine(names: list[str], cards: dict[str, Card]) -> Machine | None:
    """One card in all slots, or None: unlike cards step at the pace of the slowest."""
    if not names or len(set(names)) != 1:
        return None
    card = named(cards, names[0])
    return Machine(card, len(names)) if card else None

"""The shipped cards, and the three mistakes that a catalogue row invites."""

from dataclasses import replace

import pandas as pd
import pytest
from prediction_cases import DATA

from importers.catalogue import catalogue
from models.catalogue import card_of, cards_of, latency_problems, named, problems
from models.errors import InvalidSpec
from models.prediction import ENGINES
from models.prediction_link import TP_SIZES, reference_link

ROWS = catalogue().cards
CARDS = cards_of(ROWS.values())


def test_every_shipped_card_has_its_facts_and_sources():
    assert set(CARDS) == set(ROWS)
    for row in ROWS.values():
        facts = set(row.facts) & {"multiprocessors", "dense_tflops", "nvlink", "pcie"}
        assert facts == set(row.facts["sources"])
        assert row.source
        assert row.date


def test_no_shipped_figure_is_impossible():
    assert problems(CARDS.values()) == []


@pytest.mark.parametrize("key", sorted(CARDS))
def test_a_sparse_figure_is_found_on_every_card(key):
    card = CARDS[key]
    doubled = {name: 2 * value for name, value in card.flops.items()}
    assert "sparse" in problems([replace(card, flops=doubled)])[0]


@pytest.mark.parametrize("key", sorted(k for k, card in CARDS.items() if "fp8" in card.flops))
def test_a_sparse_fp8_figure_alone_is_found(key):
    card = CARDS[key]
    doubled = {**card.flops, "fp8": 2 * card.flops["fp8"]}
    assert "fp8" in problems([replace(card, flops=doubled)])[0]


@pytest.mark.parametrize("key", sorted(k for k, card in CARDS.items() if "fp4" in card.flops))
def test_a_sparse_fp4_figure_alone_is_found(key):
    card = CARDS[key]
    doubled = {**card.flops, "fp4": 2 * card.flops["fp4"]}
    assert "fp4" in problems([replace(card, flops=doubled)])[0]


@pytest.mark.parametrize(
    ("key", "number"),
    [(key, n) for key, card in CARDS.items() for n in range(len(card.wires))],
)
def test_a_bidirectional_link_is_found_on_every_card(key, number):
    card = CARDS[key]
    wires = list(card.wires)
    wires[number] = replace(wires[number], per_direction=2 * wires[number].per_direction)
    assert "both directions" in problems([replace(card, wires=tuple(wires))])[0]


def test_the_link_of_the_row_is_one_of_the_facts():
    for key, row in ROWS.items():
        assert row.link_gbps * 1e9 in {wire.per_direction for wire in CARDS[key].wires}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"name": "a link", "mode": "eager", "alpha_us": 30.0}, "not taken in graph mode"),
        ({"name": "a link", "mode": "", "alpha_us": 5.0}, "not taken in graph mode"),
        ({"name": "a link", "mode": "graph", "alpha_us": 35.0}, "launched one by one"),
    ],
)
def test_eager_latencies_are_found(row, words):
    assert words in latency_problems([row])[0]


def test_graph_latencies_pass_and_the_host_is_slower():
    rows = [
        {"name": "NVLink", "mode": "graph", "alpha_us": 6.5},
        {"name": "host", "mode": "graph", "alpha_us": 28.0, "through_host": True},
    ]
    assert latency_problems(rows) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_the_references_of_every_card_are_graph_latencies(engine):
    table = pd.read_csv(DATA / "reference" / "allreduce_reference.csv", keep_default_na=False)
    rows = []
    for key, card in CARDS.items():
        link = reference_link(table, card.names[0], engine)
        is_pcie = all(wire.kind == "pcie" for wire in card.wires)
        rows += [
            {
                "name": f"{key} x {tp}",
                "mode": "graph",
                "alpha_us": link.us(tp, 3072),
                "through_host": is_pcie,
            }
            for tp in link.curves
        ]
    assert len(rows) >= 15
    assert latency_problems(rows) == []


def test_an_eager_row_among_the_references_would_be_found():
    table = pd.read_csv(DATA / "reference" / "allreduce_reference.csv", keep_default_na=False)
    # the same rows, with the eager ones under the graph's name
    eager = table[table["mode"] == "vllm_eager"].assign(mode="vllm_graph")
    link = reference_link(eager, "NVIDIA H200", "vllm")
    row = {"name": "H200", "mode": "graph", "alpha_us": link.us(2, 3072)}
    assert "launched one by one" in latency_problems([row])[0]


def test_no_card_carries_a_latency():
    # latencies come from graph rows of the reference table or from a sweep, never from a card
    words = {"latency", "allreduce", "alpha"}
    for row in ROWS.values():
        assert not any(word in name for name in row.facts for word in words)
    assert TP_SIZES == (2, 4, 8)


def test_a_fact_without_a_source_is_refused():
    row = ROWS["h200-sxm"]
    facts = {**row.facts, "sources": {**row.facts["sources"], "dense_tflops": " "}}
    with pytest.raises(InvalidSpec, match="dense_tflops names no source"):
        card_of(replace(row, facts=facts))


@pytest.mark.parametrize(
    "change",
    [
        {"sources": None},
        {"dense_tflops": {"fp8": 1.0}},
        {"dense_tflops": {"bf16": "many"}},
        {"multiprocessors": -1},
        {"multiprocessors": True},
    ],
)
def test_impossible_facts_are_refused(change):
    row = ROWS["h200-sxm"]
    with pytest.raises(InvalidSpec):
        card_of(replace(row, facts={**row.facts, **change}))


def test_a_card_with_its_price_only_is_left_out():
    assert cards_of([replace(ROWS["l4"], facts={})]) == {}


def test_an_unknown_die_cannot_be_checked():
    assert "not known" in problems([replace(CARDS["l4"], die="new")])[0]


def test_names_as_drivers_give_them():
    assert named(CARDS, "NVIDIA H200").key == "h200-sxm"
    assert named(CARDS, "nvidia geforce rtx 3090").key == "rtx-3090"
    assert named(CARDS, "NVIDIA A100-SXM4-80GB").key == "a100-sxm"
    assert named(CARDS, "Another GPU") is None

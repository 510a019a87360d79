"""The shipped catalogue: every figure has unit, source and date; edits lie on top."""

from datetime import date

import pytest

from importers.catalogue import KINDS, catalogue, read_entry, read_rows, shipped_rows
from models.errors import InvalidSpec, LinkworthError, UnreadableFile
from models.prices import age_words, old_keys

PRICE = {"label": "A bridge", "unit": "$", "value": 80, "source": "a seller", "date": "2026-11-01"}


def test_every_shipped_figure_has_a_source_and_a_date():
    known = catalogue()
    for entries in (known.prices, known.cards, known.priors):
        assert entries
        for entry in entries.values():
            assert entry.source
            assert date(2020, 1, 1) <= entry.date <= date(2027, 1, 1)
    assert all(price.unit for price in known.prices.values())


@pytest.mark.parametrize(
    ("key", "low", "high"),
    [
        ("bridge-3090", 40, 200),
        ("used-rtx-3090", 500, 800),
        ("electricity-residential", 0.1872, 0.1872),
        ("electricity-commercial", 0.146, 0.146),
        ("pue-average", 1.58, 1.58),
        ("pue-hyperscale", 1.18, 1.22),
        ("pue-home", 1.0, 1.0),
        ("cloud-rtx-3090", 0.22, 0.39),
        ("cloud-rtx-4090", 0.34, 0.60),
        ("cloud-rtx-5090", 0.69, 1.22),
        ("cloud-a100-sxm", 1.39, 2.45),
        ("cloud-h100-sxm", 2.69, 4.76),
        ("cloud-h200", 3.59, 6.35),
        ("cloud-b200", 5.98, 10.57),
    ],
)
def test_public_figures_are_as_published(key, low, high):
    price = catalogue().prices[key]
    assert (price.low, price.high) == (low, high)


def test_cards_are_found_by_the_drivers_name():
    known = catalogue()
    for name, memory_gb in (
        ("NVIDIA GeForce RTX 3090", 24),
        ("RTX 5090", 32),
        ("NVIDIA A100-SXM4-80GB", 80),
        ("NVIDIA H100 80GB HBM3", 80),
        ("NVIDIA H200", 141),
        ("NVIDIA B200", 180),
    ):
        card = known.card_named(name)
        assert card is not None, name
        assert card.memory_gb == pytest.approx(memory_gb, rel=0.1)
        assert card.board_power_w >= 300
    assert known.card_named("Radeon VII") is None


def test_links_are_per_direction():
    """Both directions together would sell a link as twice what it is."""
    known = catalogue()
    for name, gbps in (("RTX 3090", 56.25), ("NVIDIA H100 80GB HBM3", 450), ("NVIDIA B200", 900)):
        card = known.card_named(name)
        assert card is not None
        assert card.link_gbps == gbps


def test_edits_replace_and_add_and_leave_the_file_alone():
    edited = catalogue({"prices": {"bridge-3090": PRICE, "my-bridge": PRICE}})
    assert edited.prices["bridge-3090"].likely == 80
    assert edited.prices["my-bridge"].source == "a seller"
    assert catalogue().prices["bridge-3090"].likely == 100
    rows = shipped_rows("prices")
    rows["bridge-3090"]["value"] = 1
    assert shipped_rows("prices")["bridge-3090"]["value"] == 100


@pytest.mark.parametrize("part", ["label", "unit", "source", "date", "value"])
def test_a_price_without_a_part_is_refused(part):
    row = {name: value for name, value in PRICE.items() if name != part}
    with pytest.raises(InvalidSpec) as caught:
        read_entry("prices", "x", row)
    assert part in caught.value.sentence


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("prices", {"low": 90}),
        ("prices", {"value": -1}),
        ("prices", {"value": True}),
        ("prices", {"value": float("nan")}),
        ("prices", {"date": "yesterday"}),
        ("priors", {"event": "an event", "value": 0}),
        ("priors", {"event": "", "value": 0.1}),
        ("cards", {"name": "X", "memory_gb": 0}),
        ("cards", {"name": "X", "memory_gb": "many"}),
    ],
)
def test_impossible_figures_are_refused(kind, changed):
    row = PRICE | {"memory_gb": 24, "memory_bandwidth_gbps": 900, "board_power_w": 300} | changed
    with pytest.raises(InvalidSpec):
        read_entry(kind, "x", row)


def test_kinds_and_files():
    assert KINDS == ("prices", "cards", "priors")
    with pytest.raises(LinkworthError):
        read_entry("wishes", "x", {})


def test_a_damaged_catalogue_is_a_sentence(tmp_path):
    broken = tmp_path / "prices.toml"
    broken.write_text("[a\n", encoding="utf-8")
    with pytest.raises(UnreadableFile, match="cannot be read"):
        read_rows(broken)
    broken.write_text("a = 1\n", encoding="utf-8")
    with pytest.raises(UnreadableFile, match="no table"):
        read_rows(broken)
    with pytest.raises(UnreadableFile):
        read_rows(tmp_path / "absent.toml")


def test_old_figures_are_flagged():
    prices = catalogue().prices
    today = date(2026, 5, 15)
    old = old_keys(prices.values(), today)
    assert "pue-average" in old
    assert "electricity-residential" not in old
    assert "days old" in age_words(prices["pue-average"].date, today)
    assert age_words(today, today) == "2026-05-15"

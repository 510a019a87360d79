"""nvidia-smi nvlink -s: counts, rates, inactive links, cut texts."""

import pytest

from importers import nvlink
from models.errors import UnreadableFile

PAIR = (
    "GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-0a1b2c3d-1111-2222-3333-444455556666)\n"
    "\t Link 0: 14.062 GB/s\n\t Link 1: 14.062 GB/s\n\t Link 2: 14.062 GB/s\n"
    "\t Link 3: 14.062 GB/s\n"
    "GPU 1: NVIDIA GeForce RTX 3090 (UUID: GPU-0a1b2c3d-1111-2222-3333-444455557777)\n"
    "\t Link 0: 14.062 GB/s\n\t Link 1: 14.062 GB/s\n\t Link 2: 14.062 GB/s\n"
    "\t Link 3: 14.062 GB/s\n"
)


def test_a_whole_card_has_its_links_rates_and_identity() -> None:
    assert nvlink.looks_like(PAIR)
    (result,) = nvlink.read(PAIR, "box.txt")
    assert result.kind == "topology"
    assert result.origin == "described"
    assert result.links is None
    assert result.complete is None
    assert result.warnings == []
    first = (result.gpus or [])[0]
    assert first.uuid == "GPU-0a1b2c3d-1111-2222-3333-444455556666"
    assert first.facts == {
        "product": "NVIDIA GeForce RTX 3090",
        "links_total": 4,
        "links_active": 4,
        "gb_s_per_link": 14.062,
    }
    rates = result.find("nvlink_rate", src=1)
    assert [row.dims["link_index"] for row in rates] == [0, 1, 2, 3]
    assert {row.value for row in rates} == {14.062}
    assert rates[0].definition == "nvidia-smi:nvlink-rate:1"


def test_two_hosts_in_one_paste_stay_two() -> None:
    other = PAIR.replace("RTX 3090", "RTX A6000").replace("GPU-0a", "GPU-0b")
    first, second = nvlink.read(PAIR + other.replace("14.062 GB/s", "<inactive>"))
    products = [{gpu.facts["product"] for gpu in host.gpus or []} for host in (first, second)]
    assert products == [{"NVIDIA GeForce RTX 3090"}, {"NVIDIA GeForce RTX A6000"}]
    active = [[gpu.facts["links_active"] for gpu in host.gpus or []] for host in (first, second)]
    assert active == [[4, 4], [0, 0]]
    assert (len(first.measurements), len(second.measurements)) == (8, 0)
    assert [host.title for host in (first, second)] == [
        "2 GPUs, described by nvidia-smi nvlink -s, machine 1 of 2",
        "2 GPUs, described by nvidia-smi nvlink -s, machine 2 of 2",
    ]


def test_a_gpu_that_several_commands_print_is_one() -> None:
    names = "".join(line for line in PAIR.splitlines(keepends=True) if line.startswith("GPU"))
    capabilities = names.replace(")\n", ")\n\t Link 0, P2P is supported: true\n")
    for text in (names + PAIR, PAIR + names, PAIR + capabilities, PAIR + PAIR):
        (result,) = nvlink.read(text)
        assert [gpu.facts["links_active"] for gpu in result.gpus or []] == [4, 4]
        assert len(result.measurements) == 8


def test_colour_codes_line_ends_and_quoting_do_not_matter() -> None:
    dressed = "\r\n".join(f"> \x1b[1m{line}\x1b[0m" for line in PAIR.split("\n"))
    plain, other = nvlink.read(PAIR)[0], nvlink.read(dressed)[0]
    assert [gpu.facts for gpu in other.gpus or []] == [gpu.facts for gpu in plain.gpus or []]


def test_a_cut_rate_is_not_trusted_and_links_are_not_counted() -> None:
    (result,) = nvlink.read(PAIR.rstrip()[:-8])  # "Link 3: 14" is left
    last = (result.gpus or [])[1]
    assert (last.facts["links_total"], last.facts["links_active"]) == (None, None)
    assert result.validity == "suspect"
    assert [notice.code for notice in result.warnings] == ["truncated"]
    assert len(result.find("nvlink_rate", src=1)) == 3


def test_links_that_run_unlike_have_no_common_rate() -> None:
    (result,) = nvlink.read(PAIR.replace("Link 3: 14.062", "Link 3: 25.781", 1))
    assert (result.gpus or [])[0].facts["gb_s_per_link"] is None
    assert [notice.code for notice in result.warnings] == ["link_rates_differ"]


def test_fewer_links_than_the_card_has_is_a_finding() -> None:
    short = PAIR.replace("\t Link 3: 14.062 GB/s\n", "")
    (result,) = nvlink.read(short)
    assert [notice.code for notice in result.warnings] == ["fewer_links", "fewer_links"]
    assert "shows 3 NVLinks, a NVIDIA GeForce RTX 3090 has 4" in result.warnings[0].text


@pytest.mark.parametrize("text", ["", "GPU 0: NVIDIA A10 (UUID: GPU-1)\n", "Link to my blog: x\n"])
def test_texts_without_link_status_are_refused(text: str) -> None:
    assert not nvlink.looks_like(text)
    with pytest.raises(UnreadableFile) as error:
        nvlink.read(text)
    assert "nvidia-smi nvlink -s" in error.value.next_step

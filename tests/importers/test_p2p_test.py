"""p2pBandwidthLatencyTest: access, bandwidths one way and both ways, latencies, cut texts."""

import pytest

from importers import p2p_test
from models.errors import UnreadableFile

WHOLE = """[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA A, pciBusID: 1, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA A, pciBusID: 2, pciDeviceID: 0, pciDomainID:0
Device=0 CAN Access Peer Device=1
Device=1 CAN Access Peer Device=0

P2P Connectivity Matrix
     D\\D     0     1
     0\t     1     1
     1\t     1     1
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 780.10  11.20
     1  11.30 781.20
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 780.50  52.70
     1  52.80 781.00
Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 779.00 101.50
     1 101.60 780.00
P2P=Disabled Latency Matrix (us)
   GPU     0      1
     0   1.50  12.40
     1  12.50   1.60

   CPU     0      1
     0   2.00   6.10
     1   6.20   2.10
"""


def test_every_number_lands_under_its_metric_and_dims() -> None:
    assert p2p_test.looks_like(WHOLE)
    (result,) = p2p_test.read(WHOLE)
    assert (result.kind, result.origin, result.validity) == ("p2p", "imported", "valid")
    assert result.warnings == []
    assert result.p2p == [["X", "OK"], ["OK", "X"]]
    assert result.host["gpus"][1] == {"index": 1, "name": "NVIDIA A"}

    def bandwidth(src: int, dst: int, link: str, direction: str) -> float | None:
        (row,) = result.find("p2p_bandwidth", src=src, dst=dst, link=link, direction=direction)
        return row.value

    assert bandwidth(0, 1, "off", "one") == 11.2
    assert bandwidth(1, 0, "on", "one") == 52.8
    assert bandwidth(0, 1, "on", "both") == 101.5
    local = result.find("copy_bandwidth", device=1)
    assert [row.value for row in local] == [781.2, 781.0]
    by_gpu = result.find("p2p_latency", src=0, dst=1, method="GPU")
    by_cpu = result.find("p2p_latency", src=0, dst=1, method="CPU")
    assert (by_gpu[0].value, by_cpu[0].value) == (12.4, 6.1)
    assert by_gpu[0].definition != by_cpu[0].definition


def test_the_own_cell_is_never_a_link() -> None:
    (result,) = p2p_test.read(WHOLE)
    for metric in ("p2p_bandwidth", "p2p_latency"):
        assert all(row.dims["src"] != row.dims["dst"] for row in result.find(metric))


def test_without_peer_access_the_enabled_numbers_are_marked_off() -> None:
    text = WHOLE.replace("     0\t     1     1", "     0\t     1     0")
    (result,) = p2p_test.read(text)
    assert result.p2p == [["X", "NS"], ["OK", "X"]]
    assert [notice.code for notice in result.warnings] == ["no_peer_access"]
    enabled = [
        row
        for row in result.find("p2p_bandwidth", src=0, dst=1)
        if "P2P=enabled" in str(row.dims["test"])
    ]
    assert {row.dims["link"] for row in enabled} == {"off"}


def test_a_cut_text_keeps_what_is_whole() -> None:
    (result,) = p2p_test.read(WHOLE[: WHOLE.index("52.70") + 4])
    assert result.validity == "suspect"
    assert result.find("p2p_bandwidth", link="on") == []
    assert len(result.find("p2p_bandwidth", link="off")) == 2


def test_two_runs_are_two_results() -> None:
    first, second = p2p_test.read(WHOLE + WHOLE.replace("52.70", "26.10"))
    titles = [str(result.title) for result in (first, second)]
    assert [title.rpartition(", ")[2] for title in titles] == ["run 1 of 2", "run 2 of 2"]
    enabled = {"src": 0, "dst": 1, "link": "on", "direction": "one"}
    assert first.find("p2p_bandwidth", **enabled)[0].value == 52.7
    assert second.find("p2p_bandwidth", **enabled)[0].value == 26.1
    assert first.id != second.id
    assert p2p_test.read(WHOLE)[0].id == first.id


@pytest.mark.parametrize("text", ["", "P2P Connectivity Matrix\n", "P2P is on\n 0 1\n 0 1 1\n"])
def test_texts_without_a_matrix_are_refused(text: str) -> None:
    with pytest.raises(UnreadableFile):
        p2p_test.read(text)

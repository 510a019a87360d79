"""What stands out about a host: described ones too, and one sentence for many like GPUs."""

from models.host_report import findings, product
from models.result import Gpu, Result, Tool


def described(n: int, links: list | None = None, **changes: object) -> Result:
    return Result(
        **{
            "kind": "topology",
            "origin": "described",
            "tool": Tool(name="nvidia-smi topo -m"),
            "gpus": [Gpu(index=k, name=f"GPU{k}") for k in range(n)],
            "links": links,
            **changes,
        }
    )


def test_a_numbered_gpu_has_no_product_name() -> None:
    assert product(Gpu(index=2, name="GPU2")) is None
    assert product(Gpu(index=2, name="Device 2")) is None
    assert product(Gpu(index=2, name="GPU2", facts={"product": "NVIDIA L4"})) == "NVIDIA L4"
    assert product(Gpu(index=2, name="GPU2", facts={"model": "RTX 3090"})) == "RTX 3090"
    assert product(Gpu(index=0, name="NVIDIA H200")) == "NVIDIA H200"


def test_a_whole_and_uniform_machine_has_nothing_to_say() -> None:
    assert findings(described(2, [["X", "NV12"], ["NV12", "X"]])) == []
    assert findings(described(2, [["X", "PHB"], ["PHB", "X"]])) == []


def test_partial_nvlink_and_unknown_pairs_are_said() -> None:
    links = [["X", "NV4", None], ["NV4", "X", "SYS"], [None, "SYS", "X"]]
    found = {one.code: one for one in findings(described(3, links))}
    assert set(found) == {"links_unknown", "partial_nvlink"}
    assert found["links_unknown"].sentence == "1 of 3 links are not known."
    assert found["partial_nvlink"].sentence.startswith("1 of 3 pairs have a direct link")


def test_cards_with_a_connector_and_no_bridge_are_the_buyers_case() -> None:
    gpus = [Gpu(index=k, name="NVIDIA GeForce RTX 3090") for k in range(2)]
    (found,) = findings(described(2, [["X", "PHB"], ["PHB", "X"]], gpus=gpus))
    assert found.code == "no_nvlink"
    assert "NVLink bridge" in found.meaning
    other = [Gpu(index=k, name="NVIDIA GeForce RTX 4090") for k in range(2)]
    assert findings(described(2, [["X", "PHB"], ["PHB", "X"]], gpus=other)) == []


def test_the_same_sentence_about_many_gpus_is_one() -> None:
    facts = {"pcie_width": 8, "pcie_width_max": 16}
    gpus = [Gpu(index=k, name="NVIDIA L4", facts=facts) for k in range(3)]
    (found,) = findings(described(3, None, gpus=gpus))
    assert found.sentence == ("GPUs 0, 1 and 2: the PCIe slot runs x8, the card could run x16.")
    assert found.gpus == (0, 1, 2)


def test_access_that_the_driver_refuses_names_a_pair_and_the_reason() -> None:
    p2p = [["X", "GNS", "GNS"], ["GNS", "X", "OK"], ["GNS", "OK", "X"]]
    (found,) = findings(described(3, None, p2p=p2p))
    assert found.code == "no_peer_access"
    assert "GPUs 0 and 1 and 1 more (the GPU does not support peer access)" in found.sentence


def test_variables_that_switch_links_off_are_notes() -> None:
    environment = {"variables": {"NCCL_P2P_DISABLE": "1", "OMP_NUM_THREADS": "4"}}
    (found,) = findings(described(2, [["X", "SYS"], ["SYS", "X"]], environment=environment))
    assert (found.code, found.severity) == ("variable", "note")
    assert found.sentence == "NCCL_P2P_DISABLE=1 is set."


def test_a_pair_that_nobody_states_is_not_said_to_go_over_pcie() -> None:
    links = [["X", "NV18", None], ["NV18", "X", "NV18"], [None, "NV18", "X"]]
    assert [one.code for one in findings(described(3, links))] == ["links_unknown"]
    links[0][1] = links[1][0] = "SYS"
    (partial,) = [one for one in findings(described(3, links)) if one.code == "partial_nvlink"]
    assert partial.sentence == "1 of 3 pairs have a direct link, 1 go over PCIe."


def test_a_status_of_one_card_is_no_host_of_one_card() -> None:
    gpu = Gpu(index=3, name="GPU3", facts={"links_active": 6, "links_total": 6})
    (pasted,) = findings(described(1, None, gpus=[gpu]))
    assert pasted.sentence == "The text describes one GPU."
    (whole,) = findings(described(1, [["X"]]))
    assert whole.sentence == "This host has one GPU."

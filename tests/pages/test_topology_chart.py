"""The drawn graph: which hubs stand between GPUs, which edges join them, how thick."""

import pandas as pd
import pytest

from pages.charts import topology
from pages.charts.topology_drawing import drawing

STUDY = [
    ["X", "PHB", "NV4", "PHB"],
    ["PHB", "X", "PHB", "NV4"],
    ["NV4", "PHB", "X", "PHB"],
    ["PHB", "NV4", "PHB", "X"],
]


def uniform(n: int, code: str | None) -> list[list[str | None]]:
    return [["X" if i == j else code for j in range(n)] for i in range(n)]


def names(n: int) -> list[str]:
    return [f"GPU {k}" for k in range(n)]


def edges(made: object, kind: str) -> dict[object, object]:
    """Edge -> width, of one kind."""
    return {row["edge"]: row["links"] for row in made.edges if row["kind"] == kind}  # type: ignore[attr-defined]


def labels(made: object) -> list[object]:
    return [node["label"] for node in made.nodes]  # type: ignore[attr-defined]


def test_bridged_pairs_are_arcs_over_one_host_bridge() -> None:
    made = drawing(STUDY, names(4))
    assert edges(made, "direct link") == {"GPU 0-GPU 2": 4, "GPU 1-GPU 3": 4}
    assert labels(made) == ["Host bridge", *names(4)]
    assert len(edges(made, "PCIe path")) == 4


def test_more_nvlinks_are_a_thicker_line() -> None:
    links = uniform(4, "PHB")
    for i, j, code in ((0, 1, "NV1"), (1, 2, "NV4"), (2, 3, "NV18")):
        links[i][j] = links[j][i] = code
    made = drawing(links, names(4))
    assert list(edges(made, "direct link").values()) == [1, 4, 18]
    assert set(edges(made, "PCIe path").values()) == {1}
    layers = topology.graph(made).to_dict()["layer"]
    (width,) = [
        layer["encoding"]["strokeWidth"]
        for layer in layers
        if "strokeWidth" in layer.get("encoding", {})
    ]
    assert width["field"] == "links"
    low, high = width["scale"]["range"]
    assert 0 < low < high


def test_a_full_mesh_is_one_node_with_an_edge_a_gpu() -> None:
    made = drawing(uniform(8, "NV18"), names(8), [0] * 4 + [1] * 4)
    assert "every pair NV18" in labels(made)
    assert set(edges(made, "direct link").values()) == {18}
    assert len(edges(made, "direct link")) == 8
    assert [label for label in labels(made) if "NUMA" in str(label)] == [
        "NUMA node 0",
        "NUMA node 1",
    ]


def test_switches_bridges_and_sockets_stack_up() -> None:
    links = uniform(6, "SYS")
    for i, j, code in ((0, 1, "PIX"), (2, 3, "PIX"), (4, 5, "PIX"), (0, 2, "NODE"), (1, 3, "NODE")):
        links[i][j] = links[j][i] = code
    made = drawing(links, names(6))
    assert labels(made)[:5] == [
        "PCIe switch", "PCIe switch", "PCIe switch", "NUMA node", "CPU sockets",
    ]  # fmt: skip
    heights = {node["label"]: node["y"] for node in made.nodes}
    assert heights["PCIe switch"] < heights["NUMA node"] < heights["CPU sockets"]


def test_a_pair_that_nobody_states_is_drawn_apart() -> None:
    links = uniform(3, "NV2")
    links[0][1] = links[1][0] = None
    made = drawing(links, names(3))
    assert list(edges(made, "not known")) == ["GPU 0-GPU 1"]
    assert len(edges(made, "direct link")) == 2


def test_one_gpu_and_64_gpus_can_be_drawn() -> None:
    alone = topology.graph(drawing([["X"]], ["GPU 0"]))
    assert "GPU 0" in alone.to_json()
    many = uniform(64, "NV18")
    many[0][1] = many[1][0] = "NV4"
    made = drawing(many, names(64))
    assert made.n_hidden == 64 * 63 // 2 - 150
    assert topology.graph(made).to_dict()["layer"]


@pytest.mark.parametrize(
    ("code", "group"),
    [
        ("NV4", "direct link"), ("XGMI", "direct link"), ("PIX", "PCIe switch"),
        ("PXB", "PCIe switch"), ("PHB", "host bridge"), ("NODE", "between bridges or sockets"),
        ("SYS", "between bridges or sockets"), (None, "not known"),
    ],
)  # fmt: skip
def test_every_kind_has_a_group_in_the_matrix(code: str | None, group: str) -> None:
    assert topology.group(code) == group
    assert group in topology.GROUPS


def test_the_takeaway_counts_pairs_best_first() -> None:
    assert topology.takeaway(STUDY) == (
        "4 GPUs, 6 pairs: 2x NV4 (4 NVLinks), 4x PHB (host bridge)."
    )
    assert topology.takeaway([["X"]]) == "One GPU: there is no link."
    assert topology.takeaway(uniform(2, None)) == "2 GPUs, 1 pair: 1 not known."


def test_matrix_and_heat_put_a_word_into_every_cell() -> None:
    frame = topology.matrix_frame(STUDY, names(4))
    assert len(frame) == 16
    assert set(frame.loc[frame["GPU"] == "GPU 0", "link"]) == {"X", "PHB", "NV4"}
    assert topology.matrix(frame, names(4)).to_dict()["layer"]
    heat = topology.pair_heat(
        pd.DataFrame({"from": [0, "cpu"], "to": [1, 0], "value": [1.0, 2.0]}), "GB/s"
    )
    shown = str(heat.to_dict())
    assert "GPU 1" in shown
    assert "CPU" in shown

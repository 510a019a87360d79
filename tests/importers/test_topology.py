"""Link tables in the tool's own layout and in the shapes that pasting gives them."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importers import nvlink, topology
from models.errors import UnreadableFile
from models.result import Result, dump, parse

STUDY = (
    "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tPHB\tNV4\tPHB\t0-63\t0\t\tN/A\n"
    "GPU1\tPHB\t X \tPHB\tNV4\t0-63\t0\t\tN/A\n"
    "GPU2\tNV4\tPHB\t X \tPHB\t0-63\t0\t\tN/A\n"
    "GPU3\tPHB\tNV4\tPHB\t X \t0-63\t0\t\tN/A\n"
)
STUDY_LINKS = [
    ["X", "PHB", "NV4", "PHB"],
    ["PHB", "X", "PHB", "NV4"],
    ["NV4", "PHB", "X", "PHB"],
    ["PHB", "NV4", "PHB", "X"],
]
KINDS = ["NV1", "NV4", "NV12", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS"]


@st.composite
def hosts(draw: st.DrawFn) -> dict:
    """A machine as the tool would see it."""
    n = draw(st.integers(1, 10))
    links = [["X"] * n for _ in range(n)]
    for i in range(n):
        for j in range(i):
            links[i][j] = links[j][i] = draw(st.sampled_from(KINDS))
    n_nics = draw(st.integers(0, 5))
    columns = draw(st.sampled_from([(), ("cpu",), ("cpu", "numa"), ("cpu", "numa", "gid")]))
    some_cpus = st.sampled_from(["0-31", "0-15,64-79", "6,14,22,30", "112-127,240-255", "0-7"])
    return {
        "links": links,
        "nics": draw(
            st.sampled_from(
                [[f"NIC{k}" for k in range(n_nics)], [f"mlx5_{k}" for k in range(n_nics)]]
            )
        ),
        "nic_links": [[draw(st.sampled_from(KINDS[4:])) for _ in range(n_nics)] for _ in range(n)],
        "columns": columns,
        # the tool leaves the CPU cell empty for a node without CPUs; then it knows the node
        "cpus": [
            draw(st.one_of(some_cpus, st.just(None) if len(columns) > 1 else some_cpus))
            for _ in range(n)
        ],
        "numa": [draw(st.one_of(st.none(), st.integers(0, 15))) for _ in range(n)],
    }


def written(host: dict, *, tabs: bool, ansi: bool, crlf: bool, legend: bool) -> str:
    """The host in the layout of nvidia-smi topo -m."""
    n = len(host["links"])
    words = {"cpu": "CPU Affinity", "numa": "NUMA Affinity", "gid": "GPU NUMA ID"}
    head = [f"GPU{k}" for k in range(n)] + host["nics"] + [words[c] for c in host["columns"]]
    header = "\t".join(head)
    lines = [f"\t\x1b[4m{header}\x1b[0m" if ansi else f"\t{header}"]
    for i in range(n):
        cells = [" X " if code == "X" else code for code in host["links"][i]]
        row = "\t".join([f"GPU{i}", *cells, *host["nic_links"][i]])
        if "cpu" in host["columns"]:
            row += f"\t{host['cpus'][i] or ''}"
        if "numa" in host["columns"]:
            row += "\t\tN/A" if host["numa"][i] is None else f"\t{host['numa'][i]}"
        if "gid" in host["columns"]:
            row += "\t\tN/A"
        lines.append(row)
    for k, nic in enumerate(host["nics"]):
        cells = [host["nic_links"][i][k] for i in range(n)]
        others = [" X " if k == m else "SYS" for m in range(len(host["nics"]))]
        lines.append("\t".join([nic, *cells, *others, "", "", ""]))
    if legend:
        lines += ["", "Legend:", "", "  X    = Self", "  PHB  = Connection traversing PCIe", ""]
    text = "\n".join(lines) + "\n"
    if not tabs:
        text = "\n".join(line.expandtabs(8) for line in text.split("\n"))
    return text.replace("\n", "\r\n") if crlf else text


@settings(deadline=None)
@given(
    host=hosts(),
    tabs=st.booleans(),
    ansi=st.booleans(),
    crlf=st.booleans(),
    legend=st.booleans(),
    quoted=st.booleans(),
)
def test_any_matrix_in_the_tools_layout_is_read_back(
    host: dict, tabs: bool, ansi: bool, crlf: bool, legend: bool, quoted: bool
) -> None:
    text = written(host, tabs=tabs, ansi=ansi, crlf=crlf, legend=legend)
    if quoted and not ansi:
        text = "\n".join(f"> {line}" for line in text.split("\n"))
    assert topology.looks_like(text)
    (result,) = topology.read(text)
    n = len(host["links"])
    assert result.links == host["links"]
    assert result.complete is True
    assert result.nics == len(host["nics"])
    has_cpu, has_numa = "cpu" in host["columns"], "numa" in host["columns"]
    assert [g.cpus for g in result.gpus or []] == (host["cpus"] if has_cpu else [None] * n)
    assert [g.numa for g in result.gpus or []] == (host["numa"] if has_numa else [None] * n)
    assert result.warnings == []
    assert result.validity == "valid"
    assert parse(dump(result)) == result


def test_the_study_matrix_is_read_with_its_affinities() -> None:
    (result,) = topology.read(f"user@box:~$ nvidia-smi topo -m\n{STUDY}\nlooks odd, doesn't it?")
    assert result.links == STUDY_LINKS
    assert [(g.index, g.name, g.numa, g.cpus) for g in result.gpus or []] == [
        (k, f"GPU{k}", 0, "0-63") for k in range(4)
    ]
    assert result.tool.name == "nvidia-smi topo -m"


def test_a_paste_that_lost_its_line_breaks_and_tabs_is_still_read() -> None:
    (result,) = topology.read(" ".join(STUDY.split()))
    assert result.links == STUDY_LINKS
    assert [g.cpus for g in result.gpus or []] == ["0-63"] * 4


def test_a_colour_code_whose_escape_the_forum_ate_does_no_harm() -> None:
    (result,) = topology.read(
        "\t[4mGPU0\tGPU1\tCPU Affinity[0m\nGPU0\t X \tSYS\t0-7\nGPU1\tSYS\t X \t8-15\n"
    )
    assert result.links == [["X", "SYS"], ["SYS", "X"]]
    assert [g.cpus for g in result.gpus or []] == ["0-7", "8-15"]


def test_a_markdown_table_is_read() -> None:
    (result,) = topology.read(
        "|      | GPU0 | GPU1 | CPU Affinity |\n|---|---|---|---|\n"
        "| GPU0 | X    | NV4  | 0-31 |\n| GPU1 | NV4  | X    |      |\n"
    )
    assert result.links == [["X", "NV4"], ["NV4", "X"]]
    assert [g.cpus for g in result.gpus or []] == ["0-31", None]
    assert result.tool.name == "nvidia-smi topo -m"


@pytest.mark.parametrize("characters", range(4, len(STUDY.rstrip())))
def test_cutting_the_text_anywhere_never_invents_a_link(characters: int) -> None:
    text = STUDY[:characters]
    if not topology.looks_like(text):
        with pytest.raises(UnreadableFile):
            topology.read(text)
        return
    (result,) = topology.read(text)
    seen = result.links or []
    assert len(seen) <= 4
    for i, row in enumerate(seen):
        for j, code in enumerate(row):
            assert code in (None, STUDY_LINKS[i][j])
    assert all(g.cpus in (None, "0-63") and g.numa in (None, 0) for g in result.gpus or [])


def test_a_cut_table_is_suspect_and_incomplete() -> None:
    (result,) = topology.read("\n".join(STUDY.split("\n")[:3]) + "\n")
    assert result.complete is False
    assert result.validity == "suspect"
    assert [notice.code for notice in result.warnings] == ["truncated"]
    assert "GPU2, GPU3" in result.reasons[0]
    assert result.links is not None
    assert result.links[2] == ["NV4", "PHB", "X", None]


def test_directions_that_disagree_are_a_warning_and_kept_as_printed() -> None:
    (result,) = topology.read("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV2\t X \n")
    assert result.links == [["X", "NV4"], ["NV2", "X"]]
    assert [notice.code for notice in result.warnings] == ["asymmetric"]


def test_an_unknown_word_is_no_link() -> None:
    (result,) = topology.read(
        "\tGPU0\tGPU1\tGPU2\nGPU0\t X \tC2C\tSYS\nGPU1\tC2C\t X \tSYS\nGPU2\tSYS\tSYS\t X \n"
    )
    assert result.links == [["X", None, "SYS"], [None, "X", "SYS"], ["SYS", "SYS", "X"]]
    assert result.complete is False
    assert "unknown_link" in {notice.code for notice in result.warnings}


def test_two_hosts_in_one_paste_stay_two() -> None:
    two = "\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n"
    results = topology.read(two + "\n" + two.replace("SYS", "NV2"))
    assert [result.links for result in results] == [
        [["X", "SYS"], ["SYS", "X"]],
        [["X", "NV2"], ["NV2", "X"]],
    ]
    assert [result.title for result in results] == [
        "2 GPUs, described by nvidia-smi topo -m, machine 1 of 2",
        "2 GPUs, described by nvidia-smi topo -m, machine 2 of 2",
    ]


def links_of(code: str) -> str:
    return f"\tGPU0\tGPU1\nGPU0\t X \t{code}\nGPU1\t{code}\t X \n\n"


def status_of(*active: bool) -> str:
    return "".join(
        f"GPU {k}: A card (UUID: x)\n\t Link 0: {'14.062 GB/s' if on else '<inactive>'}\n"
        for k, on in enumerate(active)
    )


@pytest.mark.parametrize("status_first", [False, True])
def test_each_of_two_hosts_gets_its_own_link_counts(status_first: bool) -> None:
    parts = [(links_of("NV1"), status_of(True, True)), (links_of("SYS"), status_of(False, False))]
    text = "".join(part for host in parts for part in (reversed(host) if status_first else host))
    first, second = topology.read(text)
    assert [gpu.facts["links_active"] for gpu in first.gpus or []] == [1, 1]
    assert [gpu.facts["links_active"] for gpu in second.gpus or []] == [0, 0]
    assert first.warnings == []
    assert {notice.code for notice in second.warnings} == {"inactive_links"}


@pytest.mark.parametrize(
    "text",
    [
        # whose status is it?
        links_of("NV1") + links_of("SYS") + status_of(True, True),
        links_of("NV1") + links_of("SYS") + status_of(True, True) + status_of(False, False),
        links_of("NV1") + status_of(True, True) + status_of(False, False),
        # as many of each, and not of the same cards
        links_of("NV1") + status_of(True) + links_of("SYS") + status_of(True, True, True),
    ],
)
def test_link_counts_of_an_unknown_host_are_left_out_and_said_to_be(text: str) -> None:
    for result in topology.read(text):
        assert [notice.code for notice in result.warnings] == ["link_counts_left_out"]
        assert result.measurements == []
        assert all("links_active" not in gpu.facts for gpu in result.gpus or [])
        assert [gpu.index for gpu in result.gpus or []] == [0, 1]


def test_peer_access_and_link_status_join_the_links_of_the_same_paste() -> None:
    text = (
        "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV2\t0-7\nGPU1\tNV2\t X \t0-7\n"
        " \tGPU0\tGPU1\t\n GPU0\tX\tNS\t\n GPU1\tNS\tX\t\n"
        "GPU 0: NVIDIA RTX A6000 (UUID: GPU-1b2c3d4e-0000-0000-0000-00000000000a)\n"
        "\t Link 0: 14.062 GB/s\n\t Link 1: 14.062 GB/s\n"
        "GPU 1: NVIDIA RTX A6000 (UUID: GPU-1b2c3d4e-0000-0000-0000-00000000000b)\n"
        "\t Link 0: 14.062 GB/s\n\t Link 1: <inactive>\n"
    )
    assert topology.looks_like(text)
    assert not nvlink.looks_like(text)
    (result,) = topology.read(text)
    assert result.links == [["X", "NV2"], ["NV2", "X"]]
    assert result.p2p == [["X", "NS"], ["NS", "X"]]
    facts = [gpu.facts for gpu in result.gpus or []]
    assert [fact["links_active"] for fact in facts] == [2, 1]
    assert [gpu.uuid for gpu in result.gpus or []] == [
        "GPU-1b2c3d4e-0000-0000-0000-00000000000a",
        "GPU-1b2c3d4e-0000-0000-0000-00000000000b",
    ]
    assert facts[0]["product"] == "NVIDIA RTX A6000"
    assert [notice.code for notice in result.warnings] == ["fewer_links", "inactive_links"]


def table_of(code: str, n: int = 2) -> str:
    names = [f"GPU{k}" for k in range(n)]
    rows = ["\t".join([names[i], *(" X " if i == j else code for j in range(n))]) for i in range(n)]
    return "\t" + "\t".join(names) + "\n" + "\n".join(rows) + "\n\n"


def told_of(result: Result) -> tuple[str | None, str | None]:
    """Link and peer access of the first pair."""
    return (
        result.links[0][1] if result.links else None,
        result.p2p[0][1] if result.p2p else None,
    )


@pytest.mark.parametrize(
    ("codes", "machines"),
    [
        # all of one kind first, then all of the other
        ("NV4 SYS OK NS", [("NV4", "OK"), ("SYS", "NS")]),
        ("OK NS NV4 SYS", [("NV4", "OK"), ("SYS", "NS")]),
        ("NV1 NV2 NV4 OK NS GNS", [("NV1", "OK"), ("NV2", "NS"), ("NV4", "GNS")]),
        # machine by machine
        ("NV4 OK SYS NS", [("NV4", "OK"), ("SYS", "NS")]),
        ("OK NV4 NS SYS", [("NV4", "OK"), ("SYS", "NS")]),
    ],
)
def test_peer_access_joins_the_links_of_its_own_machine(
    codes: str, machines: list[tuple[str, str]]
) -> None:
    results = topology.read("".join(map(table_of, codes.split())))
    assert [told_of(result) for result in results] == machines
    assert not any(result.warnings for result in results)


@pytest.mark.parametrize(
    "codes", ["NV4 SYS OK", "NV4 OK SYS", "NV4 OK NS", "NV4 SYS OK NS NV8 GNS NV12"]
)
def test_peer_access_of_an_unknown_machine_is_kept_apart_and_said_to_be(codes: str) -> None:
    results = topology.read("".join(map(table_of, codes.split())))
    assert [next(filter(None, told_of(result))) for result in results] == codes.split()
    for result in results:
        (notice,) = result.warnings
        assert notice.code == "peer_access_apart"
        assert "cannot be told from this text" in notice.text


def test_machines_of_unlike_size_are_told_apart_by_it() -> None:
    text = table_of("NV4", 4) + table_of("SYS", 2) + table_of("OK", 4) + table_of("NS", 2)
    assert [told_of(result) for result in topology.read(text)] == [("NV4", "OK"), ("SYS", "NS")]
    text = table_of("NV4", 4) + table_of("OK", 4) + table_of("SYS", 2)
    results = topology.read(text)
    assert [told_of(result) for result in results] == [("NV4", "OK"), ("SYS", None)]
    assert not any(result.warnings for result in results)
    # another machine in between: of which machine of four is this?
    apart = topology.read(table_of("NV4", 4) + table_of("SYS", 2) + table_of("OK", 4))
    assert [told_of(result) for result in apart] == [("NV4", None), ("SYS", None), (None, "OK")]
    assert [[notice.code for notice in result.warnings] for result in apart] == [
        ["peer_access_apart"], [], ["peer_access_apart"],
    ]  # fmt: skip


def test_a_single_gpu_of_a_peer_access_table_is_told_by_the_legend() -> None:
    (result,) = topology.read(" \tGPU0\t\n GPU0\tX\t\n\nLegend:\n\n  OK   = Status Ok\n")
    assert result.tool.name == "nvidia-smi topo -p2p"
    assert [gpu.name for gpu in result.gpus or []] == ["GPU0"]


def test_an_amd_table_with_infinity_fabric_is_read() -> None:
    text = (
        "=== Link Type between two GPUs ===\n       GPU0   GPU1\nGPU0   0      XGMI\n"
        "GPU1   XGMI   0\n\n=== Numa Nodes ===\nGPU[0]\t\t: (Topology) Numa Node: 0\n"
        "GPU[1]\t\t: (Topology) Numa Node: 1\n"
    )
    (result,) = topology.read(text)
    assert result.links == [["X", "XGMI"], ["XGMI", "X"]]
    assert [gpu.numa for gpu in result.gpus or []] == [0, 1]
    assert result.warnings == []


@pytest.mark.parametrize(
    "text",
    [
        "GPU0 is hot and GPU1 is not.\nGPU0 idles.\n",
        "\tGPU0\tGPU1\n(no rows follow)\n",
        "",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        '{"GPU0": 1}',
    ],
)
def test_other_texts_are_refused_with_a_next_step(text: str) -> None:
    assert not topology.looks_like(text)
    with pytest.raises(UnreadableFile) as error:
        topology.read(text)
    assert "nvidia-smi topo -m" in error.value.next_step


def test_noise_never_raises_anything_but_the_refusal() -> None:
    random_source = random.Random(7)
    pieces = [*STUDY.split("\t"), "|", "\n", " ", "GPU0", "N/A", "\x1b[0m", "Legend:", "0-", "NV"]
    for _ in range(300):
        text = "\t".join(random_source.choices(pieces, k=40))
        try:
            topology.read(text)
        except UnreadableFile:
            continue


def test_two_amd_hosts_in_one_paste_stay_two() -> None:
    one = (
        "=== Weight between two GPUs ===\n       GPU0   GPU1\nGPU0   0      15\nGPU1   15     0\n"
        "=== Link Type between two GPUs ===\n       GPU0   GPU1\nGPU0   0      XGMI\n"
        "GPU1   XGMI   0\n=== Numa Nodes ===\nGPU[0]\t\t: (Topology) Numa Node: 0\n"
    )
    other = one.replace("XGMI", "PCIE").replace("15", "40").replace("Node: 0", "Node: 1")
    first, second = topology.read(one + other)
    assert first.links == [["X", "XGMI"], ["XGMI", "X"]]
    assert second.links == [["X", "PCIE"], ["PCIE", "X"]]
    facts = [[gpu.facts["weights"] for gpu in host.gpus or []] for host in (first, second)]
    assert facts == [[[0, 15], [15, 0]], [[0, 40], [40, 0]]]
    assert [[gpu.numa for gpu in host.gpus or []] for host in (first, second)] == [
        [0, None],
        [1, None],
    ]
    assert (second.title or "").endswith("rocm-smi --showtopo, machine 2 of 2")


def test_hosts_of_two_vendors_in_one_paste_are_both_read() -> None:
    amd = "=== Link Type between two GPUs ===\n  GPU0 GPU1\nGPU0 0 XGMI\nGPU1 XGMI 0\n"
    found = topology.read(links_of("NV1") + amd)
    assert [result.links for result in found] == [
        [["X", "NV1"], ["NV1", "X"]],
        [["X", "XGMI"], ["XGMI", "X"]],
    ]

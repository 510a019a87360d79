"""nvbandwidth, printed and as JSON: directions, missing cells, failures, cut texts."""

import json

import pytest

from importers import nvbandwidth
from models.errors import UnreadableFile

READ = """nvbandwidth Version: v0.9
CUDA Runtime Version: 13000
Driver Version: 580.10

Device 0: NVIDIA A (00000000:01:00)
Device 1: NVIDIA A (00000000:02:00)

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A     26.30
 1     25.10       N/A

SUM device_to_device_memcpy_read_ce 51.40
"""


def _pairs(result, metric="p2p_bandwidth"):
    return {(row.dims["src"], row.dims["dst"]): row.value for row in result.find(metric)}


def test_the_arrow_decides_source_and_destination() -> None:
    (rightward,) = nvbandwidth.read(READ)
    assert _pairs(rightward) == {(0, 1): 26.3, (1, 0): 25.1}
    (leftward,) = nvbandwidth.read(READ.replace("->", "<-"))
    assert _pairs(leftward) == {(1, 0): 26.3, (0, 1): 25.1}


def test_versions_devices_and_the_printed_matrix_are_kept() -> None:
    assert nvbandwidth.looks_like(READ)
    (result,) = nvbandwidth.read(READ)
    assert (result.tool.name, result.tool.version) == ("nvbandwidth", "0.9")
    assert result.environment == {"cuda_runtime": "13000", "driver": "580.10"}
    assert result.host["gpus"] == [
        {"index": 0, "name": "NVIDIA A"},
        {"index": 1, "name": "NVIDIA A"},
    ]
    assert result.spec["matrices"][0]["sum"] == 51.4
    row = result.measurements[0]
    assert row.definition == "nvbandwidth:device_to_device_memcpy_read_ce:1"
    assert row.dims == {
        "src": 0,
        "dst": 1,
        "test": "device_to_device_memcpy_read_ce",
        "method": "CE",
        "direction": "one",
    }
    assert (result.kind, result.origin, result.validity) == ("p2p", "imported", "valid")


def test_a_pair_that_reads_zero_is_unknown_and_said() -> None:
    (result,) = nvbandwidth.read(READ.replace("26.30", " 0.00"))
    assert _pairs(result) == {(1, 0): 25.1}
    assert [notice.code for notice in result.warnings] == ["not_measured"]


def test_copies_with_the_host_are_another_metric() -> None:
    (result,) = nvbandwidth.read(
        "Running device_to_host_memcpy_ce.\n"
        "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)\n"
        "           0         1\n 0     26.77     26.47\n"
    )
    assert _pairs(result, "host_copy_bandwidth") == {(0, "cpu"): 26.77, (1, "cpu"): 26.47}
    assert result.find("p2p_bandwidth") == []


def test_a_copy_between_gpus_that_is_titled_cpu_is_known_by_its_test() -> None:
    (result,) = nvbandwidth.read(
        "Running device_to_device_bidirectional_memcpy_read_sm.\n"
        "memcpy SM CPU(row) <-> GPU(column) Total bandwidth (GB/s)\n"
        "           0         1\n 0       N/A    700.00\n 1    701.00       N/A\n"
    )
    rows = result.find("p2p_bandwidth")
    assert [(row.dims["src"], row.dims["dst"]) for row in rows] == [(0, 1), (1, 0)]
    assert {row.dims["direction"] for row in rows} == {"both"}


def test_latencies_are_stored_in_microseconds() -> None:
    (result,) = nvbandwidth.read(
        "Running device_to_device_latency_sm.\n"
        "Device to Device Latency SM GPU(row) <-> GPU(column) (ns)\n"
        "           0         1\n 0       N/A    772.58\n 1    772.96       N/A\n"
    )
    assert [row.value for row in result.find("p2p_latency")] == pytest.approx([0.77258, 0.77296])


def test_a_sum_over_all_gpus_is_no_pair() -> None:
    (result,) = nvbandwidth.read(
        "Running all_to_one_write_ce.\nmemcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)\n"
        "           0         1\n 0    300.00    301.00\n"
    )
    assert _pairs(result) == {("all", 0): 300.0, ("all", 1): 301.0}


def test_wrong_data_make_the_run_invalid_even_where_another_test_passed() -> None:
    (result,) = nvbandwidth.read(
        READ + "\nRunning device_to_device_memcpy_write_ce.\n"
        " Invalid value when checking the pattern at 0x700000000000\n"
    )
    assert result.validity == "invalid"
    assert [notice.code for notice in result.warnings] == ["verification_failed"]
    assert "device_to_device_memcpy_write_ce" in result.reasons[0]


def test_a_cut_matrix_is_suspect_and_its_last_number_unknown() -> None:
    (result,) = nvbandwidth.read(READ[: READ.index("25.10") + 4])
    assert _pairs(result) == {(0, 1): 26.3}
    assert result.validity == "suspect"
    assert [notice.code for notice in result.warnings] == ["truncated"]


def test_two_runs_in_one_paste_do_not_leak_into_each_other() -> None:
    first, second = nvbandwidth.read(READ + READ.replace("v0.9", "v0.8").replace("26.30", "20.00"))
    titles = [str(result.title) for result in (first, second)]
    assert [title.rpartition(", ")[2] for title in titles] == ["run 1 of 2", "run 2 of 2"]
    assert (first.tool.version, second.tool.version) == ("0.9", "0.8")
    assert _pairs(first)[0, 1] == 26.3
    assert _pairs(second)[0, 1] == 20.0


def _json(*cases, **root):
    return json.dumps({"nvbandwidth": {"testcases": list(cases), **root}})


def test_json_cells_are_texts_and_waived_tests_no_results() -> None:
    text = _json(
        {
            "name": "device_to_device_memcpy_read_ce",
            "status": "Passed",
            "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
            "bandwidth_matrix": [["N/A", "26.3"], ["25.1", "N/A"]],
            "sum": 51.4,
            "min": 0.0,
        },
        {"name": "multinode_device_to_device_memcpy_read_ce", "status": "Waived"},
        version="v0.8",
        **{"Driver Version": "580.10"},
    )
    assert nvbandwidth.looks_like(text)
    (result,) = nvbandwidth.read(text)
    assert _pairs(result) == {(0, 1): 26.3, (1, 0): 25.1}
    assert result.tool.version == "0.8"
    assert [notice.code for notice in result.warnings] == ["waived"]


def test_json_of_a_both_ways_test_holds_three_matrices_in_one_list() -> None:
    square = [["N/A", "10"], ["10", "N/A"]]
    total = [["N/A", "20"], ["21", "N/A"]]
    text = _json(
        {
            "name": "device_to_device_bidirectional_memcpy_read_ce",
            "status": "Passed",
            "bandwidth_description": "memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)",
            "bandwidth_matrix": square + square + total,
        }
    )
    (result,) = nvbandwidth.read(text)
    assert _pairs(result) == {(0, 1): 20.0, (1, 0): 21.0}


def test_json_with_wrong_data_at_the_top_is_invalid() -> None:
    text = _json(error="Invalid value when checking the pattern at <0x7f>: offset 8")
    (result,) = nvbandwidth.read(text)
    assert result.validity == "invalid"
    assert result.warnings[0].code == "verification_failed"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nvbandwidth Version: v0.9\nRunning host_to_device_memcpy_ce.\nWaived: \n",
        _json({"name": "x", "status": "Waived"}),
        '{"nvbandwidth": {"testcases": ',
        '{"nvbandwidth": 3, "testcases": []}',
    ],
)
def test_output_without_a_measurement_is_refused(text: str) -> None:
    with pytest.raises(UnreadableFile):
        nvbandwidth.read(text)

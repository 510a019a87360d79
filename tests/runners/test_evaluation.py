"""From a form to jobs, and how long they take."""

import pytest

from models.errors import InvalidSpec
from runners.evaluation import allreduce_jobs, expected_seconds, interleaved
from runners.spec import parse_spec


def test_two_arms_interleave():
    assert interleaved(["a", "b"], 3) == [
        *(("a", 0), ("b", 0)),
        *(("b", 1), ("a", 1)),
        *(("a", 2), ("b", 2)),
    ]


def test_link_on_and_off_become_interleaved_jobs_of_one_evaluation():
    jobs = allreduce_jobs(
        device="cuda", gpus=[0, 1], links=["on", "off"], rounds=3, sizes_bytes=[1024]
    )
    assert [job["evaluation"]["arm"] for job in jobs] == [
        *("link-on", "link-off", "link-off", "link-on", "link-on", "link-off")
    ]
    assert [job["evaluation"]["order"] for job in jobs] == [job["order"] for job in jobs]
    assert len({job["evaluation"]["id"] for job in jobs}) == 1
    for job in jobs:
        spec = parse_spec(job["spec"])
        assert spec.rounds == 1
        assert spec.planned_rounds == 3
        assert job["evaluation"]["arm"] == f"link-{spec.link}"
        assert job["expected_s"] == expected_seconds(spec)


def test_one_arm_is_one_job():
    (job,) = allreduce_jobs(device="cpu", ranks=2, rounds=4, sizes_bytes=[1024])
    assert job["evaluation"]["arm"] == "cpu"
    assert job["spec"]["rounds"] == 4
    (gpu,) = allreduce_jobs(device="cuda", gpus=["GPU-aaaa"], rounds=2, modes=["graph"])
    assert gpu["spec"]["link"] is None


def test_what_cannot_be_is_refused():
    with pytest.raises(InvalidSpec, match="twice"):
        allreduce_jobs(device="cuda", gpus=[0, 1], links=["on", "on"])
    with pytest.raises(InvalidSpec):
        allreduce_jobs(device="cpu", ranks=2, links=["on"])


def test_more_work_takes_longer():
    def seconds(**changes):
        return expected_seconds(
            {"kind": "allreduce", "sizes_bytes": [1024], "rounds": 1, **changes}
        )

    gpus = {"device": "cuda", "gpus": [0, 1]}
    assert seconds() < seconds(rounds=3) < seconds(rounds=3, sizes_bytes=[1024, 2**26])
    assert seconds(**gpus, modes=["graph"]) < seconds(**gpus, modes=["graph", "exposed"])


@pytest.mark.parametrize(
    "spec",
    [
        {"kind": "decode", "model": {}},
        {"kind": "p2p", "device": "cuda", "gpus": [0, 1]},
        {"kind": "p2p", "device": "cpu"},
        {"kind": "topology"},
        {"kind": "serving", "model": "m", "arm": {"gpus": [0]}},
        {"kind": "serving", "base_url": "http://127.0.0.1:1", "workloads": [{"concurrency": None}]},
    ],
)
def test_every_kind_has_an_expected_duration(spec):
    assert 1 < expected_seconds(spec) < 3600

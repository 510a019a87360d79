"""The GPU side on a simulated device: what is captured, repeated, timed and checked.

The simulated device has one clock. A call costs CALL_US on the device and LAUNCH_US on the host; a
graph of k calls costs k x CALL_US and one launch. Two ranks are played by one: an all-reduce adds
what the other rank would have put in.
"""

import contextlib
import itertools

import pytest
import torch

from models.errors import InvalidSpec
from runners import allreduce_cuda, allreduce_timing
from runners.allreduce_plan import Unit
from runners.rank_fault import VARIABLE, Fault
from runners.spec import AllReduceSpec
from runners.value_check import contribution, fill

CALL_US = 6.5
LAUNCH_US = 30.0
GEMV_US = 9.0


class Device:
    """A queue with a clock: the host runs ahead, the device catches up at a synchronisation."""

    def __init__(self):
        self.host_us = 0.0
        self.device_us = 0.0
        self.capturing = None
        self.graphs = []
        self.calls = 0
        self.lie = False
        self.call_us = CALL_US

    def launch(self, cost_us, effect=None):
        if self.capturing is not None:
            self.capturing.append((cost_us, effect))
            return
        self.host_us += LAUNCH_US
        self.execute([(cost_us, effect)])

    def execute(self, nodes):
        self.device_us = max(self.device_us, self.host_us)
        for cost_us, effect in nodes:
            self.device_us += cost_us
            if effect is not None:
                effect()

    def synchronise(self):
        self.host_us = max(self.host_us, self.device_us)


class Stream:
    def __init__(self, device):
        self.device = device

    def synchronize(self):
        self.device.synchronise()


class Graph:
    def __init__(self, device):
        self.device = device
        self.nodes = []
        self.is_alive = True
        device.graphs.append(self)

    def replay(self):
        assert self.is_alive
        self.device.host_us += LAUNCH_US
        self.device.execute(self.nodes)

    def reset(self):
        self.is_alive = False


class Event:
    def __init__(self, device):
        self.device = device
        self.at_us = None

    def record(self, stream):
        self.at_us = max(self.device.device_us, self.device.host_us)

    def elapsed_time(self, other):
        return (other.at_us - self.at_us) / 1000


class Gemv:
    def __init__(self, device):
        self.device = device

    def run(self, index):
        self.device.launch(GEMV_US)


class PlayedRank:
    """Rank 0 of two, whose peer does exactly the same."""

    rank, n_ranks = 0, 2
    device = torch.device("cpu")

    def agree(self, value):
        return value

    def gather(self, values):
        return [list(values), list(values)]

    def barrier(self):
        pass


@pytest.fixture
def device(monkeypatch):
    sim = Device()
    salts = {}

    def all_reduce(view):
        def effect():
            sim.calls += 1
            if float(view[0]) == 0.0:
                return  # timing runs on zeros
            salt = salts.setdefault(view.data_ptr(), len(salts) % 8)
            peer = torch.empty_like(view)
            fill(peer, contribution(1, 2, view.dtype, salt))
            view.add_(peer)
            if sim.lie:
                view[0] += 1

        sim.launch(sim.call_us, effect)

    @contextlib.contextmanager
    def graph(target, stream, capture_error_mode):
        assert capture_error_mode == "thread_local"
        sim.synchronise()
        sim.capturing = target.nodes
        yield
        sim.capturing = None

    cuda = allreduce_cuda.torch.cuda
    monkeypatch.setattr(cuda, "Stream", lambda where: Stream(sim))
    monkeypatch.setattr(cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(cuda, "CUDAGraph", lambda: Graph(sim))
    monkeypatch.setattr(cuda, "graph", graph)
    monkeypatch.setattr(cuda, "Event", lambda enable_timing: Event(sim))
    monkeypatch.setattr(allreduce_cuda.dist, "all_reduce", all_reduce)
    monkeypatch.setattr(allreduce_cuda.time, "perf_counter", lambda: sim.host_us / 1e6)
    monkeypatch.setattr(allreduce_timing.dist, "all_reduce", all_reduce)
    monkeypatch.setattr(allreduce_cuda, "own_uuid", lambda rank: None)
    monkeypatch.setattr(allreduce_cuda, "_Gemv", lambda where: Gemv(sim))
    return sim


def bench(modes, fault="", **changes):
    spec = AllReduceSpec(
        **{"device": "cuda", "gpus": [0, 1], "modes": modes, "sizes_bytes": [1024, 2**26]}
        | {"samples_per_round": 5, "calls_per_graph": 57}
        | changes,
    )
    return allreduce_cuda.CudaBench(PlayedRank(), spec, Fault(fault, strikes_here=True))


def test_a_graph_hides_the_launches(device):
    taken = bench(["graph"]).take(Unit(0, "graph", 1024, is_first=True))
    assert taken.values_us == pytest.approx([CALL_US] * 5)
    assert taken.wrong == 0
    assert taken.layout == {"calls": 57, "replays": 14, "buffers": 57}
    assert taken.clock["rank"] == 0
    assert taken.clock["during_mhz"] is None
    timed = device.graphs[-1]
    assert len(timed.nodes) == 57
    assert not any(graph.is_alive for graph in device.graphs)


def test_the_first_warm_up_takes_a_second_and_two_hundred_replays(device):
    b = bench(["graph"])
    before_us, before_calls = device.host_us, device.calls
    b.take(Unit(0, "graph", 1024, is_first=True))
    assert device.host_us - before_us >= 1e6
    assert device.calls - before_calls >= 200 * 57


def test_eager_pays_each_launch(device):
    taken = bench(["eager"]).take(Unit(0, "eager", 1024, is_first=True))
    assert taken.values_us == pytest.approx([LAUNCH_US] * 5)
    assert taken.layout == {"calls": 167, "replays": 1, "buffers": 57}
    assert device.graphs == []


def test_exposed_is_the_difference_to_the_work_alone(device):
    taken = bench(["exposed"]).take(Unit(0, "exposed", 1024, is_first=True))
    assert taken.values_us == pytest.approx([CALL_US + GEMV_US] * 5)
    assert taken.baseline_us == pytest.approx([GEMV_US] * 5)
    assert taken.wrong == 0
    assert not any(graph.is_alive for graph in device.graphs)


def test_one_rank_is_kept_warm_by_other_work(device, monkeypatch):
    """NCCL launches nothing for one rank in place: without work the clock would never come up."""
    monkeypatch.setattr(PlayedRank, "n_ranks", 1)
    products = []
    monkeypatch.setattr(Gemv, "run", lambda self, index: products.append(index))
    device.call_us = 0.0
    b = bench(["graph"], gpus=[0])
    b.take(Unit(0, "graph", 1024, is_first=True))
    assert len(products) >= 2_000


def test_the_largest_message_is_alone_in_its_arena(device):
    taken = bench(["graph"]).take(Unit(0, "graph", 2**26, is_first=False))
    assert taken.layout["buffers"] == 1
    assert taken.wrong == 0


def test_slow_calls_make_short_graphs(device):
    device.call_us = 5_000.0
    taken = bench(["graph"]).take(Unit(0, "graph", 1024, is_first=False))
    assert taken.layout["calls"] == 3  # a call and its launch take 5030 us, a graph at most 20 ms
    assert taken.layout["replays"] == 1
    assert taken.values_us == pytest.approx([5_000.0] * 5)


@pytest.mark.parametrize("mode", ["graph", "eager", "exposed"])
def test_wrong_values_are_counted_before_and_after(device, mode):
    b = bench([mode])
    device.lie = True
    taken = b.take(Unit(0, mode, 1024, is_first=False))
    assert taken.wrong == 2 * 57  # one element of each buffer, checked twice


def test_an_injected_fault_spoils_one_element(device):
    taken = bench(["graph"], "wrong-values").take(Unit(0, "graph", 1024, is_first=False))
    assert taken.wrong == 2


def test_faults_are_named_exactly(monkeypatch):
    for text in ("wrong-value", "hang", "hang:x", "boom"):
        monkeypatch.setenv(VARIABLE, text)
        with pytest.raises(InvalidSpec, match="no fault"):
            Fault.from_environment(0, 2)
    for text, rank in itertools.product(("", "crash", "hang:12", "wrong-values"), (0, 1)):
        monkeypatch.setenv(VARIABLE, text)
        assert Fault.from_environment(rank, 2) == Fault(text, rank == 1)

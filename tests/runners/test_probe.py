"""Two seconds before an arm: two rates of this device."""

import pytest

from models.machine import probe_rates

torch = pytest.importorskip("torch", reason="the probe measures with torch")


def test_the_cpu_probe_gives_two_rates() -> None:
    from runners.probe import probe

    product, copy = probe("cpu", seconds=0.1)
    assert (product.metric, product.unit, product.statistic) == ("matmul_rate", "TFLOP/s", "max")
    assert (copy.metric, copy.unit, copy.statistic) == ("copy_bandwidth", "GB/s", "max")
    assert product.dims == {"device": "cpu", "dtype": "float32"}
    assert copy.dims["device"] == "cpu"
    for row in (product, copy):
        assert row.value is not None
        assert row.value > 0
        assert row.n is not None
        assert row.n >= 3
    assert set(probe_rates([product, copy])) == {("cpu", "float32"), ("cpu", "")}


def test_a_device_is_called_as_asked() -> None:
    from runners.probe import probe

    assert {row.dims["device"] for row in probe("cpu", seconds=0.0, name="GPU-1")} == {"GPU-1"}


def test_the_fastest_repeat_counts_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from runners import probe as module

    times = iter([9.0, 0.5, 0.25, 0.75])  # the warm-up is not among them
    monkeypatch.setattr(module, "_cpu_s", lambda work, device: next(times))
    assert module._fastest_s(lambda: None, "cpu", "cpu", 0.0) == (0.25, 3)


@pytest.mark.gpu
def test_the_gpu_probe() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    from runners.probe import probe

    product, copy = probe("cuda:0", name="GPU-x")
    assert product.dims == {"device": "GPU-x", "dtype": "bfloat16"}
    assert product.value is not None
    assert product.value > 1
    assert copy.value is not None
    assert copy.value > 100

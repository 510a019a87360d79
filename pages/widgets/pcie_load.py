"""How wide and fast a GPU's PCIe link was while it worked: an idle one says nothing."""

import pandas as pd

# a GPU that moves data has its PCIe link awake
LOADED_PCT = 20
_READ = ("pcie_gen", "pcie_width")


def seen(telemetry: pd.DataFrame) -> dict[str, dict[str, int]]:
    """GPU UUID -> the fastest generation and the widest link among its busy samples.

    Args:
        telemetry: Rows of one run; columns uuid, utilization_pct, pcie_gen, pcie_width.
    """
    wanted = {"uuid", "utilization_pct", *_READ}
    if telemetry.empty or not wanted <= set(telemetry.columns):
        return {}
    busy = telemetry[telemetry["utilization_pct"] >= LOADED_PCT].dropna(subset=[*_READ, "uuid"])
    return {
        str(uuid): {name: int(rows[name].max()) for name in _READ}
        for uuid, rows in busy.groupby("uuid")
    }

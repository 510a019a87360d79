"""What runs jobs: claim, start, watch, sample telemetry, store, end."""

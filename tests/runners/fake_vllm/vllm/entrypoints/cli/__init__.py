"""A stand-in for vLLM, for fault tests only."""

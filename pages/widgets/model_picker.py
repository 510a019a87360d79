"""Choose a model's shape: a built-in config.json or an uploaded one."""

from typing import Any

import streamlit as st

from importers.model_configs import builtin_configs, read_upload
from models.architecture import calls_per_step, message_bytes, read_config
from models.errors import LinkworthError
from pages.widgets.store import show_error

UPLOAD = "upload a config.json"
DEFAULT = "qwen2.5-1.5b"


@st.cache_data(show_spinner=False)
def shapes() -> dict[str, dict[str, Any]]:
    """The built-in shapes, read once a server."""
    return builtin_configs()


def pick(key: str) -> tuple[str, dict[str, Any]] | None:
    """Name and config.json of the chosen model, or None until one is given.

    Args:
        key: Stem of the widget keys; also the URL parameter of a built-in shape.
    """
    names = [*shapes(), UPLOAD]
    name = st.selectbox(
        "Model",
        names,
        index=names.index(DEFAULT),
        key=key,
        bind="query-params",
        help="Only the shape matters here: hidden size, layers, heads. No weights are needed.",
    )
    if name != UPLOAD:
        return name, shapes()[name]
    file = st.file_uploader("config.json", type=["json"], key=f"{key}-file")
    if file is None:
        st.caption("Upload the config.json that lies beside the model's weights.")
        return None
    try:
        config = read_upload(file.getvalue())
        read_config(config)
    except LinkworthError as error:
        show_error(error)
        return None
    return file.name.removesuffix(".json"), config


def messages(config: dict[str, Any], batches: list[int]) -> tuple[list[int], int]:
    """Message size in bytes at each batch size (bf16), and calls in a decode step."""
    arch = read_config(config)
    return [message_bytes(arch, tokens) for tokens in batches], calls_per_step(arch)

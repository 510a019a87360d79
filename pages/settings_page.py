"""Settings: every setting and where its value came from."""

import pandas as pd
import streamlit as st

from db import hosts, jobs
from pages.widgets import incidents, store
from pages.widgets.downloads import table
from settings import Settings, settings, sources


def render() -> None:
    """A table of settings, the workers, and how to change a value."""
    config = settings()
    origin = sources()
    frame = pd.DataFrame(
        [
            {
                "setting": name,
                "value": _shown(name, getattr(config, name)),
                "from": origin[name],
                "meaning": field.description,
            }
            for name, field in Settings.model_fields.items()
        ]
    )
    shown = pd.DataFrame(
        {
            "setting": frame["setting"] + ": " + frame["meaning"],
            "value": frame["value"],
            # the variable's name follows from the setting's, and is too long for a phone
            "from": frame["from"].str.replace("^environment .*", "environment", regex=True),
        }
    )
    words = f"{len(frame)} settings with their values and origins"
    table(shown, "settings", words, is_wrapped=True, file=frame)
    st.caption(
        "To change one, set the environment variable `LINKWORTH_` + its name in capitals and "
        "restart, for example `LINKWORTH_DATA_DIR=/mnt/lab make run`."
    )
    st.subheader("Workers")
    alive = jobs.alive_workers(store.engine())
    if alive:
        table(pd.DataFrame(alive), "workers", f"{len(alive)} workers are alive")
    else:
        store.offer_worker("settings-worker")
    st.subheader("Incidents")
    if hosts.open_incidents(store.engine()):
        incidents.section()
    else:
        st.caption(
            "None is open. A machine that went down in mid-run, or a process that could not be "
            "ended, sets its GPUs aside here until a person has looked after them."
        )
    st.subheader("Serving engine")
    interpreter = config.vllm_interpreter()
    if interpreter:
        st.markdown(f"vLLM is started with `{interpreter}`.")
    else:
        st.info("vLLM is not installed. Type `make vllm` in the app's folder, then restart it.")


def _shown(name: str, value: object) -> str:
    """A value as text; the password inside a database URL is not shown."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    text = "" if value is None else str(value)
    if isinstance(value, list | tuple):
        text = ", ".join(str(part) for part in value)
    if name == "database_url" and "@" in text:
        scheme, rest = text.split("://", 1)
        return f"{scheme}://…@{rest.rsplit('@', 1)[1]}"
    return text or "(not set)"

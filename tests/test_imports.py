"""The process that draws pages loads no measuring library, and at its start nothing heavy."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# belong to the measuring programs, or to nobody here
NEVER = ("torch", "vllm", "transformers", "pynvml", "triton", "cupy", "tensorflow", "jax")
# a visitor of one page need not wait for them
NOT_AT_START = ("pandas", "scipy", "altair", "vl_convert", "pages.speedup_page")

LOADED = """
import json, sys
print(json.dumps(sorted(sys.modules)))
"""

START = f"""
import app
from pages import navigation
app.prepare()
navigation()
{LOADED}
"""

MODULES = f"""
import app, worker.launch
from pages import PAGES, loading
for slug in PAGES:
    loading.module_of(slug)
{LOADED}
"""

DRAWN = f"""
import app
from pages import PAGES
from streamlit.testing.v1 import AppTest

FRAMED = '''
import streamlit as st
from app import main
from pages import make_page
if "opened" not in st.session_state:
    st.session_state["opened"] = True
    st.switch_page(make_page({{slug!r}}))
main()
'''
app.prepare()
for slug, entry in PAGES.items():
    at = AppTest.from_string(FRAMED.format(slug=slug), default_timeout=60).run()
    assert not at.exception, slug
    assert at.title[0].value == entry.title
{LOADED}
"""


def loaded_by(code: str, data_dir: Path) -> set[str]:
    """Modules that a fresh interpreter holds after some code, packages by their first name too."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("LINKWORTH_")}
    env |= {"LINKWORTH_DATA_DIR": str(data_dir), "LINKWORTH_START_WORKER": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    names = json.loads(done.stdout.splitlines()[-1])
    return {*names, *(name.partition(".")[0] for name in names)}


@pytest.mark.parametrize("code", [MODULES, DRAWN], ids=["imported", "drawn"])
def test_pages_never_load_what_measures(code: str, data_dir: Path) -> None:
    loaded = loaded_by(code, data_dir)
    assert {"streamlit", "pandas", "pages.what_if_page"} <= loaded
    assert not loaded & set(NEVER)


def test_the_start_loads_no_page_and_nothing_heavy(data_dir: Path) -> None:
    loaded = loaded_by(START, data_dir)
    assert {"streamlit", "sqlalchemy", "alembic", "pages.loading"} <= loaded
    assert not loaded & set(NOT_AT_START)


def packages_named_in(path: Path) -> set[str]:
    """First names of what a file imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module).partition(".")[0])
    return found


def test_only_db_names_sqlalchemy() -> None:
    """import-linter sees the packages; this sees scripts, ``app.py`` and ``settings.py`` too."""
    folders = ("importers", "models", "pages", "runners", "scripts", "worker")
    files = [
        *ROOT.glob("*.py"),
        *(path for name in folders for path in (ROOT / name).rglob("*.py")),
    ]
    assert ROOT / "scripts" / "make_load.py" in files
    named = {path.relative_to(ROOT): packages_named_in(path) for path in files}
    assert [str(path) for path in named if named[path] & {"sqlalchemy", "alembic"}] == []
    assert "sqlalchemy" in packages_named_in(ROOT / "db" / "bulk.py")

"""The docs are true: pages, kinds and metrics are named, commands exist, links resolve."""

import re
from pathlib import Path

import pytest
import yaml

from models.metrics import METRICS
from models.result import Result
from pages import PAGES, method_page
from runners.spec import PROGRAMS
from settings import Settings

ROOT = Path(__file__).resolve().parents[1]
TEXTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EVERYTHING = "\n".join(path.read_text(encoding="utf-8") for path in TEXTS)
_LINK = re.compile(r"(?<!\!)\[[^\]]+\]\(([^)\s]+)\)")
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"```.*?```", re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("slug", PAGES)
def test_every_page_is_named_in_the_architecture(slug: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"`{slug}`" in text or f"| `/{slug}` |" in text


@pytest.mark.parametrize("kind", PROGRAMS)
def test_every_runner_is_named_and_its_command_is_there(kind: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"`{kind}`" in text
    assert (ROOT / f"{PROGRAMS[kind].replace('.', '/')}.py").exists()


def test_every_kind_of_result_is_in_the_table_of_the_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    kinds = Result.model_json_schema()["properties"]["kind"]["enum"]
    assert [kind for kind in kinds if f"| `{kind}` |" not in text] == []


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_explained(name: str) -> None:
    row = METRICS[name]
    assert row.meaning.endswith(".")
    assert row.label


def test_every_setting_of_the_readme_exists() -> None:
    named = set(re.findall(r"LINKWORTH_([A-Z_]+)", EVERYTHING))
    # of compose.yaml and of CI, not of the app
    others = {"HOSTNAME", "MODELS", "PORT", "REQUIRE_ALL", ""}
    assert named - {field.upper() for field in Settings.model_fields} <= others


def test_every_make_command_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(
        re.findall(r"(?:^\s*|`|LINKWORTH_READ_ONLY=1 )make ([a-z][a-z-]*)", EVERYTHING, re.M)
    )
    assert {"run", "test", "check"} <= named
    assert named <= targets


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_links_resolve(path: Path) -> None:
    text = _FENCE.sub("", path.read_text(encoding="utf-8"))
    targets = [*_LINK.findall(text), *(target for _, target in _PICTURE.findall(text))]
    local = [target for target in targets if not target.startswith(("http://", "https://", "#"))]
    missing = [
        target
        for target in local
        if not (path.parent / target.partition("#")[0]).resolve().exists()
    ]
    assert missing == []


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_pictures_have_words(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [target for words, target in _PICTURE.findall(text) if len(words) < 15] == []


def test_files_that_the_docs_name_exist() -> None:
    folders = "models|runners|pages|db|worker|importers|data|docs|scripts|tests"
    named = set(re.findall(rf"`((?:{folders})/[\w./-]*(?:\.[a-z]+|/))`", EVERYTHING))
    placeholders = {name for name in named if re.search(r"[A-Z]{2,}", Path(name).stem)}
    checked = named - placeholders
    assert len(checked) > 20
    assert sorted(name for name in checked if not (ROOT / name).exists()) == []


def test_every_topic_that_a_page_links_to_is_there() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("pages/**/*.py"))
    asked = set(re.findall(r'topic="([a-z-]+)"', sources))
    assert len(asked) > 4
    assert asked <= {"metrics", *method_page.topics()}


def test_formats_of_the_import_door_are_named() -> None:
    from importers.recognise import RECORD_FORMATS, TEXT_FORMATS

    text = (ROOT / "docs" / "method" / "importing.md").read_text(encoding="utf-8").lower()
    # "vLLM serving JSON": the tool's name is what a person looks for
    tools = {item.name.split()[0].lower() for item in (*TEXT_FORMATS, *RECORD_FORMATS)}
    generic = {"serving", "gpu", "nvlink"}
    assert sorted(tool for tool in tools - generic if tool not in text) == []


def test_containers_share_the_data_and_publish_the_loopback_only() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    services = compose["services"]
    assert set(services) == {"app", "worker-cpu", "worker-gpu"}
    for service in services.values():
        assert "data:/data" in service["volumes"]
        assert service["hostname"]
        assert service["environment"]["LINKWORTH_START_WORKER"] == "0"
    assert [port for port in services["app"]["ports"] if not port.startswith("127.0.0.1:")] == []
    assert not [name for name in services if name != "app" and "ports" in services[name]]
    copied = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "USER linkworth" in copied


def test_the_image_holds_what_the_app_imports() -> None:
    kept = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.M)
    needed = {
        "app.py",
        "settings.py",
        "data",
        "db",
        "importers",
        "models",
        "pages",
        "runners",
        "worker",
    }
    assert needed <= set(kept)
    assert {".streamlit", "docs/method"} <= set(kept)


def test_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in ROOT.glob("docs/images/*.png")}
    assert sizes
    assert {name: size for name, size in sizes.items() if size >= 200_000} == {}

"""Text that files, tools and people wrote, on every page: shown as text, never read as markup."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine
from streamlit.testing.v1 import AppTest

from db import hosts, jobs, runs, studies
from models.result import (
    EvaluationRef,
    Gpu,
    Measurement,
    Notice,
    Result,
    Study,
    Tool,
    dump,
    utc_now,
)
from pages import PAGES
from pages.widgets.plain import plain
from runners.spec import parse_spec

OpenPage = Callable[..., AppTest]

EVIL = (
    "<img src=x onerror=alert(1)> [here](http://evil.example) :material/delete: **loud** \"'$(id)"
)
# what is left of it where nobody escaped: the opening of a tag, of a link, of an icon, of bold
RAW = re.compile(r"(?<!\\)<img|(?<!\\)\]\(http|:material/delete:|(?<!\\)\*\*loud")
HOST = {"hostname": "0123456789abcdef", "cpu_model": EVIL, "os": EVIL}


def measurement(metric: str, unit: str, value: float, round_: int, **dims: Any) -> Measurement:
    return Measurement(
        metric=metric,
        statistic="median",
        unit=unit,
        value=value,
        n=30,
        round=round_,
        dims=dims,
        definition="linkworth:allreduce-graph:1",
    )


def evil_run(kind: str, **fields: Any) -> Result:
    values: dict[str, Any] = {
        "kind": kind,
        "origin": "imported",
        "validity": "suspect",
        "reasons": [EVIL],
        "warnings": [Notice(code="evil", text=EVIL)],
        "title": EVIL,
        "study": "evil-study",
        "host": HOST,
        "environment": {"variables": {"NCCL_ALGO": EVIL}, "python": EVIL},
        "tool": Tool(name=EVIL, version=EVIL),
        "started_at": utc_now(),
        "finished_at": utc_now(),
    }
    return Result(**{**values, **fields})


@pytest.fixture
def evil(database: Engine) -> dict[str, str]:
    """Every kind of run, a study, jobs and an incident that hold it; kind -> run id."""
    studies.save(
        database,
        Study(
            id="evil-study",
            title=EVIL,
            origin="imported",
            source=EVIL,
            summary=EVIL,
            limits=[EVIL],
            notes=[EVIL],
        ),
    )
    sweep = [
        measurement("allreduce_latency", "us", us, n, bytes=size, mode="graph", ranks=2, link=link)
        for size, us in ((1024, 6.0), (4096, 7.0), (65536, 12.0), (1048576, 60.0))
        for n in range(3)
        for link in ("on",)
    ]
    steps = [
        measurement(
            "decode_step", "ms", ms / tp, n, tp=tp, batch=1, kv_len=1024, clock="wall_graph"
        )
        for tp, ms in ((1, 4.0), (2, 5.0))
        for n in range(3)
    ]
    serving = [
        measurement("output_throughput", "tok/s", 100.0 + n, n, concurrency=4) for n in range(3)
    ]
    gpus = [Gpu(index=i, name=EVIL, uuid=f"GPU-{i}", facts={}) for i in range(2)]
    made = {
        "allreduce": evil_run("allreduce", measurements=sweep),
        "decode": evil_run("decode", measurements=steps),
        "topology": evil_run("topology", gpus=gpus, links=[["X", "NV4"], ["NV4", "X"]]),
        "p2p": evil_run(
            "p2p",
            environment={
                "pairs": [
                    {
                        "src": 0,
                        "dst": 1,
                        "code": "wrong",
                        "tier": None,
                        "sentence": EVIL,
                        "next_step": EVIL,
                    }
                ]
            },
        ),
    }
    ids = {
        kind: runs.store(database, run, raw=kind.encode(), raw_name=EVIL)
        for kind, run in made.items()
    }
    for arm in ("<img src=x>", EVIL):
        ids[f"serving {arm}"] = runs.store(
            database,
            evil_run(
                "serving",
                evaluation=EvaluationRef(id="evil-evaluation", arm=arm),
                measurements=serving,
            ),
        )
    spec = {"kind": "allreduce", "device": "cpu", "ranks": 2, "sizes_bytes": [1024]}
    parse_spec(spec)
    hosts.remember(database, HOST)
    jobs.heartbeat(database, "w", pid=1, host=HOST["hostname"])
    running = jobs.enqueue(database, spec, title=EVIL)
    assert jobs.claim(database, "w")
    event = {"t": 1.0, "type": "stage", "stage": EVIL, "message": EVIL, "fraction": 0.5}
    jobs.add_events(database, running, [event, {"t": 2.0, "type": "log", "message": EVIL}])
    failed = jobs.enqueue(database, {"kind": "topology"}, title=EVIL)
    jobs.finish(database, failed, "failed", reason=EVIL, log_tail=EVIL)
    ids |= {"running job": running, "failed job": failed}
    hosts.add_incident(database, host=HOST["hostname"], kind="survivor", gpu=EVIL, text=EVIL)
    return ids


def said(at: AppTest) -> Iterator[str]:
    """Every text of a page that Streamlit reads as markdown: bodies, and labels of all kinds."""
    seen = [at._tree]
    while seen:
        node = seen.pop()
        seen += getattr(node, "children", {}).values()
        proto = getattr(node, "proto", None)
        if proto is not None and node.type not in ("code", "json", "text"):
            yield from _texts(proto)


def _texts(proto: Any) -> Iterator[str]:
    for field, value in proto.ListFields():
        if field.name in ("body", "label", "text", "help", "title", "caption") and isinstance(
            value, str
        ):
            yield value
        elif field.name in ("expandable", "tab", "popover", "form", "dialog"):
            yield from _texts(value)
        elif field.name == "options" and not isinstance(value, str):
            # of buttons in a row; a select box shows its options as they are
            yield from (option.content for option in value if hasattr(option, "content"))


def assert_nothing_raw(at: AppTest) -> None:
    assert not at.exception
    for text in said(at):
        assert not RAW.search(text), text


def test_the_search_finds_what_nobody_escaped() -> None:
    at = AppTest.from_string(
        "import streamlit as st\n"
        f"evil = {EVIL!r}\n"
        "st.expander(evil).write('x'); st.button(evil); st.tabs([evil])\n"
        "st.warning(evil); st.subheader(evil); st.progress(0.5, text=evil)\n"
        "st.selectbox('x', [evil]); st.segmented_control('x', [evil]); st.popover(evil)\n"
    ).run()
    assert sum(bool(RAW.search(text)) for text in said(at)) == 8
    assert not RAW.search(plain(EVIL))


@pytest.mark.parametrize("slug", PAGES)
def test_no_page_reads_foreign_text_as_markup(
    evil: dict[str, str], open_page: OpenPage, slug: str
) -> None:
    assert_nothing_raw(open_page(slug))


@pytest.mark.parametrize(
    ("slug", "query"),
    [
        ("allreduce", {"runs": "allreduce"}),
        ("speedup", {"runs": "decode"}),
        ("hardware", {"runs": "topology"}),
        ("hardware", {"p2p": "p2p"}),
        ("link-ab", {"evaluation": "=evil-evaluation"}),
        ("runs", {"run": "allreduce"}),
        ("runs", {"run": "p2p"}),
        ("runs", {"runs": "allreduce,decode", "view": "=compare"}),
        ("new-run", {"jobs": "running job,failed job"}),
    ],
)
def test_no_page_reads_an_opened_run_as_markup(
    evil: dict[str, str], open_page: OpenPage, slug: str, query: dict[str, str]
) -> None:
    named = {
        name: value[1:] if value[0] == "=" else ",".join(evil[part] for part in value.split(","))
        for name, value in query.items()
    }
    at = open_page(slug, **named)
    assert_nothing_raw(at)
    # and yet it stands there, to be read
    texts = " ".join(said(at))
    assert "onerror" in texts or any("onerror" in str(frame.value) for frame in at.dataframe)


TYPED = [
    EVIL,
    "'; DROP TABLE runs; --",
    "$(touch /tmp/linkworth-was-here)",
    "-rf --help",
    "line\nline\r\n\tline",
    "%s %d {0} {{x}} \\N{BULLET}",
    "a\u202eb\u0000c",
    EVIL * 10_000,  # nearly a megabyte
]


@pytest.mark.parametrize("text", TYPED, ids=range(len(TYPED)))
def test_typed_text_is_only_text(database: Engine, open_page: OpenPage, text: str) -> None:
    at = open_page("runs")
    at.text_input(key="text").set_value(text).run()
    assert_nothing_raw(at)
    hardware = open_page("hardware")
    hardware.text_area(key="pasted-text").set_value(text)
    hardware.button(key="describe").click().run()
    assert_nothing_raw(hardware)
    assert hardware.error[0].value
    # the address of a page is typed text too
    for slug in ("runs", "new-run", "allreduce", "speedup", "hardware"):
        names = ("run", "runs", "jobs", "kind", "gpus", "rounds", "model", "check", "job", "p2p")
        assert_nothing_raw(open_page(slug, **dict.fromkeys(names, text[:2000])))
    assert runs.count(database, origins=["described"]) == 0
    assert jobs.list_jobs(database) == []


def test_an_imported_export_with_a_hostile_title(database: Engine, open_page: OpenPage) -> None:
    import json

    at = open_page("runs", view="import")
    data = dump(evil_run("allreduce", study=None))
    data["measurements"] = [
        measurement("allreduce_latency", "us", 6.0, 0, bytes=1024, mode="graph").model_dump()
    ]
    at.text_area(key="import-text-0").set_value(json.dumps(data)).run()
    at.button(key="import-read").click().run()
    assert_nothing_raw(at)
    assert any("onerror" in text for text in said(at))

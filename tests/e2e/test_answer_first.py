"""A figure before a form: on a phone the answer is on the first screen, choices beside or below.

What is looked at is the place on the screen, which no test without a browser knows.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

import pytest
from e2e_support import Server, settled, shoot
from playwright.sync_api import Browser, Locator, Page, expect

from pages import PAGES

pytestmark = pytest.mark.browser

PHONE = (400, 860)
DESK = (1280, 860)


class Answer(NamedTuple):
    """Words of a page's answer, and a choice that it may not stand behind."""

    slug: str
    words: str
    choice: str = ""


ANSWERS = (
    Answer("allreduce", r"With \d+ calls a step that is", "Drafted tokens"),
    Answer("speedup", r"TP=2 makes this model's step"),
    Answer("link-ab", r"instead of .* (throughput|token)"),
    Answer("what-if", r"TP=2 would make a token", "Requests at a time"),
    Answer("roi", r"It gains money in", "TTFT limit (ms)"),
)
WITH_CHOICES = [answer for answer in ANSWERS if answer.choice]


class Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float


def box(place: Locator) -> Box:
    found = place.bounding_box()
    assert found is not None
    left, top = found["x"], found["y"]
    return Box(left, top, left + found["width"], top + found["height"])


def said(page: Page, answer: Answer) -> Locator:
    return page.get_by_text(re.compile(answer.words)).first


def opened(page: Page, server: Server, answer: Answer) -> None:
    page.goto(f"{server.url}/{answer.slug}")
    title = PAGES[answer.slug].title
    expect(page.get_by_role("heading", name=title, exact=True, level=1)).to_be_visible()
    settled(page)
    expect(said(page, answer)).to_be_visible()


def window(browser: Browser, size: tuple[int, int]) -> Page:
    context = browser.new_context(viewport={"width": size[0], "height": size[1]})
    return context.new_page()


def test_on_a_phone_the_answer_is_on_the_first_screen(
    shipped_server: Server, browser: Browser
) -> None:
    page = window(browser, PHONE)
    for answer in ANSWERS:
        opened(page, shipped_server, answer)
        assert box(said(page, answer)).bottom <= PHONE[1], answer.slug
        if answer.choice:
            choice = page.get_by_text(answer.choice, exact=True).first
            assert box(choice).top > box(said(page, answer)).bottom, answer.slug
        shoot(page, f"first-{answer.slug}-{PHONE[0]}")
    page.context.close()


def test_on_a_desk_answer_and_choices_are_beside_each_other(
    shipped_server: Server, browser: Browser
) -> None:
    page = window(browser, DESK)
    for answer in WITH_CHOICES:
        opened(page, shipped_server, answer)
        choice = box(page.get_by_text(answer.choice, exact=True).first)
        seen = box(said(page, answer))
        assert choice.left > seen.right, answer.slug
        assert max(choice.bottom, seen.bottom) <= DESK[1], answer.slug
    page.context.close()


def test_a_pasted_machine_is_seen_where_it_was_pasted(
    start_server: Callable[..., Server], browser: Browser
) -> None:
    server = start_server(LINKWORTH_START_WORKER="0", LINKWORTH_READ_ONLY="1")
    page = window(browser, PHONE)
    page.goto(f"{server.url}/hardware")
    settled(page)
    page.get_by_text("Describe another machine").click()
    two = "".join(
        f"\tGPU0\tGPU1\nGPU0\t X \t{code}\nGPU1\t{code}\t X \n\n" for code in ("NV12", "SYS")
    )
    page.get_by_label("Output of the tool").fill(two)
    page.get_by_role("button", name="Show this machine").click()
    choice = page.get_by_text("This text describes 2 machines")
    expect(choice).to_be_visible()
    expect(page.get_by_label("Output of the tool")).not_to_be_visible()
    settled(page)
    assert box(choice).bottom <= PHONE[1]
    page.get_by_text("2: 2 GPUs").click()
    expect(page.get_by_text("2 GPUs, 1 pair: 1x SYS (between sockets).").first).to_be_visible()
    page.context.close()

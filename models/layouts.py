"""How the arms of one evaluation lay a model over GPUs, and which pairs of them answer a question.

What a link gives a served model is no single pair: link off against on changes two things at once,
since an engine's own all-reduce kernel needs the link. An arm with the link and the library's
all-reduce stands between them and splits the change.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

QuestionCode = Literal["larger", "replicas", "both", "link", "kernel"]

# in the order in which a person asks
ORDER: tuple[QuestionCode, ...] = ("larger", "replicas", "both", "link", "kernel")


@dataclass(frozen=True)
class Layout:
    """How an arm uses its GPUs.

    Attributes:
        tp: Tensor-parallel size of each server.
        replicas: Servers that share the requests.
        is_linked: Whether the GPUs of a server reach each other directly.
        own_kernel: Whether the engine may sum with its own all-reduce kernel.
    """

    tp: int
    replicas: int
    is_linked: bool
    own_kernel: bool

    @property
    def n_gpus(self) -> int:
        """GPUs of all servers together."""
        return self.tp * self.replicas

    @property
    def words(self) -> str:
        """The layout as a sentence names it."""
        if self.tp == 1:
            return "one GPU" if self.replicas == 1 else f"{self.replicas} single GPUs"
        what = f"TP={self.tp}" if self.replicas == 1 else f"{self.replicas} x TP={self.tp}"
        if not self.is_linked:
            return f"{what} without the link"
        return what if self.own_kernel else f"{what} with the library's all-reduce"


@dataclass(frozen=True)
class Question:
    """Two arms whose difference has a name.

    Attributes:
        code: ``larger`` (more GPUs for one server), ``replicas`` (the same GPUs as one server or as
            several), ``both`` (link and kernel at once), ``link`` and ``kernel`` (one of them).
        reference: Arm that the change is relative to.
        other: The other arm.
        words: What changes, as a sentence begins with it.
    """

    code: QuestionCode
    reference: str
    other: str
    words: str


def layout_of(spec: Mapping[str, Any]) -> Layout | None:
    """The layout of a serving run, from its spec; None where that does not say."""
    arm = spec.get("arm")
    if not isinstance(arm, Mapping):
        return None
    tp, replicas = arm.get("tp"), arm.get("replicas", 1)
    if not (_is_count(tp) and _is_count(replicas)):
        return None
    is_linked = arm.get("link") != "off"
    own_kernel = arm.get("custom_all_reduce") is not False
    if tp == 1:
        return Layout(1, replicas, is_linked=True, own_kernel=True)  # nothing is summed
    return Layout(tp, replicas, is_linked, own_kernel=own_kernel and is_linked)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def alike(specs: Mapping[str, Mapping[str, Any]]) -> dict[str, Layout]:
    """Layouts of the arms that are alike in everything else: those of the commonest engine flags.

    Args:
        specs: Arm -> spec of its run.
    """
    layouts = {name: layout_of(spec) for name, spec in specs.items()}
    known = {name: layout for name, layout in layouts.items() if layout is not None}
    flags = {
        name: json.dumps(specs[name]["arm"].get("engine_args") or {}, sort_keys=True)
        for name in known
    }
    commonest = Counter(flags.values()).most_common(1)
    return {name: one for name, one in known.items() if flags[name] == commonest[0][0]}


def questions(layouts: Mapping[str, Layout]) -> list[Question]:
    """The pairs of arms that answer a question, smallest TP size first.

    Args:
        layouts: Arm -> its layout. Arms must be alike in everything else; of two arms with one
            layout the first counts.
    """
    arms: dict[Layout, str] = {}
    for name, layout in layouts.items():
        arms.setdefault(layout, name)
    found: list[Question] = []

    def ask(code: QuestionCode, reference: Layout, other: Layout, words: str) -> None:
        if reference in arms and other in arms:
            found.append(Question(code, arms[reference], arms[other], words))

    for tp in sorted({layout.tp for layout in arms if layout.tp > 1}):
        full = Layout(tp, 1, is_linked=True, own_kernel=True)
        library = Layout(tp, 1, is_linked=True, own_kernel=False)
        apart = Layout(tp, 1, is_linked=False, own_kernel=False)
        plain = [one for one in arms if one == _full(one)]
        smaller = [one for one in plain if one.replicas == 1 and one.tp < tp]
        if smaller:
            before = max(smaller, key=lambda one: one.tp)
            ask("larger", before, full, f"{full.words} instead of {before.words}")
        for one in sorted(plain, key=lambda one: -one.tp):
            if one.n_gpus == tp and one.replicas > 1:
                words = f"{full.words} instead of {one.words}, on the same {tp} GPUs"
                ask("replicas", one, full, words)
        ask("both", apart, full, f"{full.words}: the link on instead of off")
        ask("link", apart, library, f"TP={tp}, the link alone: the library sums in both")
        ask("kernel", library, full, f"TP={tp}, the engine's own all-reduce over the link")
    return sorted(found, key=lambda one: ORDER.index(one.code))


def _full(layout: Layout) -> Layout:
    """The same servers with the link and the engine's own kernel."""
    return Layout(layout.tp, layout.replicas, is_linked=True, own_kernel=True)

"""How the arms of one evaluation lay a model over GPUs, and which pairs of them answer a question.

What a link gives a served model is no single pair: link off against on changes two things at once,
since an engine's own all-reduce kernel needs the link. An arm with the link and the library's
all-reduce stands between them and splits the change.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard

QuestionCode = Literal["larger", "replicas", "both", "link", "kernel"]

# of a spec, beside the engine's flags: what makes two arms serve the same thing
_SAME = ("device", "model", "model_config_json", "load_format", "base_url")

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
        gpus: Which GPUs, where that is said; no part of what makes two layouts equal.
    """

    tp: int
    replicas: int
    is_linked: bool
    own_kernel: bool
    gpus: frozenset[str] = field(default=frozenset(), compare=False)

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
        code: ``larger`` (more GPUs for one server), ``replicas`` (the same GPUs as fewer servers or
            as more), ``both`` (link and kernel at once), ``link`` and ``kernel`` (one of them).
        reference: Arm that the change is relative to.
        other: The other arm.
        words: What changes, as a sentence begins with it.
        subject: The layout that is asked about, in words.
        than: The layout that it is held against, in words.
    """

    code: QuestionCode
    reference: str
    other: str
    words: str
    subject: str
    than: str


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
    named = arm.get("gpus")
    gpus = frozenset(str(one) for one in named) if isinstance(named, list) else frozenset[str]()
    if tp == 1:
        return Layout(1, replicas, is_linked=True, own_kernel=True, gpus=gpus)  # nothing is summed
    return Layout(tp, replicas, is_linked, own_kernel=own_kernel and is_linked, gpus=gpus)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def alike(specs: Mapping[str, Mapping[str, Any]]) -> dict[str, Layout]:
    """Layouts of the arms that are alike in everything else: the commonest model and engine flags.

    Args:
        specs: Arm -> spec of its run.
    """
    layouts = {name: layout_of(spec) for name, spec in specs.items()}
    known = {name: layout for name, layout in layouts.items() if layout is not None}
    rest = {
        name: json.dumps(
            [specs[name]["arm"].get("engine_args") or {}, *map(specs[name].get, _SAME)],
            sort_keys=True,
        )
        for name in known
    }
    commonest = Counter(rest.values()).most_common(1)
    return {name: one for name, one in known.items() if rest[name] == commonest[0][0]}


def questions(layouts: Mapping[str, Layout]) -> list[Question]:
    """The pairs of arms that answer a question, smallest TP size first.

    A TP size is asked about with all it can have; where no arm has the link, without it. Arms that
    are held against each other on "the same GPUs" or by their link use the same ones, where both
    say which.

    Args:
        layouts: Arm -> its layout. Arms must be alike in everything else; of several pairs with
            one pair of layouts the first counts.
    """
    arms: dict[Layout, list[str]] = {}
    for name, layout in layouts.items():
        arms.setdefault(layout, []).append(name)
    found: list[Question] = []

    def ask(code: QuestionCode, reference: Layout, other: Layout, words: str) -> None:
        pairs = [
            Question(code, first, second, words, other.words, reference.words)
            for first in arms.get(reference, [])
            for second in arms.get(other, [])
            if code == "larger" or _on_same_gpus(layouts[first], layouts[second])
        ]
        found.extend(pairs[:1])

    for tp, replicas in sorted({(one.tp, one.replicas) for one in arms if one.tp > 1}):
        full = Layout(tp, replicas, is_linked=True, own_kernel=True)
        library = Layout(tp, replicas, is_linked=True, own_kernel=False)
        apart = Layout(tp, replicas, is_linked=False, own_kernel=False)
        best = next(one for one in (full, library, apart) if one in arms)
        # one GPU sums nothing, so it is the reference of every kind of sum
        kin = [one for one in arms if one.tp < tp and one in (_of_one(one), _sums_as(best, one))]
        smaller = [one for one in kin if one.replicas == 1]
        if smaller and replicas == 1:
            before = max(smaller, key=lambda one: one.tp)
            ask("larger", before, best, f"{best.words} instead of {before.words}")
        same = sorted((one for one in kin if one.n_gpus == best.n_gpus), key=lambda one: -one.tp)
        # several servers are held against the next smaller ones alone: the chain tells the rest
        for one in same if replicas == 1 else same[:1]:
            words = f"{best.words} instead of {one.words}, on the same {one.n_gpus} GPUs"
            ask("replicas", one, best, words)
        ask("both", apart, full, f"{full.words}: the link on instead of off")
        ask("link", apart, library, f"{full.words}, the link alone: the library sums in both")
        ask("kernel", library, full, f"{full.words}, the engine's own all-reduce over the link")
    return sorted(found, key=lambda one: ORDER.index(one.code))


def _of_one(layout: Layout) -> Layout:
    """As many servers of one GPU each."""
    return Layout(1, layout.replicas, is_linked=True, own_kernel=True)


def _sums_as(model: Layout, layout: Layout) -> Layout:
    """The layout, summing as the model does."""
    return Layout(layout.tp, layout.replicas, model.is_linked, model.own_kernel)


def _on_same_gpus(first: Layout, second: Layout) -> bool:
    return not first.gpus or not second.gpus or first.gpus == second.gpus

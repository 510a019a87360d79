"""Which two arms a link is bought between: the best layout without it and the best with it."""

from collections.abc import Sequence

from models.layout_worth import Worth, worth
from models.layouts import alike
from models.rounds import Round
from pages.widgets.roi_arms import Reader
from pages.widgets.serving_arms import Group
from pages.widgets.serving_loads import sweep_cells


def best_of(reader: Reader, group: Group) -> Worth | None:
    """The link's worth for output at the highest load measured, where the arms can tell it.

    Someone who has no link lays the model over the GPUs as well as goes without one, so link off
    against on at one layout would credit the link with what two single GPUs do already.

    Returns:
        None where the evaluation has no layouts with and without the link over the same GPUs.
    """
    arms = {arm.name: reader.bare(arm) for arm in group.arms if arm.validity != "invalid"}
    specs = {name: known.facts[0]["spec"] for name, known in arms.items() if known.facts}
    if len(specs) < 2:
        return None
    layouts = alike(specs)
    served = {cell for name in layouts for cell in arms[name].served()}
    by_cap = {cell[1]: cell for cell in sweep_cells(sorted(served, key=str))}

    def rounds(arm: str, name: str, statistic: str, cap: int) -> Sequence[Round]:
        return arms[arm].rounds_of.get((name, statistic, by_cap[cap]), [])

    found = worth(layouts, sorted(by_cap)[-1:], rounds, is_paired=group.origin == "measured")
    return next((one for one in found if one.figure[0] == "output_throughput"), None)


def pair_of(found: Worth, group: Group) -> tuple[str, str] | None:
    """Baseline and candidate; None where the link is worth nothing, so no pair is better than any.

    Args:
        found: As `best_of` gives it.
        group: The evaluation.
    """
    names = [arm.name for arm in group.arms]
    pair = (found.without, found.best)
    return pair if found.result is not None and set(pair) <= set(names) else None


def pair_words(found: Worth) -> str:
    """Why these two, as a caption."""
    return (
        f"Of the layouts of {found.n_gpus} GPUs that were measured, {found.words[0]} had the most "
        f"output at concurrency {found.concurrency} without the link, {found.words[1]} with it: "
        "what a link is worth lies between the two, not between link off and on of one layout."
    )

"""A finding as one self-contained HTML file that prints well: text, tables, charts as SVG.

Everything that comes from data is escaped; nothing is loaded from elsewhere.
"""

import io
from collections.abc import Sequence
from html import escape

import altair as alt
import pandas as pd

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 10.5pt/1.45 system-ui, sans-serif; color: #1b1f24; background: #fff;
  max-width: 190mm; margin: 8mm auto; padding: 0 4mm; }
h1 { font-size: 19pt; margin: 0 0 1mm; } h2 { font-size: 13pt; margin: 6mm 0 2mm; }
h3 { font-size: 11pt; margin: 4mm 0 1mm; }
p { margin: 1mm 0 2mm; } ul { margin: 1mm 0 2mm; padding-left: 5mm; } li { margin: 0.6mm 0; }
.small { color: #555c66; font-size: 8.5pt; }
.box { border: 1.5px solid #1b1f24; border-radius: 2mm; padding: 3mm 4mm; margin: 2mm 0; }
.figures { display: flex; flex-wrap: wrap; gap: 3mm; margin: 2mm 0; }
.figures div { flex: 1 1 36mm; border-left: 3px solid #3f93f7; padding-left: 2mm; }
.figures b { display: block; font-size: 13pt; }
.columns { display: flex; flex-wrap: wrap; gap: 6mm; } .columns > div { flex: 1 1 70mm; }
table { border-collapse: collapse; width: 100%; font-size: 8.5pt; margin: 1mm 0 3mm; }
th, td { text-align: left; vertical-align: top; padding: 0.8mm 2mm 0.8mm 0;
  border-bottom: 1px solid #d5d9de; overflow-wrap: anywhere; }
figure { margin: 2mm 0; break-inside: avoid; } figure svg { max-width: 100%; height: auto; }
figcaption { color: #555c66; font-size: 8.5pt; }
tr, li, .box { break-inside: avoid; } h2, h3 { break-after: avoid; }
@page { size: A4; margin: 12mm; }
@media print { body { margin: 0; max-width: none; padding: 0; } }
"""
_ONE_PAGE = """
body { font-size: 9.5pt; line-height: 1.35; } h1 { font-size: 16pt; }
h2 { font-size: 11pt; margin: 3mm 0 1mm; } figure svg { max-height: 62mm; }
"""


def heading(text: str, level: int = 2) -> str:
    """A heading, level 2 or 3."""
    return f"<h{level}>{escape(text)}</h{level}>"


def paragraph(text: str, *, is_small: bool = False) -> str:
    """A paragraph of plain text."""
    kind = ' class="small"' if is_small else ""
    return f"<p{kind}>{escape(text)}</p>"


def bullets(lines: Sequence[str], nothing: str = "") -> str:
    """A list of sentences; a paragraph where there is none."""
    if not lines:
        return paragraph(nothing) if nothing else ""
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def figures(pairs: Sequence[tuple[str, str]]) -> str:
    """Key figures in a row: value and label."""
    cells = (f"<div><b>{escape(value)}</b>{escape(label)}</div>" for label, value in pairs)
    return f'<div class="figures">{"".join(cells)}</div>'


def columns(*parts: str) -> str:
    """Parts side by side; one below the other where the paper is narrow."""
    return f'<div class="columns">{"".join(f"<div>{part}</div>" for part in parts)}</div>'


def box(*parts: str) -> str:
    """Parts in a frame."""
    return f'<div class="box">{"".join(parts)}</div>'


def table(frame: pd.DataFrame) -> str:
    """A table; what is not known is an empty cell."""
    head = "".join(f"<th>{escape(str(name))}</th>" for name in frame.columns)
    rows = (
        "".join(f"<td>{'' if _is_empty(cell) else escape(str(cell))}</td>" for cell in row)
        for row in frame.itertuples(index=False)
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _is_empty(cell: object) -> bool:
    return cell is None or (isinstance(cell, float) and cell != cell)


def picture(drawing: alt.TopLevelMixin, words: str, caption: str = "") -> str:
    """A chart as SVG, with its takeaway for those who cannot see it.

    Args:
        drawing: The Altair chart.
        words: The takeaway.
        caption: Printed below.
    """
    target = io.StringIO()
    drawing.save(target, format="svg")
    svg = target.getvalue()
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure role="img" aria-label="{escape(words)}">{svg}{below}</figure>'


def document(title: str, blocks: Sequence[str], *, is_one_page: bool = False) -> bytes:
    """The whole file, UTF-8.

    Args:
        title: Of the document.
        blocks: What the other functions here return.
        is_one_page: Whether it is to fit one sheet of A4.
    """
    style = _STYLE + (_ONE_PAGE if is_one_page else "")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>"
        f"<h1>{escape(title)}</h1>{''.join(blocks)}</body></html>\n"
    ).encode()

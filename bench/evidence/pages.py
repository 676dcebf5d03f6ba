"""The generated parts of the pages, between `<!-- table: NAME -->` and `<!-- end of table -->`.

A page of hand-written text with tables that must equal the results. Marked places are replaced by what the summaries
give; the text between them stays. `drifted` compares without writing, so that a test can fail.
Limits: figures inside sentences are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.evidence.experiments import BY_NAME, ERRORS, LAWS, OPENB_LISTS
from bench.evidence.searches import SEARCH_BY_NAME, read_search
from bench.evidence.searches import section as search_section
from bench.evidence.summaries import read_summary
from bench.evidence.tables import (
    by_law,
    estimates,
    made_together,
    mixed_in_brief,
    openb_lists,
    scales,
    section,
)
from cotenant.model.errors import InvalidInput
from cotenant_lab.storage import write_atomic
from cotenant_lab.world.config import MIXED, WorldConfig
from cotenant_lab.world.laws import drawn

PAGES = (Path("README.md"), Path("README.zh-CN.md"), Path("docs/results.md"))
UNSHOWN = (  # kept as summaries, printed by --show: other laws, and what was measured earlier under the linear law
    "law-linear",
    "law-knee",
    "law-queueing",
    "no-qos",
    "colocation",
    "no-interference",
    "double-interference",
    "error-half",
    "error-whole",
    "no-failures",
)
_PLACE = re.compile(r"<!-- table: ([a-z0-9.-]+) -->\n(.*?)<!-- end of table -->", re.DOTALL)

# Published mean GPU allocation of FGD at 130 % arrivals, percent of 6,212 GPUs: the results of Weng et al. (ATC 2023),
# ten seeds.
PUBLISHED_FGD: Mapping[str, float] = {
    "default": 95.39, "cpu050": 95.21, "cpu100": 95.35, "cpu250": 93.41, "gpushare40": 94.15, "gpushare80": 89.30,
    "gpuspec10": 94.95, "gpuspec20": 94.84, "gpuspec33": 94.55, "multigpu20": 95.65, "multigpu40": 96.99,
    "multigpu50": 97.18,
}  # fmt: skip


def _openb_lists(root: Path) -> list[str]:
    names = {"default": "openb"} | {name: f"openb-{name}" for name in OPENB_LISTS}
    found = {name: read_summary(root, stored) for name, stored in names.items()}
    commits = ", ".join(dict.fromkeys(summary.commit for summary in found.values()))
    seeds = ", ".join(dict.fromkeys(str(summary.seeds) for summary in found.values()))
    made = (
        f"`{found[OPENB_LISTS[0]].command.replace(f'openb:{OPENB_LISTS[0]}', 'openb:LIST')}` ({seeds} seeds), "
        f"made with {found['default'].version} at commit {commits}. Three figures: ours / FGD / FGD with all classes "
        "and our ties."
    )
    return [made, "", *openb_lists(found, PUBLISHED_FGD)]


_BRIEF_LOADS = (0.85, 0.90)


def _mixed_readme(root: Path) -> list[str]:
    found = read_summary(root, "mixed")
    made = f"`{found.command}`, {found.seeds} paired seeds, commit {found.commit}. ± is a 95 % interval."
    lines = mixed_in_brief(
        found,
        _BRIEF_LOADS,
        ("policy", "violation % (services, batch) at", "minus ours, points, at"),
        ("(", ", ", ")"),
        "(tie)",
    )
    return [*lines, "", made]


def _mixed_readme_zh(root: Path) -> list[str]:
    found = read_summary(root, "mixed")
    made = f"`{found.command}`，{found.seeds} 个配对种子，提交 {found.commit}；± 为 95 % 置信区间。"
    lines = mixed_in_brief(
        found,
        _BRIEF_LOADS,
        ("策略", "违约率 %（服务，批处理），负载", "与我们之差（百分点），负载"),
        ("（", "，", "）"),
        "（持平）",
    )
    return [*lines, "", made]


def _mixed_laws(root: Path) -> list[str]:
    found = read_summary(root, "mixed")
    seeds = sorted({run.seed for run in found.runs})
    return by_law(found, {seed: drawn(WorldConfig(), MIXED, seed).pressure_law for seed in seeds})


def _scales(root: Path) -> list[str]:
    found = {law: read_summary(root, f"scale-{law}") for law in LAWS}
    return [made_together(found, "LAW"), "", *scales(found)]


def _estimates(root: Path) -> list[str]:
    found = {sd: read_summary(root, f"estimates-{sd}") for sd in ERRORS}
    return [made_together(found, "SD"), "", *estimates(found)]


_SPECIAL: dict[str, Callable[[Path], list[str]]] = {
    "openb.lists": _openb_lists,
    "mixed.readme": _mixed_readme,
    "mixed.readme.zh": _mixed_readme_zh,
    "mixed.laws": _mixed_laws,
    "law.estimates": _estimates,
    "law.scales": _scales,
}
# Tables of several experiments -> the experiments that have no table of their own.
COMBINED: Mapping[str, tuple[str, ...]] = {
    "openb.lists": tuple(f"openb-{name}" for name in OPENB_LISTS),
    "law.estimates": tuple(f"estimates-{sd}" for sd in ERRORS),
    "law.scales": tuple(f"scale-{law}" for law in LAWS),
}


def generated(root: Path, name: str) -> str:
    """The text of one marked place.

    Raises:
        InvalidInput: there is no such place, or a summary is missing.
    """
    if name in _SPECIAL:
        lines = _SPECIAL[name](root)
    elif name in SEARCH_BY_NAME:
        lines = search_section(read_search(root, name))
    elif name in BY_NAME:
        lines = section(read_summary(root, name), BY_NAME[name].columns)
    else:
        raise InvalidInput("table", name, "one of " + ", ".join((*BY_NAME, *SEARCH_BY_NAME, *_SPECIAL)))
    return "\n".join(lines) + "\n"


def rewritten(root: Path, text: str) -> str:
    """A page's text with every marked place replaced."""
    return _PLACE.sub(
        lambda place: f"<!-- table: {place[1]} -->\n{generated(root, place[1])}<!-- end of table -->", text
    )


def places(text: str) -> list[str]:
    """The names of the marked places of a page."""
    return [place[1] for place in _PLACE.finditer(text)]


def drifted(root: Path) -> list[str]:
    """`PAGE: NAME` for every marked place that differs from its summary."""
    found = []
    for page in PAGES:
        places_of = _PLACE.finditer((root / page).read_text())
        found += [f"{page}: {place[1]}" for place in places_of if place[2] != generated(root, place[1])]
    return found


def write_pages(root: Path) -> list[Path]:
    """Rewrite the pages that differ; returns them. Nothing is written unless all of them can be made."""
    new = {page: rewritten(root, (root / page).read_text()) for page in PAGES}
    changed = [page for page, text in new.items() if text != (root / page).read_text()]
    for page in changed:
        content = new[page].encode()
        write_atomic(root / page, lambda file, content=content: file.write(content))  # type: ignore[misc]
    return changed

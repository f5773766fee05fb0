"""Stories, played on real windows: each step with the reports of its windows."""

from functools import cache
from typing import Any

from sash.errors import ArgumentError, shown
from sash.explore.lab import Lab, Report
from sash.explore.stories import STORIES, Side, Step, Story, letter_moves


def story_named(key: Any) -> Story:
    """Return one of the stories."""
    if not isinstance(key, str) or key not in STORIES:
        raise ArgumentError(f"story must be one of {', '.join(STORIES)}, got {shown(key)}.", argument="story")
    return STORIES[key]


def described(story: Story) -> dict[str, Any]:
    """Return what the list of stories says about one."""
    sides = [{"structure": s.structure, "options": s.options, "monoid": s.monoid} for s in story.sides]
    about = {"key": story.key, "title": story.title, "intro": story.intro, "coins": story.coins}
    return {**about, "sides": sides, "length": len(story.steps)}


@cache  # because it is the same each time, and the large windows take a while
def played(story: Story) -> dict[str, Any]:
    """Return a story with the report of each window after each step, and what was measured for it."""
    labs = [_lab(side) for side in story.sides]
    steps = []
    for step in story.steps:
        labs, reports = _stepped(story, labs, step)
        steps.append({"caption": step.caption, "reports": reports, "measured": _measured(story, step)})
    return {**described(story), "steps": steps}


def labs_at(story: Story, place: int) -> list[Lab]:
    """Return the windows of a story as they are after a step, to go on by hand."""
    labs = [_lab(side) for side in story.sides]
    for step in story.steps[: place + 1]:
        labs, _ = _stepped(story, labs, step)
    return labs


def _measured(story: Story, step: Step) -> list[dict[str, Any]]:
    """Return what inserts cost by their distance in windows of some sizes."""
    found = []
    for side in story.sides:
        for size in step.measured:
            lab = Lab(side.structure, "sum", side.options)
            lab.apply({"op": "fill", "count": size})
            found.append({"structure": side.structure, "entries": size, "rungs": lab.distances()})
    return found


def _stepped(story: Story, labs: list[Lab], step: Step) -> tuple[list[Lab], list[Report]]:
    if step.moves is not None:
        labs = [_lab(side) for side in story.sides]
        for lab in labs:
            for operation in letter_moves(step.moves):
                lab.apply(operation)
            lab.forget()
        return labs, [lab.report for lab in labs]
    if step.request is None:
        return labs, [lab.report for lab in labs]
    first = labs[0].apply(step.request)
    lazy = {"lazy": True} if step.request.get("lazy") else {}
    return labs, [first, *(lab.apply({**first["operation"], **lazy}) for lab in labs[1:])]


def _lab(side: Side) -> Lab:
    return Lab(side.structure, side.monoid, side.options)

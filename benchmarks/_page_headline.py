"""docs/dev/speed.md: the headline, where its factor comes from, and the other methods."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from _page_parts import Result, duration, factor, made_with, number, table

import robust_tickets as rt

EPOCHS = 10
TITLES = {"sst2": "SST-2", "imdb": "IMDB"}
CORPUS_TOKENS, CORPUS_BATCH = 2_600_000, 8 * 128  # ORTicket's corpus, about that of wikitext-2, and its batches
WIDE = 40  # characters of the waterfall's longest bar
# each line of the waterfall: the arm after the change, and what was changed
CHANGES = {
    "reference pgd, our batches": "padding: texts of like length together, few widths",
    "reference pgd, our batches, fused AdamW": "optimiser: one kernel for AdamW and clipping",
    "wasteful pgd, eager fp32": "kernels: stock layers with fused attention",
    "wasteful pgd, eager": "precision: bf16 working weights, fp32 masters",
    "wasteful pgd": "launches: the step as one recorded graph",
    "pgd": "algorithm: ascents without weight gradients",
}


def headline(result: Result) -> str:
    entries = result["entries"]
    parts = [
        "## EarlyRobust against PGD\n",
        "EarlyRobust is its search, confirming window included, and 10 epochs of its ticket: whole calls of the public API, with "
        "tokenising and the recording of graphs. What it is compared with is *extrapolated*: mean step × updates of 10 epochs, from "
        "steps that ran in turns over the task's own texts. Batch size, updates and longest text are the same in all lines. *By FLOPs* is "
        "the ratio of the matrix products alone, everything at our mean padded length.\n",
    ]
    for task in TITLES:
        if f"steps-{task}" in entries:
            parts.append(_task(entries, task))
    parts.append(made_with(result))
    return "\n".join(parts)


def times(entries: Mapping[str, Any], task: str) -> dict[str, float]:
    """Seconds of 10 epochs of every arm, by its name, and of EarlyRobust, where it was run."""
    steps = entries[f"steps-{task}"]
    updates = EPOCHS * steps["updates_per_epoch"]
    told = {arm: ms["mean"] / 1000 * updates for arm, ms in steps["ms"].items() if arm != "orticket"}
    search, train = entries.get(f"search-{task}"), entries.get(f"train-{task}")
    if search and train:
        told["earlyrobust"] = search["seconds"] + train["seconds_of_10_epochs"]
    return told


def predicted(entries: Mapping[str, Any], task: str, arm: str) -> float:
    """EarlyRobust's factor over 10 epochs of ``arm`` by FLOPs alone, all at one length."""
    steps, search = entries[f"steps-{task}"], entries[f"search-{task}"]
    dense, ticket = steps["forward_flops"]["dense"], steps["forward_flops"]["ticket"]
    searched = search["steps_run"] / steps["updates_per_epoch"] * steps["passes"]["search"]
    return EPOCHS * steps["passes"][arm] * dense / (searched * dense + EPOCHS * ticket)


def _task(entries: Mapping[str, Any], task: str) -> str:
    steps, spent = entries[f"steps-{task}"], times(entries, task)
    theirs, ours = steps["tokens"]["random"], steps["tokens"]["ours"]
    weights = (
        "pretrained"
        if steps["weights"] == "pretrained"
        else "random (times are the same; ticket and accuracy mean nothing)"
    )
    parts = [
        f"### {TITLES[task]}\n",
        f"Batches of {steps['batch_size']}, at most {steps['max_length']} tokens, {EPOCHS * steps['updates_per_epoch']:,} updates; "
        f"weights: {weights}. The reference's batches are {theirs['padded_length']:.0f} tokens wide on average "
        f"({100 * theirs['padding']:.0f} % padding), ours {ours['padded_length']:.0f} ({100 * ours['padding']:.0f} %, "
        f"{ours['widths']} widths).\n",
    ]
    if "earlyrobust" in spent:
        parts += [_ours(entries, task), _against(entries, task, spent)]
    parts += [_waterfall(entries, task, spent), _others(entries, task)]
    return "\n".join(parts)


def _ours(entries: Mapping[str, Any], task: str) -> str:
    search, train = entries[f"search-{task}"], entries[f"train-{task}"]
    settled = "settled" if search["converged"] else "did not settle"
    rounded = f", its widths rounded to multiples of {search['round_to']}" if search.get("round_to", 1) > 1 else ""
    scaled = "" if train["epochs_run"] == EPOCHS else f", scaled from {train['epochs_run']}"
    return (
        f"EarlyRobust: search {duration(search['seconds'])} ({search['steps_run']:,} updates; the masks {settled}, ticket of epoch "
        f"{search['epoch']:.2f}{rounded}), 10 epochs of the ticket {duration(train['seconds_of_10_epochs'])}{scaled}; "
        f"{train['accuracy']:.2f} % right on validation rows carved from the training split.\n"
    )


def _against(entries: Mapping[str, Any], task: str, spent: Mapping[str, float]) -> str:
    steps = entries[f"steps-{task}"]
    lines = {
        "reference pgd": "PGD-5, reference profile, its own padding",
        "reference pgd, our batches": "PGD-5, reference profile, our batches",
        "pgd": "our PGD-5",
        "finetune": "our plain fine-tuning",
    }
    rows = [
        [
            title,
            f"{number(steps['ms'][arm]['mean'])} ± {number(steps['ms'][arm]['error'])} ({steps['ms'][arm]['steps']})",
            duration(spent[arm]),
            factor(spent[arm] / spent["earlyrobust"]),
            factor(predicted(entries, task, arm)),
        ]
        for arm, title in lines.items()
    ]
    rows.append(["EarlyRobust", "", duration(spent["earlyrobust"]), factor(1.0), factor(1.0)])
    return table(["", "mean step ± its error, ms (steps)", "10 epochs", "over EarlyRobust", "by FLOPs"], rows)


def waterfall(spent: Mapping[str, float]) -> list[tuple[str, float]]:
    """What each change brings, in this order; the product is the first arm over the last. Another order would share it out otherwise."""
    arms = ["reference pgd", *CHANGES]
    told = [(what, spent[before] / spent[arm]) for before, (arm, what) in zip(arms, CHANGES.items(), strict=False)]
    if "earlyrobust" in spent:
        told.append(("algorithm: a searched ticket instead of PGD", spent["pgd"] / spent["earlyrobust"]))
    return told


def _waterfall(entries: Mapping[str, Any], task: str, spent: Mapping[str, float]) -> str:
    lines, most, so_far = [], spent["reference pgd"], 1.0
    for what, brought in [("PGD-5 in the reference profile", 1.0), *waterfall(spent)]:
        so_far *= brought
        bar = "█" * max(1, round(WIDE / so_far))
        lines.append(f"{what:<52} × {brought:6.2f}   {duration(most / so_far):>9}   {bar}")
    told = "Where the factor comes from, one change after the other:\n\n```\n" + "\n".join(lines) + "\n```\n"
    return told + (_read(entries, task, spent) if "earlyrobust" in spent else "")


def _read(entries: Mapping[str, Any], task: str, spent: Mapping[str, float]) -> str:
    """What the waterfall says, in words."""
    shares = waterfall(spent)
    method = math.prod(brought for what, brought in shares if what.startswith("algorithm"))
    whole, over = math.prod(brought for _, brought in shares), spent["earlyrobust"] / spent["finetune"]
    steps = entries[f"steps-{task}"]
    ticket, dense, flops = steps["ms"]["ticket"]["mean"], steps["ms"]["finetune"]["mean"], steps["forward_flops"]
    return (
        f"\nOf the {factor(whole)}, the method brings {factor(method)} and the way a step is run {factor(whole / method)}. The order "
        "matters: eager steps on short texts wait for the host, so that padding, kernels and precision show little until the "
        "launches are gone.\n\n"
        f"EarlyRobust takes {number(over)} times as long as our own plain fine-tuning. Beside its search, a step of its ticket takes "
        f"{number(ticket)} ms and one of the whole model {number(dense)} ms; by FLOPs the ticket would be "
        f"{factor(flops['dense'] / flops['ticket'])} as fast"
        + (" (odd widths: see inference of tickets).\n" if ticket > dense else ".\n")
    )


def _others(entries: Mapping[str, Any], task: str) -> str:
    steps, spent = entries[f"steps-{task}"], times(entries, task)
    gates, imp = rt.RobustT.for_task(task), rt.IMP.for_task(task)
    rounds = len(imp.rungs) * imp.epochs
    search = steps["ms"]["orticket"]["mean"] / 1000 * -(-CORPUS_TOKENS // CORPUS_BATCH)

    def of(arm: str, epochs: float) -> float:
        return spent[arm] / EPOCHS * epochs

    def both(fine: str, gate: str, gated: float, plain: float) -> float:
        return of(gate, gated) + of(fine, plain)

    plain = gates.tuning.epochs + EPOCHS
    rows = [
        ["ORTicket's fine-tuning against FreeLB-5", spent["ticket"], spent["reference freelb"], spent["freelb"]],
        [
            "… with its one search, a whole epoch of its corpus",
            spent["ticket"] + search,
            spent["reference freelb"],
            spent["freelb"],
        ],
        [
            f"RobustT ({gates.tuning.epochs} + {gates.epochs} of gates + {EPOCHS} epochs) against itself",
            both("finetune", "gates", gates.epochs, plain),
            both("reference finetune", "reference gates", gates.epochs, plain),
            None,
        ],
        [
            f"IMP ({len(imp.rungs)} × {imp.epochs} + {EPOCHS} epochs) against itself",
            of("finetune", rounds + EPOCHS),
            of("reference finetune", rounds + EPOCHS),
            None,
        ],
    ]
    told = [
        [what, duration(ours), duration(theirs), factor(theirs / ours), factor(own / ours if own else None)]  # type: ignore[operator]
        for what, ours, theirs, own in rows
    ]
    return (
        "The other methods, all extrapolated from steps and counts of updates (ORTicket's ticket has the size of EarlyRobust's, gates are "
        "trained under 3 passes):\n\n" + table(["", "ours", "reference profile", "ratio", "over our FreeLB-5"], told)
    )

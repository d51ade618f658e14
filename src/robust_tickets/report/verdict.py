"""The verdict, in sentences: who is hardest to fool, by how much, how sure that is, and what the ticket costs.

"Hardest to fool" is only said where the exact paired test, adjusted for the number of comparisons made, holds at 5 %. Otherwise the
sentence says that the difference is within noise, and how small an interval still allows it to be.
"""

from __future__ import annotations

from dataclasses import dataclass

from robust_tickets.report import numbers
from robust_tickets.report.compare import ALPHA, Comparison, compare, holm
from robust_tickets.report.model import Arm, Attack, Run

FEW = 100  # attacked examples below which a sampling error of about ten points remains


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """``headline`` is one sentence; ``sentences`` carry the numbers; ``sure`` says whether a difference was shown."""

    attack: str
    headline: str
    sentences: tuple[str, ...]
    sure: bool


def verdicts(run: Run) -> list[Verdict]:
    """One verdict per attack of the run."""
    return [_verdict(run, name) for name in run.attack_names]


def _verdict(run: Run, attack: str) -> Verdict:
    name = attack_title(attack)
    ranked = sorted(
        ((arm, found) for arm in run.arms if (found := arm.attack(attack)) is not None and found.aua is not None),
        key=lambda pair: -(pair[1].aua or 0),
    )
    if not ranked:
        return Verdict(attack=attack, headline=f"{name} left no result to compare.", sentences=(), sure=False)
    (best, result), rest = ranked[0], ranked[1:]
    stands = f"{best.title} still labels {numbers.percent(result.aua)} of {result.n} texts correctly under {name}"
    if "aua" in result.intervals:
        stands += f" (95{numbers.GLUE}% interval {numbers.span(result.intervals['aua'])})"
    if not rest:
        return Verdict(attack=attack, headline=f"{stands}.", sentences=("There is no other arm to compare it with.",), sure=False)
    pairs = [c for arm, _ in rest if (c := compare(best, arm, attack)) is not None]
    adjusted = holm([c.p for c in pairs])
    clear = [c for c, p in zip(pairs, adjusted, strict=True) if p < ALPHA]
    sentences = [f"{stands}."]
    sentences += [_against(c, p < ALPHA, name) for c, p in zip(pairs, adjusted, strict=True)]
    if len(pairs) < len(rest):
        sentences.append("Where arms share no attacked examples, or their texts were not stored, no paired test was possible.")
    return Verdict(attack=attack, headline=_headline(best, run, pairs, clear, name), sentences=tuple(sentences), sure=bool(clear))


def _headline(best: Arm, run: Run, pairs: list[Comparison], clear: list[Comparison], name: str) -> str:
    if not pairs:
        return f"{best.title} came out highest under {name}, untested: the arms share no attacked examples."
    if len(clear) == len(pairs):
        by = min(c.difference for c in pairs)
        return f"{best.title} is the hardest to fool: {by:.1f}{numbers.GLUE}points ahead of the next arm under {name}."
    if clear:
        ahead = _listed([c.other.title for c in clear])
        level = _listed([c.other.title for c in pairs if c not in clear])
        return f"{best.title} is harder to fool than {ahead}; against {level} there is no difference beyond noise."
    n = min(c.n for c in pairs)
    return f"No difference beyond noise at n{numbers.GLUE}={numbers.GLUE}{n}: under {name}, no arm is shown to be harder to fool."


def _against(c: Comparison, sure: bool, name: str) -> str:
    glue = numbers.GLUE
    how = f"95{glue}% interval {numbers.signed_span((c.low, c.high))}, McNemar p{glue}{_equals(c.p)}, n{glue}={glue}{c.n}"
    if sure:
        return f"Against {c.other.title} that is {numbers.points(c.difference)} points ({how})."
    if c.difference == 0:
        return f"Against {c.other.title} there is no difference at all ({how})."
    return f"Against {c.other.title} it is {numbers.points(c.difference)} points, which is within noise ({how})."


def costs(run: Run) -> list[str]:
    """What each ticket gives up and saves, against the baseline."""
    base = run.base
    said: list[str] = []
    for arm in run.arms:
        if arm.shape is None or arm is base:
            continue
        parts = []
        if base is not None and arm.clean is not None and base.clean is not None:
            gap = arm.clean - base.clean
            parts.append(f"labels {numbers.percent(arm.clean)} of unattacked texts correctly ({numbers.points(gap)} points)")
        parts += _savings(arm)
        if base is not None and arm.cost.get("train_seconds") and base.cost.get("train_seconds"):
            mine, theirs = total_seconds(arm), total_seconds(base)
            what = "find and train" if arm.cost.get("search_seconds") else "train"
            parts.append(f"took {numbers.seconds(mine)} to {what} ({numbers.seconds(theirs)})")
        if parts:
            said.append(f"{arm.title} {_listed(parts)}.")
    if said and base is not None:
        said[-1] += f" Differences and times in brackets: {base.title}."
    return said


def _savings(arm: Arm) -> list[str]:
    cost, parts = arm.cost, []
    for key, dense, what in (
        ("encoder_parameters", "dense_encoder_parameters", "encoder parameters"),
        ("parameters", "dense_parameters", "parameters"),
    ):
        if cost.get(key) and cost.get(dense):
            share = 100 * cost[key] / cost[dense]
            parts.append(f"keeps {numbers.amount(cost[key])} of {numbers.amount(cost[dense])} {what} ({share:.0f} %)")
            break
    if cost.get("flops_per_example") and cost.get("dense_flops_per_example"):
        parts.append(f"needs {cost['dense_flops_per_example'] / cost['flops_per_example']:.2f} times fewer FLOPs per text")
    return parts


def total_seconds(arm: Arm) -> float | None:
    """Search and training together, where both are known."""
    train = arm.cost.get("train_seconds")
    return None if train is None else train + arm.cost.get("search_seconds", 0.0)


def warnings(run: Run) -> list[str]:
    """What a reader must know before believing the numbers: flags of the attacks, small samples, errors, files that could not be read."""
    said: list[str] = []
    for name in run.attack_names:
        results = [(arm, found) for arm in run.arms if (found := arm.attack(name)) is not None]
        for flag in dict.fromkeys(flag for _, found in results for flag in found.flags):
            owners = [arm.title for arm, found in results if flag in found.flags]
            where = "" if len(owners) == len(results) else f" on {_listed(owners)}"
            said.append(f"{attack_title(name)}{where}: {flag}.")
        said += [_small(name, arm, found) for arm, found in results if found.n < FEW and not _says(found, "few")]
        for arm, found in results:
            if found.errors and not _says(found, "error"):
                said.append(f"{attack_title(name)} on {arm.title}: {found.errors} examples failed with an error and are left out.")
    for arm in run.arms:
        if arm.distances is not None and not arm.distances.converged:
            said.append(f"The search for {arm.title} did not settle; its ticket was drawn at the last point.")
    skipped = run.task.get("skipped_rows")
    if skipped:
        said.append(f"{skipped} rows of the data could not be used and were skipped.")
    said += run.notes
    return list(dict.fromkeys(said))


def _says(found: Attack, word: str) -> bool:
    return any(flag.lower().startswith(word) for flag in found.flags)


def _small(name: str, arm: Arm, found: Attack) -> str:
    margin = f"expect a sampling error of about ±{_margin(found.n):.0f} points on every accuracy"
    return f"{attack_title(name)}: only {found.n} examples were attacked on {arm.title}: {margin}."


def attack_title(name: str) -> str:
    """An attack as its paper writes it."""
    return {"pwws": "PWWS", "textfooler": "TextFooler", "textbugger": "TextBugger", "bertattack": "BERT-Attack"}.get(name.lower(), name)


def _margin(n: int) -> float:
    return 98 / max(n, 1) ** 0.5  # 1.96 · sqrt(.5 · .5 / n), in points: the widest case


def _equals(p: float) -> str:
    text = numbers.p_value(p)
    return text if text.startswith("<") else f"={numbers.GLUE}{text}"


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

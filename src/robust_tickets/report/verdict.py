"""The verdict, in sentences: who is hardest to fool, by how much, how sure that is, and what the ticket costs.

"Harder to fool" is only said where the exact paired test holds at 5 %, adjusted for all pairs of arms, since which arm is best is read from
the same data. "Hardest" needs that against every other arm. Otherwise the sentence says that the difference is within noise, and how large
an interval still allows it to be. An arm that gives every text one class is said to do so, and not compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from robust_tickets.files import listed
from robust_tickets.measure.metrics import FEW
from robust_tickets.report import format as numbers
from robust_tickets.report import hollow, tables
from robust_tickets.report.compare import ALPHA, Comparison, contest
from robust_tickets.report.run_data import Arm, Attack, Run
from robust_tickets.run import BAD_ROWS, BAD_ROWS_KEPT

MOST = 1  # sentences on pairs without the best arm: a page of eight arms would have 21


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """``headline`` is one sentence; ``sentences`` carry the numbers; ``sure`` says whether a difference was shown."""

    attack: str  # key
    headline: str
    sentences: tuple[str, ...]
    sure: bool


def verdicts(run: Run) -> list[Verdict]:
    """One verdict per attack of the run."""
    return [verdict(run, key) for key in run.attack_keys]


def verdict(run: Run, attack: str) -> Verdict:
    """The arms that mean something, compared; before that, what takes the meaning out of a number, and the arms that mean nothing."""
    found = _of_sound_arms(run, attack)
    flagged = [(arm, flag) for arm in run.arms if (one := arm.attack(attack)) for flag in one.before]
    told = dict.fromkeys(f"{arm.title}: {flag}." for arm, flag in flagged)
    return replace(found, headline=" ".join([*told, found.headline]))


def _of_sound_arms(run: Run, attack: str) -> Verdict:
    empty = [arm for arm in run.arms if hollow.hollow(arm, attack)]
    if not empty:
        return _compared(run, attack, run.arms)
    told = hollow.said(empty, _listed([arm.title for arm in empty]))
    sound = tuple(arm for arm in run.arms if not any(arm is other for other in empty))
    if not any(arm.attack(attack) for arm in sound):
        return Verdict(attack=attack, headline=told, sentences=(), sure=False)
    rest = _compared(run, attack, sound)
    return replace(rest, headline=f"{told} {rest.headline}")


def _compared(run: Run, attack: str, arms: tuple[Arm, ...]) -> Verdict:
    name = run.attack_titles[attack]
    ranked = sorted(
        ((arm, found) for arm in arms if (found := arm.attack(attack)) is not None and found.aua is not None),
        key=lambda pair: -(pair[1].aua or 0),
    )
    if not ranked:
        return Verdict(attack=attack, headline=f"{name} left no result to compare.", sentences=(), sure=False)
    (best, result), rest = ranked[0], [arm for arm, _ in ranked[1:]]
    stands = f"{best.title} still labels {numbers.percent(result.aua)} of {result.n} texts correctly under {name}"
    if "aua" in result.intervals:
        stands += f" (95{numbers.GLUE}% interval {numbers.span(result.intervals['aua'])})"
    if not rest:
        return Verdict(
            attack=attack, headline=f"{stands}.", sentences=("There is no other arm to compare it with.",), sure=False
        )
    all_pairs = contest(run, attack)
    pairs = [pair for arm in rest if (pair := all_pairs.between(best, arm)) is not None]
    met = [pair.other for pair in pairs]
    apart = [arm for arm in rest if not any(arm is other for other in met)]
    others = [
        c for c in all_pairs.pairs if c.clear and all(any(side is arm for arm in rest) for side in (c.arm, c.other))
    ]
    elsewhere = [c if c.difference > 0 else c.turned() for c in others]
    sentences = [f"{stands}.", *(_against(c) for c in pairs)]
    if apart:
        listed = _listed([arm.title for arm in apart])
        sentences.append(f"No paired test against {listed}: no attacked example is stored for both.")
    sentences += [f"{c.arm.title} is harder to fool than {c.other.title}: {_numbers(c)}." for c in elsewhere[:MOST]]
    if len(elsewhere) > MOST:
        sentences.append(
            f"{len(elsewhere) - MOST} more pairs of the other arms differ beyond noise; the table of pairs has them all."
        )
    return Verdict(
        attack=attack,
        headline=_headline(best, pairs, apart, elsewhere, name),
        sentences=tuple(sentences),
        sure=any(c.clear for c in pairs) or bool(elsewhere),
    )


def _headline(best: Arm, pairs: list[Comparison], apart: list[Arm], elsewhere: list[Comparison], name: str) -> str:
    if not pairs:
        return f"{best.title} came out highest under {name}, untested: the arms share no attacked examples."
    ahead = [c for c in pairs if c.clear and c.difference > 0]
    behind = [c for c in pairs if c.clear and c.difference < 0]  # it led over all, but not where both were attacked
    level = [c for c in pairs if not c.clear]
    if len(ahead) == len(pairs) and not apart:
        by = min(c.difference for c in pairs)
        return f"{best.title} is the hardest to fool: {by:.1f}{numbers.GLUE}points ahead of the next arm under {name}."
    parts = []
    if ahead:
        parts.append(f"{best.title} is harder to fool than {_titles(ahead)}")
    if behind:
        parts.append(f"on the texts that both met, {best.title} is easier to fool than {_titles(behind)}")
    if parts:
        parts[0] = f"Under {name}, {parts[0]}"
        if level:
            parts.append(f"against {_titles(level)} there is no difference beyond noise")
    elif elsewhere:
        first = elsewhere[0]
        parts.append(f"Under {name}, {first.arm.title} is harder to fool than {first.other.title}")
        parts.append(f"{best.title} came out highest, but not beyond noise")
    else:
        n = min(c.n for c in pairs)
        parts.append(
            f"No difference beyond noise at n{numbers.GLUE}={numbers.GLUE}{n}: under {name}, no arm is shown to be harder to fool"
        )
    if apart:
        parts.append(f"{_listed([arm.title for arm in apart])} could not be compared")
    return "; ".join(parts) + "."


def _titles(pairs: list[Comparison]) -> str:
    return _listed([c.other.title for c in pairs])


def _against(c: Comparison) -> str:
    if c.clear:
        return f"Against {c.other.title} that is {_numbers(c)}."
    if c.difference == 0:
        return f"Against {c.other.title} there is no difference at all ({_how(c)})."
    why = "is within noise" if c.p >= ALPHA else "does not stand once adjusted"
    return f"Against {c.other.title} it is {numbers.points(c.difference)} points, which {why} ({_how(c)})."


def _numbers(c: Comparison) -> str:
    return f"{numbers.points(c.difference)} points ({_how(c)})"


def _how(c: Comparison) -> str:
    glue = numbers.GLUE
    adjusted = f", adjusted for {c.of} comparisons" if c.of > 1 else ""
    interval = f"95{glue}% interval {numbers.signed_span((c.low, c.high))}"
    return f"{interval}, McNemar p{glue}{_equals(c.adjusted)}{adjusted}, n{glue}={glue}{c.n}"


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
            parts.append(
                f"labels {numbers.percent(arm.clean)} of unattacked texts correctly ({numbers.points(gap)} points)"
            )
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
    if cost.get("nonzero_encoder_parameters") and cost.get("dense_encoder_parameters"):
        kept, of = cost["nonzero_encoder_parameters"], cost["dense_encoder_parameters"]
        parts.append(
            f"keeps {numbers.amount(kept)} of {numbers.amount(of)} encoder parameters ({100 * kept / of:.0f} %)"
        )
        return [*parts, "brings no speed, for the others are zeros in matrices of the same size"]
    for key, dense, what in (
        ("encoder_parameters", "dense_encoder_parameters", "encoder parameters"),
        ("parameters", "dense_parameters", "parameters"),
    ):
        if cost.get(key) and cost.get(dense):
            share = 100 * cost[key] / cost[dense]
            parts.append(f"keeps {numbers.amount(cost[key])} of {numbers.amount(cost[dense])} {what} ({share:.0f} %)")
            break
    if cost.get("flops_per_example") and cost.get("dense_flops_per_example"):
        parts.append(
            f"needs {cost['dense_flops_per_example'] / cost['flops_per_example']:.2f} times fewer FLOPs per text"
        )
    return parts


def total_seconds(arm: Arm) -> float | None:
    """Search and training together, where both are known."""
    train = arm.cost.get("train_seconds")
    return None if train is None else train + arm.cost.get("search_seconds", 0.0)


def warnings(run: Run) -> list[str]:
    """What a reader must know before believing the numbers: flags of the attacks, small samples, errors, files that could not be read."""
    said: list[str] = []
    for key, title in run.attack_titles.items():
        results = [(arm, found) for arm in run.arms if (found := arm.attack(key)) is not None]
        said += [
            flag_sentence(run, key, flag)
            for flag in dict.fromkeys(flag for _, found in results for flag in found.flags)
        ]
        said += [_small(title, arm, found) for arm, found in results if found.n < FEW and not _says(found, "few")]
        for arm, found in results:
            if found.errors and not _says(found, "error") and not found.before:
                said.append(f"{title} on {arm.title}: {found.errors} examples failed with an error and are left out.")
    unsettled = [arm.title for arm in run.arms if arm.distances is not None and not arm.distances.converged]
    if unsettled:  # arms that share a search share its fault: one sentence
        whose = "its ticket was" if len(unsettled) == 1 else "their tickets were"
        said.append(f"The search for {_listed(unsettled)} did not settle; {whose} drawn at the last point.")
    near = [arm.title for arm in run.arms if arm.near_random]
    if near:
        what = "ticket is" if len(near) == 1 else "tickets are"
        said.append(
            f"Near random: {_listed(near)}, whose {what} drawn from coefficients that the search hardly moved apart."
        )
    masked = [arm.title for arm in run.arms if arm.cost.get("nonzero_encoder_parameters")]
    if masked:
        said.append(
            f"No speed comes from {_listed(masked)}: weights that a mask removes are zeros in matrices of the same size."
        )
    said += tables.said(run)
    skipped = run.task.get("skipped_rows")
    if skipped:
        where = (
            f"; {BAD_ROWS} in the run folder lists them, up to {BAD_ROWS_KEPT:,}" if run.task.get("bad_rows") else ""
        )
        said.append(f"{skipped} rows of the data could not be used and were skipped{where}.")
    said += [f"The data: {words}." for words in listed(run.task.get("warnings") or []) if isinstance(words, str)]
    said += run.notes
    return list(dict.fromkeys(said))


def flag_sentence(run: Run, key: str, flag: str) -> str:
    """A flag of an attack, with the arms it is about where it is not about all."""
    results = [(arm, found) for arm in run.arms if (found := arm.attack(key)) is not None]
    owners = [arm.title for arm, found in results if flag in found.flags]
    where = "" if len(owners) == len(results) else f" on {_listed(owners)}"
    return f"{run.attack_titles[key]}{where}: {flag}."


def _says(found: Attack, word: str) -> bool:
    return any(flag.lower().startswith(word) for flag in found.flags)


def _small(title: str, arm: Arm, found: Attack) -> str:
    margin = f"expect a sampling error of about ±{_margin(found.n):.0f} points on every accuracy"
    return f"{title}: only {found.n} examples on {arm.title}: {margin}."


def _margin(n: int) -> float:
    return 98 / max(n, 1) ** 0.5  # 1.96 · sqrt(.5 · .5 / n), in points: the widest case


def _equals(p: float) -> str:
    text = numbers.p_value(p)
    return text if text.startswith("<") else f"={numbers.GLUE}{text}"


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

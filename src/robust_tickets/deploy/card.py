"""The model card: what an exported folder is, how to load it, what was measured and what was not.

A number appears only with its n, its interval and its seed; without evidence the card says that nothing was measured. Names that people
chose (labels, tasks, models) are escaped, so that none can break the YAML, the Markdown or the page that shows them.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from robust_tickets.backbone.layout import layout_of
from robust_tickets.classifier.loading import EMBEDDED
from robust_tickets.files import listed, mapping, within, write_text
from robust_tickets.stages import record

if TYPE_CHECKING:
    from jinja2 import Template

    from robust_tickets.classifier import ModelClassifier

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
LONGEST = 80  # characters of a name
MOST_LABELS = 40
_JOINERS = "\u200c\u200d"  # the only formatting characters that words need (Persian, emoji); the others can reorder or hide text
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#!|~$@:^=])")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the card may claim: names, and the contents of ``evaluation.json`` and of each attack's ``result.json``."""

    name: str = ""
    base: str = ""  # the pretrained model: a Hub id or a folder, of which only the last part is shown
    method: str = ""
    task: str = ""
    adversary: str = ""  # that it was trained against
    words: Sequence[Mapping[str, Any]] = ()  # tables that the adversary swapped words from: name, digest
    evaluation: Mapping[str, Any] | None = None
    attacks: Sequence[Mapping[str, Any]] = ()


def card(model: ModelClassifier, dense: ModelClassifier, form: str, evidence: Evidence) -> str:
    """The text of the card for ``model`` exported as ``form``; ``dense`` is the same model in stock shapes."""
    from robust_tickets.backbone.weight_masks import masks_of

    layout, masks = layout_of(dense.model), list(masks_of(model.model).values())
    kept, stock = layout.units_of(model.model), layout.units_of(dense.model)
    pruned = kept != stock
    if form == "dense" and masks and not pruned:
        form = "masked"
    elif form == "compact" and not model.model.config.model_type.startswith("ticket-"):
        form = "stock"
    title = one_line(evidence.name) or f"{layout.family} {'ticket' if pruned or masks else 'classifier'}"
    base = evidence.base if _on_hub(evidence.base) else ""
    size, whole = (sum(p.numel() for p in each.model.parameters()) for each in (model, dense))
    parameters = f"{size:,} of {whole:,} ({100 * (1 - size / whole):.1f} % removed)" if pruned else f"{size:,}"
    about = [
        ("method", evidence.method or "not recorded"),
        ("base model", base or Path(evidence.base).name or "not recorded"),
        ("trained on", evidence.task or "not recorded"),
        ("parameters", Markup(parameters)),
    ]
    for group in kept if pruned else ():
        removed = 100 * (1 - sum(kept[group]) / sum(stock[group]))
        counts = f"{', '.join(map(str, kept[group]))} of {max(stock[group])} ({removed:.1f} % removed)"
        about.append((f"{group} kept per layer", Markup(counts)))
    if masks:
        ones, weights = sum(int(mask.sum()) for mask in masks), sum(mask.numel() for mask in masks)
        counts = f"{ones:,} of {weights:,} ({100 * (1 - ones / weights):.1f} % are zero, which brings no speed)"
        about.append(("matrix weights kept", Markup(counts)))
    tags = ["robust-tickets", "text-classification", layout.family]
    return _template().render(
        front=_front_matter(title, base, form, tags + ["pruned", "lottery-ticket"] * bool(pruned or masks), evidence),
        title=title,
        form=form,
        family=layout.family,
        about=about,
        labels=[*model.labels[:MOST_LABELS], *["…"] * (len(model.labels) > MOST_LABELS)],
        classifier=model,
        evidence=evidence,
        rows=list(_measured(evidence)),
        resources=[line for result in evidence.attacks for line in _resources(result)],
        flags=[(attack_name(result), flag) for result in evidence.attacks for flag in result.get("flags") or ()],
    )


def write_card(
    folder: Path, model: ModelClassifier, dense: ModelClassifier, form: str, evidence: Evidence
) -> Path:  # fmt: skip
    """Write the card to ``README.md`` in ``folder``."""
    return write_text(folder / "README.md", card(model, dense, form, evidence))


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("robust_tickets.deploy"),
        autoescape=False,  # it is Markdown: finalize escapes, all but what is marked as safe
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, Markup) else markdown(value),
    )
    environment.filters["long"] = lambda text: Markup(markdown(text, 5 * LONGEST))
    return environment.get_template("card.md.j2")


def _front_matter(title: str, base: str, form: str, tags: list[str], evidence: Evidence) -> str:
    """The YAML that the Hub reads."""
    from huggingface_hub import EvalResult, ModelCardData

    task = one_line(evidence.task) or "unnamed"
    results = [
        EvalResult(
            task_type="text-classification",
            dataset_type=task,
            dataset_name=task,
            metric_type=kind,
            metric_name=name,
            metric_value=round(float(value), 2),
        )
        for kind, name, value in _metrics(evidence)
        if _is_number(value)
    ]
    data = ModelCardData(
        library_name="onnx" if form == "onnx" else "transformers",
        pipeline_tag="text-classification",
        tags=tags,
        base_model=base or None,
        model_name=title if results else None,
        eval_results=results or None,
    )
    return data.to_yaml()


def _metrics(evidence: Evidence) -> Iterator[tuple[str, str, Any]]:
    own = evidence.evaluation or {}
    yield "accuracy", f"Accuracy (n={one_line(own.get('n', '?'))})", own.get("accuracy")
    yield "f1", f"Macro F1 (n={one_line(own.get('n', '?'))})", own.get("macro_f1")
    for result in evidence.attacks:
        n, seed = (one_line(result.get(key, "?")) for key in ("n", "seed"))
        name = f"Accuracy under attack ({one_line(attack_name(result))}, n={n}, seed={seed})"
        yield "accuracy_under_attack", name, result.get("aua")


def one_line(text: Any, limit: int = LONGEST) -> str:
    """``text`` without line breaks, control, formatting and broken characters, cut at ``limit``."""
    kept = "".join("\ufffd" if unicodedata.category(c) in ("Cs", "Cn", "Co") else c for c in str(text))
    kept = "".join(" " if unicodedata.category(c)[0] in "CZ" and c not in _JOINERS else c for c in kept)
    kept = " ".join(kept.split())
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"


def markdown(text: Any, limit: int = LONGEST) -> str:
    """``text`` as inline Markdown that shows exactly its characters: no markup, no HTML, no links, no table cells."""
    line = one_line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", line).replace("www.", "www\\.")


def attack_name(result: Mapping[str, Any]) -> str:
    """``result["attack"]`` is a name or a component's settings with its name."""
    given = result.get("attack", "")
    return str(mapping(given).get("name", "")) if isinstance(given, Mapping) else str(given)


def _on_hub(base: str) -> bool:
    return bool(HUB_ID.fullmatch(base)) and base not in EMBEDDED and not Path(base).exists()


def _measured(evidence: Evidence) -> Iterator[tuple[Any, ...]]:
    """What was measured: its name, the value, the interval, n and the seed."""
    if (own := evidence.evaluation) is not None:
        split, n = own.get("split", "the test split"), own.get("n", "")
        yield f"accuracy on {split}", _percent(own.get("accuracy")), _interval(own.get("interval")), n, ""
        if _is_number(own.get("macro_f1")):
            yield "macro F1", _percent(own["macro_f1"]), "", n, ""
    for result in evidence.attacks:
        attack, between, seed = attack_name(result), mapping(result.get("intervals")), result.get("seed", "")
        n, clean = result.get("n", ""), result.get("clean")
        # success and queries are over the examples that were right before the attack
        right = round(clean * n / 100) if _is_number(clean) and _is_number(n) else ""
        for key, title, of in (
            ("clean", "accuracy before", n),
            ("aua", "accuracy under", n),
            ("suc", "success of", right),
        ):
            if key in result:
                yield f"{title} {attack}", _percent(result[key]), _interval(between.get(key)), of, seed
        if _is_number(result.get("queries")):
            yield f"queries of {attack} an example", f"{result['queries']:.1f}", "", right, seed


def _resources(result: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, Any]]:
    """What an attack used: the kind, the name, and whether it stands in for the paper's."""
    for kind, about in mapping(result.get("resources")).items():
        yield attack_name(result), kind, mapping(about).get("name", ""), mapping(about).get("substitute")


def _percent(value: Any) -> str:
    return f"{value:.1f} %" if _is_number(value) else "not defined"


def _interval(between: Any) -> str:
    low, high = between if isinstance(between, list | tuple) and len(between) == 2 else (None, None)
    return f"{low:.1f} to {high:.1f}" if _is_number(low) and _is_number(high) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def evidence_of(model_folder: str | Path) -> Evidence:
    """The Evidence for a model that a run trained; none for any other folder."""
    stage = Path(model_folder).resolve().parent
    run = stage.parent.parent
    evaluation = record(stage / "evaluation.json") if (stage / "stage.json").is_file() else {}
    if not evaluation:
        return Evidence()
    adversary = mapping(mapping(mapping(record(stage / "stage.json").get("key")).get("method")).get("adversary"))
    words = mapping(record(stage / "adversary.json").get("resources"))
    found = Evidence(evaluation=evaluation, adversary=str(adversary.get("name", "")), words=tuple(words.values()))
    about = record(run / "arms.json")
    arms = [mapping(arm) for arm in listed(about.get("arms"))]
    arm = next((arm for arm in arms if arm.get("train") == f"{stage.parent.name}/{stage.name}"), None)
    if arm is None:
        return found
    title, attacks = str(arm.get("title", "")), [within(run, str(name)) for name in listed(arm.get("attacks"))]
    return replace(
        found,
        name=title,
        method=_method(run, arm) or title,
        base=str(about.get("model", "")),
        task=str(mapping(about.get("task")).get("name", "")),
        attacks=tuple(result for folder in attacks if (result := record(folder / "result.json"))),
    )


def _method(run: Path, arm: Mapping[str, Any]) -> str:
    """The search's name as its ticket tells it; a run without a search trained the whole model."""
    place = arm.get("ticket") or arm.get("search")
    if not place:
        return "fine-tuned, not pruned"
    method = mapping(record(within(run, str(place)) / "ticket.json").get("provenance")).get("method", "")
    return str(method.get("name", "")) if isinstance(method, Mapping) else str(method)

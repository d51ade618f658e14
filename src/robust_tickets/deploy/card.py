"""The model card: what an exported folder is, how to load it, what was measured and what was not.

``Facts`` come from the model itself, ``Evidence`` from the files of a run. A number appears only with its n, its interval and its seed;
without evidence the card says that nothing was measured. Names that people chose (labels, tasks, models) are escaped, so that none can
break the YAML, the Markdown or the page that shows them.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robust_tickets.classifier.loading import EMBEDDED
from robust_tickets.files import listed, mapping, within, write_text
from robust_tickets.stages import record

if TYPE_CHECKING:
    from jinja2 import Template

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?")
SHOWN = 40  # labels, and characters of a name times two, before the card says "…"
_JOINERS = "\u200c\u200d"  # the only formatting characters that words need (Persian, emoji); the others can reorder or hide text
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#!|~$@:^=])")

LOAD = {  # TEXT is what one answer takes: a string, or a pair
    "compact": """pip install robust-tickets

import robust_tickets as rt  # transformers' own AutoModelForSequenceClassification reads it after: import robust_tickets.auto
clf = rt.Classifier.from_pretrained("FOLDER_OR_HUB_ID"); print(clf.predict([TEXT]))""",
    "dense": """from transformers import pipeline
print(pipeline("text-classification", "FOLDER_OR_HUB_ID")(TEXT, truncation=True))""",
    "onnx": """import json, onnxruntime, transformers
about = json.load(open("labels.json"))
session, tokenizer = onnxruntime.InferenceSession("model.onnx"), transformers.AutoTokenizer.from_pretrained(".")
fed = tokenizer([TEXT], truncation=True, padding=True, return_tensors="np")  # cut where the model was trained to read
logits = session.run([about["output"]], {name: fed[name] for name in about["inputs"]})[0]
print([about["labels"][best] for best in logits.argmax(axis=1)])""",
}
STOCK = ("dense", "stock", "masked")
LOAD |= dict.fromkeys(STOCK, LOAD["dense"])
PAIR = dict.fromkeys(LOAD, '("a text", "its second text")') | dict.fromkeys(
    STOCK, '{"text": "a text", "text_pair": "its second text"}'
)
KIND = {
    "stock": "A stock model, not pruned: transformers loads it alone.",
    "compact": "Heads and neurons outside the ticket are physically gone; transformers loads it after `import robust_tickets.auto`.",
    "dense": "Stock shapes, zeros where the ticket cut: transformers loads it alone; the compact model's answers, not its speed.",
    "masked": "Stock shapes, zeros outside the ticket: transformers loads it alone. A mask brings neither speed nor a smaller file.",
    "onnx": "An ONNX graph with free batch and sequence axes; ONNX Runtime's logits were compared with torch's at export (within 1e-4).",
}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the model itself says; ``heads`` and ``neurons`` are (kept, stock) per layer."""

    format: str
    family: str
    model_type: str  # of the written config: "ticket-…" needs our package to load, whatever the ticket cut
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    max_length: int
    parameters: int
    dense_parameters: int
    heads: tuple[tuple[int, int], ...]
    neurons: tuple[tuple[int, int], ...]
    weights: tuple[int, int] | None = None  # (kept, all) of the matrices that an unstructured ticket masks

    @property
    def form(self) -> str:
        """How the folder is loaded: the format, but a stock model stays one however it was exported."""
        if self.format == "dense" and self.weights is not None and not self.pruned:
            return "masked"
        return "stock" if self.format == "compact" and not self.model_type.startswith("ticket-") else self.format

    @property
    def pruned(self) -> bool:
        return any(kept < stock for kept, stock in (*self.heads, *self.neurons))


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


def write_card(folder: Path, facts: Facts, evidence: Evidence) -> Path:
    """``README.md`` in ``folder``."""
    return write_text(folder / "README.md", card(facts, evidence))


class _AsIs(str):
    """Text that the template writes as it is; everything else is escaped."""

    __slots__ = ()


def card(facts: Facts, evidence: Evidence) -> str:
    """The card's text."""
    name = one_line(evidence.name) or f"{facts.family} {'ticket' if facts.pruned or facts.weights else 'classifier'}"
    load = LOAD[facts.form].replace("TEXT", PAIR[facts.form] if len(facts.columns) == 2 else '"a text"')
    groups = [(what, *_kept(pairs)) for what, pairs in (("heads", facts.heads), ("neurons", facts.neurons))]
    measured = evidence.evaluation is not None or bool(evidence.attacks)
    return _template().render(
        facts=facts,
        evidence=evidence,
        name=name,
        base=evidence.base if _on_hub(evidence.base) else Path(evidence.base).name,
        front=_AsIs(front_matter(name, facts, evidence)),
        kind=_AsIs(KIND[facts.form]),
        load=_AsIs(load.replace("pip install", "# pip install")),
        groups=groups if facts.pruned else (),
        most=SHOWN,
        rows=list(_rows(evidence)) if measured else None,
        resources=[line for result in evidence.attacks for line in _resources(result)],
        flags=[
            (attack_name(result), _AsIs(markdown(flag, 400)))
            for result in evidence.attacks
            for flag in result.get("flags") or ()
        ],
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        loader=PackageLoader("robust_tickets.deploy"),
        autoescape=False,  # it is Markdown: finalize escapes
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: value if isinstance(value, _AsIs) else markdown(value),
    )
    return environment.get_template("card.md.j2")


def front_matter(name: str, facts: Facts, evidence: Evidence) -> str:
    """The YAML that the Hub reads."""
    import yaml  # type: ignore[import-untyped]

    ticket = facts.pruned or facts.weights is not None
    head: dict[str, Any] = {
        "library_name": "transformers" if facts.format != "onnx" else "onnx",
        "pipeline_tag": "text-classification",
        "tags": [
            "robust-tickets",
            "text-classification",
            facts.family,
            *(["pruned", "lottery-ticket"] if ticket else []),
        ],
    }
    if _on_hub(evidence.base):
        head["base_model"] = evidence.base
    metrics = _metrics(evidence)
    if metrics:
        task = one_line(evidence.task) or "unnamed"
        result = {"task": {"type": "text-classification"}, "dataset": {"name": task, "type": task}, "metrics": metrics}
        head["model-index"] = [{"name": name, "results": [result]}]
    return str(yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=10_000))


def one_line(text: Any, limit: int = 2 * SHOWN) -> str:
    """``text`` without line breaks, control, formatting and broken characters, cut at ``limit``."""
    kept = "".join("\ufffd" if unicodedata.category(c) in ("Cs", "Cn", "Co") else c for c in str(text))
    kept = "".join(" " if unicodedata.category(c)[0] in "CZ" and c not in _JOINERS else c for c in kept)
    kept = " ".join(kept.split())
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"


def markdown(text: Any, limit: int = 2 * SHOWN) -> str:
    """``text`` as inline Markdown that shows exactly its characters: no markup, no HTML, no links, no table cells."""
    line = one_line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", line).replace("www.", "www\\.")


def _on_hub(base: str) -> bool:
    return bool(HUB_ID.fullmatch(base)) and base not in EMBEDDED and not Path(base).exists()


def _kept(pairs: Sequence[tuple[int, int]]) -> tuple[str, int, float]:
    """What every layer kept, of how many, and the percentage removed."""
    removed = 1 - sum(kept for kept, _ in pairs) / sum(stock for _, stock in pairs)
    return ", ".join(str(kept) for kept, _ in pairs), max(stock for _, stock in pairs), 100 * removed


def _rows(evidence: Evidence) -> Iterator[tuple[Any, ...]]:
    """What was measured: its name, the value, the interval, n and the seed."""
    if (own := evidence.evaluation) is not None:
        split = own.get("split", "the test split")
        yield f"accuracy on {split}", *_percent(own.get("accuracy"), own.get("interval")), own.get("n", ""), ""
        if _number(own.get("macro_f1")):
            yield "macro F1", *_percent(own["macro_f1"], None), own.get("n", ""), ""
    for result in evidence.attacks:
        attack, between, seed = attack_name(result), mapping(result.get("intervals")), result.get("seed", "")
        right = _right(result)  # success and queries are over the examples that were right before the attack
        for key, title in (("clean", "accuracy before"), ("aua", "accuracy under"), ("suc", "success of")):
            if key in result:
                n = right if key == "suc" else result.get("n", "")
                yield f"{title} {attack}", *_percent(result[key], between.get(key)), n, seed
        if _number(result.get("queries")):
            yield f"queries of {attack} an example", f"{result['queries']:.1f}", "", right, seed


def _right(result: Mapping[str, Any]) -> Any:
    clean: Any = result.get("clean")
    n: Any = result.get("n")
    return round(clean * n / 100) if _number(clean) and _number(n) else ""


def _percent(value: Any, between: Any) -> tuple[str, str]:
    interval = f"{between[0]:.1f} to {between[1]:.1f}" if _is_pair(between) else ""
    return f"{value:.1f} %" if _number(value) else "not defined", interval


def attack_name(result: Mapping[str, Any]) -> str:
    """``result["attack"]`` is a name or a component's settings with its name."""
    given = result.get("attack", "")
    return str(given.get("name", "")) if isinstance(given, Mapping) else str(given)


def _resources(result: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """What an attack used: the kind, the name, and whether it stands in for the paper's."""
    given = result.get("resources") or {}
    for kind, entry in given.items() if isinstance(given, Mapping) else (("", entry) for entry in given):
        about = entry if isinstance(entry, Mapping) else {"name": entry}
        yield attack_name(result), kind or about.get("kind", ""), about.get("name", ""), about.get("substitute")


def _metrics(evidence: Evidence) -> list[dict[str, Any]]:
    found = []
    given = evidence.evaluation or {}
    for key, kind, title in (("accuracy", "accuracy", "Accuracy"), ("macro_f1", "f1", "Macro F1")):
        if _number(given.get(key)):
            found.append(
                {
                    "type": kind,
                    "name": f"{title} (n={one_line(given.get('n', '?'))})",
                    "value": round(float(given[key]), 2),
                }
            )
    for result in evidence.attacks:
        if _number(result.get("aua")):
            how = f"{one_line(attack_name(result))}, n={one_line(result.get('n', '?'))}, seed={one_line(result.get('seed', '?'))}"
            found.append(
                {
                    "type": "accuracy_under_attack",
                    "name": f"Accuracy under attack ({how})",
                    "value": round(float(result["aua"]), 2),
                }
            )
    return found


def _is_pair(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2 and all(map(_number, value))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def evidence_of(model_folder: str | Path, **over: Any) -> Evidence:
    """The Evidence for a model that a run trained; for any other folder, only what ``over`` says. ``over`` wins where both speak."""
    stage = Path(model_folder).resolve().parent
    run = stage.parent.parent
    found: dict[str, Any] = {}
    if (stage / "stage.json").is_file() and (stage / "evaluation.json").is_file():
        found = {"evaluation": record(stage / "evaluation.json") or None} | _adversary(stage)
    if found and (run / "arms.json").is_file():
        found |= _of_run(run, f"{stage.parent.name}/{stage.name}")
    return Evidence(**{**found, **{key: value for key, value in over.items() if value}})


def _adversary(stage: Path) -> dict[str, Any]:
    """What the model was trained against, and the words it was swapped with."""
    given = mapping(mapping(mapping(record(stage / "stage.json").get("key")).get("method")).get("adversary"))
    words = mapping(record(stage / "adversary.json").get("resources"))
    return {"adversary": str(given.get("name", "")), "words": tuple(words.values())}


def _of_run(run: Path, stage: str) -> dict[str, Any]:
    about = record(run / "arms.json")
    for arm in map(mapping, listed(about.get("arms"))):
        if arm.get("train") == stage:
            title = str(arm.get("title", ""))
            return {
                "name": title,
                "method": _method(run, arm) or title,
                "base": str(about.get("model", "")),
                "task": str(mapping(about.get("task")).get("name", "")),
                "attacks": tuple(
                    filter(
                        None, (record(within(run, str(name)) / "result.json") for name in listed(arm.get("attacks")))
                    )
                ),
            }
    return {}


def _method(run: Path, arm: Mapping[str, Any]) -> str:
    """The search's name as its ticket tells it; a run without a search trained the whole model."""
    place = arm.get("ticket") or arm.get("search")
    if not place:
        return "fine-tuned, not pruned"
    given = mapping(record(within(run, str(place)) / "ticket.json").get("provenance")).get("method", "")
    return str(given.get("name", "")) if isinstance(given, Mapping) else str(given)

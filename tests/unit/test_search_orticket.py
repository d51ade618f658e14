"""ORTicket: the masked-language model of a classifier, its search on masked words, one ticket for many tasks, refusals."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch.nn import functional as F

import robust_tickets as rt
from adversaries import Gradients, agree, at, first_delta, gradients, next_delta, objective_on
from killing import killed
from refusing import refused
from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.objective import Adversary, Kind
from robust_tickets.backbone.layout import encoder_of
from robust_tickets.classifier import Classifier
from robust_tickets.classifier.mlm import digest_of_model, masked_model
from robust_tickets.config import build, describe
from robust_tickets.data.mlm import IGNORED, MaskedBlocks, blocks_of, find_corpus
from robust_tickets.experiment.execute import search_key
from robust_tickets.prune.gates import Gates
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.search.orticket import ORTicket
from tiny import save_encoder, tiny_model, tiny_tokenizer
from toy import toy_task

SMALL: dict[str, Any] = {"corpus": "task", "block": 16, "batch_size": 4, "lr": 1e-3, "adversary": FreeLB(steps=2)}


def save_masked(folder: Path, family: str = "bert", **settings: Any) -> Path:
    """A checkpoint with a head for masked words, as a pretrained model has it."""
    model = tiny_model(family, "AutoModelForMaskedLM", **settings)
    model.save_pretrained(folder)
    tiny_tokenizer(model.config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=["bert", "roberta"])
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    folder = save_masked(tmp_path_factory.mktemp("masked"), request.param)
    return rt.load_classifier(folder, toy_task(8), max_length=32, device="cpu")


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    return rt.load_classifier(save_masked(tmp_path_factory.mktemp("bert")), toy_task(8), max_length=32, device="cpu")


# --- the model -------------------------------------------------------------------------------------------------------------------


def test_the_head_is_the_checkpoints_and_the_encoder_the_classifiers(
    start: Classifier, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoModelForMaskedLM

    model, saved = masked_model(start), AutoModelForMaskedLM.from_pretrained(start.identity)
    assert digest_of_model(model) == digest_of_model(saved)
    assert "masked words" not in capsys.readouterr().err
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight  # tied


def test_a_classifier_that_was_trained_brings_its_own_encoder(
    start: Classifier, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = start.copy()
    with torch.no_grad():
        encoder_of(changed.model).get_input_embeddings().weight.add_(0.5)
    model = masked_model(changed)
    assert "1 of " in capsys.readouterr().err
    words = encoder_of(changed.model).get_input_embeddings().weight
    assert torch.equal(model.get_input_embeddings().weight, words)
    assert torch.equal(model.get_output_embeddings().weight, words)  # what is tied follows
    assert digest_of_model(model) != digest_of_model(masked_model(start))
    with torch.no_grad():
        model.get_input_embeddings().weight.zero_()
    assert (words != 0).any()  # a copy


def test_a_head_from_another_checkpoint(bert: Classifier, tmp_path: Path) -> None:
    clf = rt.load_classifier(save_encoder(tmp_path / "bare"), toy_task(8), max_length=32, device="cpu")
    with refused("mlm.no_head"):
        masked_model(clf)
    model = masked_model(clf, bert.identity)
    mine = dict(encoder_of(clf.model).named_parameters())
    assert all(torch.equal(parameter, mine[name]) for name, parameter in encoder_of(model).named_parameters())


def test_heads_of_other_backbones_are_refused(bert: Classifier, tmp_path: Path) -> None:
    with refused("mlm.backbone"):
        masked_model(bert, save_masked(tmp_path / "roberta", "roberta"))
    with refused("mlm.backbone"):
        masked_model(bert, save_masked(tmp_path / "wide", neurons=32))
    other = save_masked(tmp_path / "words")
    tokenizer = tiny_tokenizer(bert.model.config)
    tokenizer.add_tokens(["another"])
    tokenizer.save_pretrained(other)
    with refused("mlm.tokenizer"):
        masked_model(bert, other)
    pruned = rt.compact(bert, rt.RandomTicket()(bert).ticket)
    with refused("mlm.backbone"):
        masked_model(pruned)
    wrapped = rt.Classifier.wrap(lambda texts: [[0.5, 0.5]] * len(texts), labels=["a", "b"])
    with refused("classifier.no_model"):
        ORTicket(**SMALL)(wrapped, toy_task(8))


def test_a_masked_classifier_is_refused(bert: Classifier) -> None:
    """Its masks would be lost: what they hold at zero would be trained."""
    masked = rt.apply(bert, rt.OMP(sparsity=0.5)(bert, toy_task(8)).ticket)
    with refused("model.masked"):
        ORTicket(**SMALL)(masked, toy_task(8))


def test_a_head_counts_by_what_it_holds(tmp_path: Path) -> None:
    one, same, other = save_masked(tmp_path / "a"), save_masked(tmp_path / "b"), tmp_path / "c"
    model = tiny_model("bert", "AutoModelForMaskedLM")
    with torch.no_grad():
        model.cls.predictions.bias.add_(1.0)
    model.save_pretrained(other)
    read = [ORTicket(**SMALL, mlm=str(folder)).inputs() for folder in (one, same, other)]
    assert read[0] == read[1] != read[2]
    keys = [search_key(ORTicket(**SMALL, mlm=str(folder)), {}) for folder in (one, same, other)]
    assert keys[0] == keys[1] != keys[2]


def test_the_discriminator_of_electra_has_no_head(tmp_path: Path) -> None:
    model = tiny_model("electra", "AutoModelForPreTraining")
    model.save_pretrained(tmp_path)
    tiny_tokenizer(model.config).save_pretrained(tmp_path)
    clf = rt.load_classifier(tmp_path, toy_task(8), max_length=32, device="cpu")
    with refused("mlm.no_head"):
        masked_model(clf)


# --- the step --------------------------------------------------------------------------------------------------------------------


def test_freelb_on_masked_words_equals_its_box() -> None:
    """In fp64, gates and L1 included: the loss is over asked-for tokens, delta sits on the embeddings of the masked text."""
    adversary = FreeLB(steps=3, step_size=0.05)
    objective = objective_on(mlm=True)
    labels = objective.labels
    assert labels.ndim == 2
    with Gates(objective.model) as gates:
        gates.double()
        objective.regulariser = lambda: gates.l1(0.01, 0.02)
        parts = {**dict(objective.model.named_parameters()), **{f"c.{name}": c for name, c in gates.named_parameters()}}
        expected: Gradients = {name: torch.zeros_like(p) for name, p in parts.items()}
        delta = first_delta(objective, init=adversary.init, norm="l2")
        losses = []
        for k in range(3):
            delta = delta.detach().requires_grad_()
            logits = at(objective, delta)
            asked = [
                -F.log_softmax(logits[i, j], dim=0)[labels[i, j]]
                for i in range(labels.shape[0])
                for j in range(labels.shape[1])
                if labels[i, j] != IGNORED
            ]
            loss = torch.stack(asked).sum() / len(asked)
            penalty = 0.01 * sum(c.abs().sum() for c in gates.heads) + 0.02 * sum(c.abs().sum() for c in gates.neurons)
            whole = loss / 3 + (penalty if k == 2 else 0.0)
            found = torch.autograd.grad(whole, [*parts.values(), delta], allow_unused=True)
            for name, gradient in zip(parts, found, strict=False):
                expected[name] += gradient if gradient is not None else 0.0
            losses.append(float(loss.detach()))
            delta = next_delta(delta, found[-1], step=adversary.step_size, norm="l2", max_norm=0.0)
        got, mean = gradients(objective, adversary)
        got |= {f"c.{name}": c.grad for name, c in gates.named_parameters() if c.grad is not None}
    assert abs(float(mean) - sum(losses) / 3) < 1e-9
    assert any(name.startswith("c.heads") for name in got)
    agree(got, expected)


# --- the search ------------------------------------------------------------------------------------------------------------------


def test_end_to_end(start: Classifier, tmp_path: Path) -> None:
    task, before = toy_task(60), start.digest
    found = ORTicket(**SMALL)(start, task, folder=tmp_path)
    assert start.digest == before
    assert not start.model.training
    ticket = found.ticket
    assert ticket == rt.Ticket.load(tmp_path)
    assert ticket.removed["heads"] == pytest.approx(2 / 12)
    assert any((scores != 1).any() for scores in ticket.scores["neurons"])
    told = ticket.provenance
    assert told["method"]["name"] == "orticket"
    assert told["corpus"]["digest"] == task.train.digest
    assert {line["point"] for line in found.trace} == set(range(len(found.trace)))
    drawn = ticket.draw(neurons=0.5)  # another task's share, without another search
    assert drawn.removed["neurons"] == 0.5
    small = rt.compact(start, drawn)
    rt.FineTune(epochs=1, batch_size=8, adversary=FreeLB(steps=2))(small, task)
    assert len(small.predict(["the film is good"])[0]) == 1


def test_the_vanilla_ticket_and_every_setting_reach_the_search(bert: Classifier) -> None:
    task = toy_task(30)
    options: dict[str, Any] = {**SMALL, "gamma": 0.0, "mini": 0.5}
    losses = [line["loss"] for line in ORTicket(**options)(bert, task).trace]
    again = [line["loss"] for line in ORTicket(**options)(bert, task).trace]
    assert again == losses
    changes: list[dict[str, Any]] = [
        {"adversary": None},
        {"mask_probability": 0.5},
        {"mask_share": 0.1},
        {"random_share": 0.2},
        {"block": 12},
        {"seed": 1},
        {"loader_shuffle": False},
    ]
    for change in changes:
        assert [line["loss"] for line in ORTicket(**{**options, **change})(bert, task).trace] != losses, change


def test_without_a_task_the_corpus_alone_decides(bert: Classifier, tmp_path: Path) -> None:
    corpus = tmp_path / "wiki.txt"
    corpus.write_text("the film is good\na very bad story\n" * 40)
    method = ORTicket(**{**SMALL, "corpus": str(corpus), "mini": 0.5})
    assert not method.needs_task
    assert method.inputs() == {"corpus": find_corpus(str(corpus)).digest}
    assert ORTicket(**SMALL).needs_task
    assert ORTicket(**SMALL).inputs() == {}
    alone = method(bert)
    assert alone.ticket == method(bert, toy_task(20)).ticket
    other = rt.load_classifier(bert.identity, labels=["x", "y", "z"], max_length=16, device="cpu")
    assert method(other).ticket.digest == alone.ticket.digest  # nor do labels, lengths or the classifier's head


def test_a_search_that_is_killed_goes_on_to_the_same_ticket(
    start: Classifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, task = ORTicket(**SMALL, gamma=0.0, mini=0.25, epochs=2, checkpoint_steps=1), toy_task(30)
    whole = method(start, task)
    for dying in (1, 4, 6):
        with killed(dying):
            method(start, task, folder=tmp_path)
        monkeypatch.setenv(
            "ROBUST_TICKETS_CACHE", str(tmp_path / f"cache-{dying}")
        )  # the blocks are made anew, and are the same
    again = method(start, task, folder=tmp_path)
    assert list(again.trace) == list(whole.trace)
    assert again.ticket == whole.ticket


def test_the_checkpoint_of_another_corpus_or_encoder_is_refused(bert: Classifier, tmp_path: Path) -> None:
    method = ORTicket(**SMALL, mini=0.5)
    method(bert, toy_task(20), folder=tmp_path)
    changed = bert.copy()
    with torch.no_grad():
        encoder_of(changed.model).get_input_embeddings().weight.add_(0.5)
    for clf, task in ((bert, toy_task(21)), (changed, toy_task(20))):
        with refused("stage.other_work"):
            method(clf, task, folder=tmp_path)


# --- settings --------------------------------------------------------------------------------------------------------------------


def test_the_papers_ratios() -> None:
    ratios = {
        name: ORTicket.for_task(name, corpus="task").neurons for name in ("imdb", "sst2", "ag_news", "qnli", "qqp")
    }
    assert ratios == {"imdb": 0.3, "sst2": 0.2, "ag_news": 0.3, "qnli": 0.3, "qqp": 0.2}
    assert ORTicket.for_task("imdb").heads == 1 / 6
    method = ORTicket(**SMALL)
    again = build(ORTicket, {k: v for k, v in describe(method).items() if k != "name"})
    assert describe(again) == describe(method)  # says what "auto" is
    shared = {f.name for f in dataclasses.fields(EarlyRobust)} - {"head_l1", "batch_size", "adversary"}
    assert all(getattr(ORTicket(), name) == getattr(EarlyRobust(), name) for name in shared)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Senseless(Adversary):
    defined_for: ClassVar[tuple[Kind, ...]] = ("classification",)


def test_bad_settings_are_refused() -> None:
    with refused("settings.rule"):
        ORTicket(mask_share=0.8, random_share=0.3)
    with refused("adversary.undefined"):
        ORTicket(adversary=Senseless())


def test_a_search_that_cannot_be_made_is_refused_before_it_costs(bert: Classifier) -> None:
    with refused("corpus.missing"):
        ORTicket()(bert)
    with refused("corpus.missing"):
        ORTicket().inputs()
    with refused("settings.rule"):
        ORTicket(**{**SMALL, "block": 128})(bert, toy_task(8))
    with refused("corpus.missing"):
        ORTicket(**SMALL)(bert)
    with refused("corpus.short"):
        ORTicket(**{**SMALL, "block": 64})(bert, toy_task(2))


# --- the real one ----------------------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_the_real_bert_knows_masked_words(shared: Path, tmp_path: Path) -> None:
    folder, wiki = shared / "models" / "bert-base-uncased", shared / "data" / "wiki_en" / "validation.parquet"
    if not (folder.is_dir() and wiki.is_file()):
        pytest.skip("needs bert-base-uncased and wiki_en")
    clf = rt.load_classifier(folder, labels=["neg", "pos"], device="cpu")
    model = masked_model(clf)
    blocks = blocks_of(find_corpus(str(wiki)), clf.tokenizer, 128)
    batches = MaskedBlocks(blocks=blocks, tokenizer=clf.tokenizer, batch_size=4, masked=1.0, replaced=0.0)
    batch = next(iter(batches.epoch(0)))
    with torch.no_grad():
        logits = model(**batch.inputs).logits
    assert float(F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten())) < 3
    some = tmp_path / "wiki.txt"
    some.write_text(next(text for text, _ in find_corpus(str(wiki)).texts() if len(text) > 2000)[:2000])
    count = len(blocks_of(find_corpus(str(some)), clf.tokenizer, 64))
    found = ORTicket(
        corpus=str(some), block=64, batch_size=1, stop="fixed", at_epoch=2 / count, adversary=FreeLB(steps=2)
    )(clf)
    assert found.ticket.provenance["steps_run"] == 2
    assert found.ticket.removed["heads"] == pytest.approx(1 / 6)
    assert found.trace[-1]["loss"] < 7  # dropout and the adversary on; chance is 10.3

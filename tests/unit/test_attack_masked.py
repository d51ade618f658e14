"""The masked language model: its service answers for texts as if they were alone, and a checkpoint without what it needs is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attacking import example_of
from refusing import refused
from robust_tickets.attack.example import Fill
from robust_tickets.attack.services import MASKED_NOISE, Masked
from robust_tickets.attack.text import Text
from robust_tickets.attack.transforms import UnmaskedWords
from robust_tickets.errors import TicketsError
from robust_tickets.resources.masked_lm import MaskedModel
from tiny import save_encoder, tiny_model, tiny_tokenizer

TEXTS = ["a good film", "the plot was very bad, not good!", "zebra", "", "a story is a story " * 20]


def tiny_language(family: str = "bert", seed: int = 0) -> MaskedModel:
    model = tiny_model(family, "AutoModelForMaskedLM", seed=seed)
    return MaskedModel(model, tiny_tokenizer(model.config))


@pytest.fixture(scope="module")
def language() -> MaskedModel:
    return tiny_language()


def test_a_batch_answers_as_each_text_alone_would(language: MaskedModel) -> None:
    together = Masked(language, 7, token_budget=200).answer([Fill(text) for text in [*TEXTS, TEXTS[0]]])
    for text, filled in zip([*TEXTS, TEXTS[0]], together, strict=True):
        ids = language.encode(text)
        with torch.inference_mode():
            logits = language.model(input_ids=torch.tensor([ids])).logits[0]
        scores, best = logits.sort(dim=-1, descending=True)
        assert len(filled.ids) == len(ids) <= 64
        assert np.array_equal(filled.ids, best[:, :7].numpy())
        assert np.abs(filled.gaps - (scores[:, :7] - scores[:, 1:8]).numpy()).max() < MASKED_NOISE
    assert together[0] is together[-1]  # asked twice in a round, run once


def test_a_batch_too_large_is_halved(language: MaskedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = language.logits
    sizes: list[int] = []

    def small(rows: list[list[int]], width: int) -> Any:
        sizes.append(len(rows))
        if len(rows) > 1:
            raise torch.OutOfMemoryError("out of memory")
        return plain(rows, width)

    wanted = Masked(language, 3).answer([Fill(text) for text in TEXTS[:3]])
    monkeypatch.setattr(language, "logits", small)
    found = Masked(language, 3).answer([Fill(text) for text in TEXTS[:3]])
    assert max(sizes) > 1
    for a, b in zip(wanted, found, strict=True):
        assert np.array_equal(a.ids, b.ids)

    def never(rows: list[list[int]], width: int) -> Any:
        raise MemoryError("too little")

    monkeypatch.setattr(language, "logits", never)
    with pytest.raises(TicketsError, match="not enough memory"):
        Masked(language, 3).answer([Fill("good")])


def ask(steps: Any, service: Masked, asked: list[Fill] | None = None) -> list[str]:
    """What a part of the kit finds, its questions answered by ``service``."""
    try:
        question = next(steps)
        while True:
            if asked is not None:
                asked.append(question)
            question = steps.send(service.answer([question])[0])
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def test_one_answer_serves_all_words_of_a_text(language: MaskedModel) -> None:
    text = Text.of(("a good film", "was not bad"))
    game, service, asked = example_of(text.columns)[0], Masked(language, 6), list[Fill]()
    part = UnmaskedWords(language, 6)
    for index in range(len(text)):
        ask(part.replacements(game, text, index), service, asked)
    assert [question.text for question in asked if not question.alone] == ["a good film\nwas not bad"]
    ask(part.replacements(game, text.replace(1, "bad"), 2), service, asked)
    assert asked[-1].text == "a bad film\nwas not bad"


def test_scores_too_near_for_a_batch_are_settled_alone(language: MaskedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Text.of("a good film")
    asked: list[Fill] = []
    service = Masked(language, 6)
    plain = service.answer

    def near(questions: list[Fill]) -> Any:
        found = plain(questions)
        for filled, question in zip(found, questions, strict=True):
            filled.exact = question.alone
            filled.gaps[:] = 1.0
            filled.gaps[2, 2] = MASKED_NOISE  # of the token "good"
            filled.gaps[3, -1] = MASKED_NOISE  # of the token "film"
        return found

    monkeypatch.setattr(service, "answer", near)
    ask(UnmaskedWords(language, 6).replacements(example_of(text.columns)[0], text, 1), service, asked)
    assert [question.alone for question in asked] == [False]  # one token: which of the six comes first does not matter
    ask(UnmaskedWords(language, 6).replacements(example_of(text.columns)[0], text, 2), service, asked)
    assert [question.alone for question in asked] == [False, False, True]


@pytest.mark.parametrize("family", ["electra", "distilbert"])
def test_other_families_load(tmp_path: Path, family: str) -> None:
    model = tiny_model(family, "AutoModelForMaskedLM")
    model.save_pretrained(tmp_path)
    tiny_tokenizer(model.config).save_pretrained(tmp_path)
    language = MaskedModel.load(tmp_path)
    with torch.inference_mode():
        assert torch.allclose(language.logits([[2, 5, 3]], 3), model(torch.tensor([[2, 5, 3]])).logits, atol=1e-5)


def test_what_is_no_masked_language_model_is_refused(tmp_path: Path) -> None:
    with refused("masked.missing"):
        MaskedModel.load(tmp_path)
    with refused("masked.no_head"):
        MaskedModel.load(save_encoder(tmp_path / "bare"))
    model = tiny_model("bert", "AutoModelForMaskedLM")
    tokenizer = tiny_tokenizer(model.config)
    tokenizer.convert_ids_to_tokens = lambda ids: ["Ġword"] * len(ids)
    with refused("masked.tokenizer"):
        MaskedModel(model, tokenizer)

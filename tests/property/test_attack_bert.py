"""BERT-Attack's candidates are those of the slow way: all combinations made, the first K of them that are one word kept."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from attacking import MARK, Assembled, Literal, example_of, literal_replace, toy_victim
from robust_tickets.attack.example import Fill
from robust_tickets.attack.recipes.bertattack import BertAttack
from robust_tickets.attack.services import MASKED_NOISE, Masked
from robust_tickets.attack.text import Text
from robust_tickets.attack.transforms import MaskedWord, UnmaskedWords, doubtful
from robust_tickets.data.task import Split
from robust_tickets.resources.masked_lm import MaskedModel
from robust_tickets.resources.words import NLTK, word_list
from robust_tickets.seeds import numpy_generator
from tiny import WORDS, tiny_model, tiny_tokenizer

MODEL = tiny_model("bert", "AutoModelForMaskedLM")
LANGUAGE = MaskedModel(MODEL, tiny_tokenizer(MODEL.config))
texts = st.lists(
    st.sampled_from([*WORDS, "Good", "zoo", "ax", "it's", "good😀", "😀bad", "zax😀", "[MASK]", "é", ",", "!", "\n"]),
    min_size=1,
    max_size=40,
).map(" ".join)


def padded(text: str) -> torch.Tensor:
    """The scores at every token, padded as far as the model goes, as TextAttack runs it."""
    told = LANGUAGE.tokenizer(text, truncation=True, max_length=64, padding="max_length", return_tensors="pt")
    with torch.inference_mode():
        return MODEL(**told).logits[0]


def masked_at(columns: tuple[str, ...], index: int) -> int | None:
    text = "\n".join(literal_replace(columns, index, "[MASK]"))
    ids = LANGUAGE.tokenizer(text, truncation=True, max_length=64, padding="max_length")["input_ids"]
    return ids.index(LANGUAGE.tokenizer.mask_token_id) if LANGUAGE.tokenizer.mask_token_id in ids else None


def suited(columns: tuple[str, ...], index: int, count: int) -> list[str]:
    word, place = word_list(MARK.join(columns))[index], masked_at(columns, index)
    size = len(LANGUAGE.tokenizer.encode(word, add_special_tokens=False))
    if place is None or not size:
        return []
    best = padded("\n".join(columns)).topk(count).indices[place : min(place + size, 64)].tolist()
    tokens = [LANGUAGE.tokenizer.convert_ids_to_tokens(ids) for ids in best]
    if len(tokens) == 1:
        return [token for token in tokens[0] if len(word_list(token)) == 1 and "##" not in token]
    whole = ["".join(parts).replace("##", "") for parts in itertools.product(*tokens)]
    return [word for word in whole if len(word_list(word)) == 1][:count]


def answered(steps: Any, service: Masked) -> list[str]:
    try:
        question: Fill = next(steps)
        while True:
            question = steps.send(service.answer([question, Fill("some company of another length")])[0])
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


@given(texts, texts | st.none(), st.integers(1, 6), st.data())
def test_candidates_equal_all_combinations(first: str, second: str | None, count: int, data: st.DataObject) -> None:
    columns = (first,) if second is None else (first, second)
    text = Text.of(columns)
    example, _ = example_of(columns)
    for index in data.draw(st.lists(st.integers(0, len(text) - 1), min_size=1, max_size=4)) if len(text) else []:
        if len(LANGUAGE.tokenizer.encode(text.words[index], add_special_tokens=False)) > 5:
            continue  # 6^6 combinations
        found = answered(UnmaskedWords(LANGUAGE, count).replacements(example, text, index), Masked(LANGUAGE, count))
        assert found == suited(columns, index, count)


@given(st.integers(1, 3), st.integers(1, 5), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_what_is_not_in_doubt_cannot_be_changed_by_rounding(pieces: int, kept: int, wanted: int, seed: int) -> None:
    random = numpy_generator(seed, "doubt")
    size = kept + 2
    scores = np.cumsum(
        random.choice([MASKED_NOISE / 2, MASKED_NOISE, 3 * MASKED_NOISE, 9 * MASKED_NOISE], size=(pieces, size)), axis=1
    )
    good = random.random((size,) * pieces) < 0.6  # which combinations are words

    def first(values: np.ndarray) -> tuple[list[tuple[int, ...]], int, np.ndarray]:
        ids = np.argsort(-values, axis=1)
        ranked = np.take_along_axis(values, ids, axis=1)
        found, tried = list[tuple[int, ...]](), 0
        for parts in itertools.product(*ids[:, :kept].tolist()):
            tried += 1
            found += [parts] if good[parts] else []
            if len(found) == wanted:
                break
        return sorted(found), tried, (ranked[:, :-1] - ranked[:, 1:])[:, :kept]

    found, tried, gaps = first(scores)
    if pieces > 1 and not doubtful(gaps, tried):
        for _ in range(5):
            assert first(scores + random.uniform(-MASKED_NOISE, MASKED_NOISE, scores.shape))[0] == found


@given(texts, st.integers(1, 8), st.data())
def test_blanks_equal_a_walk_down_the_scores(first: str, count: int, data: st.DataObject) -> None:
    text = Text.of(first)
    if not len(text):
        return
    index = data.draw(st.integers(0, len(text) - 1))
    example, _ = example_of(first)
    found = answered(
        MaskedWord(LANGUAGE, count).replacements(example, text, index), Masked(LANGUAGE, count, LANGUAGE.whole_words)
    )
    place, wanted = masked_at((first,), index), list[str]()
    if place is not None:
        scores = padded("\n".join(literal_replace((first,), index, "[MASK]")))[place]
        for token in LANGUAGE.tokenizer.convert_ids_to_tokens(scores.argsort(descending=True).tolist()):
            bare = token.replace("##", "")
            if len(word_list(bare)) == 1 and len(wanted) < count:
                wanted.append(bare)
    assert found == [word for word in wanted if any(c in "abcdefghijklmnopqrstuvwxyz" for c in word.lower())]


def test_bert_attack_equals_the_literal_search() -> None:
    """The whole search with the candidates of the slow way, status, text and queries alike."""

    attack = Assembled(inner=BertAttack(words=4), parts={"masked": LANGUAGE})
    rows = [
        "a good film is bad",
        "Good zoo, awful plot!",
        "the great story was not fine",
        "poor",
        "an ax is an ax",
        "very bad movie 😀zoo story",
    ]
    seen = set()
    for salt in range(4):
        clf = toy_victim(salt)
        labels = [Literal(clf, 0).probabilities((row,)).argmax() for row in rows]
        result = attack(clf, Split.of(rows, labels), n=0, live=3)
        for row, outcome in zip(rows, result.examples(), strict=True):
            status, final, queries = literal(clf, outcome.label, row)
            assert (outcome.status, outcome.perturbed, outcome.queries) == (status, (final,), queries)
            seen.add(status)
    assert seen == {"success", "failed"}


def literal(clf: Any, label: int, row: str) -> tuple[str, str, int]:
    judge = Literal(clf, label)
    best, current, changed = judge.ask((row,)), row, set[int]()
    places = [i for i, word in enumerate(word_list(row)) if word not in NLTK]
    scores = np.array([judge.ask(literal_replace((row,), i, "[UNK]")) for i in places])
    for i in np.array(places)[(-scores).argsort()]:
        if word_list(current)[i] in NLTK or i in changed:
            continue
        found = []
        for new in suited((current,), int(i), 4):
            (text,) = literal_replace((current,), int(i), new)
            before, after = word_list(row), word_list(text)
            differ = sum(a != b for a, b in zip(before, after, strict=False))
            if new != word_list(current)[i] and differ <= np.ceil(0.4 * min(len(before), len(after))):
                found.append(text)
        answers = sorted(((judge.ask((text,)), text) for text in sorted(found)), key=lambda answer: -answer[0])
        if not answers or answers[0][0] <= best:
            continue
        best, current = answers[0]
        changed.add(int(i))
        if judge.turned((current,)):
            return "success", current, judge.queries
    return "failed", current, judge.queries

"""The synonym table of a tokenizer: which places may be swapped and what may stand there, for the three ways tokenizers mark words."""

from __future__ import annotations

import json
import string
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_tickets.adversary.words import Words
from robust_tickets.cache import cache_place
from robust_tickets.errors import TicketsError
from robust_tickets.resources.synonyms import ARRAYS, at_most, synonym_table
from robust_tickets.resources.vectors import read_arrays
from tiny import WORDS, tiny_config, tiny_tokenizer

LISTS = {
    "good": ["great", "fine", "goodish"],
    "film": ["movie", "plot"],
    "bad": ["poor"],
    "plot": ["story"],
    "the": ["a"],
    "Poor": ["bad"],
}
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
KINDS = ("wordpiece", "bytes", "pieces")


def _fast(backend: Any) -> Any:
    from transformers import PreTrainedTokenizerFast

    names = dict(zip(("pad_token", "unk_token", "bos_token", "eos_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names)


@cache
def _tokenizer(kind: str) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    if kind == "wordpiece":
        return tiny_tokenizer(tiny_config("bert"))
    if kind == "bytes":
        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=1000, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
        )
        backend.train_from_iterator(
            [f"{word} {word}\n{word}" for word in (*WORDS, "Poor", "café") for _ in range(4)], trainer
        )
        return _fast(backend)
    letters = [(letter, -9.0) for letter in string.ascii_letters + string.punctuation]
    whole = [(mark + word, -2.0) for word in (*WORDS, "Poor") for mark in ("▁", "") if len(mark + word) > 1]
    backend = Tokenizer(models.Unigram([*((name, 0.0) for name in SPECIAL), ("▁", -8.0), *letters, *whole], unk_id=1))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    return _fast(backend)


def _table(kind: str, lists: dict[str, list[str]] = LISTS, **options: Any) -> Any:
    path = cache_place("test-lists.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(lists))
    return synonym_table(_tokenizer(kind), source=str(path), **options)


def _reads(kind: str, number: int) -> str:
    return str(_tokenizer(kind).convert_ids_to_tokens(int(number))).lstrip("Ġ▁")


WORD = st.sampled_from([*WORDS, "Poor", "goods", "ungood", "filmmovie", "badfilm", "plots"])
TEXT = st.lists(st.tuples(st.sampled_from([" ", " (", ", ", ".", " '", "-"]), WORD), min_size=1, max_size=8).map(
    lambda parts: "".join(gap + word for gap, word in parts).strip()
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80)
@given(text=TEXT)
def test_exactly_the_whole_words_with_candidates_may_be_swapped(kind: str, text: str) -> None:
    """Told by the characters around a token, which the table never sees."""
    table = _table(kind)
    read = _tokenizer(kind)(text, add_special_tokens=False, return_offsets_mapping=True)
    ids = np.array(read["input_ids"])
    for place, (start, end) in enumerate(read["offset_mapping"]):
        start += len(text[start:end]) - len(text[start:end].lstrip())
        word = text[start:end]
        whole = not text[:start][-1:].isalnum() and not text[end:][:1].isalnum()
        expected = whole and word.lower() in ("good", "film", "bad", "plot")
        assert table.swappable(ids)[place] == expected, (text, word)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(texts=st.lists(TEXT, min_size=1, max_size=4), seed=st.integers(0, 2**31))
def test_the_device_sees_what_the_table_says_and_never_padding_or_specials(
    kind: str, texts: list[str], seed: int
) -> None:
    tokenizer, table = _tokenizer(kind), _table(kind)
    rows = [[*tokenizer.all_special_ids, *tokenizer(text, add_special_tokens=False)["input_ids"]] for text in texts]
    width = max(map(len, rows))
    mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    padding = np.random.default_rng(seed).integers(0, len(table.counts), (len(rows), width))  # whatever stands there
    ids = np.where(mask, np.array([row + [0] * (width - len(row)) for row in rows]), padding)
    inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    got = Words(table).swappable(inputs, torch.zeros(len(rows), dtype=torch.long)).numpy()
    assert not got[mask == 0].any()
    assert not got[np.isin(ids, tokenizer.all_special_ids)].any()
    for i, row in enumerate(rows):
        assert (got[i, : len(row) - 1] == table.swappable(ids[i])[: len(row) - 1]).all()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30)
@given(
    lists=st.dictionaries(
        st.sampled_from([*WORDS, "Poor"]), st.lists(st.sampled_from([*WORDS, "nowhere", "GOOD"]), max_size=6)
    ),
    most=st.integers(1, 4),
)
def test_candidates_are_listed_words_in_their_order(kind: str, lists: dict[str, list[str]], most: int) -> None:
    table = _table(kind, lists, candidates=most)
    assert table.candidates.dtype == table.counts.dtype == np.int32
    assert table.counts.max() <= most + 1
    marks = np.array(
        [
            token.startswith(("Ġ", "▁"))
            for token in _tokenizer(kind).convert_ids_to_tokens(list(range(len(table.counts))))
        ]
    )
    for number in range(len(table.counts)):
        own, *others = table.candidates[number].tolist()
        count = table.counts[number] - 1
        assert own == number
        assert all(other == number for other in others[count:])
        assert len(set(others[:count]) - {number}) == count
        assert (marks[others[:count]] == marks[number]).all()
        if count:
            listed = [near.lower() for near in lists[_reads(kind, number).lower()]]
            words = [_reads(kind, other).lower() for other in others[:count]]
            assert words == [word for word in dict.fromkeys(listed) if word in words]


def test_it_is_built_once_and_a_damaged_one_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path))
    first = _table("wordpiece")
    (place,) = (tmp_path / "synonyms").iterdir()
    monkeypatch.setattr("robust_tickets.resources.synonyms.look_up", None)  # not asked again
    assert (_table("wordpiece").candidates == first.candidates).all()
    monkeypatch.undo()
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path))
    place.write_bytes(place.read_bytes()[:100])
    assert (_table("wordpiece").candidates == first.candidates).all()
    _table("wordpiece", {**LISTS, "bad": ["awful"]})
    _table("bytes")
    assert len(list((tmp_path / "synonyms").iterdir())) == 3


def test_no_damage_to_a_cached_table_is_fatal_or_believed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROBUST_TICKETS_CACHE", str(tmp_path))
    table = _table("wordpiece")
    (place,) = (tmp_path / "synonyms").iterdir()
    sound, draws = place.read_bytes(), np.random.default_rng(0)
    for at in range(0, len(sound), 3):
        place.write_bytes(sound[:at] + draws.bytes(4) + sound[at + 4 :])
        stored = read_arrays(place, *ARRAYS)
        assert all((each == getattr(table, name)).all() for name, each in zip(ARRAYS, stored, strict=bool(stored)))


def test_wordnet_gives_the_synonyms_of_pwws_and_leaves_its_stop_words() -> None:
    from robust_tickets.resources import wordnet
    from robust_tickets.resources.words import NLTK

    tokenizer = _tokenizer("wordpiece")
    table = synonym_table(tokenizer)
    for word in WORDS:
        number = tokenizer.convert_tokens_to_ids(word)
        near = {_reads("wordpiece", n) for n in table.candidates[number][1 : table.counts[number]]}
        vocabulary = {token for token in tokenizer.get_vocab() if not token.startswith("##")}
        assert near == (set() if word in NLTK else {s.lower() for s in wordnet.synonyms(word)} & vocabulary - {word})
    assert table.source.record()["digest"] == wordnet.digest()
    assert not table.source.substitute


def test_too_many_wordnet_synonyms_are_thinned_over_the_alphabet() -> None:
    assert at_most(list(range(10)), 4, spread=True) == [0, 2, 5, 7]
    assert at_most(list(range(10)), 4, spread=False) == [0, 1, 2, 3]
    assert at_most([1, 2], 4, spread=True) == [1, 2]


def test_vectors_give_near_words_and_say_that_they_are_substitutes(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("good\ngreat\nbad\nfilm\n")
    np.save(tmp_path / "vectors.npy", np.array([[1.0, 0.0], [0.9, 0.4], [-1.0, 0.1], [0.4, 0.9]], dtype=np.float32))
    tokenizer = _tokenizer("wordpiece")
    table = synonym_table(tokenizer, source=str(tmp_path))
    words = {word: [_reads("wordpiece", n) for n in table.candidates[i][1 : table.counts[i]]]
             for word in ("good", "great", "bad", "film") for i in [tokenizer.convert_tokens_to_ids(word)]}  # fmt: skip
    assert words == {"good": ["great"], "great": ["good", "film"], "bad": [], "film": ["great"]}
    assert table.source.substitute
    (tmp_path / "resource.json").write_text('{"name": "published", "substitute": false}')
    assert synonym_table(tokenizer, source=str(tmp_path)).source.record()["name"] == "published"


def test_coverage_counts_words_not_tokens() -> None:
    covered = _table("wordpiece").coverage(_tokenizer("wordpiece"), ["The good film, goods!", ""])
    assert covered == {"words": 4, "one_token": 0.75, "stop_words": 0.25, "swappable": 0.5}


def test_a_model_with_more_or_fewer_rows_than_the_tokenizer(tmp_path: Path) -> None:
    size = len(_tokenizer("wordpiece"))
    more, fewer = (_table("wordpiece", rows=rows) for rows in (size + 7, size - 50))
    assert (more.candidates[size:] == np.arange(size, size + 7)[:, None]).all()
    assert len(fewer.counts) == size - 50
    assert fewer.candidates.max() < size - 50


@pytest.mark.parametrize("content", ["[1]", '{"a": "b"}', '{"a": [1]}', "{"])
def test_a_file_that_holds_no_word_lists_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(TicketsError):
        synonym_table(_tokenizer("wordpiece"), source=str(tmp_path / "x.json"))


@pytest.mark.shared
def test_wordnet_covers_sst2_with_berts_vocabulary(shared: Path) -> None:
    import pyarrow.parquet as parquet
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(shared / "models" / "bert-base-uncased")
    texts = parquet.read_table(shared / "data" / "sst2" / "train.parquet").column("text").to_pylist()[:3000]
    table = synonym_table(tokenizer)
    covered = table.coverage(tokenizer, texts)
    assert covered["one_token"] > 0.85
    assert 0.3 < covered["swappable"] < 0.6
    film = tokenizer.convert_tokens_to_ids("movie")
    assert set(tokenizer.convert_ids_to_tokens(table.candidates[film][: table.counts[film]].tolist())) == {
        "movie", "film", "flick", "pic", "picture",
    }  # fmt: skip

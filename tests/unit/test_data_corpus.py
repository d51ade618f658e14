"""Corpora from files, folders and tasks; their blocks, cached; and the masks on them."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusing import refused
from robust_tickets.classifier.tokenizer import digest_of
from robust_tickets.data import mlm as blocks_module
from robust_tickets.data.mlm import IGNORED, Corpus, MaskedBlocks, blocks_of, find_corpus
from robust_tickets.seeds import numpy_generator
from tiny import tiny_config, tiny_tokenizer
from toy import toy_task

TEXTS = ("the film is good", "a very bad story", "the plot was awful", "not an awful movie")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return tiny_tokenizer(tiny_config("bert"))


def _txt(folder: Path, texts: tuple[str, ...] = TEXTS, name: str = "wiki.txt") -> Path:
    path = folder / name
    path.write_text("\n\n".join(texts) + "\n", encoding="utf-8")
    return path


def _jsonl(folder: Path, texts: tuple[str, ...] = TEXTS) -> Path:
    path = folder / "wiki.jsonl"
    path.write_text("".join(json.dumps({"title": "x", "text": text}) + "\n" for text in texts))
    return path


def _parquet(folder: Path, texts: tuple[str, ...] = TEXTS) -> Path:
    pq.write_table(pa.table({"content": list(texts)}), folder / "wiki.parquet")
    return folder / "wiki.parquet"


@pytest.mark.parametrize("write", [_txt, _jsonl, _parquet])
def test_one_document_a_line_or_row(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    corpus = find_corpus(str(write(tmp_path)))
    assert [text for text, _ in corpus.texts()] == list(TEXTS)
    assert [text for text, _ in corpus.texts()] == list(TEXTS)  # as often as it is asked


def test_a_folder_reads_its_training_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("train-1.txt", "train-0.txt", "test.txt"):
        _txt(tmp_path, (f"from {name}",), name)
    corpus = find_corpus(str(tmp_path))
    assert [text for text, _ in corpus.texts()] == ["from train-0.txt", "from train-1.txt"]
    assert "called train" in capsys.readouterr().err


def test_a_task_gives_its_training_texts() -> None:
    task = toy_task(5, pairs=True)
    corpus = find_corpus("task", task=task)
    assert [text for text, _ in corpus.texts()] == [" ".join(example.texts) for example in task.train]
    assert corpus.digest == task.train.digest


def test_the_digest_is_of_the_texts_not_of_the_place(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, same, other = _txt(tmp_path / "a"), _txt(tmp_path / "b", name="copy.txt"), _txt(tmp_path, TEXTS[:2])
    assert find_corpus(str(one)).digest == find_corpus(str(same)).digest != find_corpus(str(other)).digest


def test_long_lines_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robust_tickets.data.readers.LONGEST_LINE", 10)
    path = _txt(tmp_path, ("é" * 25,))
    assert [text for text, _ in find_corpus(str(path)).texts()] == ["é" * 10, "é" * 10, "é" * 5]


def test_ids_above_two_bytes_are_kept_whole(tmp_path: Path, tokenizer: Any) -> None:
    class Gaps:
        """A tokenizer of few words whose ids reach beyond 65535."""

        def __getattr__(self, name: str) -> Any:
            return getattr(tokenizer, name)

        def __len__(self) -> int:
            return len(tokenizer)

        def get_vocab(self) -> dict[str, int]:
            return {**tokenizer.get_vocab(), "far": 70_000}

        def __call__(self, texts: Any, **options: Any) -> Any:
            found = tokenizer(texts, **options)
            return found if isinstance(texts, str) else {"input_ids": [[70_000] for _ in texts]}

    made = blocks_of(find_corpus(str(_txt(tmp_path, TEXTS * 7))), Gaps(), 8)
    assert 70_000 in made


def test_a_hub_corpus_gives_the_texts_of_its_training_split(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    asked = []

    def load(*names: Any, **_: Any) -> Any:
        asked.append(names)
        splits = {"test": ["another"], "train": ["", " the film \n", "a story"]}  # wikitext has empty rows
        return datasets.DatasetDict(
            {name: datasets.Dataset.from_dict({"text": texts, "title": texts}) for name, texts in splits.items()}
        )

    monkeypatch.setattr(datasets, "load_dataset", load)
    name = "someone/wiki:raw"
    corpus = find_corpus(name)
    assert [text for text, _ in corpus.texts()] == [text for text, _ in corpus.texts()] == [" the film \n", "a story"]
    assert corpus.name == name
    assert find_corpus(name).digest == corpus.digest != find_corpus(name, column="title").digest
    assert asked[0] == ("someone/wiki", "raw")
    with refused("corpus.column"):
        find_corpus(name, column="body")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.text("ab c", min_size=1, max_size=30).filter(str.strip), min_size=8, max_size=40), st.integers(5, 20)
)
def test_blocks_are_the_stream_of_documents_cut(texts: list[str], block: int) -> None:
    tokenizer = tiny_tokenizer(tiny_config("bert"))
    stream = [
        i for text in texts for i in [*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.sep_token_id]
    ]
    name = json.dumps([texts, block])
    corpus = Corpus(name="lists", digest=name, size=1, texts=lambda: ((text, "") for text in texts))
    whole = len(stream) // (block - 2)
    if whole == 0:
        with refused("corpus.short"):
            blocks_of(corpus, tokenizer, block)
        return
    made = blocks_of(corpus, tokenizer, block)
    assert made.shape == (whole, block)
    assert (made[:, 0] == tokenizer.cls_token_id).all()
    assert (made[:, -1] == tokenizer.sep_token_id).all()
    assert made[:, 1:-1].flatten().tolist() == stream[: whole * (block - 2)]


def test_blocks_do_not_depend_on_how_much_is_tokenised_at_once(
    tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, before = find_corpus(str(_txt(tmp_path, TEXTS * 9))), digest_of(tokenizer)
    whole = np.array(blocks_of(corpus, tokenizer, 8))
    monkeypatch.setattr(blocks_module, "AT_ONCE", 20)
    monkeypatch.setattr(blocks_module, "FORMAT", -1)
    assert (np.array(blocks_of(corpus, tokenizer, 8)) == whole).all()
    assert digest_of(tokenizer) == before


def test_blocks_are_made_once_and_mapped(tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = find_corpus(str(_txt(tmp_path, TEXTS * 11)))
    first = blocks_of(corpus, tokenizer, 8)
    assert isinstance(first, np.memmap)
    assert not first.flags.writeable
    with monkeypatch.context() as patch:
        patch.setattr(blocks_module, "_cut", lambda *_: pytest.fail("made again"))
        assert (blocks_of(corpus, tokenizer, 8) == first).all()
        with pytest.raises(pytest.fail.Exception, match="made again"):  # another length is another file
            blocks_of(corpus, tokenizer, 9)
    copy, path = np.array(first), Path(str(first.filename))
    path.unlink()
    path.write_bytes(b"torn")
    assert (blocks_of(corpus, tokenizer, 8) == copy).all()


@pytest.fixture(scope="module")
def random_blocks(tokenizer: Any) -> np.ndarray:
    ids = numpy_generator(0, "blocks").integers(0, len(tokenizer), size=(400, 64))  # special tokens inside, too
    ids[:, 0], ids[:, -1] = tokenizer.cls_token_id, tokenizer.sep_token_id
    return ids


def _all(batches: MaskedBlocks, epoch: int = 0) -> dict[str, np.ndarray]:
    made = [batch.tensors() for batch in batches.epoch(epoch)]
    return {name: np.concatenate([batch[name].numpy() for batch in made]) for name in made[0]}


def _within(count: int, of: int, share: float) -> bool:
    """Within five standard deviations of a binomial draw: 1 in 1.7 million misses."""
    return bool(abs(count - share * of) <= 5 * np.sqrt(of * share * (1 - share)))


@pytest.mark.parametrize("shares", [(0.15, 0.8, 0.1), (0.4, 0.5, 0.5), (0.3, 1.0, 0.0), (0.2, 0.0, 0.0)])
def test_masking_statistics(tokenizer: Any, random_blocks: np.ndarray, shares: tuple[float, float, float]) -> None:
    probability, masked, replaced = shares
    batches = MaskedBlocks(
        blocks=random_blocks,
        tokenizer=tokenizer,
        batch_size=7,
        probability=probability,
        masked=masked,
        replaced=replaced,
        shuffle=False,
    )
    made = _all(batches)
    special = np.isin(random_blocks, tokenizer.all_special_ids)
    chosen, seen = made["labels"] != IGNORED, made["input_ids"]
    assert not (chosen & special).any()
    assert (made["labels"][chosen] == random_blocks[chosen]).all()
    assert (seen[~chosen] == random_blocks[~chosen]).all()
    assert _within(int(chosen.sum()), int((~special).sum()), probability)
    count = int(chosen.sum())
    by_mask = int((seen[chosen] == tokenizer.mask_token_id).sum())
    changed = seen[chosen & (seen != random_blocks) & (seen != tokenizer.mask_token_id)]
    assert _within(by_mask, count, masked)
    words = len(tokenizer) - len(tokenizer.all_special_ids)
    assert _within(len(changed), count, replaced * (1 - 1 / words))  # a word may come back by chance
    assert not np.isin(changed, tokenizer.all_special_ids).any()
    if replaced:
        assert len(np.unique(changed)) > words * 0.8
    assert (made["attention_mask"] == 1).all()


def test_batches_depend_on_seed_epoch_and_number_alone(tokenizer: Any, random_blocks: np.ndarray) -> None:
    made = MaskedBlocks(blocks=random_blocks, tokenizer=tokenizer, batch_size=16, seed=3, token_types=True)
    whole = list(made.epoch(1))
    assert len(whole) == len(made) == 25
    later = list(
        MaskedBlocks(blocks=random_blocks, tokenizer=tokenizer, batch_size=16, seed=3, token_types=True).epoch(
            1, start=20
        )
    )
    assert len(later) == 5
    for one, same in zip(whole[20:], later, strict=True):
        assert one.tensors().keys() == {"input_ids", "attention_mask", "token_type_ids", "labels"}
        assert all((value == same.tensors()[name]).all() for name, value in one.tensors().items())
    for other in (
        made.epoch(0),
        MaskedBlocks(blocks=random_blocks, tokenizer=tokenizer, batch_size=16, seed=4).epoch(1),
    ):
        assert (next(iter(other)).inputs["input_ids"] != whole[0].inputs["input_ids"]).any()


def test_every_epoch_and_every_batch_has_its_own_masks(tokenizer: Any, random_blocks: np.ndarray) -> None:
    twice = np.concatenate([random_blocks[:16], random_blocks[:16]])
    made = MaskedBlocks(blocks=twice, tokenizer=tokenizer, batch_size=16, shuffle=False)
    first, second, later = *made.epoch(0), next(iter(made.epoch(1)))
    assert (first.labels != second.labels).any()
    assert (first.labels != later.labels).any()


def test_every_block_comes_once_an_epoch(tokenizer: Any) -> None:
    ids = np.full((30, 6), tokenizer.cls_token_id)
    ids[:, 2] = np.arange(30) + 10
    made = _all(MaskedBlocks(blocks=ids, tokenizer=tokenizer, batch_size=4, probability=0.01))
    words = np.where(made["labels"] != IGNORED, made["labels"], made["input_ids"])[:, 2]
    assert sorted(words) == list(np.arange(30) + 10)
    assert (words != np.arange(30) + 10).any()


def test_every_batch_asks_for_a_word(tokenizer: Any) -> None:
    ids = np.full((20, 4), tokenizer.cls_token_id)
    ids[:, 1] = 20
    for batch in MaskedBlocks(blocks=ids, tokenizer=tokenizer, batch_size=2, probability=1e-6).epoch(0):
        assert int((batch.labels != IGNORED).sum()) == 1
        assert (batch.labels[batch.labels != IGNORED] == 20).all()


def test_bad_texts_are_left_out_and_counted(tmp_path: Path, tokenizer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.txt"
    path.write_bytes(b"\xef\xbb\xbfthe film\nbad \xff byte\nnul \0 here\n" + b"a good movie\n" * 40)
    good = blocks_of(find_corpus(str(path)), tokenizer, 8)
    assert "1 × broken UTF-8" in capsys.readouterr().err
    assert tokenizer.decode(good[0]).split()[1:3] == ["the", "film"]
    path = tmp_path / "bad.jsonl"
    path.write_text('{"text": "the film is good"}\n{bad\n{"text": 3}\n{"text": null}\n' * 30)
    blocks_of(find_corpus(str(path)), tokenizer, 8)
    assert "60 texts were left out" in capsys.readouterr().err


def test_memory_stays_bounded(tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "AT_ONCE", 10_000)
    path = _txt(tmp_path, TEXTS * 10_000)
    tracemalloc.start()
    made = blocks_of(find_corpus(str(path)), tokenizer, 32)
    assert tracemalloc.get_traced_memory()[1] < 4e6
    tracemalloc.stop()
    assert len(made) > 5000


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("wide.txt", "the film".encode("utf-16"), "data.encoding"),
        ("two.csv", b"title,body\na,b\n", "corpus.column"),
        ("notes.md", b"the film", "data.format"),
        ("binary.txt", b"a\xff\n" * 9, "corpus.short"),
        ("russian.txt", "фильм был хорош\n".encode() * 40, "corpus.language"),
    ],
)
def test_bad_files_are_refused(name: str, content: bytes, code: str, tmp_path: Path, tokenizer: Any) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(code):
        blocks_of(find_corpus(str(tmp_path / name)), tokenizer, 8)
    if code == "corpus.column":
        assert [text for text, _ in find_corpus(str(tmp_path / name), column="body").texts()] == ["b"]


def test_what_is_no_corpus_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    for name in ("./nowhere", "nowhere.txt", "some words", "wiki"):
        with refused("corpus.not_found"):
            find_corpus(name)
    for name in ("", "task"):
        with refused("corpus.missing"):
            find_corpus(name)
    with refused("corpus.file"):
        find_corpus(str(tmp_path))

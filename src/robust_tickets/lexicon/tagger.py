"""Universal part-of-speech tags by NLTK's averaged perceptron, read from a given nltk_data folder: no pickle, no download.

The folder holds the tagger's three JSON files and the map from Penn Treebank tags to universal ones. The algorithm is in
``lexicon.perceptron``; the package nltk is not needed. A function of the user's may take its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from robust_tickets.errors import TicketsError
from robust_tickets.files import read_json
from robust_tickets.lexicon.perceptron import Perceptron
from robust_tickets.lexicon.remembering import Remembering

MODEL = "averaged_perceptron_tagger_eng"
PARTS = ("weights", "tagdict", "classes")
MAP = Path("universal_tagset") / "en-ptb.map"
GET = (
    f"mkdir -p {{cache}} && cd {{cache}} && for part in {MODEL} {MAP.parent}; do curl -LO "
    "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/taggers/$part.zip && unzip $part.zip; done"
)


def tagger_files(path: Path) -> list[Path] | None:
    """The tagger's files and the map below ``path`` (an nltk_data folder, its ``taggers``, or the tagger's own); none if incomplete."""
    for root in (path / "taggers", path, path.parent):
        files = [*(root / MODEL / f"{MODEL}.{part}.json" for part in PARTS), root / MAP]
        if all(file.is_file() for file in files):
            return files
    return None


class Tagger(Remembering):
    """``tags(words)`` gives one universal tag a word, in context."""

    def __init__(self, model: Perceptron, universal: dict[str, str]) -> None:
        super().__init__()
        self._model, self._universal = model, universal

    @classmethod
    def load(cls, path: Path | str) -> Tagger:
        """The tagger of an nltk_data folder."""
        files = tagger_files(Path(path))
        if files is None:
            raise TicketsError(f"no {MODEL} with {MAP.name} in {path}", hint="give an nltk_data folder that holds both")
        weights, tagdict, classes = (read_json(file) for file in files[:3])
        if not isinstance(weights, dict) or not isinstance(tagdict, dict) or not isinstance(classes, list):
            raise TicketsError(f"{files[0].parent} is not the JSON form of the tagger", hint="get it again")
        lines = files[3].read_text(encoding="utf-8").splitlines()
        pairs = [line.split() for line in lines if line.strip()]
        if any(len(pair) != 2 for pair in pairs):
            raise TicketsError(
                f"{files[3]} is not a map of tags", hint="expected two columns, the Penn tag and the universal one"
            )
        return cls(Perceptron(weights, tagdict, classes), {pair[0]: pair[1] for pair in pairs})

    def _tag(self, words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._universal.get(tag, "X") for tag in self._model.tag(words))

    def at(self, words: Sequence[str], place: int) -> str:
        return self._universal.get(self._model.tag(words, place)[place], "X")  # words after it are not tagged


class FunctionTagger(Remembering):
    """``tags(words)`` by a function of the user's: a list of words in, one tag a word out."""

    def __init__(self, function: Callable[[list[str]], Sequence[str]], *, name: str) -> None:
        super().__init__()
        self._function, self._name = function, name

    def _tag(self, words: tuple[str, ...]) -> tuple[str, ...]:
        tags = tuple(self._function(list(words)))
        if len(tags) != len(words) or not all(isinstance(tag, str) for tag in tags):
            raise TicketsError(
                f"{self._name} answers {len(words)} words with {tags!r:.200}", hint="expected a list of one tag a word"
            )
        return tags

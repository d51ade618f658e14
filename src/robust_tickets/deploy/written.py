"""The columns of the file that a prediction writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Named:
    """The columns of the written file."""

    texts: tuple[str, ...]
    rest: tuple[str, ...]  # the file's other columns
    line: str
    predicted: str
    scores: tuple[str, ...]  # one for each class, in id order
    problem: str

    @classmethod
    def beside(cls, texts: tuple[str, ...], rest: tuple[str, ...], labels: Sequence[str]) -> Named:
        wished = ["line", "predicted", *(f"p_{label}" for label in labels), "problem"]
        taken, given = {*texts, *rest, *wished}, []
        for name in wished:
            if name in texts or name in rest:
                while name in taken:
                    name += "_"
                taken.add(name)
            given.append(name)
        return cls(
            texts=texts, rest=rest, line=given[0], predicted=given[1], scores=tuple(given[2:-1]), problem=given[-1]
        )

    @property
    def all(self) -> list[str]:
        return [self.line, *self.texts, *self.rest, self.predicted, *self.scores, self.problem]

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        kinds = {self.line: pa.int64(), **dict.fromkeys(self.scores, pa.float64())}
        return pa.schema([(name, kinds.get(name, pa.string())) for name in self.all])

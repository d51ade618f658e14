"""ORTicket (Zhou et al., LREC-COLING 2024, "ORTicket: Let One Robust BERT Ticket Transfer across Different Tasks"), its search.

The coefficients of EarlyRobust, trained under FreeLB on the masked words of a general corpus with the *pretrained* MLM head. What comes
out is one vector of coefficients for every task: ``found.ticket.draw(neurons=.2)`` draws another share from the same search, and each task
fine-tunes its draw from the pretrained weights, plainly or (``FineTune(adversary=FreeLB())``) adversarially. ``adversary=None`` is the
paper's "vanilla ticket".

From the paper: one epoch of wikitext-2-raw-v1 (``corpus="Salesforce/wikitext:wikitext-2-raw-v1"``), gamma .1 five times in a row (drawn at
the first of them, as EarlyRobust), 1/6 of the heads, 0.2 or 0.3 of the neurons by task (read off its parameter counts:
``ORTicket.for_task("qqp")``), global draws with at least one head a layer. It has no released code and leaves the rest open: masking is
BERT's (15 %, 80/10/10), blocks have 128 tokens, L1 weights are 1e-4 and 2e-4, everything else is EarlyRobust's for IMDB. Its Eq. 4 scales
the whole feed-forward output; its text and its parameter counts are about neurons, and so is this. Its ceil(tau N)-th smallest cuts one
neuron more of BERT-base's 36,864 at 0.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from robust_tickets.adversary.freelb import FreeLB
from robust_tickets.adversary.objective import Adversary, Kind
from robust_tickets.backbone.layout import layout_of
from robust_tickets.classifier.base import as_model
from robust_tickets.config import component, counted, digest, fraction, refuse, setting
from robust_tickets.registry import code_of
from robust_tickets.search.base import SearchRun, named
from robust_tickets.search.earlyrobust import EarlyRobust
from robust_tickets.seeds import derive
from robust_tickets.stages import resources_of

if TYPE_CHECKING:
    from robust_tickets.classifier import ModelClassifier
    from robust_tickets.data.task import Task


@dataclass(frozen=True, kw_only=True)
class ORTicket(EarlyRobust):
    """``ORTicket(corpus="wiki.txt")(classifier)`` finds one ticket for all tasks; ``corpus="task"`` takes a task's own training texts."""

    trains: ClassVar[Kind] = "mlm"

    # neurons removed, from the parameters in the paper's Table 2: 87 M (0.3) or 93 M (0.2)
    PER_TASK: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "imdb": {"neurons": 0.3},
        "ag_news": {"neurons": 0.3},
        "qnli": {"neurons": 0.3},
        "sst2": {"neurons": 0.2},
        "qqp": {"neurons": 0.2},
    }

    corpus: str = ""  # a file, a folder, a Hub dataset, or "task"
    corpus_column: str = ""  # of its texts, where that is not clear
    mlm: str = ""  # the checkpoint that brings the head; by default the classifier's own
    block: int = setting(128, at_least=1)  # tokens, special ones included
    mask_probability: float = setting(0.15, above=0, below=1)
    mask_share: float = setting(0.8, at_least=0, at_most=1)  # of the chosen tokens; the rest stays as it is
    random_share: float = setting(0.1, at_least=0, at_most=1)
    heads: float = fraction(1 / 6)
    neurons: float = fraction(0.3)
    head_l1: float = setting(1e-4, at_least=0)
    neuron_l1: float = setting(2e-4, at_least=0)
    adversary: Adversary | None = component("adversaries", FreeLB())
    batch_size: int = setting(8, at_least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(
            self.mask_share + self.random_share > 1 + 1e-9,
            "ORTicket.mask_share and random_share are more than 1",
            hint="BERT's are 0.8 and 0.1",
        )

    @property
    def needs_task(self) -> bool:
        """Whether what is found depends on the task it is called with."""
        return self.corpus == "task"

    def inputs(self) -> dict[str, str]:
        """What is read besides the model and the task, by what it holds."""
        from robust_tickets.classifier.mlm import digest_of_head
        from robust_tickets.data.mlm import find_corpus

        read = {} if self.needs_task else {"corpus": find_corpus(self.corpus, column=self.corpus_column).digest}
        return {**read, "mlm": digest_of_head(self.mlm)} if self.mlm else read

    def start(
        self, clf: ModelClassifier, task: Task | None, folder: Path | None, tuned: ModelClassifier | None
    ) -> SearchRun:
        """A copy of theta_0 with its pretrained head for masked words, and the masked blocks of the corpus."""
        from robust_tickets.classifier.mlm import digest_of_model, masked_model
        from robust_tickets.classifier.tokenizer import digest_of
        from robust_tickets.data.mlm import MaskedBlocks, blocks_of, find_corpus
        from robust_tickets.train.update import full_precision

        model = as_model(clf, "searched").model
        corpus = find_corpus(self.corpus, column=self.corpus_column, task=task)
        most = model.config.max_position_embeddings - layout_of(model).reserved_positions
        refuse(not 4 <= self.block <= most, f"ORTicket.block must be 4 to {most} tokens", hint="128 is the default")
        theta = masked_model(clf, self.mlm)
        mlm = digest_of_model(theta)
        full_precision(theta)
        blocks = MaskedBlocks(
            blocks=blocks_of(corpus, clf.tokenizer, self.block),
            tokenizer=clf.tokenizer,
            batch_size=self.batch_size,
            seed=derive(self.seed, "search", "batches"),
            probability=self.mask_probability,
            masked=self.mask_share,
            replaced=self.random_share,
            shuffle=self.loader_shuffle,
            token_types=clf.token_types,
        )
        unseen = ("round_to", "corpus", "mlm")  # rounding changes no step; the others count by what they hold
        determines = {
            "settings": {k: v for k, v in counted(self).items() if k not in unseen},
            "mlm": mlm,
            "corpus": corpus.digest,
            "tokenizer": digest_of(clf.tokenizer),
            "resources": resources_of(self),
            "code": code_of(self),
        }
        held = {"name": corpus.name, "digest": corpus.digest, "blocks": len(blocks.blocks), "block": self.block}
        head = {"identity": self.mlm or clf.identity, "digest": mlm}
        return SearchRun(
            settings=self,
            model=theta,
            classifier=clf,
            batches=blocks,
            folder=folder,
            identity=digest(determines),
            origin={"model": named(clf), "mlm": head, "corpus": held},
        )


REGISTERED = ORTicket

"""The gradient's service: right for every backbone, the same in a batch as alone; and who cannot give gradients is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from refusing import refused
from robust_tickets.attack.example import ExampleState, Slope
from robust_tickets.attack.goals import Untargeted
from robust_tickets.attack.greedy import SLACK, GradientRanking, GreedySearch
from robust_tickets.attack.recipes.a2t import A2T
from robust_tickets.attack.services import Gradient, Victim, aligned
from robust_tickets.attack.text import Text
from robust_tickets.attack.textattack_compat import OWN, PROFILES
from robust_tickets.classifier import Classifier
from robust_tickets.classifier.base import NOISE
from robust_tickets.data.task import Split
from robust_tickets.registry import BACKBONES
from tiny import tiny_classifier

WHOLE = replace(OWN, cuts_gradient=False)
TEXTS = ["a good film", "the plot was very bad, not good!", "zebra is fine", "a story is a story " * 3]


def alone(clf: Classifier, text: str, words: list[int], odds: bool = False) -> np.ndarray:
    """The slopes of one text, from embeddings given to the model and a loss written down here."""
    model = clf.model
    ids = clf.encode([text])[0].ids
    table = model.get_input_embeddings().weight
    rows = table[list(ids)].detach().clone().requires_grad_()
    out = model(inputs_embeds=rows[None], attention_mask=torch.ones(1, len(ids), dtype=torch.long)).logits[0].double()
    label = int(out.argmax())
    others = torch.cat([out[:label], out[label + 1 :]])
    loss = torch.logsumexp(others if odds else out, 0) - out[label]
    (gradient,) = torch.autograd.grad(loss, rows)
    places = aligned(Text.of(text).words, clf.tokenizer.convert_ids_to_tokens(list(ids)))
    return np.array([gradient[places[word]].mean(0).abs().sum().item() if places[word] else 0.0 for word in words])


@pytest.mark.parametrize("family", sorted(BACKBONES.names()))
def test_slopes_of_a_batch_are_those_of_each_text(family: str) -> None:
    clf = tiny_classifier(family, labels=("a", "b", "c"))
    training = clf.model.training
    questions = [
        Slope(Text.of(text, WHOLE), range(len(Text.of(text))), odds=bool(i % 2)) for i, text in enumerate(TEXTS)
    ]
    together = Gradient(Victim(clf, token_budget=10_000)).answer(questions)
    for text, question, found in zip(TEXTS, questions, together, strict=True):
        wanted = alone(clf, text, list(question.words), question.odds)
        assert found.max() > 0
        assert np.abs(found - wanted).max() <= SLACK * NOISE["float32"] * wanted.max()
        question.alone = True
        assert np.array_equal(
            Gradient(Victim(clf)).answer([question])[0],
            Gradient(Victim(clf, 10_000)).answer([*questions, question])[-1],
        )
    assert clf.model.training == training
    assert all(parameter.grad is None for parameter in clf.model.parameters())


def test_in_fixed_shapes_slopes_still_depend_on_their_batch() -> None:
    """A victim whose scores have no noise (on a GPU, by its shapes) has gradients that do."""
    victim = Victim(tiny_classifier())
    victim.noise = 0.0
    assert Gradient(victim).noise == victim.rounding == NOISE["float32"]


def test_a_single_text_is_cut_behind_the_last_word_and_a_pair_is_not() -> None:
    clf = tiny_classifier()
    service = Gradient(Victim(clf))
    text = "a good film, was it"
    (cut,) = service.answer([Slope(Text.of(text), [2, 1])])
    assert np.allclose(cut, alone(clf, "a good film", [1, 2]))  # in the order of the text
    assert not np.allclose(cut, alone(clf, text, [1, 2]))
    pairs = (Text.of(("a good film", "was it"), rules) for rules in (OWN, WHOLE))
    whole, same = (service.answer([Slope(pair, [1, 2])])[0] for pair in pairs)
    assert np.array_equal(whole, same)
    service.most = 1
    assert len(service.answer([Slope(Text.of(text), [2, 1])])[0]) == 1
    (slopes,) = service.answer([Slope(Text.of(text), [2, 1])])
    assert np.allclose(slopes, alone(clf, "a good", [1]))


def test_words_and_their_tokens() -> None:
    assert aligned(["Don't", "go"], ["[CLS]", "don", "'", "t", "go", "[SEP]"]) == [[1, 2, 3], [4]]
    assert aligned(["unbelievable"], ["[CLS]", "un", "##bel", "##ievable", "[SEP]"]) == [[1, 2, 3]]
    assert aligned(["movie", "Great"], ["<s>", "movie", "ĠGreat", "</s>"]) == [[1], [2]]
    # "café" is read as "cafe": nothing matches, and the search goes on where it last did, so that a token may serve twice
    assert aligned(["nice", "café", "nice"], ["[CLS]", "nice", "cafe", "nice"]) == [[1], [], [1]]
    assert aligned(["a", "b"], ["[CLS]", "a"]) == [[1], []]  # behind the cut


def test_slopes_too_near_are_taken_again_alone() -> None:
    text = Text.of("one two three four")
    game = ExampleState(original=text, goal=Untargeted(0), column_names=("text",), noise=1e-5)
    search = GreedySearch(title="", ranking=GradientRanking(), transformations=())

    def order(*answers: list[float]) -> tuple[list[int], list[bool]]:
        steps, asked = GradientRanking().order(game, search), list[bool]()
        question = next(steps)
        try:
            for answer in answers:
                asked.append(question.alone)
                question = steps.send(np.array(answer))
        except StopIteration as end:
            return end.value.tolist(), asked
        raise AssertionError

    assert order([0.1, 0.4, 0.3, 0.2]) == ([1, 2, 3, 0], [False])
    assert order([0.1, 0.4, 0.3, 0.30001], [0.1, 0.4, 0.3, 0.2]) == ([1, 2, 3, 0], [False, True])
    assert order([0.0, 0.4, 0.3, 0.0])[1] == [False]  # words without a token are not in doubt
    assert order([0.5, 0.4])[0] == [0, 1]  # only so many words fit the model
    game.original = Text.of("one two three four", PROFILES["ta-0.3.4"])
    assert list(order([0.1, 0.4, 0.3, 0.2])[0]) == [1, 2, 3, 0]


def test_a_victim_that_only_answers_is_refused_before_it_is_asked() -> None:
    calls: list[object] = []

    def judge(texts: list[str]) -> np.ndarray:
        calls.append(texts)
        return np.tile([[0.4, 0.6]], (len(texts), 1))

    clf = Classifier.wrap(judge, labels=["neg", "pos"])
    with refused("classifier.no_model"):
        A2T(vectors="nowhere")(clf, Split.of(["good"], [1]), n=0)
    assert not calls

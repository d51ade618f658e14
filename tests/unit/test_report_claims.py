"""What the report claims and what it is made of: pairwise verdicts, the attacked texts' own accuracy, plans, bytes, accessibility."""

from __future__ import annotations

import html as escapes
import itertools
import re
from dataclasses import replace

import pytest

from fake_run import ARMS, add_plan, make_run, set_outcomes
from robust_tickets.files import read_json, sha256_file, write_json
from robust_tickets.report import format as numbers
from robust_tickets.report.charts import COLOURS, colour, marker
from robust_tickets.report.html import write_report
from robust_tickets.report.run_data import read_run
from robust_tickets.report.verdict import contest, holm, verdicts, warnings


def judged(folder, *outcomes, starts=(0, 0, 0)):
    make_run(folder, n=5, arms=ARMS[: len(outcomes)])
    for k, statuses in enumerate(outcomes):
        set_outcomes(folder, k, statuses, start=starts[k])
    run = read_run(folder)
    return run, *verdicts(run)


def test_the_highest_arm_may_lose_on_the_shared_texts(tmp_path):
    # over all 75 % against 60 %, on the 50 shared texts 0 % against 60 %
    _, verdict = judged(tmp_path / "r", "t" * 50 + "h" * 150, "h" * 30 + "t" * 20)
    assert (
        verdict.headline
        == "Under PWWS, on the texts that both met, EarlyRobust ticket is easier to fool than Plain fine-tuning."
    )
    assert verdict.sure


def test_hardest_needs_a_comparison_with_every_arm(tmp_path):
    outcomes = ("h" * 60 + "t" * 40, "h" * 20 + "t" * 80, "h" * 20 + "t" * 80)
    _, verdict = judged(tmp_path / "all", *outcomes)
    assert "EarlyRobust ticket is the hardest to fool" in verdict.headline
    _, verdict = judged(tmp_path / "some", *outcomes, starts=(0, 0, 5000))
    assert "hardest" not in verdict.headline
    assert (
        verdict.headline
        == "Under PWWS, EarlyRobust ticket is harder to fool than Plain fine-tuning; Random ticket could not be compared."
    )
    assert any("No paired test against Random ticket" in words for words in verdict.sentences)


def test_three_texts_have_a_wide_interval_though_the_arms_never_differ(tmp_path):
    run, verdict = judged(tmp_path / "r", "hht", "hht")
    (pair,) = contest(run, "pwws").pairs
    assert pair.bootstrap == (0.0, 0.0)
    assert pair.low < -40
    assert pair.high > 40
    assert "no difference at all" in verdict.sentences[1]
    assert numbers.signed_span((pair.low, pair.high)) in verdict.sentences[1]
    page = write_report(tmp_path / "r.html", tmp_path / "r").read_text("utf-8")
    assert numbers.signed_span((pair.low, pair.high)) in page
    assert numbers.signed_span((0.0, 0.0)) in page  # the bootstrap's, in the table of pairs


def test_claims_carry_the_p_adjusted_for_all_pairs(tmp_path):
    # 8 discordant texts, all for the first arm: p = 2 / 256; the second and third arm differ by less
    run, verdict = judged(tmp_path / "r", "h" * 18 + "t" * 2, "h" * 10 + "t" * 10, "h" * 11 + "t" * 9)
    found = contest(run, "pwws")
    assert len(found.pairs) == 3
    assert [c.adjusted for c in found.pairs] == pytest.approx(holm([c.p for c in found.pairs]))
    pair = found.between(run.arms[0], run.arms[1])
    assert pair.p == pytest.approx(2 / 256)
    assert pair.adjusted == pytest.approx(3 * 2 / 256)
    said = next(words for words in verdict.sentences if words.startswith("Against Plain"))
    assert f"McNemar p\u00a0=\u00a0{3 * 2 / 256:.3f}, adjusted for 3 comparisons" in said
    back = found.between(run.arms[1], run.arms[0])
    assert (back.difference, back.low, back.high, back.p) == (-pair.difference, -pair.high, -pair.low, pair.p)


def test_a_clear_pair_below_the_top_is_not_called_noise(tmp_path):
    # the highest arm was attacked on two texts only; the others differ clearly
    _, verdict = judged(tmp_path / "r", "hh", "h" * 60 + "t" * 40, "h" * 10 + "t" * 90)
    assert verdict.headline == (
        "Under PWWS, Plain fine-tuning is harder to fool than Random ticket; EarlyRobust ticket came out highest, but not beyond noise."
    )
    assert any(
        words.startswith("Plain fine-tuning is harder to fool than Random ticket: +50.0 points")
        for words in verdict.sentences
    )


def test_eight_arms_do_not_make_a_page_of_sentences(tmp_path):
    arms = tuple((f"a{k}", f"Arm {k}", 0.1 + 0.08 * k, 82.0, False) for k in range(8))
    (verdict,) = verdicts(read_run(make_run(tmp_path / "r", n=200, arms=arms)))
    assert len(verdict.sentences) <= 10
    page = write_report(tmp_path / "r.html", tmp_path / "r").read_text("utf-8")
    assert page.count("<small>against Arm") == 28  # all pairs are in their table


def test_the_fall_is_drawn_from_the_attacked_texts_own_accuracy(tmp_path):
    folder = make_run(tmp_path / "r", arms=(("a", "Only", 0.3, 60.0, False),))
    set_outcomes(folder, 0, "h" * 30 + "t" * 60 + "s" * 10)  # 90 % before the attack; 60 % on the whole split
    page = write_report(tmp_path / "r.html", folder).read_text("utf-8")
    figures = [escapes.unescape(words) for words in re.findall(r'<svg[^>]*aria-label="([^"]*)"', page)]
    drawn = [words for words in figures if "under attack" in words]
    assert len(drawn) == 1  # one arm alone is not drawn against anything
    assert all("90.0\u00a0%" in words and "60.0\u00a0%" not in words for words in drawn)
    glance = page[page.index('<figure class="glance">') : page.index("</figure>")]
    assert re.findall(r'class="quiet">([^<]*)<', glance) == ["90.0\u00a0%"]
    assert 'data-key="clean"><data value="60.0">' in page
    assert 'data-key="clean_attacked"><data value="90.0">' in page
    assert "All texts: the 850 of test; attacked texts: 100 of test." in page


@pytest.mark.parametrize(
    ("change", "titles"),
    [
        ({"query_budget": 50}, ("PWWS (no query budget)", "PWWS (at most 50 queries)")),
        ({"split": "validation"}, ("PWWS (split test)", "PWWS (split validation)")),
        ({}, ("PWWS (plan 1)", "PWWS (plan 2)")),
    ],
)
def test_two_plans_of_one_attack_are_both_shown(tmp_path, change, titles):
    folder = make_run(tmp_path / "r")
    add_plan(folder, **change)
    run = read_run(folder)
    assert tuple(run.attack_titles.items()) == (("pwws", titles[0]), ("pwws-2", titles[1]))
    assert all([a.key for a in arm.attacks] == ["pwws", "pwws-2"] for arm in run.arms)
    page = write_report(tmp_path / "r.html", folder).read_text("utf-8")
    for title in titles:
        assert f"The numbers: {title}" in page
    assert page.count('data-key="queries"><data value="50.0">') == 3
    assert ("attacked split: test, validation" in page) == ("split" in change)


def test_plans_are_matched_by_what_they_asked_for_not_by_place(tmp_path):
    folder = make_run(tmp_path / "r")
    add_plan(folder, query_budget=50)
    about = read_json(folder / "arms.json")
    about["arms"][1]["attacks"].reverse()
    write_json(folder / "arms.json", about)
    run = read_run(folder)
    assert [arm.attack("pwws-2").queries for arm in run.arms] == [50.0] * 3


def test_plans_are_told_apart_by_place_where_the_folder_does_not_say(tmp_path):
    folder = make_run(tmp_path / "r")
    add_plan(folder)
    for mark in folder.glob("attack/*/stage.json"):
        mark.unlink()
    set_outcomes(folder, 0, "hht")
    run = read_run(folder)
    assert run.attack_keys == ("pwws", "pwws-2")
    assert run.attack_titles["pwws"] == "PWWS (3 texts)"
    assert run.arms[1].attack("pwws-2").queries == 50.0


def test_the_attacked_split_is_the_one_the_result_names(tmp_path):
    folder = make_run(tmp_path / "r", arms=ARMS[:1])
    result = read_json(folder / "attack/00000000/result.json")
    write_json(folder / "attack/00000000/result.json", result | {"task": {"split": "validation"}})
    assert read_run(folder).splits == ("validation",)
    write_json(folder / "attack/00000000/result.json", result | {"task": {}})
    assert read_run(folder).splits == ("test",)  # as the examples' ids say


def test_equal_files_give_equal_pages_whatever_was_written_before(tmp_path):
    folder = make_run(tmp_path / "r")
    (folder / "manifest.json").unlink()
    first = write_report(folder / "report.html", folder).read_bytes()
    write_json(folder / "manifest.json", {"schema": 1, "files": {"arms.json": {"sha256": "cd" * 32}}})
    assert write_report(folder / "report.html", folder).read_bytes() == first
    assert b"cd" * 32 not in first
    examples = folder / "attack/00000000/examples.jsonl"
    examples.write_bytes(examples.read_bytes() + b"\n")
    assert write_report(folder / "report.html", folder).read_bytes() != first
    shown = read_run(folder, hashes=True).hashes
    assert shown["arms.json"] == sha256_file(folder / "arms.json")
    assert shown["train/00000000/cost.json"] == sha256_file(folder / "train/00000000/cost.json")
    assert not {"report.html", "manifest.json"} & shown.keys()


def test_columns_are_explained_in_sight_and_boxes_named(tmp_path):
    folders = [make_run(tmp_path / name, title=f"Run {name}") for name in "ab"]
    add_plan(folders[0], query_budget=50)
    page = write_report(tmp_path / "r.html", folders).read_text("utf-8")
    table = page[page.index("<table>") : page.index("</table>")]
    columns = re.findall(r"<abbr[^>]*>([^<]*)</abbr>", table)
    for legend in re.findall(r'<dl class="legend">.*?</dl>', page):
        assert re.findall(r"<dt>([^<]*)</dt>", legend) == columns
    assert page.count('<dl class="legend">') == 2
    boxes = re.findall(r'<div class="scroll"[^>]*>', page)
    assert boxes
    assert all('tabindex="0" role="region" aria-label="' in box for box in boxes)
    labels = [box for box in boxes if "results" in box or "Results" in box]
    assert len(set(labels)) == len(labels) == 4


def test_long_titles_stay_inside_the_drawings(tmp_path):
    arms = tuple(
        (f"a{k}", f"Arm {k} whose name is wider than any place for it", 0.2 + 0.1 * k, 82.0, True) for k in range(3)
    )
    page = write_report(tmp_path / "r.html", make_run(tmp_path / "r", arms=arms)).read_text("utf-8")
    for width, drawing in re.findall(r'<svg viewBox="0 0 (\d+) .*?>(.*?)</svg>', page, re.S):
        for x, anchor, words in re.findall(
            r'<text x="([\d.-]+)" y="[^"]*" (?:text-anchor="(\w+)" )?class="name">([^<]*)<', drawing
        ):
            long = 8.4 * len(words)  # pixels; a bold letter of this size is about that wide
            start = float(x) - (long if anchor == "end" else 0)
            assert start >= 0, words
            assert start + long <= float(width), words


def test_eight_arms_differ_in_shape_and_colour(tmp_path):
    forms = []
    for k in range(8):
        drawn = re.sub(r' class="[^"]*"', "", marker(0, 0, k))
        forms.append(drawn)
    assert len(set(forms)) == 8
    assert len({colour(k) for k in range(8)}) == 8 == COLOURS
    page = write_report(tmp_path / "r.html", make_run(tmp_path / "r", n=10)).read_text("utf-8")
    for theme in re.findall(r":root \{(.*?)\}", page, re.S):
        values = dict(re.findall(r"--([\w-]+): (#\w{6})", theme))
        if not values:  # paper: the scheme alone
            continue
        inks = [values[f"a{k}"] for k in range(8)]
        for ground in ("paper", "card"):
            assert all(contrast(ink, values[ground]) >= 4.5 for ink in inks)
        assert (
            min(
                sum(abs(a - b) for a, b in zip(rgb(x), rgb(y), strict=True)) for x, y in itertools.combinations(inks, 2)
            )
            > 70
        )


def rgb(value):
    return [int(value[i : i + 2], 16) for i in (1, 3, 5)]


def contrast(a, b):
    """WCAG 2's ratio of luminances."""

    def light(value):
        parts = [c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb(value)]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(a), light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_arms_whose_search_did_not_settle_share_one_sentence(tmp_path):
    make_run(tmp_path, n=5)
    settled = sorted(tmp_path.rglob("distances.json"))
    for file in settled:
        write_json(file, {**read_json(file), "converged": False})
    run = read_run(tmp_path)
    first = next(arm for arm in run.arms if arm.distances is not None)
    both = replace(run, arms=(first, replace(first, title="By layer")))
    for given, words in (
        (replace(run, arms=(first,)), f"for {first.title} did not converge; its ticket was"),
        (both, f"for {first.title} and By layer did not converge; their tickets were"),
    ):
        (said,) = (line for line in warnings(given) if "did not converge" in line)
        assert words in said

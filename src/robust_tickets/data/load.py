"""``load_task``: from a name, a Hub id, a file or a folder to a ``Task`` whose splits have roles.

Bad rows are skipped, counted and listed; more than one in a hundred of a file (or any, under ``strict``) stops here, before
anything is trained. Whatever was inferred or divided is in ``Task.notes``; what may spoil results is in ``Task.warnings``. Nothing is
printed here: the caller says both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from robust_tickets.data import splits as divide
from robust_tickets.data.arrow_tables import MOST_LISTED, Converted, Reading, convert, open_table
from robust_tickets.data.diagnostics import look, two_labels
from robust_tickets.data.readers import BROKEN_UTF8, Rows, open_rows, to_utf8
from robust_tickets.data.schema import Columns, check, choose, few, match, order
from robust_tickets.data.source import ALL, TaskSource, declared_labels, find, path_text
from robust_tickets.data.task import BadRow, Split, Task
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.seeds import numpy_generator

MOST_BAD = 0.01  # of a file's rows
SHOWN = 5  # bad rows in an error message
ROLES = ("train", "validation", "test")
NONE = "none"  # as validation: nothing selects


def load_task(
    source: str | Path,
    *,
    text: str | Sequence[str] | None = None,
    label: str | None = None,
    test: str | Path | None = None,
    validation: str | Path | None = None,
    data: str | Path | None = None,
    labels: Sequence[str] | None = None,
    label_map: Mapping[str, int | str] | None = None,
    by_id: bool = True,
    any_text: bool = False,
    strict: bool = False,
    seed: int = 0,
    max_rows: int | None = None,
    max_test_rows: int | None = None,
    splits: Mapping[str, str] | None = None,
    drop_seen: bool = False,
) -> Task:
    """Load a task.

    ``source`` is a registered name, a Hub id (``owner/name`` or ``owner/name:config``), a csv, tsv, jsonl or parquet file, or a folder
    of such files. ``text`` (one column or a pair) and ``label`` name columns; ``test`` and ``validation`` add files, and ``"none"`` for
    ``validation`` carves nothing: no row selects, all of train trains; ``data`` gives a registered task local files; ``labels`` fixes the
    classes' order, ``label_map`` says which of them a label of the data is, and with ``by_id=False`` the numbers 0, 1, … do not stand for
    them in their order; ``max_rows`` trains on a seeded subset, ``max_test_rows`` selects, evaluates and attacks on such; ``splits`` says
    which split trains, selects and is attacked: ``{"test": "validation"}``; ``{"test": "all"}`` takes a lone file whole, to attack only,
    and ``any_text`` its empty and broken texts too; ``drop_seen`` takes rows whose text stands in the training split out of all others.
    """
    given = TaskSource(
        task=path_text(source),
        data=str(data) if data is not None else None,
        text=text if text is None or isinstance(text, str) else tuple(text),  # type: ignore[arg-type]  # one or two: schema
        label=label,
        labels=tuple(labels) if labels else None,
        test=str(test) if test is not None else None,
        validation=str(validation) if validation is not None else None,
        strict=strict,
        max_rows=max_rows,
        max_test_rows=max_test_rows,
        drop_seen=drop_seen,
    )
    reading = Loading(given, seed, label_map=label_map, by_id=by_id, any_text=any_text)
    reading.roles = dict(splits or {})
    return reading.task()


class Loading:
    """One task while it is read: what was asked for, and what was noticed so far."""

    def __init__(
        self,
        given: TaskSource,
        seed: int,
        *,
        label_map: Mapping[str, int | str] | None = None,
        by_id: bool = True,
        any_text: bool = False,
    ) -> None:
        self.given, self.seed = given, seed
        self.label_map, self.by_id, self.any_text = label_map, by_id, any_text
        chosen = (("validation", given.selects), ("test", given.attacked))
        self.roles = {role: split for role, split in chosen if split}
        self.selects_nothing = given.validation == NONE
        self.source = find(given.task, given.data)
        self.notes: list[str] = []
        self.warnings: list[str] = []
        self.skipped: list[BadRow] = []
        self.unlabelled: list[str] = []
        for name, extra in (("validation", given.validation), ("test", given.test)):
            if extra is not None and extra != NONE:
                self._add(name, Path(extra).expanduser())

    def _add(self, name: str, file: Path) -> None:
        """Read the split ``name`` from a file of its own."""
        splits = self.source.splits
        if self.source.lone:
            splits["train"] = splits.pop(ALL)
        if name in splits:
            before = ", ".join(Path(rows.name).name for rows in splits[name])
            self.source.notes.append(f"{name}: {file.name} instead of {before}")
        splits[name] = [open_rows(file)]

    def task(self) -> Task:
        self._check_roles()
        self.notes += self.source.notes
        columns = self._columns()
        converted = self._convert(columns)
        names, declared = self._names(converted, columns)
        shown = self.source.spec.columns if self.source.spec else next(iter(columns.values())).texts
        splits = {name: self._split(name, files, names, declared, shown) for name, files in converted.items()}
        if self.given.drop_seen:
            self._drop_seen(splits)
        train, validation, test = self._divide(splits)
        clash = two_labels([splits[name] for name in dict.fromkeys((train, validation, test)) if name in splits], names)
        self.warnings += [clash] if clash else []
        for role, most in (
            (train, self.given.max_rows),
            (validation, self.given.max_test_rows),
            (test, self.given.max_test_rows),
        ):
            if role in splits and most is not None and most < len(splits[role]):
                generator = numpy_generator(self.seed, *(["max_rows"] if role == train else ["max_test_rows", role]))
                self.notes.append(f"{role}: a seeded subset of {most} of {len(splits[role])} rows")
                splits[role] = splits[role].select(np.sort(generator.permutation(len(splits[role]))[:most]))
        notes, warnings = look(splits, train, validation, test, names)
        return Task(
            name=self.source.name,
            labels=names,
            columns=shown,
            splits=splits,
            train_split=train,
            validation_split=validation,
            test_split=test,
            unlabelled=tuple(self.unlabelled),
            skipped=tuple(self.skipped),
            notes=(*self.notes, *notes),
            warnings=(*self.warnings, *warnings),
        )

    def _check_roles(self) -> None:
        for role, split in self.roles.items():
            if role not in ROLES:
                raise TicketsError(f"splits= has no role {role!r}", hint=did_you_mean(role, ROLES), code="data.roles")
            if split not in self.source.splits and not self.source.lone:
                raise TicketsError(
                    f"{self.source.name} has no split {split!r}",
                    hint=did_you_mean(split, self.source.splits),
                    code="data.no_split",
                )
        if self.selects_nothing and ("validation" in self.roles or self.source.lone):
            raise TicketsError(
                f"{self.source.name}: validation is {NONE!r}, and "
                + (
                    "a lone file is divided into three"
                    if self.source.lone
                    else f"splits= says {self.roles['validation']!r} selects"
                ),
                hint="leave one of them out" if not self.source.lone else "give a folder with train and test files",
                code="data.roles",
            )
        chosen = list(self.roles.values())
        if len(set(chosen)) != len(chosen):
            raise TicketsError(
                f"splits= gives one split two roles: {self.roles}",
                hint="what is attacked must not train or select",
                code="data.roles",
            )

    def _columns(self) -> dict[str, Columns]:
        """Which columns to read in each split, by the training split's where there is one."""
        spec, chosen = self.source.spec, {}
        first: Columns | None = None
        for name in sorted(self.source.splits, key=lambda n: (n not in ("train", ALL), n)):
            rows = self.source.splits[name][0]
            self.notes += rows.notes
            text: str | tuple[str, ...] | None = self.given.text
            label = self.given.label
            if spec and text is None and all(c in rows.columns for c in spec.columns):
                text = spec.columns
            if spec and label is None and spec.label in rows.columns:
                label = spec.label
            if first is not None and not spec:
                text, label = first.texts, first.label
            if first is not None and label and label not in rows.columns:
                self._no_labels(name)
                continue
            columns = choose(rows, text, label)
            if spec and len(columns.texts) != len(spec.columns):
                raise TicketsError(
                    f"{self.source.name} reads {' and '.join(spec.columns)}; {rows.name} gives {' and '.join(columns.texts)}",
                    hint=f"name the text: {len(spec.columns)} column(s) of {few(rows.columns)}",
                    code="data.columns",
                )
            first = first or columns
            if columns.note and not (spec and columns.texts == spec.columns):
                self.notes.append(columns.note)
            chosen[name] = columns
        return chosen

    def _convert(self, columns: Mapping[str, Columns]) -> dict[str, list[tuple[Rows, Converted]]]:
        done = {}
        spec = self.source.spec
        for name, chosen in columns.items():
            files = self.source.splits[name]
            for rows in files[1:]:
                if rows.columns != files[0].columns:
                    raise TicketsError(
                        f"{rows.name} has other columns than {files[0].name}",
                        hint="shards of a split have equal columns",
                        code="data.shards",
                    )
            where = spec.where if spec and spec.where and spec.where[0] in files[0].columns else None
            reading = Reading(texts=chosen.texts, label=chosen.label, where=where, any_text=self.any_text)
            pairs = [(rows, convert(rows, reading)) for rows in files]
            if spec and all(c.rows and set(c.values) == {spec.missing} for _, c in pairs):
                self._no_labels(name)
                continue
            done[name] = pairs
        if not done:
            raise TicketsError(
                f"{self.source.name} has no labelled split",
                hint="give a file with a label column",
                code="data.no_labels",
            )
        return done

    def _no_labels(self, name: str) -> None:
        self.unlabelled.append(name)
        self.notes.append(f"{name}: no public labels, left aside")

    def _names(
        self, converted: Mapping[str, list[tuple[Rows, Converted]]], columns: Mapping[str, Columns]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The classes in id order, and what the source itself calls them, where it does."""

        role = self.roles.get("train", "train")
        name = next((n for n in (role, ALL, self.roles.get("test", "test")) if n in converted), next(iter(converted)))
        rows = converted[name][0][0]
        declared = self.source.labels or declared_labels(rows, columns[name].label) or ()
        names = self.given.labels or declared
        if not names:
            for file, done in converted[name]:
                self._refuse(
                    file, done.bad_count, done.rows + done.bad_count, [BadRow(file.name, *b) for b in done.bad]
                )
            names = order(v for _, done in converted[name] for v in done.values)
        check(names, rows.name)
        return names, declared

    def _split(
        self,
        name: str,
        files: Sequence[tuple[Rows, Converted]],
        names: tuple[str, ...],
        declared: tuple[str, ...],
        shown: tuple[str, ...],
    ) -> Split:
        """The rows of a split whose labels are known; the others join the bad rows of their file."""
        table = open_table([done for _, done in files], len(shown))
        codes, start = table.numbers("code"), 0
        ids = np.full(len(codes), -1, dtype=np.int16)
        missing = self.source.spec.missing if self.source.spec else None
        left_out = 0
        values = list(dict.fromkeys(v for _, done in files for v in done.values if v != missing))
        matched = match(values, names, files[0][0].name, declared, label_map=self.label_map, by_id=self.by_id)
        # read as ids though the names were only found in train: a guess that must be seen
        if matched.note and names != declared:
            (self.warnings if matched.guessed and not self.given.labels else self.notes).append(
                f"{name}: {matched.note}"
            )
        if matched.idle:
            self.warnings.append(f"{name}: the label map names {few(matched.idle)}, which no row has")
        known = matched.ids
        odd = [v for v in values if v not in known]
        about = f"\n  known labels: {few(names)}; not among them: {few(odd)}" if odd else ""
        for rows, done in files:
            by_code = np.array([known.get(v, -2 if v == missing else -1) for v in done.values] or [-1], dtype=np.int16)
            part = by_code[codes[start : start + done.rows]]
            ids[start : start + done.rows] = part
            unknown = np.flatnonzero(part == -1)
            lines = table.numbers("line") if len(unknown) else codes
            bad = [BadRow(rows.name, *b) for b in done.bad]
            for i in start + unknown[:MOST_LISTED]:
                bad.append(BadRow(rows.name, int(lines[i]), f"unknown label {done.values[codes[i]]!r}"))
            bad.sort(key=lambda b: b.row)
            count = done.bad_count + len(unknown)
            self._refuse(rows, count, done.rows + done.bad_count, bad, about)
            if count:
                self.skipped += bad
                self.notes.append(
                    f"{Path(rows.name).name}: skipped {count} bad of {done.rows + done.bad_count} rows, first {bad[0]}"
                )
            if done.mended:
                path = Path(rows.name)
                # of which broken bytes are bad rows: what is left was written as \ud83d
                escaped = path.suffix.lower() == ".jsonl"
                what, how = ("half of a surrogate pair", "") if escaped else ("broken UTF-8", f"; {to_utf8(path)}")
                words = f"{done.mended} of {done.rows} rows hold {what}, which the classifier reads as U+FFFD"
                self.warnings.append(f"{path.name}: {words}{how}")
            left_out += int((part == -2).sum())
            start += done.rows
        if left_out:
            self.notes.append(f"{name}: {left_out} rows without an agreed label ({missing}) left out")
        keep = np.flatnonzero(ids >= 0)
        if not len(keep):
            raise TicketsError(f"{files[0][0].name} has no usable row", hint="check the file", code="data.no_rows")
        return Split(name, shown, table, keep.astype(np.int32 if len(codes) < 2**31 else np.int64), ids[keep])

    def _refuse(self, rows: Rows, count: int, total: int, bad: Sequence[BadRow], about: str = "") -> None:
        if count and (self.given.strict or count > MOST_BAD * total):
            first = "\n  ".join(map(str, bad[:SHOWN]))
            more = f"\n  … and {count - SHOWN} more" if count > SHOWN else ""
            limit = "strict allows none" if self.given.strict else f"at most {MOST_BAD:.0%} are skipped"
            broken = 2 * sum(row.reason == BROKEN_UTF8 for row in bad) > len(bad)
            raise TicketsError(
                f"{rows.name}: {count} of {total} rows are bad ({limit}):\n  {first}{more}{about}",
                hint=to_utf8(Path(rows.name))
                if broken
                else "mend or remove these rows, or name the columns of the text and of the label",
                code="data.bad_rows",
            )

    def _divide(self, splits: dict[str, Split]) -> tuple[str, str, str]:
        """Give splits their roles; make those that are missing out of ``train``, by hash of the text."""
        if self.source.lone:
            return self._divide_lone(splits)
        spec = self.source.spec
        train = self.roles.get("train") or (spec.train if spec else "train")
        test = self.roles.get("test") or (spec.test if spec else "test")
        explicit = "test" in self.roles or spec
        if spec and "test" not in self.roles and test not in splits and "test" in splits:
            self.notes.append(f"{self.source.name}: no labelled {test} here, so test is attacked instead")
            test = "test"
        validation = self.roles.get("validation") or (spec.validation if spec else None)
        if self.selects_nothing and train in splits:
            validation = NONE
            splits[NONE] = splits[train].select([])
            splits[NONE].name = NONE
            self.notes.append(f"no row of {train} is carved for selection")
        if test not in splits and train in splits and not explicit:
            test = "held_out" if test in self.unlabelled else test
            self._carve(splits, train, test, "test")
        if validation is None and "validation" in splits and test != "validation" and train != "validation":
            validation = "validation"
        if validation is None or (validation not in splits and validation not in self.roles.values()):
            taken = {*splits, *self.unlabelled}
            validation = next(n for n in ("validation", "selection", "selection_2") if n not in taken and n != test)
            if train in splits:
                self._carve(splits, train, validation, "validation")
        return train, validation, test

    def _divide_lone(self, splits: dict[str, Split]) -> tuple[str, str, str]:
        whole = splits.pop(ALL)
        if set(self.roles.values()) == {ALL}:
            splits[ALL] = whole
            names = {role: self.roles.get(role, role) for role in ROLES}
            return names["train"], names["validation"], names["test"]
        if self.roles:
            raise TicketsError(
                f"{self.source.name} is one file, which is divided into train, validation and test",
                hint='leave splits= out, or {"test": "all"}',
                code="data.roles",
            )
        parts = divide.lone(whole.keys)
        empty = [name for name, rows in parts.items() if not len(rows)]
        if empty:
            raise TicketsError(
                f"{self.source.name} has {len(whole)} usable rows, too few different texts to divide into train, validation and test",
                hint="give more rows, or test=… and validation=… files",
                code="data.too_few_rows",
            )
        for name, rows in parts.items():
            part = whole.select(rows)
            part.name = name
            splits[name] = part
        sizes = ", ".join(f"{len(rows)} {name}" for name, rows in parts.items())
        self.notes.append(f"{self.source.name}: one file, divided by hash of the text into {sizes} rows")
        return ROLES

    def _drop_seen(self, splits: dict[str, Split]) -> None:
        """Before anything is carved: what is carved from train later shares no text with it anyway."""
        train = self.roles.get("train") or (self.source.spec.train if self.source.spec else "train")
        if self.source.lone or train not in splits:
            return
        for name in [name for name in splits if name != train]:
            seen = np.isin(splits[name].keys, splits[train].keys)
            if seen.all():
                raise TicketsError(
                    f"all {len(seen)} rows of {name} stand in {train} too",
                    hint="give other rows, or do not drop those seen",
                    code="data.all_seen",
                )
            if seen.any():
                splits[name] = splits[name].select(np.flatnonzero(~seen))
                self.notes.append(f"{name}: {int(seen.sum())} rows whose text stands in {train} dropped")

    def _carve(self, splits: dict[str, Split], train: str, name: str, role: str) -> None:
        mask = divide.carve(splits[train].keys, self.seed, role)
        if mask.all():
            raise TicketsError(
                f"{train} has too few different texts to make a {name} split of it",
                hint=f"give {role}=FILE",
                code="data.too_few_rows",
            )
        carved, rest = splits[train].select(np.flatnonzero(mask)), splits[train].select(np.flatnonzero(~mask))
        carved.name = name
        splits[name], splits[train] = carved, rest
        self.notes.append(
            f"{name}: {len(carved)} rows carved from {train} by hash of the text and seed {self.seed}; {len(rest)} stay"
        )

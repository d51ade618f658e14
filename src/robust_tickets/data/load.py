"""``load_task``: from a name, a Hub id, a file or a folder to a ``Task`` whose splits have roles.

Bad rows are skipped, counted and listed; more than one in a hundred of a file (or any, under ``strict``) stops here, before
anything is trained. Whatever was inferred or divided is in ``Task.notes``; what may spoil results is in ``Task.warnings``. Nothing is
printed here: the caller logs both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from robust_tickets.data import splits as divide
from robust_tickets.data.arrow_tables import MOST_LISTED, Converted, convert, open_table
from robust_tickets.data.diagnostics import look, two_labels
from robust_tickets.data.readers import BROKEN_UTF8, Rows, to_utf8
from robust_tickets.data.schema import check, choose, few, match, order
from robust_tickets.data.source import ALL, NONE, TaskSource, find, path_text
from robust_tickets.data.task import BadRow, Split, Task
from robust_tickets.errors import TicketsError, did_you_mean
from robust_tickets.seeds import numpy_generator

MOST_BAD = 0.01  # of a file's rows
SHOWN = 5  # bad rows in an error message
ROLES = ("train", "validation", "test")
UNKNOWN, LEFT_OUT = -1, -2  # in place of a class: of a bad row, and of one without a public label
Files = list[tuple[Rows, Converted]]  # of one split: the shards


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
    paths = {"data": data, "test": test, "validation": validation}
    given = TaskSource(
        task=path_text(source),
        **{name: None if path is None else str(path) for name, path in paths.items()},  # type: ignore[arg-type]
        text=text if text is None or isinstance(text, str) else tuple(text),  # type: ignore[arg-type]  # one or two: schema
        label=label,
        labels=tuple(labels) if labels else None,
        strict=strict,
        max_rows=max_rows,
        max_test_rows=max_test_rows,
        drop_seen=drop_seen,
    )
    return Loading(given, seed, splits, label_map=label_map, by_id=by_id, any_text=any_text).task()


class Loading:
    """One task while it is read: what was asked for, and what was noticed so far."""

    def __init__(
        self,
        given: TaskSource,
        seed: int,
        roles: Mapping[str, str] | None = None,
        *,
        label_map: Mapping[str, int | str] | None = None,
        by_id: bool = True,
        any_text: bool = False,
    ) -> None:
        self.given, self.seed = given, seed
        self.label_map, self.by_id, self.any_text = label_map, by_id, any_text
        self.source = find(given)
        self.spec, self.lone = self.source.spec, list(self.source.splits) == [ALL]
        chosen = {"validation": given.selects, "test": given.attacked}
        self.roles = dict(roles or {role: split for role, split in chosen.items() if split})
        self.train = self.roles.get("train") or (self.spec.train if self.spec else "train")
        self.columns: tuple[tuple[str, ...], str] | None = None  # texts and label of the first split that was read
        self.notes, self.warnings = self.source.notes, list[str]()
        self.skipped, self.unlabelled = list[BadRow](), list[str]()

    def task(self) -> Task:
        """Read the splits, name their classes, give them roles, and take the subsets asked for."""
        self._check_roles()
        files = self._read()
        names, declared = self._classes(files)
        splits = {name: self._split(name, found, names, declared) for name, found in files.items()}
        check(names, self.source.name)  # bad rows, which say more, were refused before
        if self.given.drop_seen and self.train in splits:
            self._drop_seen(splits)
        roles = self._divide_lone(splits) if self.lone else self._divide(splits)
        self.warnings += two_labels([splits[name] for name in dict.fromkeys(roles) if name in splits], names)
        for role, name in zip(ROLES, roles, strict=True):
            self._subset(splits, role, name)
        notes, warnings = look(splits, *roles, names)
        return Task(
            self.source.name,
            names,
            next(iter(splits.values())).columns,
            splits,
            *roles,
            unlabelled=tuple(self.unlabelled),
            skipped=tuple(self.skipped),
            notes=(*self.notes, *notes),
            warnings=(*self.warnings, *warnings),
        )

    def _check_roles(self) -> None:
        chosen = [*self.roles.values(), *([NONE] if self.given.validation == NONE else [])]
        none = self.given.validation == NONE and ("validation" in self.roles or self.lone)
        if none or not set(self.roles) <= set(ROLES) or len(set(chosen)) < len(chosen):
            raise TicketsError(
                f"{self.source.name}: train, validation and test have one split each, none of them twice; got {self.roles}",
                hint=f"what is attacked must not train or select; validation={NONE!r} is for train and test files",
                code="data.roles",
            )
        for split in self.roles.values():
            if split not in self.source.splits:
                known = did_you_mean(split, self.source.splits)
                raise TicketsError(f"{self.source.name} has no split {split!r}", hint=known, code="data.no_split")

    def _read(self) -> dict[str, Files]:
        """The files of each split that has labels, converted."""
        found = dict[str, Files]()
        for name in sorted(self.source.splits, key=lambda n: (n not in ("train", ALL), n)):
            files = self.source.splits[name]
            if any(rows.columns != files[0].columns for rows in files):
                message = f"{name}: the files {few([rows.name for rows in files])} have different columns"
                raise TicketsError(message, hint="shards of a split have equal columns", code="data.shards")
            self.notes += files[0].notes
            columns = self._columns_of(files[0])
            where = self.spec.where if self.spec else None
            where = where if where and where[0] in files[0].columns else None  # a file of the user's may lack it
            pairs = [(rows, convert(rows, *columns, where, self.any_text)) for rows in files] if columns else []
            missing = {self.spec.missing} if self.spec else None
            if not columns or all(done.rows and set(done.values) == missing for _, done in pairs):
                self.unlabelled.append(name)
                self.notes.append(f"{name}: no public labels, left aside")
                continue
            self.columns, found[name] = self.columns or columns, pairs
        if not found:
            hint = "give a file with a label column"
            raise TicketsError(f"{self.source.name} has no labelled split", hint=hint, code="data.no_labels")
        return found

    def _columns_of(self, rows: Rows) -> tuple[tuple[str, ...], str] | None:
        """The columns to read, those of the first split where there is one; None for a split without the label."""
        spec, label = self.spec, self.given.label
        text: str | Sequence[str] | None = self.given.text
        if spec:
            text = spec.columns if text is None and set(spec.columns) <= set(rows.columns) else text
            label = spec.label if label is None and spec.label in rows.columns else label
        elif self.columns is not None:
            text, label = self.columns
        if self.columns is not None and label and label not in rows.columns:
            return None
        texts, label, note = choose(rows, text, label)
        if spec and len(texts) != len(spec.columns):
            message = f"{self.source.name} reads {few(spec.columns)}; {rows.name} gives {few(texts)}"
            raise TicketsError(message, hint="name the columns of the text", code="data.columns")
        if note and not (spec and texts == spec.columns):
            self.notes.append(note)
        return texts, label

    def _classes(self, files: Mapping[str, Files]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The classes in id order, and what the source itself calls them, where it does."""
        name = next((n for n in (self.train, ALL, self.roles.get("test", "test")) if n in files), next(iter(files)))
        rows = files[name][0][0]
        declared = self.source.labels or rows.classes(self.columns[1] if self.columns else "")
        names = self.given.labels or declared or order(value for _, done in files[name] for value in done.values)
        return names, declared

    def _split(self, name: str, files: Files, names: tuple[str, ...], declared: tuple[str, ...]) -> Split:
        """The rows of a split whose labels are known; the others join the bad rows of their file."""
        columns = self.spec.columns if self.spec else self.columns[0] if self.columns else ()
        missing = self.spec.missing if self.spec else None
        values = list(dict.fromkeys(v for _, done in files for v in done.values if v != missing))
        matched = match(values, names, files[0][0].name, declared, label_map=self.label_map, by_id=self.by_id)
        if matched.note and names != declared:  # ids where train has names are a guess, which must be seen
            noted = self.warnings if matched.guessed and not self.given.labels else self.notes
            noted.append(f"{name}: {matched.note}")
        table = open_table([done for _, done in files])
        codes, lines, classes, start = table.numbers("code"), table.numbers("line"), list[np.ndarray](), 0
        for rows, done in files:
            known = [matched.ids.get(v, LEFT_OUT if v == missing else UNKNOWN) for v in done.values] or [UNKNOWN]
            classes.append(np.array(known, dtype=np.int16)[codes[start : start + done.rows]])
            unknown = start + np.flatnonzero(classes[-1] == UNKNOWN)
            bad = [BadRow(rows.name, line, reason) for line, reason in done.bad]
            for i in unknown[:MOST_LISTED]:
                bad.append(BadRow(rows.name, int(lines[i]), f"unknown label {done.values[codes[i]]!r}"))
            bad.sort(key=lambda row: row.row)
            self._leave_out(rows, done, bad, done.bad_count + len(unknown), names)
            start += done.rows
        ids = np.concatenate(classes)
        if left_out := int((ids == LEFT_OUT).sum()):
            self.notes.append(f"{name}: {left_out} rows without an agreed label ({missing}) left out")
        keep = np.flatnonzero(ids >= 0)
        if not len(keep):
            raise TicketsError(f"{files[0][0].name} has no usable row", hint="check the file", code="data.no_rows")
        return Split(name, columns, table, keep.astype(np.int32 if len(ids) < 2**31 else np.int64), ids[keep])

    def _leave_out(self, rows: Rows, done: Converted, bad: list[BadRow], count: int, names: Sequence[str]) -> None:
        """List the bad rows of a file, or refuse it where they are too many; report the texts that were mended."""
        file, total = Path(rows.name), done.rows + done.bad_count
        if count > (0 if self.given.strict else MOST_BAD * total):
            first = "\n  ".join(map(str, bad[:SHOWN]))
            broken = 2 * sum(row.reason == BROKEN_UTF8 for row in bad) > len(bad)
            mend = f"mend or remove these rows, or name the columns of text and label; known labels: {few(names)}"
            raise TicketsError(
                f"{rows.name}: {count} of {total} rows are bad, {'none' if self.given.strict else '1 %'} may be:\n  {first}",
                hint=to_utf8(file) if broken else mend,
                code="data.bad_rows",
            )
        if count:
            self.skipped += bad
            self.notes.append(f"{file.name}: skipped {count} bad of {total} rows, first {bad[0]}")
        if done.mended:
            how = "" if file.suffix.lower() == ".jsonl" else f"; {to_utf8(file)}"  # there as half of an escaped pair
            words = f"{done.mended} of {done.rows} rows hold {BROKEN_UTF8}, which the classifier reads as U+FFFD"
            self.warnings.append(f"{file.name}: {words}{how}")

    def _drop_seen(self, splits: dict[str, Split]) -> None:
        """Before anything is carved: what is carved from train later shares no text with it anyway."""
        for name in [name for name in splits if name != self.train]:
            seen = np.isin(splits[name].keys, splits[self.train].keys)
            if seen.all():
                message = f"all {len(seen)} rows of {name} stand in {self.train} too"
                raise TicketsError(message, hint="give other rows, or do not drop those seen", code="data.all_seen")
            if seen.any():
                splits[name] = splits[name].select(np.flatnonzero(~seen))
                self.notes.append(f"{name}: {int(seen.sum())} rows whose text stands in {self.train} dropped")

    def _divide_lone(self, splits: dict[str, Split]) -> tuple[str, str, str]:
        """The roles of a lone file: taken whole, or divided into three."""
        if self.roles:
            train, validation, test = (self.roles.get(role, role) for role in ROLES)
            return train, validation, test
        whole = splits.pop(ALL)
        splits |= {name: whole.select(rows, name) for name, rows in divide.lone(whole.keys).items()}
        sizes = ", ".join(f"{len(part)} {name}" for name, part in splits.items())
        self.notes.append(f"{self.source.name}: one file, divided by hash of the text into {sizes} rows")
        return "train", "validation", "test"

    def _divide(self, splits: dict[str, Split]) -> tuple[str, str, str]:
        """The splits of the three roles; those that are missing are made out of the first, by hash of the text."""
        spec, train = self.spec, self.train
        test = self.roles.get("test") or (spec.test if spec else "test")
        validation = self.roles.get("validation") or (spec.validation if spec else None)
        if spec and "test" not in self.roles and test not in splits and "test" in splits:
            self.notes.append(f"{self.source.name}: no labelled {test} here, so test is attacked instead")
            test = "test"
        if self.given.validation == NONE and train in splits:
            validation = NONE
            splits[NONE] = splits[train].select([], NONE)
            self.notes.append(f"no row of {train} is carved for selection")
        if test not in splits and not spec and "test" not in self.roles:
            test = "held_out" if test in self.unlabelled and train in splits else test
            self._carve(splits, test, "test")
        if validation is None and "validation" in splits and "validation" not in (train, test):
            validation = "validation"
        if validation is None or (validation not in splits and validation not in self.roles.values()):
            taken = {*splits, *self.unlabelled, test}
            validation = next(n for n in ("validation", "selection", "selection_2") if n not in taken)
            self._carve(splits, validation, "validation")
        return train, validation, test

    def _carve(self, splits: dict[str, Split], name: str, role: str) -> None:
        """Make the split ``name`` out of a tenth of the training split, where there is one."""
        if self.train in splits:
            whole = splits[self.train]
            mask = divide.carve(whole.keys, self.seed, role)
            splits[name] = whole.select(np.flatnonzero(mask), name)
            splits[self.train] = whole.select(np.flatnonzero(~mask))
            sizes = f"{mask.sum()} rows carved from {self.train} by hash of the text and seed {self.seed}"
            self.notes.append(f"{name}: {sizes}; {(~mask).sum()} stay")

    def _subset(self, splits: dict[str, Split], role: str, name: str) -> None:
        """Take a seeded subset of the split, where fewer rows are asked for than it has."""
        most = self.given.max_rows if role == "train" else self.given.max_test_rows
        if name in splits and most is not None and most < len(splits[name]):
            generator = numpy_generator(self.seed, *(["max_rows"] if role == "train" else ["max_test_rows", name]))
            self.notes.append(f"{name}: a seeded subset of {most} of {len(splits[name])} rows")
            splits[name] = splits[name].select(np.sort(generator.permutation(len(splits[name]))[:most]))

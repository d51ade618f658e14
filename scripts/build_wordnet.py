"""Build the synonym table of ``robust_tickets.resources.wordnet`` from WordNet 3.0's own files.

Debian's package ``wordnet-base`` installs them in /usr/share/wordnet. Run ``python scripts/build_wordnet.py``; the same input gives the
same bytes, and the printed SHA-256 is the one ``tests/unit/test_words.py`` expects.
``scripts/check_wordnet.py`` compares the table with NLTK.

The table is a list of synsets, because everything else follows from it: a lemma's index entry is the set of synsets that name it, which
is checked here against WordNet's index files. Left out are synsets without a single-word name: they offer no candidate.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
from pathlib import Path

from robust_tickets.resources.words import is_one_word

PARTS = ("noun", "verb", "adj", "adv")
TARGET = Path(__file__).resolve().parents[1] / "src" / "robust_tickets" / "resources" / "files" / "wordnet.txt.gz"


def records(path: Path) -> list[str]:
    """The lines of a WordNet file without its licence header (whose lines begin with a blank)."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith(" ")]


def synsets(folder: Path, part: str) -> dict[int, list[str]]:
    """Offset -> lemma names, case kept, without the adjectives' syntactic markers such as "(p)" (see man 5 wndb)."""
    found = {}
    for line in records(folder / f"data.{part}"):
        fields = line.split()
        count = int(fields[3], 16)
        found[int(fields[0])] = [name.partition("(")[0] for name in fields[4 : 4 + 2 * count : 2]]
    return found


def check_index(folder: Path, part: str, found: dict[int, list[str]]) -> None:
    """The index must be the inverse of the synsets, else a table without it would answer wrongly."""
    inverse: dict[str, set[int]] = {}
    for offset, names in found.items():
        for name in names:
            inverse.setdefault(name.lower(), set()).add(offset)
    index = {}
    for line in records(folder / f"index.{part}"):
        fields = line.split()
        index[fields[0]] = {int(offset) for offset in fields[-int(fields[2]) :]}
    if index != inverse:
        odd = sorted(lemma for lemma in index.keys() | inverse.keys() if index.get(lemma) != inverse.get(lemma))
        raise SystemExit(f"index.{part} is not the inverse of data.{part}: {odd[:10]} and {max(0, len(odd) - 10)} more")


def table(folder: Path) -> bytes:
    """Per part of speech: its name, its synsets (one a line), a blank line, its irregular forms (form and bases), a blank line."""
    lines = []
    for part in PARTS:
        found = synsets(folder, part)
        check_index(folder, part, found)
        kept = [
            " ".join(names) for names in found.values() if any("_" not in name and is_one_word(name) for name in names)
        ]
        irregular = {}
        for line in records(folder / f"{part}.exc"):
            form, *bases = line.split()
            irregular[form] = bases  # a form on two lines keeps the last, as NLTK does
        lines += [part, *sorted(kept), "", *(" ".join([form, *bases]) for form, bases in sorted(irregular.items())), ""]
    return ("\n".join(lines) + "\n").encode()


def compress(data: bytes) -> bytes:
    """Gzip without a name or a time, so that the bytes depend on the data only."""
    stream = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=stream, mtime=0) as out:
        out.write(data)
    return stream.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--wordnet", type=Path, default=Path("/usr/share/wordnet"), help="folder of index.*, data.* and *.exc"
    )
    parser.add_argument("--out", type=Path, default=TARGET)
    chosen = parser.parse_args()
    if not (chosen.wordnet / "data.noun").is_file():
        raise SystemExit(
            f"no WordNet in {chosen.wordnet}: apt-get install wordnet-base, or name its folder by --wordnet"
        )
    data = table(chosen.wordnet)
    packed = compress(data)
    chosen.out.write_bytes(packed)
    print(f"{chosen.out}: {len(packed)} bytes, content SHA-256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()

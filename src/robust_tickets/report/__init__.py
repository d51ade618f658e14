"""One self-contained page for one or more runs: the verdict first, then the numbers, the figures, the texts, and how to run it again."""

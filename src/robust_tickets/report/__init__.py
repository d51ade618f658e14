"""One self-contained page for one or more runs."""

"""``python -m robust_tickets``: the command ``tickets``, for an interpreter whose scripts are not on the PATH."""

from robust_tickets.cli.main import main

if __name__ == "__main__":
    main()

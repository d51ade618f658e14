"""docs/speed.md: what an epoch costs beyond its updates, and how texts come to them."""

from __future__ import annotations

from _page_parts import Result, made_with, number, table

AIM = 0.02
WAYS = ("on the way", "on the way, ahead", "table", "table, ahead")
ORDERS = ("random order, to the longest", "sorted pools, to the longest", "sorted pools, widths of the data")


def overhead(result: Result) -> str:
    """Shares of an epoch: on the wall on a GPU; of what the process computed on the CPU, where other work moves the wall by more."""
    settings, answer = result["settings"], result["answer"]
    on_cpu = settings["device"] == "cpu"
    told = answer["computed by the process" if on_cpu else "wall"]
    share, apart, saved = told["share of the epoch"], told["differences, one by one"], answer["checkpoints"]
    beyond = share["everything but the updates, by difference"] - share["checkpoint"] + saved["share in the long run"]
    kind = "FreeLB-5" if settings["adversary"] != "none" else "plain fine-tuning"
    words = "below" if beyond < AIM else "not below"
    return "\n".join(
        [
            f"## An epoch beyond its updates: {kind}, {'CPU' if on_cpu else 'GPU'}\n",
            f"{settings['model']} on {settings['data']} ({settings['rows']['train']:,} rows an epoch, batches of {settings['batch']}, "
            f"{settings['precision']}), {settings['epochs']}: {number(told['seconds']['epoch'])} s "
            f"{'computed an epoch' if on_cpu else 'an epoch'}, the bare updates {number(told['seconds']['bare updates'])} s, which is "
            f"{100 * min(apart):.1f} to {100 * max(apart):.1f} % less. A checkpoint holds training up for "
            f"{number(saved['seconds that training waits'])} s every {number(saved['seconds apart'])} s, "
            f"{100 * saved['share in the long run']:.2f} % in the long run; with that all else is {100 * beyond:.2f} %, {words} the 2 % "
            f"aimed at. Other work on the machine: load {settings['load']}.\n",
            table(["", "share of the epoch"], ([what, f"{100 * part:.2f} %"] for what, part in share.items())),
            made_with(result),
        ]
    )


def feeding(result: Result) -> str:
    """Tokens kept on disk, widths, and the wait for a batch."""
    waits, padding = [], []
    for name, told in result["answer"].items():
        waited = told["milliseconds that a consumer waits"]
        waits.append([name, f"{told['seconds to tokenise once']:.1f}", *(number(waited[way]["median"]) for way in WAYS)])
        shares = (told["padding"][order] for order in ORDERS)
        padding.append([name, *(f"{share['padded over real']:.2f} ({share['lengths']})" for share in shares)])
    return "\n".join(
        [
            "## How texts come to the updates\n",
            "Texts are tokenised once and kept (*table*); batches are made ahead by a thread. Median milliseconds that a consumer who "
            "does nothing else waits for a batch:\n",
            table(["", "tokenised once, s", *WAYS], waits),
            "Padded tokens over real ones (and how many lengths of batches there are, each a graph to record):\n",
            table(["", *ORDERS], padding),
            made_with(result),
        ]
    )

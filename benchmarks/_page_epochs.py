"""docs/dev/speed.md: what an epoch costs beyond its updates, and how texts come to them."""

from __future__ import annotations

from _page_parts import Result, factor, made_with, number, table

AIM = 0.02
KINDS = (
    *("data", "metrics", "evaluation", "checkpoint", "the parts timed on the host", "loop"),
    "everything but the updates, by difference",
)
WAYS = ("on the way", "on the way, ahead", "table", "table, ahead")
PARTS = """\
*Metrics* is the loss read for every tenth update's log line; *evaluation* the validation rows after the epoch;
*loop* what none of the clocks saw: launching, copies of batches, gaps between updates. It is below zero where the host's parts pass while
the device computes, and so cost the epoch less than they last. They take the same whatever an update takes, so that their share falls with
the passes of an adversary.
"""
ORDERS = ("random order, to the longest", "sorted pools, to the longest", "sorted pools, widths of the data")


def told_of(result: Result) -> Result:
    """By the wall on a GPU; by what the process computed on the CPU, where other work moves the wall by more."""
    return result["answer"]["computed by the process" if result["settings"]["device"] == "cpu" else "wall"]  # type: ignore[no-any-return]


def beyond(result: Result) -> float:
    """The share of an epoch that is not its updates, checkpoints as in the long run."""
    share = told_of(result)["share of the epoch"]
    held = result["answer"]["checkpoints"]["share in the long run"]
    return float(share["everything but the updates, by difference"] - share["checkpoint"] + held)


def overhead(result: Result) -> str:
    """Shares of an epoch, by kind."""
    settings, answer = result["settings"], result["answer"]
    on_cpu = settings["device"] == "cpu"
    told = told_of(result)
    share, apart, saved = told["share of the epoch"], told["differences, one by one"], answer["checkpoints"]
    kind = "FreeLB-5" if settings["adversary"] != "none" else "plain fine-tuning"
    words = "below" if beyond(result) < AIM else "**not** below"
    epochs = sum(int(word) for word in settings["epochs"].split() if word.isdigit())
    where = (
        "--data FOLDER"
        + ("" if on_cpu else " --model FOLDER --device cuda")
        + ("" if settings["adversary"] == "none" else " --adversary")
    )
    return "\n".join(
        [
            f"## An epoch beyond its updates: {kind}, {'CPU' if on_cpu else 'GPU'}\n",
            f"{settings['model']} on {settings['data']} ({settings['rows']['train']:,} rows an epoch, batches of {settings['batch']}, "
            f"{settings['precision']}), {settings['epochs']}: {number(told['seconds']['epoch'])} s "
            f"{'computed an epoch' if on_cpu else 'an epoch'}, the bare updates {number(told['seconds']['bare updates'])} s, which is "
            f"{100 * min(apart):.1f} to {100 * max(apart):.1f} % less. A checkpoint holds training up for "
            f"{number(saved['seconds that training waits'])} s every {number(saved['seconds apart'])} s, "
            f"{100 * saved['share in the long run']:.2f} % in the long run; with that all else is "
            f"{100 * beyond(result):.2f} %, {words} the 2 % aimed at. Other work on the machine: load {settings['load']}.\n",
            table(["", "share of the epoch"], ([what, f"{100 * share[what]:.2f} %"] for what in KINDS)),
            *([] if on_cpu else [PARTS]),
            made_with(result, f"{where} --rows {settings['rows']['train']} --epochs {epochs}"),
        ]
    )


def accuracy(result: Result) -> str:
    """An epoch of either engine."""
    entries, settings = result["entries"], result["settings"]
    splits = list(next(iter(entries.values()))["accuracy"])
    rows = [[engine, *(f"{told['accuracy'][split]:.2f} %" for split in splits)] for engine, told in entries.items()]
    same = len({told["weights"] for told in entries.values()}) == 1
    return "\n".join(
        [
            "## Accuracy with either engine\n",
            f"SST-2, {settings['epochs']} epoch of {next(iter(entries.values()))['updates']:,} updates, {settings['precision']}, one seed. "
            + (
                "The weights are the same bits.\n"
                if same
                else "The weights are not the same bits after so many updates. Kernels that add up in an order that changes from run to "
                "run would do that; whether two eager runs differ as much was not measured.\n"
            ),
            table(["engine", *splits], rows),
            made_with(result),
        ]
    )


def feeding(result: Result) -> str:
    """Tokens kept on disk, widths, and the wait for a batch."""
    waits, padding = [], []
    for name, told in result["answer"].items():
        waited = told["milliseconds that a consumer waits"]
        once, cheaper = told["seconds to tokenise once"]["CPU"], told["on the way over table"]["median"]
        opened = 1000 * told["CPU seconds to open"]["median"]
        waits.append(
            [name, number(once), number(opened), factor(cheaper), *(f"{waited[way]['median']:.2f}" for way in WAYS)]
        )
        shares = (told["padding"][order] for order in ORDERS)
        padding.append([name, *(f"{share['padded over real']:.2f} ({share['lengths']})" for share in shares)])
    load = max(told["processes that wanted a core then"] for told in result["answer"].values())
    return "\n".join(
        [
            "## How texts come to the updates\n",
            "Texts are tokenised once and kept (*table*), or tokenised *on the way*, in every epoch again; *ahead*: by a thread. CPU "
            "seconds to make a table, milliseconds to open it, how much cheaper an epoch of batches from it is than on the way, and the "
            f"median milliseconds that a consumer who takes a batch every {1000 * result['settings']['step']:.0f} ms waits for one:\n",
            table(["", "make, s", "open, ms", "cheaper", *(f"wait: {way}" for way in WAYS)], waits),
            f"Up to {load:.0f} other processes wanted the {result['env']['cores']} cores meanwhile, which the waits show and the "
            "CPU seconds do not.\n",
            "Padded tokens over real ones (and how many lengths of batches there are, each a graph to record). Pools are sorted by "
            "characters here, as on a CPU; on a GPU they are sorted by tokens, with the padding that is [given above](#sst-2):\n",
            table(["", *ORDERS], padding),
            made_with(result, "--data FOLDER --tokenizer FOLDER"),
        ]
    )

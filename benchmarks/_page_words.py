"""docs/dev/speed.md: what is said by hand. Numbers of the package's own settings are read from it."""

from __future__ import annotations

from robust_tickets.data.batching import DEPTH, ENOUGH
from robust_tickets.data.batching import MOST as WIDTHS
from robust_tickets.environment import CUDNN_FROM
from robust_tickets.train.cuda import WORTH
from robust_tickets.train.cuda.graphs import MOST, WARM_UP
from robust_tickets.train.loop import CHECKPOINT_SHARE

# changes of how updates run that came after the results: empty once they are measured
SINCE = (
    "our own PGD-5 on IMDB as it runs now; its steps there still had the ends of layers compiled, some 7 % slower ([log](log.md))",
)
COUNTS = {2: "two", 6: "six", 8: "eight"}

ABOVE = f"""# Speed

Made by `python benchmarks/page.py` from `benchmarks/results/`: edit those, not this. Every table says its device, its versions and
its command. Times are of one machine; ratios were measured side by side, in turns, in one process. What was tried besides, with
numbers that have no file here, stands in the [log](log.md).

In short: on a GPU set `precision="bf16"` (`--set train.precision=bf16` and `--set search.precision=bf16` on the command line of
`tickets run`) and leave `engine="auto"` as it is; draw a ticket that you serve in bf16 with
`round_to=8` or more, or it may be slower than the whole model. On a CPU the
engine is eager, and there is nothing to choose but the precision.

## How an update runs

**One loop, two engines.** An *update* is the gradients of its batches, clipping, the learning rate and AdamW. The eager engine runs
it operation by operation and is the reference. The graph engine records the same code as a CUDA graph, once for every shape of a
batch (rows × padded tokens), and then launches a whole update at once: at 32 tokens an eager update spends most of its time telling
the GPU what to do. The passes of FreeLB and PGD, gates and coefficients, masked words, clipping and AdamW are all inside; with
`accumulate` every micro-batch is a graph and the descent is another. Batches are copied to fixed places, the learning rate is a
number on the GPU, and a replay moves the random generators on as the eager code does. The streams of a graph run continue from update to
update; the eager engine seeds dropout, perturbations and gate noise for every micro-batch. Tests on a GPU, in which both continue,
ask recorded losses to be within 1e-5 of eager ones in every kind of step;
measured over 12 updates, losses and weights were the same bits ([log](log.md)); a whole epoch is [below](#accuracy-with-either-engine).

| `engine` | what runs |
|---|---|
| `"auto"`, the default | graphs on a CUDA device for runs of at least {WORTH} updates, else eager; on a CUDA device the log says which |
| `"eager"` | eager |
| `"graph"` | graphs on a CUDA device however short the run; elsewhere it says so and runs eagerly |

The engine is no part of a run's identity: an interrupted run may resume with the other one.

**bf16 with fp32 masters.** `precision="bf16"` casts every weight once an update into a working copy; the masters, AdamW, the
embeddings, what an adversary adds to them, gates and coefficients stay fp32. Gradients of weights leave the matrix product in fp32
and add up there over passes and micro-batches. They, and those of norms, gates and coefficients, are taken by hand, and under the
graph engine in a second stream beside the backward pass, since nothing waits for them before AdamW does. Attention takes the
memory-efficient kernel below {CUDNN_FROM} tokens and cuDNN's from there on. Clipping happens inside AdamW's kernel. Query, key and
value are one product. A ticket's feed-forward layers of odd widths get room up to the next multiple of 8, in the working copies
alone: masters, gradients and files keep the ticket's widths.

**Few widths.** On a GPU a batch is padded to one of at most {COUNTS[WIDTHS]} widths chosen from the data (padded tokens against
recordings), and pools are sorted by tokens, so that texts of like length come together; a run too short to keep its tokens (below)
knows no lengths and takes fixed widths. On a CPU a batch is as wide as its longest text.

**Tokenised once.** A run that reads at least {100 * ENOUGH:.0f} % of an epoch tokenises its split once and keeps the ids in the
cache, memory-mapped and checked by hash; the next run opens them (`tickets doctor` says where the cache lies, how large it is and
whether it can be written; where it cannot, a temporary folder keeps them until the command ends).
For a GPU a thread makes up to {COUNTS[DEPTH]} batches ahead in pinned memory.

**Checkpoints beside training.** On a GPU a checkpoint is a copy into pinned memory, which a thread writes while the next updates
run. Training waits for checkpoints for at most {100 * CHECKPOINT_SHARE:.0f} % of its time, unless `checkpoint_steps` asks for more.
On a CPU they are written at once.

**Compiled.** On a GPU `torch.compile` makes one kernel of the elementwise part of RobustT's gates; where there is no compiler these stay
separate operations. Nothing else is compiled: the ends of layers were measured so and lost, whole layers would win a tenth for half a
minute of compiling ([log](log.md)).

## Limits

- Recording a shape takes tenths of a second and memory; its first {COUNTS[WARM_UP]} updates are eager. The partial last batch is a
  shape of its own, met once an epoch, and so recorded in the third. Beyond {MOST} graphs further shapes run eagerly.
- A step that waits for the GPU or rewinds a random stream cannot be recorded. Then the log says why, the random streams are put
  back, and the run continues as an eager one. So it is with DeBERTa and MPNet, whose code makes tables of positions on the CPU
  in every pass, and with adversaries under `dropout="shared"`.
- A CPU, and Apple's MPS, is always eager.
- On a GPU an eager step on short texts is bound by the host, in bf16 as in fp32; the search's is then slower than the reference's
  (see its table). bf16 pays where graphs are recorded, or batches are large.
- A GPU's bits depend on the batch's shape: an eager run there reads the same batches at the same widths, so that the two can be
  compared.
- Unstructured tickets are masks: they bring no speed.
- Attacks have their own graphs and buckets: [engine](../guides/attacks/engine.md).
"""

BELOW = """## What the reference is

A clean-room training step with the cost profile of the released EarlyRobust and RobustT code and of the PGD they compare with; nothing of
that code is in it. Attention as a tensor of batch × heads × tokens × tokens with the coefficients multiplied in, fp32 without TF32, eager,
K full backward passes (K + 1 for PGD, whose ascents compute all gradients), a copy of every coefficient to the host after every search
step, AdamW and clipping parameter by parameter, batches in random order padded to their longest text. What the released code loses besides
(Python, logging, records of every step) is not charged. SynonymSwap and ORTicket have no released code: their reference is the same profile
around two plain passes, and around EarlyRobust's search step with a head of words. `benchmarks/_reference.py`.

Like every eager step on short texts it is bound by the host: a machine with a faster processor beside the same GPU has a faster reference,
and a smaller factor. At 128 tokens the GPU is the limit, and the tables above show what is left of the factor there.
"""

"""A small causal model, trained in about a minute on text that every Python has: its own help topics, byte by byte.

`python tests/train_small.py FOLDER [SECONDS]` writes a checkpoint as transformers keeps it, config.json and
model.safetensors, and prints the loss on text that it was not trained on beside that of the bytes' frequencies.
"""

import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from transformers.utils import logging

logging.disable_progress_bar()

VOCABULARY, LENGTH, BATCH, RATE = 256, 96, 16, 3e-3
SHAPE = {
    "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "tie_word_embeddings": False,
}  # fmt: skip


def corpus() -> tuple[torch.Tensor, torch.Tensor]:
    """The bytes of the help topics in the order of their names: nine tenths to learn from, the last one to judge by."""
    text = "\n".join(topics[name] for name in sorted(topics)).encode()
    data = torch.tensor(list(text))
    edge = len(data) * 9 // 10
    return data[:edge], data[edge:]


def train(folder: Path, *, seconds: float = 60.0, steps: int | None = None, seed: int = 0, **shape: Any) -> float:
    """Write the checkpoint of a model that was trained so long; its loss on the text kept back, in nats a byte.

    steps: so many instead. shape: sizes of a Llama other than the usual ones.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    learned, kept = corpus()
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**(SHAPE | shape)))
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), weight_decay=0.1)
    for step, progress in enumerate(_progress(seconds, steps)):
        for group in optimiser.param_groups:
            group["lr"] = RATE * min(1.0, (step + 1) / 20) * (1 - 0.9 * progress)
        optimiser.zero_grad()
        loss(model, _drawn(learned)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    model.eval().save_pretrained(folder)
    with torch.no_grad():
        return float(loss(model, kept[: len(kept) // LENGTH * LENGTH].reshape(-1, LENGTH)[:64]))


def loss(model: Any, batch: torch.Tensor) -> torch.Tensor:
    """The mean over all bytes but the first of −log of what the model gave the byte that came, in nats."""
    logits = model(input_ids=batch).logits[:, :-1]
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def unigram() -> float:
    """The loss on the text kept back of a model that knows how frequent bytes are, and nothing else."""
    learned, kept = corpus()
    counts = torch.bincount(learned, minlength=VOCABULARY).double() + 1
    return float(-(counts / counts.sum()).log()[kept].mean())


def _drawn(data: torch.Tensor) -> torch.Tensor:
    starts = torch.randint(len(data) - LENGTH, (BATCH, 1))
    return data[starts + torch.arange(LENGTH)]


def _progress(seconds: float, steps: int | None) -> Iterator[float]:
    """The part of the training that is over, before each step."""
    started, done = time.monotonic(), 0
    while (progress := done / steps if steps else (time.monotonic() - started) / seconds) < 1:
        yield progress
        done += 1


if __name__ == "__main__":
    reached = train(Path(sys.argv[1]), seconds=float(sys.argv[2]) if len(sys.argv) > 2 else 60.0)
    print(
        f"{reached:.3f} nats a byte, where frequencies alone give {unigram():.3f} and chance {math.log(VOCABULARY):.3f}"
    )

#!/usr/bin/env python3
"""Makes the files of this directory: gradients of a small network trained on handwritten digits.

Needs numpy and scikit-learn, whose bundled copy of the UCI digits (1797 images of 8 x 8) is the data set. Made with
Python 3.11, numpy 2.4.6, scikit-learn 1.9.1. Deterministic: seeds are fixed, and the network is small enough for
products in one thread; another BLAS may differ in the last bits, so the files are committed and not made by the tests.

Four ranks train 64-96-10 (ReLU, softmax, cross-entropy) with data-parallel SGD, each on its own quarter of the images.
After STEPS steps, each rank's gradient of its next batch is written as float32 to grads_R.safetensors, and the sum of
these four, taken in double precision, as F64 to expected_sum.safetensors.
"""
import json
import os
import struct

import numpy as np
from sklearn.datasets import load_digits

RANKS, STEPS, BATCH, HIDDEN, RATE = 4, 60, 32, 96, 0.05


def parameters(rng):
    def layer(outputs, inputs):
        return (rng.standard_normal((outputs, inputs)) * np.sqrt(2.0 / inputs)).astype(np.float32)

    return {"fc1.weight": layer(HIDDEN, 64), "fc1.bias": np.zeros(HIDDEN, np.float32),
            "fc2.weight": layer(10, HIDDEN), "fc2.bias": np.zeros(10, np.float32)}


def forward(p, x):
    hidden = np.maximum(x @ p["fc1.weight"].T + p["fc1.bias"], 0)
    logits = hidden @ p["fc2.weight"].T + p["fc2.bias"]
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return hidden, odds / odds.sum(axis=1, keepdims=True)


def gradients(p, x, labels):
    hidden, delta = forward(p, x)
    delta = delta.copy()
    delta[np.arange(len(labels)), labels] -= 1
    delta /= np.float32(len(labels))
    back = (delta @ p["fc2.weight"]) * (hidden > 0)
    return {"fc1.weight": back.T @ x, "fc1.bias": back.sum(axis=0),
            "fc2.weight": delta.T @ hidden, "fc2.bias": delta.sum(axis=0)}


def write(path, tensors, dtype, name):
    """The format: length of the header as 8 bytes, little endian; the header as JSON; the data."""
    header, data = {}, b""
    for key, tensor in tensors.items():
        raw = np.ascontiguousarray(tensor, dtype).tobytes()
        header[key] = {"dtype": name, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), path), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main():
    digits = load_digits()
    images, labels = (digits.data / 16).astype(np.float32), digits.target
    order = np.random.default_rng(1).permutation(len(labels))
    shards = np.array_split(order, RANKS)
    batches = [np.random.default_rng(100 + rank) for rank in range(RANKS)]
    p = parameters(np.random.default_rng(2))

    def all_gradients():
        chosen = [batches[rank].choice(shards[rank], BATCH, replace=False) for rank in range(RANKS)]
        return [gradients(p, images[batch], labels[batch]) for batch in chosen]

    for _ in range(STEPS):
        each = all_gradients()
        for key in p:
            p[key] -= np.float32(RATE) * np.sum([g[key] for g in each], axis=0, dtype=np.float32)
    right = (forward(p, images)[1].argmax(axis=1) == labels).mean()
    print(f"after {STEPS} steps {right:.1%} of the digits are recognised")

    each = all_gradients()
    for rank, grads in enumerate(each):
        write(f"grads_{rank}.safetensors", grads, "<f4", "F32")
    total = {key: np.sum([g[key].astype(np.float32).astype(np.float64) for g in each], axis=0) for key in p}
    write("expected_sum.safetensors", total, "<f8", "F64")


if __name__ == "__main__":
    main()

"""The networks of ddp_bench, each with about the requested number of bytes of parameters and little to compute."""
import math
import time

import torch
from torch import nn

CLASSES = 64
PATCHES, WORD = 16, 32  # the transformer's sequence and the size of an element of its input
MEGABYTE = 1_000_000


class Block(nn.Module):
    """The basic block of ResNet-18 and ResNet-34."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, images):
        return torch.relu(self.body(images) + self.shortcut(images))


def resnet(megabytes):
    """ResNet-18 for images of 16 x 16. With its usual width of 64 it has 44.7 MB."""
    width = max(8, round(64 * math.sqrt(megabytes / 44.7) / 4) * 4)
    layers = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    inputs = width
    for stage in range(4):
        outputs = width << stage
        layers += [Block(inputs, outputs, 1 if stage == 0 else 2), Block(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, CLASSES)), (3, 16, 16)


def transformer(megabytes):
    """Eight equal blocks: the gradients become ready at an even pace."""
    blocks = 8
    width = max(32, round(math.sqrt(megabytes * MEGABYTE / 4 / 12 / blocks) / 32) * 32)
    layers = [nn.Linear(WORD, width)]
    layers += [nn.TransformerEncoderLayer(width, width // 32, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
               for _ in range(blocks)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(PATCHES * width, CLASSES)), (PATCHES, WORD)


def vgg(megabytes):
    """Most of the parameters are in the last layers, whose gradients are ready first."""
    features = 128 * 4 * 4
    width = max(64, round((math.sqrt(features * features + megabytes * MEGABYTE) - features) / 2 / 32) * 32)
    layers, inputs = [], 3
    for outputs in (32, 64, 128):
        layers += [nn.Conv2d(inputs, outputs, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]
        inputs = outputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width),
                         nn.ReLU(), nn.Linear(width, CLASSES)), (3, 32, 32)


MODELS = {"resnet": resnet, "transformer": transformer, "vgg": vgg}


class Wait(torch.autograd.Function):
    """Waits as long as an accelerator would compute. The backward pass takes twice as long as the forward pass."""

    @staticmethod
    def forward(context, values, seconds):
        context.seconds = seconds
        time.sleep(seconds)
        return values.view_as(values)

    @staticmethod
    def backward(context, gradients):
        time.sleep(2 * context.seconds)
        return gradients, None


class Accelerated(nn.Module):
    def __init__(self, layer, seconds):
        super().__init__()
        self.layer, self.seconds = layer, seconds

    def forward(self, values):
        return Wait.apply(self.layer(values), self.seconds)


def make(name, megabytes, accelerator_seconds=0):
    """The network, the same on every rank and in every run, and the shape of one input.

    `accelerator_seconds`: additional time of a batch, divided equally among the layers that have parameters."""
    torch.manual_seed(1)
    network, shape = MODELS[name](megabytes)
    if accelerator_seconds:
        large = [any(True for _ in layer.parameters()) for layer in network]
        each = accelerator_seconds / 3 / sum(large)
        network = nn.Sequential(*(Accelerated(layer, each) if has else layer for layer, has in zip(network, large)))
    return network, shape


def batch(shape, size, seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(size, *shape, generator=generator), torch.randint(CLASSES, (size,), generator=generator))

"""A reducer for models that do not use DistributedDataParallel, and for priorities, which PyTorch does not have."""

import contextlib

import torch.distributed as dist


class Reducer:
    """Averages the gradients of a model over the ranks of a process group, while the backward pass still computes.

        reducer = bps_torch.Reducer(model)
        for batch in batches:
            with reducer.iteration():
                loss(model(batch)).backward()
            optimizer.step()
            optimizer.zero_grad()

    At the end of iteration() every gradient is the average over all ranks. Gradients lie in the reducer's buckets, so
    nothing is copied. A parameter that no rank has used keeps its gradient.

    Gradients of the first layers are ready last, but the next forward pass needs them first. With `urgent_mb` the
    all-reduces of the first parameters, up to this size, overtake the others. To use them early, pass wait=False to
    iteration(), call wait(parameter) before a gradient is used, and finish() after the last.

    All ranks make the reducer together, and begin iterations in the same order. Parameters are in host memory. Only
    one iteration may be open. Exceptions have bps's message (torch.distributed.DistBackendError).
    """

    def __init__(self, model, group=None, bucket_mb=25, first_bucket_mb=1, communicators=1, urgent_mb=0):
        from . import _backend_of, _extension

        extension = _extension()
        group = group or dist.group.WORLD
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._index = {parameter: index for index, parameter in enumerate(self._parameters)}
        options = extension.ReducerOptions(
            int(bucket_mb * (1 << 20)), int(first_bucket_mb * (1 << 20)), communicators, int(urgent_mb * (1 << 20))
        )
        self._reducer = extension.Reducer(
            _backend_of(group), [parameter.detach() for parameter in self._parameters], options
        )
        self._open = False
        self._synchronize = True
        self._marked = set()
        self._views = self._reducer.gradients()
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(self._on_gradient) for parameter in self._parameters
        ]

    def _on_gradient(self, parameter):
        """Runs in a thread of autograd, when the gradient of a parameter is complete."""
        if not self._open:
            raise RuntimeError("bps_torch.Reducer: backward() outside of iteration()")
        index = self._index[parameter]
        view = self._views[index]
        if parameter.grad.data_ptr() != view.data_ptr():  # zero_grad() had removed the view
            view.copy_(parameter.grad)
            parameter.grad = view
        self._marked.add(index)
        self._reducer.ready(index)  # fails if the iteration has had a backward pass before

    @contextlib.contextmanager
    def iteration(self, synchronize=True, wait=True):
        """Contains one backward pass. With synchronize=False the gradients only add up on this rank (as no_sync)."""
        if self._reducer.begin(synchronize):
            self._move()
        self._open, self._synchronize = True, synchronize
        self._marked.clear()
        # If the program fails here, the other ranks wait for this one until it ends.
        yield self
        if synchronize:
            for index in range(len(self._parameters)):
                if index not in self._marked:
                    self._reducer.unused(index)
        self._open = False
        if wait or not synchronize:
            self.finish()

    def _move(self):
        """The buckets have been built anew, so the gradients lie elsewhere, with their values."""
        self._views = self._reducer.gradients()
        for parameter, view in zip(self._parameters, self._views):
            if parameter.grad is not None:
                parameter.grad = view

    def wait(self, parameter):
        """Waits until the average of this parameter's gradient is there."""
        self._reducer.wait(self._index[parameter])

    def finish(self):
        """Waits until all averages are there. A parameter that only other ranks have used then has a gradient, too."""
        self._reducer.finish()
        if not self._synchronize:
            return
        for index, parameter in enumerate(self._parameters):
            if parameter.grad is None and index not in self._marked and self._reducer.used(index):
                parameter.grad = self._views[index]

    def stats(self):
        """Returns what happened to each bucket in the last synchronized iteration: bytes, parameters, communicator,
        and the seconds until it was ready, launched and done."""
        return self._reducer.stats()

    def close(self):
        """Removes the reducer from the model. The gradients stay where they are until the reducer is freed."""
        for hook in self._hooks:
            hook.remove()
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.grad = parameter.grad.clone()
        self._views = []
        self._reducer = None

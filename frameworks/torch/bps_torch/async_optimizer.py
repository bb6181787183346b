"""Asynchronous training: each rank trains at its own speed, on parameters that the summation servers and the ranks keep."""

import torch
import torch.distributed as dist


def _in_host_memory(parameter):
    """Returns the parameter itself, or a copy that bps can send."""
    if parameter.device.type == "cpu" and parameter.is_contiguous():
        return parameter
    return parameter.to("cpu", copy=True, memory_format=torch.contiguous_format)

class AsyncOptimizer:
    """Wraps an optimizer so that each rank trains at its own speed.

        optimizer = bps_torch.AsyncOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        for batch in batches:
            optimizer.zero_grad()
            loss(model(batch)).backward()
            optimizer.step()
        optimizer.finish()

    A step of the wrapped optimizer changes this rank's copy of the parameters. step() then pushes this change, and pulls
    the latest values: the initial ones, plus the changes of all ranks so far. No rank waits for another one, unless
    BPS_STALENESS limits how far they drift apart. If a rank dies, the others go on.

    The constructor gives all ranks the parameters of rank 0; all ranks call it together. The state of the wrapped
    optimizer (momenta and so on) stays on its rank. The changes of n ranks add up, as with gradients that are summed, so
    divide the learning rate by n, or pass scale=1/n, to train as with averaged gradients.

    Parameters on a device, and those that are not contiguous, are copied to and from host memory in each step. Do not
    wrap the model in DistributedDataParallel. Errors raise torch.distributed.DistBackendError with the message of bps.
    """

    def __init__(self, optimizer, group=None, scale=1.0):
        from . import _backend_of, _extension

        self.optimizer = optimizer
        self.scale = scale
        self._parameters = [
            parameter.detach() for members in optimizer.param_groups for parameter in members["params"]
        ]
        self._latest = [_in_host_memory(parameter) for parameter in self._parameters]
        self._shared = _extension().Parameters(_backend_of(group or dist.group.WORLD), self._latest)
        self._changes = [torch.empty_like(latest) for latest in self._latest]
        self._before = [torch.empty_like(parameter) for parameter in self._parameters]
        self._take_latest()

    def _take_latest(self):
        """Copies the latest values to the parameters, and remembers them until the next step."""
        with torch.no_grad():
            for parameter, latest, before in zip(self._parameters, self._latest, self._before):
                if latest is not parameter:
                    parameter.copy_(latest)
                before.copy_(parameter)

    def step(self, closure=None):
        """Makes a step of the wrapped optimizer, pushes the change, and pulls the latest values."""
        result = self.optimizer.step(closure)
        with torch.no_grad():
            for now, before, change in zip(self._parameters, self._before, self._changes):
                torch.sub(now, before, out=before)
                if self.scale != 1:
                    before.mul_(self.scale)
                change.copy_(before)
        self._shared.push_pull(self._changes)
        self._take_latest()
        return result

    def pull(self):
        """Pulls the latest values, for example before an evaluation."""
        self._shared.pull()
        self._take_latest()

    def pushes(self):
        """Returns how many steps of each rank the parameters contain."""
        return self._shared.pushes()

    def finish(self):
        """Waits until all living ranks have called finish(). All ranks then have the same parameters."""
        self._shared.finish()
        self._take_latest()

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none)

    @property
    def param_groups(self):
        return self.optimizer.param_groups

    @property
    def state(self):
        return self.optimizer.state

    def state_dict(self):
        return self.optimizer.state_dict()

    def load_state_dict(self, state):
        self.optimizer.load_state_dict(state)

"""Attention that is an RNN: everything read so far is a matrix of fixed size, to which each token is added.

Linear attention has two forms. As attention it is :func:`~selfattn.attention.core.attend` with the score
``log phi(q) . phi(k)``: weights over all keys. As an RNN it is ``S = S + phi(k) v^T`` and ``o = phi(q)^T S / phi(q)^T
z``, with ``z`` the sum of all ``phi(k)`` (Katharopoulos et al. 2020, "Transformers are RNNs"). The delta rule first
takes out of ``S`` what it holds under the key (Schlag et al. 2021; Yang et al. 2024). :func:`read_on` computes the
recurrent form token by token or in chunks. Axis letters are those of :mod:`selfattn.attention.core`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK = 64  # tokens that are read at once; within them all pairs are computed


@dataclass(frozen=True)
class AttentionState:
    """Everything that a layer with a state keeps of the tokens read so far.

    Attributes:
        memory: ``[b h e c]``, one matrix a head. Linear attention has its ``z`` as the last column.
        count: int64 ``[b]``, tokens read, padding not counted.
    """

    memory: Tensor
    count: Tensor

    def next_positions(self, count: int) -> Tensor:
        """Return the positions of the next tokens, ``[b i]``."""
        return self.count[:, None] + torch.arange(count, device=self.count.device)


def read_on(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    memory: Tensor,
    *,
    decay: Tensor | None = None,
    corrects: bool = False,
    chunk: int = CHUNK,
) -> tuple[Tensor, Tensor]:
    r"""Read tokens on from a memory: ``S_t = gamma_t S_{t-1} + k_t u_t^T`` and ``o_t = S_t^T q_t``.

    ``u_t`` is the value, or by the delta rule the value without what the memory holds under its key:
    ``u_t = v_t - S_{t-1}^T k_t``. A strength ``beta`` of writing is in keys and values as its square root. The result
    does not depend on ``chunk``: 1 is the recurrent form, the length of the text the parallel form.

    Args:
        query: ``[b h i e]``.
        key: ``[b h i e]``, zero where a token is not to be read.
        value: ``[b h i c]``, zero where a token is not to be read.
        memory: ``S``, ``[b h e c]``.
        decay: ``log gamma`` for each token, ``[b h i]``; default 0: nothing fades.
        corrects: by the delta rule; default False.
        chunk: tokens that are read at once; default 64.

    Returns:
        Outputs ``[b h i c]`` and the new memory.

    Raises:
        ValueError: the delta rule with a decay.

    Example:
        >>> key = torch.eye(2)[None, None]
        >>> value = torch.tensor([[[[3.0], [5.0]]]])
        >>> output, memory = read_on(key, key, value, torch.zeros(1, 1, 2, 1))
        >>> output.flatten().tolist(), memory.flatten().tolist()
        ([3.0, 5.0], [3.0, 5.0])
    """
    if corrects and decay is not None:
        raise ValueError("read_on: the delta rule has no decay")
    length = query.shape[2]
    if length == 0:
        return query @ memory, memory
    outputs: list[Tensor] = []
    chunk = length if torch.compiler.is_compiling() else chunk  # a graph has no loop over a length that varies
    for start in [0] if length <= chunk else range(0, length, chunk):
        part = slice(start, start + chunk)
        fading = None if decay is None else decay[..., part]
        written = value[:, :, part]
        if corrects:
            written = corrected(key[:, :, part], written - key[:, :, part] @ memory)
        output, memory = _read_chunk(query[:, :, part], key[:, :, part], written, memory, fading)
        outputs.append(output)
    return torch.cat(outputs, dim=2) if len(outputs) > 1 else outputs[0], memory


def _read_chunk(
    query: Tensor, key: Tensor, value: Tensor, memory: Tensor, decay: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Read one chunk: what stands before it is in the memory, what stands in it is compared pair by pair."""
    if query.shape[2] == 1:  # the recurrent form
        memory = memory if decay is None else decay.exp()[..., None] * memory
        memory = memory + key.transpose(-2, -1) @ value
        return query @ memory, memory
    pairs = query @ key.transpose(-2, -1)
    if decay is None:
        output = pairs.tril() @ value + query @ memory
        return output, memory + key.transpose(-2, -1) @ value
    faded = decay.cumsum(dim=-1)  # log of what is left of the memory behind each token
    between = faded[..., :, None] - faded[..., None, :]
    is_later = torch.ones_like(between, dtype=torch.bool).triu(1)
    output = (pairs * between.masked_fill(is_later, -torch.inf).exp()) @ value
    output = output + faded.exp()[..., None] * (query @ memory)
    last = faded[..., -1:]
    remaining = (last - faded).exp()[..., None] * key
    return output, last.exp()[..., None] * memory + remaining.transpose(-2, -1) @ value


def corrected(key: Tensor, value: Tensor) -> Tensor:
    """Return what the delta rule writes of values ``[b h j c]``: ``u_t = v_t - sum_{s < t} (k_t . k_s) u_s``."""
    if key.shape[2] == 1:
        return value
    pairs = (key @ key.transpose(-2, -1)).tril(-1)
    solved: Tensor = torch.linalg.solve_triangular(pairs, value, upper=False, unitriangular=True)
    return solved

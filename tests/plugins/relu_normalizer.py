"""A normalizer of one's own: ReLU, divided by the number of keys (Wortsman et al. 2023, "Replacing softmax with ReLU in
Vision Transformers").

    selfattn --plugin relu_normalizer.py train dates --model rnn-attention --set decoder.normalize=relu --out runs/relu
"""

import torch
from torch import Tensor

from selfattn.plugin import Normalizer, register


@register.normalizer("relu")
class Relu(Normalizer):
    """``max(s_j, 0) / n`` with ``n`` the number of keys that the query may see."""

    def forward(self, scores: Tensor) -> Tensor:
        """Return the weights; the score of a hidden key is minus infinity, and its weight 0."""
        return scores.relu() / (scores > -torch.inf).sum(dim=-1, keepdim=True)

"""One attention core for RNN seq2seq and Transformers: build, train, look inside and compare attention models.

The names here are the public interface; everything else is in the subpackages. Each is imported when it is first asked
for, so that ``selfattn --help`` does not wait for torch; ``__init__.pyi`` says where it lives.

>>> import torch
>>> from selfattn import attend
>>> query, key, value = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(2, 3, 11, 13)
>>> attend(query, key, value).output.shape
torch.Size([2, 3, 5, 13])
"""

from selfattn.stubs import exports_of

__version__ = "0.1.0"
__getattr__, __all__ = exports_of(__file__)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

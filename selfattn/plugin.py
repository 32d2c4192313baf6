"""Every class and function that a plugin needs, from one place: ``from selfattn.plugin import Score, register``.

docs/how-to/extend.md has an example of each kind of plugin. Each name is imported when it is first asked for;
``plugin.pyi`` says where it lives.

>>> from selfattn.plugin import of_each, ratio
>>> ratio(of_each([1.0, 0.0, 1.0, 1.0]).sum(axis=0)).tolist()
0.75
"""

from selfattn.stubs import exports_of

__getattr__, __all__ = exports_of(__file__)

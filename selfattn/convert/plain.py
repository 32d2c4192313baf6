"""Whether a foreign module computes what its class says: no parametrisation, hook or replaced forward in between.

A converter reads parameters and settings. Whatever else acts on a module would be lost, so it is refused by name.
"""

from collections.abc import Container
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.nn.utils import parametrize

M = TypeVar("M", bound=nn.Module)

_HOOKS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward pre-hook",
    "_backward_hooks": "backward hook",
    "_state_dict_pre_hooks": "state-dict pre-hook",
    "_state_dict_hooks": "state-dict hook",
    "_load_state_dict_pre_hooks": "load-state-dict pre-hook",
    "_load_state_dict_post_hooks": "load-state-dict post-hook",
}
_MASK_ADVICE = "make it permanent with torch.nn.utils.prune.remove"
_NORM_ADVICE = "make it permanent with torch.nn.utils.remove_weight_norm or remove_spectral_norm"


def check_plain(module: nn.Module, where: str, harmless: Container[Any] = ()) -> None:
    """Check that a module and its parts compute what their classes say, from their parameters alone.

    Args:
        module: to be converted.
        where: the call, for messages.
        harmless: hooks that change nothing; default none.

    Raises:
        ValueError: a part is parametrised or pruned, has a hook, or a method of it, such as ``forward``, was
            replaced; the message names the part and says what to do.

    Example:
        >>> linear = nn.Linear(3, 2)
        >>> check_plain(linear, "here")
        >>> handle = linear.register_forward_hook(print)
        >>> check_plain(linear, "here")
        Traceback (most recent call last):
        ...
        ValueError: here: Linear has a forward hook (print) that would be lost; remove it, and register it on the result
    """
    for path, part in module.named_modules():
        kind = parametrize.type_before_parametrizations(part).__name__
        place = f"{path} ({kind})" if path else kind
        if parametrize.is_parametrized(part):
            names = ", ".join(part.parametrizations)
            advice = "make it permanent with torch.nn.utils.parametrize.remove_parametrizations"
            raise ValueError(f"{where}: {place} has a parametrised {names}; {advice}")
        for name in vars(part):
            if callable(getattr(type(part), name, None)):
                raise ValueError(f"{where}: the {name} of {place} was replaced on the module itself; restore it")
        for attribute, kind_of_hook in _HOOKS.items():
            for hook in getattr(part, attribute).values():
                if hook not in harmless:
                    raise ValueError(f"{where}: {place} has a {kind_of_hook} {_hook_problem(hook)}")


def check_like(module: nn.Module, fresh: nn.Module, where: str) -> None:
    """Check that a module has the parts of one that was just built, and that nothing else acts on them.

    Args:
        module: to be converted.
        fresh: built from the same settings; may be on the meta device.
        where: the call, for messages.

    Raises:
        ValueError: what :func:`check_plain` raises, or a part is of another class, such as an adapter.
    """
    check_plain(module, where)
    classes, expected = ({path: type(part) for path, part in root.named_modules()} for root in (module, fresh))
    for path in sorted(classes.keys() | expected.keys()):
        if classes.get(path) is not expected.get(path):
            kinds = [getattr(kinds.get(path), "__name__", "nothing") for kinds in (expected, classes)]
            raise ValueError(f"{where}: expected {kinds[0]} as {path}, got {kinds[1]}; merge adapters into the weights")


def check_output(linear: Any, where: str) -> None:
    """Check the output projection of an attention module, whose weights PyTorch reads without calling it.

    Args:
        linear: the projection.
        where: the call, for messages.

    Raises:
        TypeError: it is neither PyTorch's class for it nor ``nn.Linear``.
    """
    if type(linear) is not NonDynamicallyQuantizableLinear:
        check_class(linear, nn.Linear, f"{where}: out_proj")


def check_parts(module: nn.Module, parts: Container[str], where: str) -> None:
    """Check that a module has no parts and buffers besides those of its class.

    Args:
        module: to be converted.
        parts: names that its own parts may have.
        where: the call, for messages.

    Raises:
        ValueError: it has a further one.
    """
    for name in (*(name for name, _ in module.named_children()), *module._buffers):
        if name not in parts:
            raise ValueError(f"{where}: {type(module).__name__} has {name}, which would be lost; remove it first")


def check_copyable(module: nn.Module, kind: type[nn.Module], parts: Container[str], where: str) -> None:
    """Check that copies of a module's parameters say all that it holds and computes.

    Args:
        module: whose parameters are copied.
        kind: its class.
        parts: names that its own parts may have.
        where: the call, for messages.

    Raises:
        TypeError: it is of another class.
        ValueError: what :func:`check_plain` raises; or it has a hook on a gradient, a further part or a buffer, two
            names of one parameter, or parts in another mode than it.
    """
    check_plain(module, where)
    check_class(module, kind, where)
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise ValueError(f"{where}: {name} has a hook on its gradient that would be lost; remove it first")
    check_parts(module, parts, where)
    buffers = module.state_dict().keys() - {name for name, _ in module.named_parameters(remove_duplicate=False)}
    if buffers:
        raise ValueError(f"{where}: {min(buffers)} would be lost; remove it first")
    names: dict[int, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        first = names.setdefault(id(parameter), name)
        if first != name:
            raise ValueError(f"{where}: {first} and {name} are one parameter; copies would be two, so untie them first")
    for name, part in module.named_modules():
        if part.training != module.training:
            mode = "training" if part.training else "evaluation"
            raise ValueError(f"{where}: {name} alone is in {mode} mode; call train() or eval() of the whole first")


def check_class(module: Any, kind: type[M], where: str, advice: str = "") -> M:
    """Return a module if it is of exactly this class: a subclass may compute anything.

    Args:
        module: to be converted.
        kind: the class.
        where: the call, for messages.
        advice: what to do, for the message; default nothing.

    Raises:
        TypeError: it is of another class.
    """
    is_module = isinstance(module, nn.Module)
    if not is_module or parametrize.type_before_parametrizations(module) is not kind:
        raise TypeError(f"{where}: expected {kind.__name__} itself, got {type(module).__name__}{advice}")
    return module  # type: ignore[no-any-return]  # just checked


def check_tensors(module: nn.Module, names: set[str], where: str) -> None:
    """Check that a module itself, without its parts, has exactly these parameters, and each is a plain tensor.

    Args:
        module: to be converted.
        names: of the parameters.
        where: the call, for messages.

    Raises:
        ValueError: a parameter is missing or unknown, or its class computes in another way, as a quantised one.
    """
    parameters = dict(module.named_parameters(recurse=False, remove_duplicate=False))
    if parameters.keys() != names:
        differing = ", ".join(sorted(parameters.keys() ^ names))
        raise ValueError(f"{where}: the parameters are not those of {type(module).__name__}; check {differing}")
    for name, parameter in parameters.items():
        if type(parameter) is not nn.Parameter or type(parameter.data) is not Tensor:
            kinds = f"{type(parameter).__name__} of {type(parameter.data).__name__}"
            raise ValueError(f"{where}: {name} is a {kinds}, no plain parameter; convert before quantising or sharding")


def _hook_problem(hook: Any) -> str:
    """Name a hook and say what to do about it."""
    hook = getattr(hook, "hook", hook)  # state-dict hooks are wrapped
    kind = type(hook)
    if kind.__module__.startswith("torch.nn.utils."):  # these replace a parameter before every call
        advice = _MASK_ADVICE if kind.__module__.endswith("prune") else _NORM_ADVICE
        return f"of {kind.__name__} that computes a weight; {advice}"
    name = getattr(hook, "__qualname__", kind.__name__)
    return f"({name}) that would be lost; remove it, and register it on the result"

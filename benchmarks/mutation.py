"""Mutation testing: a small fault is put into the code, and the tests that run its line must notice.

    python benchmarks/mutation.py                          # every module below, 60 mutants of each, seed 0
    python benchmarks/mutation.py attention/masks.py --all

One warm process collects the tests and learns which lines each of them runs. For every mutant it forks itself, gives
the living functions their changed code, and runs the tests of that line, the quickest first, until one fails. A mutant
is caught by a failure, a crash, or a time far beyond the ordinary.

Mutated are the bodies of functions, their defaults and the constants of modules: comparisons (at their bound, and
turned round), arithmetic, ``and`` and ``or``, ``not``, minus, conditions, numbers (one more), True and False, ``break``
and ``continue``; a call whose value is not used, a ``raise`` and a keyword argument are left out. Not mutated are
words, what a ``raise`` says, annotations, decorators, the fields of classes, and what is in ``UNFELT``.
"""

from __future__ import annotations

import argparse
import ast
import bisect
import contextlib
import gc
import importlib
import itertools
import json
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "selfattn"
LONGEST = 10.0  # seconds of the processor: a test that takes more is not asked
NOT_MADE = 77  # exit status
LIMIT, MEMORY = 20.0, 4 << 30  # seconds after which a mutant is stopped, besides 4 times its tests; bytes it may take

STATISTICS = ("buckets", "design", "significance", "variances")
# Which tests are asked about which modules.
GROUPS = {
    ("attention", "layers"): (
        "attention",
        "layers",
        "gradients",
        "parity/test_rnn_formulas.py",
        "properties/test_attend_laws.py",
        "parity/test_convert_torch.py",
        "properties/test_model_laws.py",
        "models",
    ),
    (
        "training/loss.py",
        "training/step.py",
        "training/weights.py",
        "training/checkpoint.py",
    ): (
        "training",
        "runs/test_resume.py",
    ),
    tuple(f"decoding/{name}.py" for name in ("greedy", "beam", "common", "scoring")): (
        "decoding",
        "properties/test_decoding_laws.py",
    ),
    (
        *(f"evaluation/{name}.py" for name in STATISTICS),
        "evaluation/gates.py",
    ): (
        "evaluation",
        "parity/test_sacrebleu.py",
        "properties/test_statistics.py",
        "properties/test_gates.py",
    ),
    ("comparison/check.py",): ("comparison/test_gates.py",),
}

UNFELT = (None, "device", "strict")  # arguments: a CPU feels no device, and zip's guard is for what cannot differ

COMPARED = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COMPUTED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


class Mutant(NamedTuple):
    """One change: what stands in ``owner.field`` (or its ``place``) becomes ``new``."""

    owner: ast.AST
    field: str
    place: int | None
    new: Any
    statement: ast.stmt
    function: ast.AST | None
    says: str

    def apply(self) -> Any:
        """Make the change, and return what stood there."""
        values = vars(self.owner) if self.place is None else getattr(self.owner, self.field)
        key = self.field if self.place is None else self.place
        old = values[key]
        if self.new is None:
            del values[key]
        else:
            values[key] = self.new
        return old

    @property
    def lines(self) -> set[int]:
        """The lines by which a test is known to run this one; of a compound statement its head."""
        one = self.statement
        if one is self.function:  # a default: whatever runs the function
            return set(range(one.body[0].lineno, one.end_lineno + 1))
        last = one.body[0].lineno - 1 if getattr(one, "body", None) else one.end_lineno
        return set(range(one.lineno, max(one.lineno, last) + 1))


def changes(node: ast.AST) -> Iterator[tuple[str, int | None, Any]]:
    """What may become of one node: a field of it, a place in the field, and what to put there."""
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                for other in COMPARED[type(operator)]:
                    yield "ops", place, other()
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp() if type(node.op) in COMPUTED:
            yield "op", None, COMPUTED[type(node.op)]()
        case ast.Constant(value=bool()):
            yield "value", None, not node.value
        case ast.Constant(value=int() | float()) if node.value + 1 != node.value:
            yield "value", None, node.value + 1
        case ast.Call():
            for place, keyword in enumerate(node.keywords):
                if keyword.arg not in UNFELT:
                    yield "keywords", place, None
    for field, value in ast.iter_fields(node):
        for place, one in enumerate(value) if isinstance(value, list) else ((None, value),):
            where = (field, place)
            match one:
                case ast.UnaryOp(op=ast.USub(), operand=ast.Constant()):  # a number with its sign
                    pass
                case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
                    yield *where, one.operand
                case ast.Expr(value=ast.Call()) | ast.Raise():
                    yield *where, ast.copy_location(ast.Pass(), one)
                case ast.Break():
                    yield *where, ast.copy_location(ast.Continue(), one)
                case ast.Continue():
                    yield *where, ast.copy_location(ast.Break(), one)
                case ast.Name() | ast.Attribute() | ast.Call() | ast.NamedExpr() if field in ("test", "ifs"):
                    yield *where, ast.copy_location(ast.UnaryOp(ast.Not(), one), one)


def mutants(tree: ast.Module) -> list[Mutant]:
    """All mutants of a module."""
    found = []

    def visit(node: ast.AST, statement: ast.stmt | None, function: ast.AST | None, in_class: bool) -> None:
        if isinstance(node, ast.stmt):
            statement = node
        if statement is not None and (function or (isinstance(statement, ast.Assign) and not in_class)):
            for field, place, new in changes(node):
                mutant = Mutant(node, field, place, new, statement, function, "")
                before, old = _head(statement), mutant.apply()
                if isinstance(old, ast.stmt):
                    mutant, before, after = mutant._replace(statement=old), _head(old), _head(new)
                else:
                    after = _head(statement)
                if new is None:
                    getattr(node, field).insert(place, old)
                else:
                    mutant._replace(new=old).apply()
                line = getattr(node, "lineno", mutant.statement.lineno)
                found.append(mutant._replace(says=f"{line}: {before}  ->  {after}"))
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "exc", "cause", "bases", "format_spec"):
                continue
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.ClassDef):
                    visit(one, None, None, True)
                elif isinstance(one, ast.FunctionDef):
                    visit(one, one, one, False)
                elif isinstance(one, ast.AST) and not (isinstance(one, ast.keyword) and one.arg in UNFELT):
                    visit(one, statement, function, in_class)

    visit(tree, None, None, False)
    return found


def _head(node: ast.AST) -> str:
    """A statement in one line; of a compound one its head."""
    return ast.unparse(node).strip().partition(":\n")[0].replace("\n", " ")


def _words(says: str) -> str:
    """What a mutant changes, whatever its line."""
    return says.partition(": ")[2].partition("   [")[0]


def codes(code: CodeType) -> Iterator[tuple[tuple[str, int, int], CodeType]]:
    """The code of all functions in a code object, by name, line and how many of the same went before on that line."""
    seen: dict[tuple[str, int], int] = {}
    waiting = [code]
    while waiting:
        for one in (const for const in waiting.pop(0).co_consts if isinstance(const, CodeType)):
            key = (one.co_qualname, one.co_firstlineno)
            seen[key] = seen.get(key, -1) + 1
            yield (*key, seen[key]), one
            waiting.append(one)


class Module:
    """A module to be mutated: its source, its functions, its mutants."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path.relative_to(PACKAGE))
        self.module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        self.tree = ast.parse(path.read_text())
        self.mutants = mutants(self.tree)
        original = {one: key for key, one in codes(compile(path.read_text(), str(path), "exec", dont_inherit=True))}
        self.functions: list[tuple[tuple[str, int, int], FunctionType]] = [
            (original[one.__code__], one)
            for one in gc.get_objects()
            if type(one) is FunctionType and one.__code__.co_filename == str(path) and one.__code__ in original
        ]
        if not self.functions:
            raise RuntimeError(f"{self.name}: none of its functions is found in memory; nothing would be mutated")

    def mutate(self, mutant: Mutant) -> bool:
        """Put the change into the living module; say whether it can take it (not with fewer variables of a closure)."""
        mutant.apply()
        ast.fix_missing_locations(self.tree)
        if mutant.function is None:
            names = [target.id for target in mutant.statement.targets]
            before = {name: getattr(self.module, name) for name in names}
            exec(
                compile(ast.Module([mutant.statement], []), str(self.path), "exec", dont_inherit=True),
                vars(self.module),
            )
            for module in list(sys.modules.values()):
                for name, value in before.items():
                    if getattr(module, "__dict__", {}).get(name) is value:
                        setattr(module, name, getattr(self.module, name))
            for name, value in before.items():  # it may be a default, too
                now = getattr(self.module, name)
                for _, function in self.functions:
                    given = function.__defaults__ or ()
                    function.__defaults__ = tuple(now if one is value else one for one in given) or None
                    named = function.__kwdefaults__ or {}
                    named.update({key: now for key, one in named.items() if one is value})
            return True
        changed = dict(codes(compile(self.tree, str(self.path), "exec", dont_inherit=True)))
        for key, function in self.functions:
            if len(changed[key].co_freevars) != len(function.__code__.co_freevars):
                return False
            function.__code__ = changed[key]
            if mutant.statement is mutant.function and key[0].rpartition(".")[2] == mutant.function.name:
                self._defaults(function, mutant)
        return True

    def _defaults(self, function: FunctionType, mutant: Mutant) -> None:
        """Set the defaults anew, where one of them is what changed."""
        arguments = mutant.function.args
        if function.__code__.co_firstlineno not in range(
            min([mutant.function.lineno, *(one.lineno for one in mutant.function.decorator_list)]),
            mutant.function.lineno + 1,
        ):
            return
        values = [
            eval(compile(ast.Expression(one), "", "eval", dont_inherit=True), vars(self.module))
            for one in arguments.defaults
        ]
        function.__defaults__ = tuple(values) or None
        for name, one in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if one is not None:
                function.__kwdefaults__[name.arg] = eval(
                    compile(ast.Expression(one), "", "eval", dont_inherit=True), vars(self.module)
                )


class Mutating:
    """The plugin that takes over once pytest has collected."""

    def __init__(self, modules: list[str], asked: argparse.Namespace) -> None:
        self.names, self.asked = modules, asked
        again = asked.again.read_text().splitlines() if asked.again else ()
        self.again = {row["module"]: [_words(one) for one in row["survivors"]] for row in map(json.loads, again)}
        self.ran: set[tuple[str, int]] = set()
        self.passed, self.learning = "yes", True
        self.of_fixture: dict[int, tuple[set[tuple[str, int]], float]] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        gc.unfreeze()  # gc.get_objects() leaves out what the tests' conftest.py has frozen
        self.modules = [Module(PACKAGE / name) for name in self.names]
        self.files = {str(module.path) for module in self.modules}
        gc.freeze()
        learnt = self._learn(session.items)
        self.learning = False
        for module in self.modules:
            self._test(module, session.items, learnt)
        return True

    def _trace(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        self.ran.add((frame.f_code.co_filename, frame.f_lineno))
        return self._trace

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.learning:
            os._exit(1)
        if report.failed:
            self.passed = f"{report.nodeid}: {report.longreprtext[-100:]}"
        elif not report.passed:
            self.passed = self.passed and ""

    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:  # wrapped below
        before, began = self.ran, time.process_time()
        self.ran = set()
        yield
        self.of_fixture[id(fixturedef)] = (self.ran, time.process_time() - began)
        self.ran = before | self.ran

    def _learn(self, items: list[Any]) -> list[tuple[set[tuple[str, int]], float, str]]:
        """What each test runs, how long it takes, and whether it passes."""
        read, write = os.pipe()
        if not (child := os.fork()):
            with _child(read):
                found: list[Any] = []
                signal.signal(signal.SIGPROF, _too_long)
                for item, following in zip(items, [*items[1:], None], strict=True):
                    self.ran, began = set(), time.process_time()
                    self.passed = "yes"
                    signal.setitimer(signal.ITIMER_PROF, LONGEST)
                    sys.settrace(self._trace)
                    item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                    sys.settrace(None)
                    signal.setitimer(signal.ITIMER_PROF, 0.0)
                    seconds = time.process_time() - began
                    if self.passed != "yes":  # skipped, or why it failed
                        found.append((set(), 0.0, self.passed))
                        continue
                    fixtures = getattr(item, "_fixtureinfo", None)
                    for definitions in fixtures.name2fixturedefs.values() if fixtures else ():
                        ran, took = self.of_fixture.get(id(definitions[-1]), (set(), 0.0))
                        self.ran |= ran
                        seconds += took
                    found.append((self.ran, seconds, "yes"))
                with os.fdopen(write, "wb") as pipe:
                    pickle.dump(found, pipe)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            found = pickle.load(pipe)
        os.waitpid(child, 0)
        for _ran, _seconds, passed in found:
            if passed not in ("", "yes"):
                print("fails unchanged:", passed)
        print(f"{len(items)} tests in {sum(one[1] for one in found):.0f} s", flush=True)
        return found

    def _test(self, module: Module, items: list[Any], learnt: list[Any]) -> None:
        chosen, began = module.mutants, _of_children()
        if not (self.asked.all or self.again) and self.asked.sample < len(chosen):
            draw = random.Random(f"{self.asked.seed} {module.name}")
            chosen = [chosen[place] for place in sorted(draw.sample(range(len(chosen)), self.asked.sample))]
        if self.again:
            chosen = [one for one in chosen if _words(one.says) in self.again.get(module.name, ())]
        everywhere, survivors = set(range(1, 10_000)), []

        def ask(mutant: Mutant | None, lines: set[int]) -> str:
            wanted = {(str(module.path), line) for line in lines}
            own = sorted((one[1], place) for place, one in enumerate(learnt) if not wanted.isdisjoint(one[0]))
            ends = list(itertools.accumulate(took for took, _ in own))
            count = bisect.bisect(ends, self.asked.seconds)
            if not count:
                return "no test runs it" if not own else "its tests take longer"
            return self._ask(module, mutant, [items[place] for _, place in own[:count]], ends[count - 1])

        if (found := ask(None, everywhere)) == "caught":
            raise RuntimeError(f"{module.name}: a test fails in a fork though nothing is changed")
        for mutant in chosen.copy():
            found = ask(mutant, mutant.lines if mutant.function else everywhere)
            if found == "not made":
                chosen.remove(mutant)
            elif found != "caught":
                survivors.append(mutant.says + (f"   [{found}]" if found != "survived" else ""))
        took, caught = _of_children() - began, len(chosen) - len(survivors)
        row = {
            "module": module.name,
            "of": len(module.mutants),
            "mutants": len(chosen),
            "caught": caught,
            "seconds": round(took),
            "survivors": survivors,
        }
        share = caught / max(len(chosen), 1)
        print(f"{module.name}: {caught} of {len(chosen)} ({share:.0%}), {took:.0f} s", flush=True)
        for one in survivors:
            print("   ", one, flush=True)
        if self.asked.out:
            with self.asked.out.open("a") as file:
                file.write(json.dumps(row) + "\n")

    def _ask(self, module: Module, mutant: Mutant | None, items: list[Any], seconds: float) -> str:
        """Run tests with a mutant, or for comparison with none."""
        if not (child := os.fork()):
            with _child():
                if mutant and not module.mutate(mutant):
                    os._exit(NOT_MADE)
                for item, following in zip(items, [*items[1:], None], strict=True):
                    item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        end = time.monotonic() + LIMIT + 4 * seconds
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                return "not made" if code == NOT_MADE else "caught" if code else "survived"
            time.sleep(0.002)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return "caught"


def _of_children() -> float:
    """Seconds of the processor that the children have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {LONGEST:.0f} seconds of the processor")


@contextlib.contextmanager
def _child(*close: int) -> Iterator[None]:
    """The rest of a forked process: silent, bounded, and never back to where it was forked."""
    try:
        os.setsid()
        for one in close:
            os.close(one)
        sink = os.open(os.devnull, os.O_RDWR)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        if not close:
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        yield
        os._exit(0)
    except BaseException:
        os._exit(2)


def modules_of(sources: tuple[str, ...]) -> Iterator[str]:
    """Name the modules of files and folders below the package."""
    for source in sources:
        paths = [PACKAGE / source] if source.endswith(".py") else sorted((PACKAGE / source).glob("*.py"))
        yield from (str(path.relative_to(PACKAGE)) for path in paths if path.name != "__init__.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", help="paths below selfattn/; default all that are listed here")
    parser.add_argument("--sample", type=int, default=60, help="mutants of each module; default 60")
    parser.add_argument("--all", action="store_true", help="every mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0, help="of tests for each mutant, the quickest first")
    parser.add_argument("--tests", nargs="+", help="paths below tests/ to ask; default those that are listed here")
    parser.add_argument("--again", type=Path, help="only the survivors in such a file")
    parser.add_argument("--out", type=Path, help="write a line of JSON for each module here")
    asked = parser.parse_args()
    os.environ["CI"] = "1"  # hypothesis draws the same examples every time
    groups = {tuple(modules_of(sources)): tests for sources, tests in GROUPS.items()}
    listed = list(itertools.chain.from_iterable(groups))
    others = [module for module in asked.modules if not any(name.startswith(module) for name in listed)]
    if others and not asked.tests:
        parser.error(f"{', '.join(others)}: not listed here; say by --tests which tests are asked")
    groups[tuple(others)] = ()
    for all_names, tests in groups.items():
        names = [name for name in all_names if not asked.modules or any(name.startswith(one) for one in asked.modules)]
        if names and not (child := os.fork()):
            import pytest

            plugin = Mutating(names, asked)
            Mutating.pytest_fixture_setup = pytest.hookimpl(wrapper=True)(Mutating.pytest_fixture_setup)
            paths = [
                *(str(ROOT / "tests" / test) for test in asked.tests or tests),
                *(str(PACKAGE / name) for name in names),
            ]
            base = Path(tempfile.gettempdir(), f"selfattn-mutation-{os.getpid()}")
            code = pytest.main(["-s", "-q", "-p", "no:cacheprovider", f"--basetemp={base}", *paths], [plugin])
            sys.stdout.flush()
            os._exit(code)
        if names:
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()

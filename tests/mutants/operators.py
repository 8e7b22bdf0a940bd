"""Small changes of source code, each of which a test should notice: every place where one of a few operators applies.

A change is named by what it says and where it stands, never by a line number, so that its name outlives other edits.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
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
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_PAIRS = [
    ("min", "max"),
    ("amin", "amax"),
    ("argmin", "argmax"),
    ("minimum", "maximum"),
    ("clamp_min", "clamp_max"),
    ("sum", "mean"),
    ("any", "all"),
    ("no_grad", "enable_grad"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("exp", "log"),
    ("sqrt", "square"),
    ("first", "second"),
    ("rows", "columns"),
    ("source", "target"),
]
_NAMES = {**dict(_PAIRS), **{second: first for first, second in _PAIRS}}
_DROPPED_CALLS = {"detach", "abs", "square", "sqrt", "exp", "log", "mean", "roll"}
# Calls whose arguments are no numbers, and statements of which no value comes.
_SILENT_CALLS = {"setting", "warn", "warn_the_caller", "isinstance", "register_buffer", "TypeVar"}
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)
_SILENT = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.arguments)
_SYMMETRIC = {"max", "min", "maximum", "minimum", "cosine", "_dot", "dot"}
_ON_A_GPU = ("triton(", "is_cuda", "device.type", "autocast(", "_version(", "supports(", "launched", "triton_runs_on(")


@dataclass(frozen=True)
class Change:
    """One change of a file.

    Attributes:
        key: its name: function, operator, old and new text, and a number where these repeat.
        source: the whole file after it.
    """

    key: str
    source: str


def changes(source: str) -> list[Change]:
    """Return every change, those included that make the same program again."""
    found, seen = [], Counter[str]()
    data, starts = source.encode(), [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for function, operator, node, replacement in _visit(ast.parse(source), data, "", starts):
        start, stop = _span(node, starts)
        old = " ".join(data[start:stop].decode().split())
        text = replacement if isinstance(replacement, str) else f"({ast.unparse(replacement)})"
        key = f"{function}: {operator}: {old} -> {text}"
        seen[key] += 1
        mutated = (data[:start] + text.encode() + data[stop:]).decode()
        found.append(Change(key if seen[key] == 1 else f"{key} #{seen[key]}", mutated))
    return found


def is_same_program(first: str, second: str) -> bool:
    """Tell whether two sources compile to the same code, wherever it stands."""
    return _program(first) == _program(second)


def _span(node: ast.AST, starts: list[int]) -> tuple[int, int]:
    """Return where a node begins and ends, in bytes."""
    line, column, last, end = (getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"))
    return starts[line - 1] + column, starts[last - 1] + end


def _program(source: str) -> object:
    def essence(code: object) -> object:
        if not hasattr(code, "co_code"):
            return type(code), repr(code)
        return code.co_code, code.co_names, code.co_varnames, tuple(essence(each) for each in code.co_consts)

    return essence(compile(source, "changed", "exec", dont_inherit=True))


_Found = tuple[str, str, ast.AST, ast.AST | str]


def _visit(node: ast.AST, data: bytes, function: str, starts: list[int]) -> Iterator[_Found]:
    """Yield function, operator, node and its replacement for all that is below a node."""
    if isinstance(node, ast.ClassDef):
        if "aunched" not in node.name:
            for child in node.body:
                if isinstance(child, ast.FunctionDef | ast.ClassDef):  # what a class declares is no computation
                    yield from _visit(child, data, f"{function}.{node.name}".lstrip("."), starts)
        return
    if isinstance(node, ast.FunctionDef):
        if node.name == "supports" or "aunched" in node.name:
            return
        function = f"{function}.{node.name}".lstrip(".")
        children: list[ast.AST] = list(node.body)
    elif isinstance(node, ast.AnnAssign):
        children = [node.value] if node.value else []
    else:
        children = list(ast.iter_child_nodes(node))
    if isinstance(node, _SILENT) or _is_silent_call(node) or _is_text(node):
        return
    if isinstance(node, _SIMPLE) and _is_for_a_gpu(node, data, starts):
        return
    if isinstance(node, ast.If) and _is_for_a_gpu(node.test, data, starts):
        children = list(node.orelse)
    if function:
        for operator, replacement in _replacements(node):
            yield function, operator, node, replacement
    for child in children:
        yield from _visit(child, data, function, starts)


def _is_for_a_gpu(node: ast.AST, data: bytes, starts: list[int]) -> bool:
    """Tell whether a statement chooses or calls the version for a GPU, which no test on a CPU can see."""
    start, stop = _span(node, starts)
    return any(sign in data[start:stop].decode() for sign in _ON_A_GPU)


def _is_silent_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name(node.func) in _SILENT_CALLS


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _replacements(node: ast.AST) -> Iterator[tuple[str, ast.AST | str]]:
    """Yield the operators that apply to a node, with what they make of it."""
    match node:
        case ast.Compare(ops=[operator]):
            for other in _COMPARISONS.get(type(operator), ()):
                yield "comparison", _with(node, ops=[other()])
        case ast.BinOp(left=left, op=operator, right=right) if not _is_sequence(left) and not _is_sequence(right):
            if type(operator) in _ARITHMETIC:
                yield "arithmetic", _with(node, op=_ARITHMETIC[type(operator)]())
            if isinstance(operator, ast.Mult | ast.Div):
                yield "factor dropped", left
        case ast.AugAssign(op=operator) if type(operator) in _ARITHMETIC:
            yield "arithmetic", ast.unparse(_with(node, op=_ARITHMETIC[type(operator)]()))
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert()) if not isinstance(node.operand, ast.Constant):
            yield "sign dropped", node.operand
        case ast.Constant(value=bool()):
            yield "constant", ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield "constant", ast.Constant(node.value + 1)
        case ast.BoolOp(op=operator):
            yield "and, or", _with(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.IfExp():
            yield "branches swapped", _with(node, body=node.orelse, orelse=node.body)
        case ast.Expr(value=ast.Call()):
            yield "statement dropped", "pass"
        case ast.Call(func=called):
            yield from _calls(node, called)


def _calls(node: ast.Call, called: ast.expr) -> Iterator[tuple[str, ast.AST | str]]:
    if isinstance(called, ast.Attribute):
        if called.attr in _NAMES:
            yield "call", _with(node, func=_with(called, attr=_NAMES[called.attr]))
        if called.attr in _DROPPED_CALLS and not (isinstance(called.value, ast.Name) and called.value.id == "torch"):
            yield "call dropped", called.value
    elif isinstance(called, ast.Name) and called.id in _NAMES:
        yield "call", _with(node, func=ast.Name(_NAMES[called.id]))
    match node.args:
        case [ast.expr() as first, ast.expr() as second, *rest]:
            starred = isinstance(first, ast.Starred) or isinstance(second, ast.Starred)
            if not starred and _name(called) not in _SYMMETRIC and ast.dump(first) != ast.dump(second):
                yield "arguments swapped", _with(node, args=[second, first, *rest])


def _is_sequence(node: ast.AST) -> bool:
    return isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed

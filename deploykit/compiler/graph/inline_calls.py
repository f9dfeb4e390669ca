"""Inlines calls of functions in programs that run on a GPU, where a `Call` cannot pass the place of a tensor."""

from __future__ import annotations

from tvm import ir, relax


def inline_calls(module: ir.IRModule) -> ir.IRModule:
    """The module, with bodies of functions in place of their calls. The functions stay, because users call them,
    too."""
    functions = {gvar: func for gvar, func in module.functions.items() if isinstance(func, relax.Function)}
    called: dict[ir.GlobalVar, ir.GlobalVar] = {}
    builder = relax.BlockBuilder(module)
    for func in functions.values():
        relax.analysis.post_order_visit(func, lambda node: called.update(_callee(node)))
    if not called:
        return module
    for gvar in called:
        # The pass below requires a private copy, which nobody outside can call.
        called[gvar] = builder.add_func(functions[gvar].without_attr("global_symbol"), f"{gvar.name_hint}_inlined")
    replacer = _Replacer(called)
    for gvar, func in builder.get().functions.items():
        if isinstance(func, relax.Function):
            builder.update_func(gvar, replacer.visit_expr(func))
    return relax.transform.InlinePrivateFunctions()(builder.get())


def _callee(node: object) -> dict[ir.GlobalVar, ir.GlobalVar]:
    if isinstance(node, relax.Call) and isinstance(node.op, ir.GlobalVar):
        return {node.op: node.op}
    return {}


@relax.expr_functor.mutator
class _Replacer(relax.PyExprMutator):  # type: ignore[misc]
    def __init__(self, replaced: dict[ir.GlobalVar, ir.GlobalVar]) -> None:
        super().__init__()
        self.replaced = replaced

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        if isinstance(call.op, ir.GlobalVar) and call.op in self.replaced:
            return relax.Call(self.replaced[call.op], list(call.args))
        return call

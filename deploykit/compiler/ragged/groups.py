"""Has a run cut a ragged batch into groups of consecutive instances, each of a number of tokens at most, or of a single
instance that has more. Instances without tokens are in the group of their neighbours, so that no group is without
tokens unless the batch is.

The function of the model gets two more results: `groups`, with `FIELDS` numbers for each group (its first instance, how
many instances it has, its first token, and how many tokens), and the number of groups. `program.groups` runs the steps
once for each.
"""

from __future__ import annotations

from dataclasses import replace

from tvm import ir, relax, tirx

from deploykit.compiler.decisions import Declined
from deploykit.compiler.model import ImportedModel, Instances
from deploykit.compiler.operators.building.imperative import Array, Code
from deploykit.compiler.ragged.conversion.prelude import DTYPE, call_loops

FIELDS = 4


def with_groups(model: ImportedModel, most: int) -> ImportedModel:
    """`model`, whose `instances` are independent, with groups of at most `most` tokens."""
    instances, signature = model.instances, model.only
    assert isinstance(instances, Instances)
    func = model.module[signature.name]
    lengths = next(p for port, p in zip(signature.inputs, func.params, strict=True) if port.name == instances.lengths)

    def cut(code: Code, lengths: Array, groups: Array, count: Array) -> None:
        count[0] = 0
        token, room = code.cell("token", 0), code.cell("room", most)
        with code.loop("b", instances.batch) as b:
            length = code.cell("length", lengths[b])
            full = tirx.all(length.value > tirx.max(room.value, tirx.const(0, DTYPE)), room.value < most)
            with code.when(tirx.any(b == 0, full)):
                for field, value in enumerate((b, 0, token.value, 0)):
                    groups[count[0] * FIELDS + field] = value
                count[0] = count[0] + 1
                room.value = most
            last = (count[0] - 1) * FIELDS
            groups[last + 1] = groups[last + 1] + 1
            groups[last + 3] = groups[last + 3] + length.value
            room.value = room.value - length.value
            token.value = token.value + length.value

    builder = relax.BlockBuilder(model.module)
    shapes = [(instances.batch * FIELDS,), (1,)]
    call = call_loops(builder, "prelude_groups", [lengths], shapes, cut)
    types = [relax.TensorType(list(shape), DTYPE) for shape in shapes]
    both = relax.DataflowVar("groups", relax.TupleType(types))
    parts = [relax.DataflowVar(f"groups_{number}", type_) for number, type_ in enumerate(types)]
    (block,) = func.body.blocks
    *bindings, last = block.bindings
    result = relax.Tuple([*last.value.fields, *parts])
    var = relax.Var(last.var.name, relax.TupleType([field.ty for field in result.fields]))
    taken = [relax.VarBinding(part, relax.TupleGetItem(both, number)) for number, part in enumerate(parts)]
    made = [relax.VarBinding(both, call), *taken, *bindings, relax.VarBinding(var, result)]
    body = relax.SeqExpr([relax.DataflowBlock(made)], var)
    longer = relax.Function(func.params, body, var.ty, func.is_pure, func.attrs)
    builder.update_func(model.module.get_global_var(signature.name), longer)
    module: ir.IRModule = relax.transform.Normalize()(builder.get())
    return replace(model, module=module, instances=replace(instances, group=most))


def groups_of(model: ImportedModel) -> Instances | None:
    """The instances of a model that a run computes in groups; None if there are no groups."""
    found = model.instances
    return None if found is None or isinstance(found, Declined) or found.group is None else found

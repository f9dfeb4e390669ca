"""From a model that takes padded batches to one that takes ragged ones.

    products   products with vectors and convolutions that keep the length are products of matrices
    canonical  the batch is an axis of its own everywhere
    unsorted   where the batch is sorted and put back into its order, it keeps its order
    proof      no valid position of any tensor depends on the padding, or the model is refused
    masks      tensors that only say what is padding are removed
    inline     masks that are left, such as the causal one, become parts of the kernels that read them
    separate   no instance depends on another, or they are computed together
    packing    token-wise kernels run over all tokens, others once for each instance

The result has the ragged inputs packed, one more input for the lengths, and no mask. The ragged dim of the padded model
is still there as a data dim: the greatest length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import tvm
from tvm import ir, relax, tirx

from deploykit.compiler.cost import cost
from deploykit.compiler.dims import as_expr, free_vars, to_text
from deploykit.compiler.dtypes import storage_dtype
from deploykit.compiler.graph.fold_reshapes import fold_reshapes
from deploykit.compiler.graph.fuse_attention import fuse_attention
from deploykit.compiler.graph.join_matmuls import join_siblings
from deploykit.compiler.model import DataDim, Dim, ImportedModel, Instances, Padded, Port, Signature
from deploykit.compiler.operators.building.context import emit_function
from deploykit.compiler.operators.building.errors import Unsupported
from deploykit.compiler.ragged.conversion.as_products import as_products
from deploykit.compiler.ragged.conversion.canonical import canonical
from deploykit.compiler.ragged.conversion.contents import RaggedDim, axes_of
from deploykit.compiler.ragged.conversion.inline import inline
from deploykit.compiler.ragged.conversion.kernels import packed_shape
from deploykit.compiler.ragged.conversion.masks import without_masks
from deploykit.compiler.ragged.conversion.packing import Packing
from deploykit.compiler.ragged.conversion.prelude import Prelude, RaggedBatch
from deploykit.compiler.ragged.conversion.proof import Leak, prove
from deploykit.compiler.ragged.conversion.separate import mixed
from deploykit.compiler.ragged.conversion.unsorted import unsorted
from deploykit.compiler.tir.rewriting import collect
from deploykit.errors import UnsupportedModelError, UsageError
from deploykit.sessions.structure import Structure

LENGTHS, TOKENS, SQUARES = "lengths", "tokens", "squares"

MASKS = ("attention_mask", "input_mask", "mask", "token_mask", "valid_mask")
"""Names by which an input is taken for the mask. Other masks mean something else, such as a global attention."""


def ragged(
    model: ImportedModel,
    dims: Mapping[str, str],
    masks: Sequence[str] | None = None,
    tokens: tuple[int, int | None] | None = None,
) -> ImportedModel:
    """`model` for ragged batches. `dims` names the ragged dim and, for it, the dim of the batch: an empty name stands
    for the dim in front of it in the inputs. `masks` are the inputs that are 1 at valid positions and 0 in the padding,
    or that hold the lengths of the sequences; by default those whose name says so. `tokens` are the bounds of the sum
    of the lengths.

    Raises `UsageError` for a dim or an input that there is not, and `UnsupportedModelError` if a valid position may
    depend on the padding, or if a part of the model cannot be ragged yet."""
    signature = model.only
    dim, name = _ragged_dim(signature, dims)
    chosen = _masks(signature, dim) if masks is None else tuple(masks)
    plain = as_products(model.module, signature.name)
    padded = unsorted(canonical(plain, signature.name, dim), signature.name, dim)
    func = padded[signature.name]
    named = {port.name: param for port, param in zip(signature.inputs, func.params, strict=True)}
    for mask in chosen:
        if mask not in named:
            raise UsageError(f"the model has no input '{mask}'; it has {', '.join(named)}")
        shape = named[mask].ty.shape
        if len(shape) == 1 and not shape[0].same_as(dim.batch):
            raise UsageError(f"'{mask}' holds no lengths: its dim is not '{dim.batch.name}'")
    try:
        contents = prove(padded, func, dim, [named[mask] for mask in chosen])
    except Leak as leak:
        said = f"the mask is {', '.join(chosen)}" if chosen else "no input is taken for the mask"
        raise UnsupportedModelError(
            f"'{name}' cannot be ragged: '{leak.node}': {leak.reason} ({said}; --mask NAME names another)"
        ) from leak
    module = without_masks(padded, signature.name, contents)
    unused = relax.transform.DeadCodeElimination([signature.name])
    module = tvm.ir.transform.Sequential([relax.transform.CanonicalizeBindings(), unused])(module)
    module = inline(module, signature.name, dim)
    module = unused(fuse_attention(fold_reshapes(join_siblings(module))))
    try:
        return _packed(model, module, _Request(signature, dim, name, chosen, tokens))
    except Unsupported as error:
        raise UnsupportedModelError(f"'{name}' cannot be ragged yet: {error}") from error


def _ragged_dim(signature: Signature, dims: Mapping[str, str]) -> tuple[RaggedDim, str]:
    if len(dims) != 1:
        raise UsageError(f"one dim of a model can be ragged, found {', '.join(dims) or 'none'}")
    ((extent, batch),) = dims.items()
    known = {dim.name: dim for dim in signature.dims}
    for name in (extent, batch):
        if name and name not in known:
            raise UsageError(f"the model has no dim named {name}; its dims are: {', '.join(known) or 'none'}")
    batch = batch or _batch_of(signature, known[extent])
    return RaggedDim(known[extent].var, known[batch].var), extent


def _batch_of(signature: Signature, extent: Dim) -> str:
    """The dim in front of the ragged one in the inputs."""
    known = {dim.var: dim.name for dim in signature.dims}
    for port in signature.inputs:
        for before, size in zip(port.shape, port.shape[1:], strict=False):
            if isinstance(size, tirx.Var) and size.same_as(extent.var) and before in known:
                return known[before]
            if isinstance(size, tirx.Var) and size.same_as(extent.var) and isinstance(before, int):
                raise UsageError(
                    f"the batch in front of {extent.name} is {before}: give it bounds, --dim NAME=1..{before}"
                )
    raise UsageError(f"no input has a dim in front of {extent.name}: name the batch, as in {extent.name}:batch")


def _masks(signature: Signature, dim: RaggedDim) -> tuple[str, ...]:
    """The inputs that are masks, by their names and shapes, and the one that holds lengths. If several may hold
    lengths, none is taken: they may be those of different sequences."""
    masks = [
        port.name
        for port in signature.inputs
        if port.name.lower() in MASKS and len(port.shape) == 2 and axes_of(port.shape, dim)[0] is not None
    ]
    lengths = [
        port.name
        for port in signature.inputs
        if any(word in port.name.lower() for word in ("length", "lens"))
        and port.dtype.startswith(("int", "uint"))
        and len(port.shape) == 1
        and not isinstance(port.shape[0], int)
        and port.shape[0].same_as(dim.batch)
    ]
    return (*masks, *(lengths if len(lengths) == 1 else ()))


@dataclass(frozen=True)
class _Request:
    """What becomes ragged: the dim `dim`, called `name`, of the function with this signature. See `ragged`."""

    signature: Signature
    dim: RaggedDim
    name: str
    masks: tuple[str, ...]
    tokens: tuple[int, int | None] | None


def _packed(model: ImportedModel, module: ir.IRModule, asked: _Request) -> ImportedModel:
    """The model with its function packed."""
    signature, dim = asked.signature, asked.dim
    extent = next(each for each in signature.dims if each.var.same_as(dim.extent))
    batch = next(each for each in signature.dims if each.var.same_as(dim.batch))
    kept = [port for port in signature.inputs if port.name not in asked.masks]
    taken = {port.name for port in kept} | {each.name for each in signature.dims}
    lengths, *new = (name if name not in taken else f"{name}_{asked.name}" for name in (LENGTHS, TOKENS, SQUARES))
    tokens, squares = (tirx.Var(name, "int64") for name in new)
    batches = RaggedBatch(lengths, dim.batch, tokens, dim.extent, squares, extent.maximum)
    inputs = [*(_packed_port(port, dim, batches) for port in kept), Port(lengths, "int64", (dim.batch,))]
    for port in inputs:
        if squares in collect(port.shape[0], ir.Var):
            raise Unsupported(f"the input '{port.name}' has '{asked.name}' twice")
    outputs = [_packed_port(port, dim, batches) for port in signature.outputs]
    dims = [replace(each, minimum=0) if each is batch else each for each in signature.dims if each is not extent]
    named = replace(
        signature,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        dims=(*dims, _tokens(tokens, asked.tokens, batch, extent)),
        inputs_as=tuple(Structure(port.name, "tensor") for port in inputs),
        outputs_as=tuple(Structure(port.name, "tensor") for port in outputs),
    )
    together = mixed(model, module, module[signature.name], dim)
    packed, data_dims = _packed_module(module, asked, batches, inputs)
    return replace(
        model,
        module=packed,
        functions=(named,),
        data_dims=(*model.data_dims, *data_dims),
        padded=(
            Padded(asked.name, batch.name, lengths, asked.masks, extent.maximum, _operations(model), squares.name),
        ),
        instances=together or Instances(lengths, dim.batch, tokens, extent.maximum),
    )


def _operations(model: ImportedModel) -> str | None:
    """The number of operations of a padded model as a formula over its dims; None if it depends on data."""
    flops = cost(model).flops
    return to_text(flops) if {dim.var for dim in model.dims}.issuperset(free_vars(flops)) else None


def _packed_module(
    module: ir.IRModule, asked: _Request, batches: RaggedBatch, inputs: Sequence[Port]
) -> tuple[ir.IRModule, list[DataDim]]:
    """`module`, with the function packed, and the dims that its prelude computes. It takes `inputs`."""
    gvar = module.get_global_var(asked.signature.name)
    kernels = {name: func for name, func in module.functions.items() if isinstance(func, tirx.PrimFunc)}
    builder = relax.BlockBuilder(ir.IRModule(kernels))
    params = [relax.Var(port.name, relax.TensorType(list(port.shape), storage_dtype(port.dtype))) for port in inputs]
    given = iter(params)
    old = [None if port.name in asked.masks else next(given) for port in asked.signature.inputs]
    data_dims: list[DataDim] = []

    def body() -> list[relax.Expr]:
        prelude = Prelude(builder, batches, params[-1])
        results = Packing(module, builder, asked.dim, prelude).run(module[gvar], old)
        data_dims.extend(prelude.data_dims)
        return results

    packed = emit_function(builder, asked.signature.name, params, body)
    functions = dict(module.functions)
    functions |= {name: func for name, func in builder.get().functions.items() if isinstance(func, tirx.PrimFunc)}
    return ir.IRModule(functions | {gvar: packed}), data_dims


def _tokens(var: ir.Var, bounds: tuple[int, int | None] | None, batch: Dim, extent: Dim) -> Dim:
    """The dim of the tokens. Its maximum follows from those of the padded dims if it is not given."""
    if bounds is not None:
        return Dim(var.name, var, 0, bounds[1])
    if batch.maximum is None or extent.maximum is None:
        return Dim(var.name, var, 0)
    return Dim(var.name, var, 0, batch.maximum * extent.maximum)


def _packed_port(port: Port, dim: RaggedDim, ragged: RaggedBatch) -> Port:
    batch, found = axes_of(port.shape, dim)
    if batch is None:
        return port
    if batch != 0 or (len(found) == 1 and found != (1,)):
        raise Unsupported(f"'{port.name}' does not begin with '{dim.batch.name}' and '{dim.extent.name}'")
    instance = [ragged.name if axis in found else extent for axis, extent in enumerate(port.shape)]
    shape = packed_shape([as_expr(extent) for extent in port.shape], dim, ragged)
    return replace(port, shape=tuple(shape), instance=tuple(instance[1:]))

"""Dynamic models: control flow that differs from instance to instance, and cells that run in batches.

    tensors    the tensor expressions of one instance, until they are put into cells
    operators  what the operators of these expressions are over a batch
    cells      expressions as functions over a batch of nodes
    techniques what is done for larger batches and fewer launches; each can be left out
    control    the control flow, as statements over words
    model      all of it: a dynamic model
    graphs     the nodes of a run, and how few batches they need at least
    policies   which cell comes next, as the runtime decides it
    learning   a table of a policy, learned from a graph (`tables`, `refining`)

`program/instances` makes a program of it, and `codegen/host/control` writes the control flow as C.

The technique is that of ACRoBat (Fegade et al., ACRoBat: optimizing auto-batching of dynamic deep learning at compile
time, MLSys 2024) and ED-Batch (Chen et al., ED-Batch: efficient automatic batching of dynamic neural networks via
learned finite state machines, ICML 2023).
"""

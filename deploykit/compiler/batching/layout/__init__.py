"""Operators within a cell that run together, and the order of what they compute in memory.

joining     operators of one type as one operator
scheduling  which operators are ready together
ordering    an order of variables in which batches find their operands side by side
pq_tree     the orders in which given subsets are side by side
"""

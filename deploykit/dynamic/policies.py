"""The policies that choose which cell runs next, by the numbers of `dk_policy` (`runtime/batching/batching.h`)."""

POLICIES = {"depth": 0, "fsm": 1, "agenda": 2, "alone": 3, "critical": 4}

MEANINGS = {
    "depth": "by depth in the data flow, then by cell",
    "fsm": "by a table that was learned from samples",
    "agenda": "the cell whose nodes have the least mean depth",
    "alone": "each node in a batch of its own",
    "critical": "first a cell whose longest chain of nodes only it can shorten, then by what waits for ready nodes",
}

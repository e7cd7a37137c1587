"""Facts about the IR: pure functions of nodes, with nothing of a target in them."""

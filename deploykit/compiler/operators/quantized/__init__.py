"""Numbers in quantised form, and exact products of them."""

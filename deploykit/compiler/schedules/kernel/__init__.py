"""A kernel as stages, and what all rules do with them: accesses, loops, inlining, epilogues, guards."""

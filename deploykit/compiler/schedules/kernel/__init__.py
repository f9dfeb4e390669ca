"""A kernel as stages, and what every rule does with them: accesses, loops, inlining, epilogues, guards."""

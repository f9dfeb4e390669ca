"""What TIR expressions and statements are made of: asking, rewriting, writing them; no stages, no rules."""

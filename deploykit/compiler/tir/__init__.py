"""Helpers to query, rewrite and build TIR expressions and statements. They know nothing of stages and rules."""

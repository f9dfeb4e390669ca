"""What language models that generate need beside their kernels: pages of sequences, the choice of tokens, texts that
end an answer, and templates of conversations. The first three are the runtime's C (`runtime/language/`)."""

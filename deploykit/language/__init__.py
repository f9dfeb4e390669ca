"""What language models that generate need beside their kernels: pages of sequences, what is saved of them, the choice
of tokens, texts that end an answer, and templates of conversations. All but the last are the runtime's C
(`runtime/language/`)."""

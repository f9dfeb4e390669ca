"""Scripts that print the numbers in the documentation, and the models that they use."""

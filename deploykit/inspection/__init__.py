"""What is in a model file or an artifact folder, without running it.

model.py       operators, dims, unsupported operators, weights, cost formulas
"""

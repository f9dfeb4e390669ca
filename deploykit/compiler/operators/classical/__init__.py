"""Models of ai.onnx.ml: trees, linear models, support vectors, and what prepares their columns."""

"""Models of ai.onnx.ml: trees, linear models, support vector machines, and operators that prepare their columns."""

"""The operators that ONNX Runtime adds to the standard (domain `com.microsoft`): what its optimiser writes into saved
models, what its quantiser writes, and what language models are made of.

Each is a combination of standard operators. (Source: ONNX Runtime's page of contrib operators.)
"""

"""Prints the WGSL shaders of a program as one text of OpenCL C 1.2 (`program.opencl_program`).

What becomes what:

| WGSL | OpenCL C |
|---|---|
| a shader | a kernel; its bindings, the place in each, its scalars and the number of invocations are parameters |
| variables of the module | variables of the kernel, and parameters of the functions that use them (`uses`) |
| `vec4<bool>` | `int4` of 0 and -1 |
| `select` with one condition | `c ? t : f`: loads in the operand that is not chosen may be out of range |
| integers divided by what may be 0 | a function with WGSL's result |
| sections for `shader-f16`, and for devices that bind much | `DK_F16` and `DK_BINDING_BYTES` |
| sections for `subgroups` | none: a team is a workgroup |
| `f16` | `half` |
| sums and products of signed integers that depend on tensors | those of unsigned integers, which wrap around |
"""

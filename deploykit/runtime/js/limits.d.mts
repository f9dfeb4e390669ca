// Limits of the devices that shaders are written for. The package of a model has a limits.mjs with their values, which
// are those of deploykit/compiler/devices/gpu.py.

/** Invocations of a workgroup. */
export const WORKGROUP: number;
/** Workgroups along one axis of a grid. */
export const MOST_GROUPS: number;
/** Bytes from one block of scalars, or tensor, to the next. */
export const BLOCK: number;

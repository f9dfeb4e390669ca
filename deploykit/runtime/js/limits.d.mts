// Limits of the devices that shaders are written for. A package has a limits.mjs with their values, which come from
// deploykit/compiler/devices/gpu.py.

/** Invocations per workgroup. */
export const WORKGROUP: number;
/** The most workgroups along one axis of a grid. */
export const MOST_GROUPS: number;
/** Bytes: blocks of scalars, and tensors, begin at multiples of this. */
export const BLOCK: number;

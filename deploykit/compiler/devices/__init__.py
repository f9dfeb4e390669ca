"""What the compiler knows about the machines that run kernels, as data: classes of CPUs, and GPUs."""

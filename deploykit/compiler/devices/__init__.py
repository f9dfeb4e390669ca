"""What the compiler knows of the machines that run kernels, as data: classes of CPUs, and GPUs."""

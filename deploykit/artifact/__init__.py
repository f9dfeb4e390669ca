"""The result of a build as data: the folder, its manifest, the memory plan and the formulas in it."""

"""What a build leaves behind, as data: the folder, its manifest, the memory plan and the formulas in it."""

"""The paper's studies: what each part of the method contributes, and how well it generalises to other data sets."""

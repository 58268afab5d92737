"""The pool of rendered training samples, and what rendering shares: textures and photometric augmentation."""

"""RSA^2-Net lite, the small fusion network for CPUs: `network`, and the refinement of its result in `polish`."""

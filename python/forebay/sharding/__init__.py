"""The share of this process, and who says it: the user, a launcher, or the devices of JAX."""

"""The shard of this process, as the user, a launcher, or the devices of JAX determine it."""

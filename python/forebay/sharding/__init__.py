"""The shard (rank and world size) of this process, as the user, a launcher or the devices of JAX set it."""

"""The classes that a user passes to a loader to say how columns are decoded, encoded, padded and stacked."""

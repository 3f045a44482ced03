"""The columns of a batch, among them those whose rows differ in length."""

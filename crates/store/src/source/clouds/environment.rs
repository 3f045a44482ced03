//! Access to the environment variables that configure the clients of clouds.

/// A function that returns the value of an environment variable; tests give their own values instead.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

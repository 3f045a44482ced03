//! The variables by which clouds are set up.

/// Looks up an environment variable of the process, or in a test a stand-in for it.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

//! The variables by which clouds are set up.

/// A process's variables, or a stand-in for them in a test.
pub(super) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

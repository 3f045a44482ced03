//! A wrapper for texts such as passwords and tokens, which keeps them out of messages.

use std::fmt;

/// A text that neither `Debug` nor `Display` reveals.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::source) struct Secret(String);

impl Secret {
    pub(in crate::source) fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself. It must only be sent to its store, and never be shown.
    pub(in crate::source) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_to_nobody() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        assert_eq!(secret.expose(), "hunter2");
    }
}

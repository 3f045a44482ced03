//! What is kept of images, by name.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::error::{Error, Result};

/// The form in which the row cache keeps images.
///
/// ```
/// use forebay::Tier;
///
/// assert_eq!("pixels".parse::<Tier>()?, Tier::Pixels);
/// assert_eq!(Tier::default().to_string(), "auto");
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// The files as they are, until it is measured that another form is worth its disk.
    #[default]
    Auto,
    /// The files as they are: good for every size and augmentation.
    Rows,
    /// JPEGs of the largest size that is needed: small, and less to decode where images are larger than that.
    Resized,
    /// Pixels, as far as no random step comes before: several times larger, and not decoded again.
    Pixels,
}

impl Tier {
    const NAMES: [(Tier, &str); 4] =
        [(Tier::Auto, "auto"), (Tier::Rows, "rows"), (Tier::Resized, "resized"), (Tier::Pixels, "pixels")];
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(tier, _)| tier == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Tier {
    type Err = Error;

    fn from_str(text: &str) -> Result<Tier> {
        let found = Self::NAMES.iter().find(|(_, name)| *name == text).map(|(tier, _)| *tier);
        found.ok_or_else(|| {
            Error::invalid(format!("{text:?} is not a cache tier")).hint("use auto, rows, resized or pixels")
        })
    }
}

//! [`Tier`]: the form in which the row cache keeps images and other cells that are decoded.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use forebay_base::{Error, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The form in which the row cache keeps cells that the loader decodes, such as images. Columns without such
/// a form are kept as they are stored.
///
/// ```
/// use forebay::Tier;
///
/// assert_eq!("pixels".parse::<Tier>()?, Tier::Pixels);
/// assert_eq!(Tier::default().to_string(), "auto");
/// # Ok::<(), forebay::Error>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// Stored cells at first, and another form once measurements show that it is worth its disk space. Rows
    /// of local files are not kept if reading them again is not slower. The default.
    #[default]
    Auto,
    /// Cells as they are stored, which serve every image size and augmentation.
    Rows,
    /// JPEGs scaled down to the largest size that the loader needs. They take less space and are faster to
    /// decode than larger stored images.
    Resized,
    /// The coefficients of JPEGs (their content before the lossless Huffman coding). They take a quarter to a
    /// half more space than the JPEGs, serve every size and augmentation, and are decoded without reading
    /// Huffman codes. Other images are kept as they are stored.
    Coefficients,
    /// Pixels as they are before the first random step, such as a random crop. They are several times larger
    /// than stored images, and are not decoded again.
    Pixels,
}

impl Tier {
    /// Every tier with its name in Rust, in Python, on the command line and in saved loader options.
    pub const NAMES: [(Tier, &str); 5] = [
        (Tier::Auto, "auto"),
        (Tier::Rows, "rows"),
        (Tier::Coefficients, "coefficients"),
        (Tier::Resized, "resized"),
        (Tier::Pixels, "pixels"),
    ];

    /// The name of the tier, in lower case.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(tier, _)| *tier == self).map_or("", |(_, name)| name)
    }

    /// Finds the tier among `tiers` that has the name `text`.
    ///
    /// # Errors
    /// `Invalid` for any other text.
    pub fn among(tiers: &[Tier], text: &str) -> Result<Tier> {
        tiers.iter().copied().find(|tier| tier.name() == text).ok_or_else(|| {
            let names = tiers.iter().map(|tier| tier.name()).collect::<Vec<_>>().join(", ");
            Error::invalid(format!("{text:?} is not a cache tier")).hint(format!("use one of {names}"))
        })
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Tier {
    type Err = Error;

    fn from_str(text: &str) -> Result<Tier> {
        Tier::among(&Self::NAMES.map(|(tier, _)| tier), text)
    }
}

impl Serialize for Tier {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Tier {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tier, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_read_back_from_its_name() {
        for (tier, name) in Tier::NAMES {
            assert_eq!((tier.to_string().as_str(), name.parse::<Tier>().unwrap()), (name, tier));
            let json = serde_json::to_string(&tier).unwrap();
            assert_eq!(
                (json.as_str(), serde_json::from_str::<Tier>(&json).unwrap()),
                (&*format!("{name:?}"), tier)
            );
        }
        let error = "pixel".parse::<Tier>().unwrap_err().to_string();
        assert!(Tier::NAMES.iter().all(|(_, name)| error.contains(name)), "{error}");
    }
}

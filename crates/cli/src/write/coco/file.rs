//! The content of a file of COCO's annotations.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use forebay_base::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::{Number, Value};

use crate::write::read::{json_hint, place, read_file, without_mark};

/// The largest float up to which every whole number has a float of its own.
const MAX_EXACT: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

/// The parts of a file that are written.
#[derive(Deserialize)]
pub(super) struct CocoFile {
    #[serde(deserialize_with = "each")]
    pub(super) images: Vec<ImageEntry>,
    #[serde(default, deserialize_with = "each")]
    pub(super) annotations: Vec<Annotation>,
    #[serde(default, deserialize_with = "each")]
    pub(super) categories: Vec<Category>,
}

#[derive(Deserialize)]
pub(super) struct ImageEntry {
    pub(super) id: Identifier,
    pub(super) file_name: String,
    #[serde(default)]
    width: Value,
    #[serde(default)]
    height: Value,
}

#[derive(Deserialize)]
pub(super) struct Annotation {
    #[serde(default)]
    pub(super) id: Value,
    pub(super) image_id: Identifier,
    pub(super) category_id: Identifier,
    pub(super) bbox: Option<[f32; 4]>,
    #[serde(default)]
    pub(super) iscrowd: IsCrowd,
    pub(super) segmentation: Option<Segmentation>,
    pub(super) keypoints: Option<Vec<f32>>,
}

#[derive(Deserialize)]
pub(super) struct Category {
    pub(super) id: Identifier,
    pub(super) name: String,
}

/// A whole number. Programs that keep numbers as floats write 1.0 for 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "Number")]
pub(super) struct Identifier(i64);

/// Whether an annotation is of a crowd. The file gives it as a number, of which only 0 means no, or as a
/// boolean.
#[derive(Default, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct IsCrowd(pub(super) bool);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a segmentation is a list of outlines, or an object with counts and size")]
pub(super) enum Segmentation {
    /// Outlines `x, y, x, y, ...`
    Outlines(Vec<Vec<f64>>),
    /// Run lengths, of an image of this height and width.
    Runs { counts: CocoCounts, size: [u32; 2] },
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum CocoCounts {
    Numbers(Vec<i64>),
    Text(String),
}

impl CocoFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or does not have this form. The error names the item of the list.
    pub(super) fn read(path: &Path) -> Result<CocoFile> {
        serde_json::from_slice(without_mark(&read_file(path)?)).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("these are not annotations of COCO: {error}"))
                .at(place(path))
                .hint(json_hint(&error, "mend the file there"))
        })
    }
}

/// An item of one of the file's lists.
trait ListedItem {
    /// The key of the list.
    const LIST: &'static str;
}

impl ListedItem for ImageEntry {
    const LIST: &'static str = "images";
}

impl ListedItem for Annotation {
    const LIST: &'static str = "annotations";
}

impl ListedItem for Category {
    const LIST: &'static str = "categories";
}

/// Reads a list item by item, so that an error names the item, such as `annotations[7]`.
fn each<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: ListedItem + Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_seq(ListedItems(PhantomData))
}

struct ListedItems<T>(PhantomData<T>);

impl<'de, T: ListedItem + Deserialize<'de>> Visitor<'de> for ListedItems<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the list {:?}", T::LIST)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        loop {
            match list.next_element() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => return Ok(items),
                Err(error) => {
                    return Err(A::Error::custom(format_args!("{}[{}]: {error}", T::LIST, items.len())));
                }
            }
        }
    }
}

impl ImageEntry {
    /// The width and the height that the file gives.
    pub(super) fn size(&self) -> Option<[f64; 2]> {
        Some([self.width.as_f64()?, self.height.as_f64()?])
    }
}

impl TryFrom<Number> for Identifier {
    type Error = String;

    fn try_from(number: Number) -> Result<Self, String> {
        let of_float =
            |float: f64| (float.fract() == 0.0 && float.abs() <= MAX_EXACT).then_some(float as i64);
        let whole = number.as_i64().or_else(|| number.as_f64().and_then(of_float));
        whole
            .map(Identifier)
            .ok_or_else(|| format!("the identifier {number} is not a whole number of 64 bits"))
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<Value> for IsCrowd {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match &value {
            Value::Null => Ok(IsCrowd(false)),
            Value::Bool(is_crowd) => Ok(IsCrowd(*is_crowd)),
            Value::Number(number) => Ok(IsCrowd(number.as_f64() != Some(0.0))),
            _ => Err(format!("iscrowd is {value}, and not 0 or 1")),
        }
    }
}

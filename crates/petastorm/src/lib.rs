//! Reads the schema of a [Petastorm](https://github.com/uber/petastorm) data set without running its pickle.
//!
//! Petastorm keeps the schema of a data set in the file `_common_metadata`: a value of its key-value metadata
//! is a pickle of an object `Unischema`. The schema says for each column which kind of array or image its
//! cells contain.
//!
//! ```
//! use forebay_petastorm::{Codec, Dtype, Unischema};
//!
//! # let pickle = b"\x80\x02cpetastorm.unischema\nUnischema\n)\x81}(U\x05_nameU\x06PhotosU\x07_fields\
//! # ccollections\nOrderedDict\n)RU\x05imagecpetastorm.unischema\nUnischemaField\n(U\x05imagecnumpy\nuint8\n\
//! # NNK\x03\x87cpetastorm.codecs\nCompressedImageCodec\n)\x81}(U\x0c_image_codecU\x05.jpegU\x08_qualityKPub\
//! # \x89t\x81sub.";
//! // `pickle` is the value of the key `forebay_petastorm::UNISCHEMA_KEY`.
//! let schema = Unischema::read(pickle)?;
//!
//! assert_eq!(schema.name, "Photos");
//! let image = &schema.fields[0];
//! assert_eq!((image.name.as_str(), image.dtype, image.nullable), ("image", Dtype::UInt8, false));
//! assert_eq!(image.shape, [None, None, Some(3)]);
//! assert_eq!(image.codec, Some(Codec::CompressedImage { format: "jpeg".to_owned(), quality: Some(80) }));
//! # Ok::<(), forebay_petastorm::Error>(())
//! ```
//!
//! # Why it is safe
//!
//! A pickle is a program for a machine with a stack. Two of its instructions have effects outside the
//! machine: one imports what the pickle names, and one calls it with arguments from the pickle. So anybody
//! who can write to a data set can run code on every computer that unpickles its schema. This crate has such
//! a machine, but without the two effects:
//!
//! * A name is looked up in a list of the few names that schemas have, and becomes a value of an enum. Any
//!   other name is an error that repeats it: "the schema names `os.system` at byte 0, which no Petastorm
//!   schema does".
//! * A call is recorded with its arguments, and is never made. The recorded calls are then compared with
//!   those that Petastorm's schemas contain.
//! * Time and memory are bounded. A schema may take a million steps and 12 MiB of values, whatever lengths it
//!   announces and however its parts refer to each other. Nothing is recursive except nested arrays, up to a
//!   depth of eight.
//!
//! # What is read
//!
//! | version of Petastorm | how the pickle makes a field |
//! |---|---|
//! | 0.10 and later | a new object of `UnischemaField` |
//! | 0.7.1 to 0.9 on Python 2, and protocols 0 and 1 | `copy_reg._reconstructor` of `UnischemaField` and `tuple` |
//! | before 0.7.1 | `pyspark.serializers._restore` of names and values |
//!
//! Pickles may have protocols 0 to 5, come from Python 2 or 3 with numpy 1 or 2, and use the earlier names of
//! Petastorm's packages. A user's own class, derived from a codec or from `Unischema`, is refused by its
//! name.
//!
//! # What it is not
//!
//! This crate does not read Parquet: the caller passes the bytes of the pickle, and adds the name of the file
//! to errors. It does not decode cells or write schemas. The crate `forebay` builds on it.
//!
//! # How it is built
//!
//! ```text
//! bytes ─► instructions ─► plain values ─► forms ─► Unischema
//! input.rs machine.rs      heap.rs         form.rs  unischema.rs
//! literal.rs               name.rs         scalar.rs  read.rs
//! ```

mod budget;
mod codec;
mod dtype;
mod fail;
mod form;
mod heap;
mod input;
mod literal;
mod machine;
mod name;
mod read;
mod row_groups;
mod scalar;
mod spark;
mod unischema;

pub use codec::Codec;
pub use dtype::Dtype;
pub use forebay_base::{Error, ErrorKind, Result};
pub use row_groups::row_groups_per_file;
pub use spark::SparkType;
pub use unischema::{Field, Unischema};

/// The metadata key of `_common_metadata` under which the schema is stored.
pub const UNISCHEMA_KEY: &str = "dataset-toolkit.unischema.v1";

/// The metadata key of `_common_metadata` under which the number of row groups of each file is stored.
pub const ROW_GROUPS_KEY: &str = "dataset-toolkit.num_row_groups_per_file.v1";

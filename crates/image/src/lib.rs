//! Decodes images to pixels for training: decoded, cropped, resized, mirrored and normalised in one step.
//!
//! [`decode`] returns the pixels of a file in its own size. [`Image`] describes the pixels that a model wants
//! instead (size, crop, number type), and [`decode_into`] writes these directly into their place in a batch:
//!
//! ```
//! use forebay_image::{Image, Layout, PixelType, RowKey, decode, decode_into};
//! # use forebay_image::encode_jpeg;
//! # let file = |quality| encode_jpeg(&[90; 64 * 48 * 3], 64, 48, quality);
//! # let files = [80, 85, 90].map(file).into_iter().collect::<Result<Vec<_>, _>>()?;
//!
//! let photograph = decode(&files[0])?;
//! println!("{} x {} pixels", photograph.width(), photograph.height());
//!
//! let train = Image::random_resized_crop(32)
//!     .flip()
//!     .normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
//!     .dtype(PixelType::F32)
//!     .layout(Layout::Nchw);
//! train.validate()?;
//! let mut batch = vec![0; files.len() * train.bytes_per_image()];
//! let slots = batch.chunks_exact_mut(train.bytes_per_image());
//! for (number, (file, slot)) in (0..).zip(files.iter().zip(slots)) {
//!     decode_into(&train, file, RowKey(number), slot)?;
//! }
//! # Ok::<(), forebay_image::Error>(())
//! ```
//!
//! # Why it is fast
//!
//! * The size is known from the header, so the crop is drawn first. For the rows above it only Huffman codes
//!   are read, rows below it are not touched, and a large crop for a small target is decoded at a half, a
//!   quarter or an eighth of its scale.
//! * The crate decodes the Huffman codes of baseline and progressive JPEG itself. With AVX2 or AVX-512, it
//!   also transforms blocks, converts colours and resizes. libjpeg-turbo and `fast_image_resize` do the rest.
//! * The result is written straight into its slot, in the number type and layout that are asked for. Decoders
//!   and buffers belong to the thread, and are reused for its next image.
//! * [`Image::keep`] converts an image to a form that takes less work next time, for a cache, and [`pack`]
//!   converts a JPEG to one without Huffman codes, for a file.
//!
//! # What it promises
//!
//! * Equal arguments give equal pixels, on every thread: random draws depend on a [`RowKey`] alone.
//! * The pixels of a JPEG are those of libjpeg-turbo, and the pixels of a crop are the ones that the whole
//!   image has there. Only a JPEG that is much larger than its target is decoded at a smaller scale:
//!   photographs then differ by less than one level of 255 on average, and by more if the target has only a
//!   few pixels.
//! * Names, ranges and formulas are torchvision's, and the resize is Pillow's: bilinear, bicubic or Lanczos,
//!   antialiased.
//! * [Raw pixels](Image::raw) give the same result as a lossless file of the same pixels.
//! * Hostile bytes end as an [`Error`]. An image with more pixels than [`Image::max_pixels`] is refused from
//!   its header, and so is one whose decoding would take more memory than that allows. Damage in the part
//!   that is decoded is an error, and never a grey half.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | | always | JPEG, PNG |
//! | `formats` | yes | WebP, GIF (the first frame), BMP, TIFF |
//!
//! # What it is not
//!
//! It starts no threads and has no batches: the caller owns both, and adds the place (file, row, column) to
//! an error. [`decode_many`] works on the caller's pool. It does not draw or edit, and it encodes nothing
//! but the JPEGs of [`encode_jpeg`]. AVIF, HEIC and JPEG XL are refused by name. The crate `forebay` builds
//! on this one, and feeds training from data sets in Parquet.
//!
//! # How it is built
//!
//! ```text
//! header ─► crop and flips ─► region ─► RGB or luma ─► target size ─► colours ─► slot
//! probe.rs  frame.rs          jpeg/     raster.rs      resample.rs    effects/   finish.rs
//! ```
//!
//! [`Drawn`] applies the same crop and flips to boxes and points that belong to an image, and [`decode_mask`]
//! to masks. A module imports only from lower floors, which `tests/images/floors.rs` lists.

mod affine;
mod blend;
mod border;
mod buffer;
mod canvas;
mod decode;
mod depth;
mod drawing;
mod drawn;
mod draws;
mod effects;
mod exif;
mod finish;
mod format;
#[cfg_attr(not(feature = "formats"), path = "formats/absent.rs")]
mod formats;
mod frame;
mod geometry;
#[cfg(target_arch = "x86_64")]
mod halves;
mod instance;
mod jpeg;
mod keep;
mod kept;
mod many;
mod mask;
mod mask_type;
mod opened;
mod output;
mod owned;
mod packed;
mod pixel_type;
mod pixels;
mod placement;
mod png;
mod polygon;
mod probe;
mod raster;
mod raw;
mod refuse;
mod repeat;
mod resample;
mod rotation;
mod run_lengths;
mod scratch;
mod shown;
mod sniff;
mod spec;
mod unread;
mod workspace;

pub use blend::blend;
pub use decode::{View, decode_into, decode_views, decode_within, needs_stable};
pub use drawing::Drawing;
pub use drawn::Drawn;
pub use draws::RowKey;
pub use forebay_base::{Error, ErrorKind, Result};
pub use format::{Format, Header};
pub use instance::{Instance, compress_instance, decode_instance};
pub use jpeg::encode_jpeg;
pub use keep::Form;
pub use many::{EncodedImage, decode_many, decode_many_into};
pub use mask::decode_mask;
pub use mask_type::MaskType;
pub use owned::{Pixels, decode};
pub use packed::{EXTENSION as PACKED_EXTENSION, VERSION as PACKED_VERSION, newer as newer_packed};
pub use packed::{is_packed, pack, unpack};
pub use pixel_type::{Layout, PixelType};
pub use probe::probe;
pub use sniff::is_jpeg;
pub use spec::{AutoAugment, Image, Interpolation, Padding, PaddingMode, Raw, Resampling, Size};
pub use workspace::Workspace;

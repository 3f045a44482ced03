//! Clips: several images as one value, out of a list of images in each row or out of the rows of a window.

mod chosen;
mod codec;
mod sampling;
mod slots;
mod spec;

pub(crate) use codec::ClipCodec;
pub use sampling::FrameSampling;
pub(crate) use slots::clips;
pub use spec::{Clip, ClipLayout};

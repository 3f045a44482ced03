//! Exports the names that options of the library accept, such as layouts, so that Python can check arguments.

use forebay::column::{BoxFormat, ClipLayout, FrameSampling, KeptEnd, PadSide, Tensor, TensorFormat};
use forebay::filter::Op;
use forebay::image::{Interpolation, Layout, MaskType, PaddingMode, PixelType, Resampling};
use forebay::samples::{Across, Frames};
use forebay::{Shuffle, Tier};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Adds each list of names to the module, as a tuple.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let add = |list: &str, names: &[&str]| module.add(list, PyTuple::new(module.py(), names)?);
    add("ACROSS", &Across::NAMES)?;
    add("BOX_FORMATS", &BoxFormat::ALL.map(BoxFormat::name))?;
    add("CACHE_TIERS", &Tier::NAMES.map(|(_, name)| name))?;
    add("CLIP_LAYOUTS", &ClipLayout::ALL.map(ClipLayout::name))?;
    add("FRAME_SAMPLINGS", &FrameSampling::NAMES)?;
    add("FILTER_OPERATORS", &Op::SPELLINGS.map(|(spelling, _)| spelling))?;
    add("FRAMES", &Frames::NAMES)?;
    add("INTERPOLATIONS", &Interpolation::ALL.map(Interpolation::name))?;
    add("KEPT_ENDS", &KeptEnd::NAMES)?;
    add("MASK_TYPES", &MaskType::ALL.map(MaskType::name))?;
    add("MIXINGS", &Shuffle::MIXINGS)?;
    add("PAD_SIDES", &PadSide::NAMES)?;
    add("PADDING_MODES", &PaddingMode::ALL.map(PaddingMode::name))?;
    add("PIXEL_LAYOUTS", &Layout::ALL.map(Layout::name))?;
    add("PIXEL_TYPES", &PixelType::ALL.map(PixelType::name))?;
    add("RESAMPLINGS", &Resampling::ALL.map(Resampling::name))?;
    add("TENSOR_FORMATS", &TensorFormat::ALL.map(TensorFormat::name))?;
    add("TENSOR_TYPES", &Tensor::TYPES)
}

//! Parts that the program, the Python package, the benches and the tests share with the library.
//!
//! Not an interface: anything here may change or go in any release. What users need is at the root of the crate, in
//! [`filter`](crate::filter) and in [`stats`](crate::stats).

/// Rows gathered from several arrays.
pub mod batch {
    pub use crate::batch::*;
}

/// Entries of the row cache, and its upkeep.
pub mod cache {
    pub use crate::cache::*;
}

/// Files, row groups and columns of a data set.
pub mod catalog {
    pub use crate::catalog::*;
}

/// One image at a time.
pub mod decode {
    pub use crate::decode::*;
}

/// Text that is safe to print, and the nearest name to a misspelt one.
pub mod error {
    pub use crate::error::*;
}

/// Loaders, and the layer between them and a training loop in another language.
pub mod loader {
    pub use crate::loader::*;
}

/// Panics as values.
pub mod panics {
    pub use crate::panics::*;
}

/// Paths as people write them.
pub mod paths {
    pub use crate::paths::*;
}

/// Rows of one row group.
pub mod reader {
    pub use crate::reader::*;
}

/// The plan: orders, lanes, shares.
pub mod shard {
    pub use crate::shard::*;
}

/// Sizes as people write them.
pub mod sizes {
    pub use crate::sizes::*;
}

/// Stores, and catalogues read from them.
pub mod source {
    pub use crate::source::*;
}

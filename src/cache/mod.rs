//! Rows on local disk, after Parquet decoding: `std::fs` only.
//!
//! The room is laid out and empty: this version reads every epoch from the data set. Its border is
//! `reader::Resident`: the reader will ask here, between taking a permit and starting a request, for the rows of a part,
//! and offer them here once they are decoded. A part that is not here, or is damaged, is a miss and nothing else, so
//! that nothing above the reader can tell where rows came from.

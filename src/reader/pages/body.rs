//! What is in a page, once it is decompressed: whether its levels and lengths are as many as its values, and make sense. Where its
//! header claims something else of what is there, the page is mended.

use bytes::Bytes;
use forebay_base::Result;
use parquet::basic::{Encoding, Repetition, Type};
use parquet::column::page::Page;
use parquet::schema::types::ColumnDescriptor;

use super::lengths;
use super::levels::{self, Depth, Lists, Outline, split_levels};
use super::refusals::corrupt;
use crate::reader::integers::Runs;

/// Checks the pages of a leaf column, one after the other.
pub(in crate::reader) struct Bodies {
    /// The highest repetition and definition level.
    highest: [i16; 2],
    /// Bytes of a value as it is stored, if all have as many.
    width: Option<usize>,
    lists: Option<Lists>,
    /// Of the structures that it shares with the leaves beside it.
    outlines: Vec<Outline>,
}

/// The parts of a page: its levels, as far as they are runs, and its values.
struct Parts<'a> {
    repetition: Option<&'a [u8]>,
    definition: Option<&'a [u8]>,
    values: &'a [u8],
}

impl Bodies {
    /// Of a leaf at the end of `path`, whose nodes are optional, repeated or neither. At `shared` depths it is to have the same
    /// rows and items as other leaves.
    pub(in crate::reader) fn of(
        column: &ColumnDescriptor,
        path: impl Iterator<Item = Repetition>,
        shared: &[Depth],
    ) -> Self {
        let highest = [column.max_rep_level(), column.max_def_level()];
        let width = match column.physical_type() {
            Type::INT32 | Type::FLOAT => Some(4),
            Type::INT64 | Type::DOUBLE => Some(8),
            Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.type_length()).ok(),
            Type::BOOLEAN | Type::INT96 | Type::BYTE_ARRAY => None,
        };
        let lists = (highest[0] > 0).then(|| Lists::of(highest, path));
        Bodies { highest, width, lists, outlines: shared.iter().copied().map(Outline::of).collect() }
    }

    /// Whether only all pages of the leaf together tell what is wrong: the rows of lists are counted by their levels, and
    /// structures are compared.
    pub(in crate::reader) fn are_together(&self) -> bool {
        self.lists.is_some() || !self.outlines.is_empty()
    }

    /// Gives up on what only all pages tell: the levels of one cannot be read.
    fn skip(&mut self) {
        self.outlines.clear();
        if let Some(lists) = &mut self.lists {
            lists.skip();
        }
    }

    /// The rows that the pages so far begin, if they are of lists and the levels of all were read.
    pub(in crate::reader) fn rows(&self) -> Option<usize> {
        self.lists.as_ref()?.rows()
    }

    /// What tells the rows and items that are there at the shared depths from others; none if the levels of a page could
    /// not be read.
    pub(in crate::reader) fn outlines(&self) -> Vec<(Depth, u128)> {
        self.outlines.iter().map(Outline::digest).collect()
    }

    /// Gives the page as the Parquet crate is to decode it.
    ///
    /// Fails with `Corrupt` if it has fewer levels than values, levels that make no sense, or other lengths than values.
    pub(in crate::reader) fn check(&mut self, page: Page) -> Result<Page> {
        let Some((values, parts)) = self.parts_of(&page) else { return Ok(page) };
        let parts = parts
            .ok_or_else(|| corrupt(format!("the levels of the {values} values of a page are malformed")))?;
        let mut behind = [&[][..]; 2];
        let runs = [parts.repetition, parts.definition];
        for ((runs, highest), behind) in runs.iter().zip(self.highest).zip(&mut behind) {
            if let Some(runs) = runs.filter(|_| highest > 0) {
                *behind = levels::check(runs, highest, values as usize)?;
            }
        }
        match (&mut self.lists, parts.repetition, parts.definition) {
            (Some(lists), Some(repetition), Some(definition)) => {
                lists.check(repetition, definition, values as usize, &mut self.outlines)?
            }
            (None, _, Some(definition)) => {
                levels::outline(definition, self.highest[1], values as usize, &mut self.outlines);
            }
            _ => self.skip(),
        }
        // Plain values of version 1 are decoded without their number.
        let is_v2 = matches!(page, Page::DataPageV2 { .. });
        let is_counted = page.encoding() != Encoding::PLAIN || is_v2 || self.width.is_some();
        let stored = is_counted.then(|| self.stored(&parts, values as usize)).flatten();
        let are_sound = match page.encoding() {
            _ if stored == Some(0) => true,
            Encoding::PLAIN => match stored.zip(self.width) {
                Some((stored, width)) => are_plain(parts.values, stored, width, is_v2),
                None => true,
            },
            Encoding::DELTA_BINARY_PACKED => {
                stored.is_none_or(|stored| lengths::are_differences(parts.values, stored))
            }
            Encoding::BYTE_STREAM_SPLIT => {
                self.width.is_some_and(|width| are_split(parts.values, stored, width))
            }
            Encoding::RLE | Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                stored.is_none_or(|stored| are_in_runs(page.encoding(), parts.values, stored))
            }
            encoding => lengths::are_sound(encoding, parts.values, values),
        };
        if !are_sound {
            let encoding = page.encoding();
            return Err(corrupt(format!("the {values} values of a page are malformed ({encoding})")));
        }
        // Zeros that some writers fill the end with are no runs to the Parquet crate either. Of levels that are bit-packed, which
        // is deprecated, it reads no more than there are.
        let has_more = behind.iter().any(|behind| behind.iter().any(|byte| *byte != 0));
        let are_runs = runs.iter().zip(self.highest).all(|(runs, highest)| highest == 0 || runs.is_some());
        let cut = (has_more && are_runs).then(|| parts.cut(behind));
        let mended = Mended { stored, values: parts.values.len(), cut };
        Ok(mended.page(page))
    }

    /// The number of a page's values, with nulls, and its parts, which are `None` if its levels do not end in it; `None` for a
    /// dictionary.
    fn parts_of<'a>(&self, page: &'a Page) -> Option<(u32, Option<Parts<'a>>)> {
        match page {
            Page::DataPage { buf, num_values, rep_level_encoding, def_level_encoding, .. } => {
                let encodings = [*rep_level_encoding, *def_level_encoding];
                Some((*num_values, self.parts(buf, *num_values, encodings)))
            }
            Page::DataPageV2 { buf, num_values, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let parts = || {
                    let (repetition, rest) = buf.split_at_checked(*rep_levels_byte_len as usize)?;
                    let (definition, values) = rest.split_at_checked(*def_levels_byte_len as usize)?;
                    Some(Parts { repetition: Some(repetition), definition: Some(definition), values })
                };
                Some((*num_values, parts()))
            }
            Page::DictionaryPage { .. } => None,
        }
    }

    /// How many of a page's values are not null; `None` if its levels are bit-packed, which are not counted.
    fn stored(&self, parts: &Parts<'_>, values: usize) -> Option<usize> {
        match (self.highest[1], parts.definition) {
            (0, _) => Some(values),
            (highest, runs) => levels::highest_of(runs?, highest, values),
        }
    }

    /// The parts of a page of version 1; `None` if its levels do not end in it.
    fn parts<'a>(&self, page: &'a Bytes, values: u32, encodings: [Encoding; 2]) -> Option<Parts<'a>> {
        let mut rest = &page[..];
        let mut runs = [None; 2];
        for ((most, encoding), runs) in self.highest.into_iter().zip(encodings).zip(&mut runs) {
            if most == 0 {
                continue;
            }
            if encoding == Encoding::RLE {
                let (found, after) = split_levels(rest)?;
                (*runs, rest) = (Some(found), after);
            } else {
                // Bit-packed, which is deprecated: as many as the values, or the decoder fails.
                let bits = u64::from(values) * u64::from(i16::BITS - most.leading_zeros());
                rest = rest.get(usize::try_from(bits.div_ceil(8)).ok()?..)?;
            }
        }
        let [repetition, definition] = runs;
        Some(Parts { repetition, definition, values: rest })
    }
}

impl Parts<'_> {
    /// The same levels without what is `behind` the last of each.
    fn cut(&self, behind: [&[u8]; 2]) -> Cut {
        let whole = |(runs, behind): (Option<&[u8]>, &[u8])| {
            runs.map(|runs| runs[..runs.len() - behind.len()].to_vec())
        };
        let runs = [self.repetition, self.definition].into_iter().zip(behind).map(whole).collect();
        Cut { runs, values: self.values.to_vec() }
    }
}

/// The parts of a page whose levels were followed by something else.
struct Cut {
    /// Repetition levels, then definition levels.
    runs: Vec<Option<Vec<u8>>>,
    values: Vec<u8>,
}

/// What the levels and values of a page tell, where its header may say something else.
struct Mended {
    /// Values that are not null, if that is known.
    stored: Option<usize>,
    /// Bytes of the values.
    values: usize,
    cut: Option<Cut>,
}

impl Mended {
    /// A page with that.
    fn page(self, page: Page) -> Page {
        // Of no values an encoding needs no dictionary, and no width of its indices.
        let has_none = self.stored == Some(0);
        let without_values = |buf: Bytes| if has_none { buf.slice(..buf.len() - self.values) } else { buf };
        let encoding_of = |encoding| if has_none { Encoding::PLAIN } else { encoding };
        match page {
            Page::DictionaryPage { .. } => page,
            Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                statistics,
            } => {
                let buf = match self.cut {
                    Some(cut) => {
                        let lengthy =
                            |runs: Vec<u8>| [&(runs.len() as u32).to_le_bytes()[..], &runs].concat();
                        let levels = cut.runs.into_iter().flatten().flat_map(lengthy);
                        levels.chain(cut.values).collect()
                    }
                    None => buf,
                };
                Page::DataPage {
                    buf: without_values(buf),
                    num_values,
                    encoding: encoding_of(encoding),
                    def_level_encoding,
                    rep_level_encoding,
                    statistics,
                }
            }
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls,
                num_rows,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                statistics,
            } => {
                let lengths = [rep_levels_byte_len, def_levels_byte_len];
                let ([rep_levels_byte_len, def_levels_byte_len], buf) = match self.cut {
                    Some(cut) => {
                        let length = |at: usize| cut.runs[at].as_ref().map_or(0, Vec::len) as u32;
                        let lengths = [length(0), length(1)];
                        (lengths, cut.runs.into_iter().flatten().flatten().chain(cut.values).collect())
                    }
                    None => (lengths, buf),
                };
                let stored = self.stored.and_then(|stored| u32::try_from(stored).ok());
                Page::DataPageV2 {
                    buf: without_values(buf),
                    num_values,
                    encoding: encoding_of(encoding),
                    num_nulls: stored.map_or(num_nulls, |stored| num_values.saturating_sub(stored)),
                    num_rows,
                    def_levels_byte_len,
                    rep_levels_byte_len,
                    is_compressed,
                    statistics,
                }
            }
        }
    }
}

/// Whether as many values of one width are there. Where those of version 2 begin says the header, which has no checksum: it is
/// wrong where they are more.
fn are_plain(bytes: &[u8], stored: usize, width: usize, is_v2: bool) -> bool {
    let needed = stored.saturating_mul(width);
    bytes.len() == needed || bytes.len() > needed && !is_v2
}

/// Whether values that are split into their bytes are all there. The decoder makes up what is missing.
fn are_split(bytes: &[u8], stored: Option<usize>, width: usize) -> bool {
    match stored {
        Some(stored) => stored.checked_mul(width) == Some(bytes.len()),
        None => bytes.len().is_multiple_of(width),
    }
}

/// Whether there are as many booleans or indices into a dictionary as values. The decoder makes up those of no bits, and takes
/// the bytes that are there for as many groups as a run claims.
fn are_in_runs(encoding: Encoding, bytes: &[u8], stored: usize) -> bool {
    let runs = match encoding {
        Encoding::RLE => split_levels(bytes).and_then(|(runs, _)| Runs::new(runs, 1)),
        _ => bytes.split_first().and_then(|(width, runs)| Runs::new(runs, (*width).into())),
    };
    runs.is_some_and(|mut runs| runs.each(stored, |_| Some(())).is_some())
}

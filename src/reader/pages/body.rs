//! Checks the content of a page after it is decompressed: it must have a level and a length for each value,
//! and these must be valid. If the page header contradicts the content, the header is corrected.

use bytes::Bytes;
use forebay_base::Result;
use parquet::basic::{Encoding, Repetition, Type};
use parquet::column::page::Page;
use parquet::schema::types::ColumnDescriptor;

use super::lengths;
use super::levels::{self, Depth, ListLevels, Outline, split_levels};
use super::refusals::corrupt;
use crate::reader::integers::Runs;

/// Checks the pages of a leaf column, one after the other.
pub(in crate::reader) struct Bodies {
    /// The highest repetition and definition level.
    highest: [i16; 2],
    /// The number of bytes of a stored value, if it is the same for all values.
    width: Option<usize>,
    lists: Option<ListLevels>,
    /// Summaries of the lists and structures that the leaf shares with other leaves, for a comparison with
    /// these.
    outlines: Vec<Outline>,
}

/// The parts of a page: its levels, if they are stored as runs, and its values.
struct BodyParts<'a> {
    repetition: Option<&'a [u8]>,
    definition: Option<&'a [u8]>,
    values: &'a [u8],
}

impl Bodies {
    /// Prepares the checks of a leaf. `path` has the repetition of each node on the way to the leaf. At the
    /// `shared` depths, the leaf must have the same rows and items as other leaves.
    pub(in crate::reader) fn for_column(
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
        let lists = (highest[0] > 0).then(|| ListLevels::from_path(highest, path));
        Bodies { highest, width, lists, outlines: shared.iter().copied().map(Outline::with_depth).collect() }
    }

    /// Whether some checks need all pages of the leaf: rows of lists are counted by their levels, and
    /// structures are compared with those of other leaves.
    pub(in crate::reader) fn are_together(&self) -> bool {
        self.lists.is_some() || !self.outlines.is_empty()
    }

    /// Gives up the checks that need all pages, because the levels of one page cannot be read.
    fn skip(&mut self) {
        self.outlines.clear();
        if let Some(lists) = &mut self.lists {
            lists.skip();
        }
    }

    /// The number of rows that begin in the pages so far, if the column has lists and the levels of all pages
    /// could be read.
    pub(in crate::reader) fn rows(&self) -> Option<usize> {
        self.lists.as_ref()?.rows()
    }

    /// For each depth of the schema that the leaf shares with other leaves, a hash that tells which rows and
    /// list items exist at that depth; empty if the levels of a page could not be read.
    pub(in crate::reader) fn outlines(&self) -> Vec<(Depth, u128)> {
        self.outlines.iter().map(Outline::digest).collect()
    }

    /// Checks a page, and returns it in a form that the Parquet crate decodes correctly: without stray bytes
    /// after its levels, and with the right number of nulls in its header.
    ///
    /// Fails with `Corrupt` if the page has fewer levels than values, invalid levels, or lengths that do not
    /// fit its values.
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
        // The decoder does not need the number of plain values of varying length in a page of version 1.
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
        // If there are only zeros after the levels, which some writers add, nothing is cut, because the
        // Parquet crate ignores them. It also ignores all bytes after levels that are bit-packed (a
        // deprecated form).
        let has_more = behind.iter().any(|behind| behind.iter().any(|byte| *byte != 0));
        let are_runs = runs.iter().zip(self.highest).all(|(runs, highest)| highest == 0 || runs.is_some());
        let cut = (has_more && are_runs).then(|| parts.cut(behind));
        let mended = Mended { stored, values: parts.values.len(), cut };
        Ok(mended.page(page))
    }

    /// The number of a page's values, including nulls, and the parts of the page. The parts are `None` if the
    /// levels are longer than the page; everything is `None` for a dictionary.
    fn parts_of<'a>(&self, page: &'a Page) -> Option<(u32, Option<BodyParts<'a>>)> {
        match page {
            Page::DataPage { buf, num_values, rep_level_encoding, def_level_encoding, .. } => {
                let encodings = [*rep_level_encoding, *def_level_encoding];
                Some((*num_values, self.parts(buf, *num_values, encodings)))
            }
            Page::DataPageV2 { buf, num_values, def_levels_byte_len, rep_levels_byte_len, .. } => {
                let parts = || {
                    let (repetition, rest) = buf.split_at_checked(*rep_levels_byte_len as usize)?;
                    let (definition, values) = rest.split_at_checked(*def_levels_byte_len as usize)?;
                    Some(BodyParts { repetition: Some(repetition), definition: Some(definition), values })
                };
                Some((*num_values, parts()))
            }
            Page::DictionaryPage { .. } => None,
        }
    }

    /// The number of a page's values that are not null; `None` if its levels are bit-packed, which are not
    /// counted.
    fn stored(&self, parts: &BodyParts<'_>, values: usize) -> Option<usize> {
        match (self.highest[1], parts.definition) {
            (0, _) => Some(values),
            (highest, runs) => levels::highest_of(runs?, highest, values),
        }
    }

    /// The parts of a page of version 1; `None` if the levels are longer than the page.
    fn parts<'a>(&self, page: &'a Bytes, values: u32, encodings: [Encoding; 2]) -> Option<BodyParts<'a>> {
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
                // Bit-packed levels are deprecated. There is one for each value; otherwise the decoder fails.
                let bits = u64::from(values) * u64::from(i16::BITS - most.leading_zeros());
                rest = rest.get(usize::try_from(bits.div_ceil(8)).ok()?..)?;
            }
        }
        let [repetition, definition] = runs;
        Some(BodyParts { repetition, definition, values: rest })
    }
}

impl BodyParts<'_> {
    /// The levels of a page without the bytes `behind` the last level of each kind.
    fn cut(&self, behind: [&[u8]; 2]) -> Cut {
        let whole = |(runs, behind): (Option<&[u8]>, &[u8])| {
            runs.map(|runs| runs[..runs.len() - behind.len()].to_vec())
        };
        let runs = [self.repetition, self.definition].into_iter().zip(behind).map(whole).collect();
        Cut { runs, values: self.values.to_vec() }
    }
}

/// The parts of a page after other bytes behind its levels were removed.
struct Cut {
    /// The runs of repetition levels, then those of definition levels.
    runs: Vec<Option<Vec<u8>>>,
    values: Vec<u8>,
}

/// The corrections of a page that follow from its levels and values.
struct Mended {
    /// The number of values that are not null, if it is known.
    stored: Option<usize>,
    /// The number of bytes of the values.
    values: usize,
    cut: Option<Cut>,
}

impl Mended {
    /// Applies the corrections to the page.
    fn page(self, page: Page) -> Page {
        // A page in which all values are null is marked as plain, which needs neither a dictionary nor a
        // width of indices.
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

/// Whether `bytes` hold `stored` values of `width` bytes each. Further bytes are an error only in version 2:
/// its header, which has no checksum, then gives a wrong place for the beginning of the values.
fn are_plain(bytes: &[u8], stored: usize, width: usize, is_v2: bool) -> bool {
    let needed = stored.saturating_mul(width);
    bytes.len() == needed || bytes.len() > needed && !is_v2
}

/// Whether `bytes` hold all values of a page in `BYTE_STREAM_SPLIT`. The decoder would make up missing ones.
fn are_split(bytes: &[u8], stored: Option<usize>, width: usize) -> bool {
    match stored {
        Some(stored) => stored.checked_mul(width) == Some(bytes.len()),
        None => bytes.len().is_multiple_of(width),
    }
}

/// Whether the runs in `bytes` hold `stored` booleans or indices into a dictionary. The decoder would make up
/// missing indices of zero bits, and would accept runs with too few bytes.
fn are_in_runs(encoding: Encoding, bytes: &[u8], stored: usize) -> bool {
    let runs = match encoding {
        Encoding::RLE => split_levels(bytes).and_then(|(runs, _)| Runs::new(runs, 1)),
        _ => bytes.split_first().and_then(|(width, runs)| Runs::new(runs, (*width).into())),
    };
    runs.is_some_and(|mut runs| runs.each(stored, |_| Some(())).is_some())
}

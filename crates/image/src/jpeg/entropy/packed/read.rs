//! Reads packed coefficients, beginning in each row with the first MCU that is needed.

use super::super::block::{Block, COMPONENTS};
use super::super::library::DecodableScan;
use super::expand::{self, Escapes, PackedBlock};
use super::{BYTE_DC, FACTS, Facts, MARK, PADDING, STREAMS, WORD_DC};

/// The parts of packed coefficients. Each stream extends to the end of all bytes, so that whole registers can
/// be loaded anywhere in it.
struct CoefficientParts<'a> {
    header: &'a [u8],
    index: &'a [[u8; 4]],
    blocks: &'a [u8],
    streams: [&'a [u8]; STREAMS],
    mcus_per_row: usize,
    in_mcu: usize,
}

impl<'a> CoefficientParts<'a> {
    /// Splits the bytes into parts; `None` if the sizes do not fit together.
    fn split(packed: &'a [u8]) -> Option<CoefficientParts<'a>> {
        Facts::read(packed)?;
        let (head, rest) = packed.split_first_chunk::<FACTS>()?;
        let in_mcu = usize::from(head[MARK.len() + 11]);
        let numbers = head[MARK.len() + 12..].as_chunks::<4>().0;
        let numbers: [usize; 7] = std::array::from_fn(|at| u32::from_le_bytes(numbers[at]) as usize);
        let [header, mcus_per_row, mcu_rows, streams @ ..] = numbers;
        let in_row = mcus_per_row.checked_mul(in_mcu)?;
        let (header, rest) = rest.split_at_checked(header)?;
        let (index, rest) = rest.split_at_checked(mcu_rows.checked_mul(size_of::<[u32; STREAMS]>())?)?;
        let (blocks, rest) = rest.split_at_checked(mcu_rows.checked_mul(in_row)?)?;
        let mut from = 0usize;
        let starts = streams.map(|bytes| {
            let start = from;
            from = from.saturating_add(bytes);
            start
        });
        let sound = mcus_per_row > 0 && in_mcu > 0 && rest.len() == from.checked_add(PADDING)?;
        let streams = starts.map(|start| rest.get(start..).unwrap_or_default());
        sound.then_some(CoefficientParts {
            header,
            index: index.as_chunks().0,
            blocks,
            streams,
            mcus_per_row,
            in_mcu,
        })
    }
}

/// The header of the JPEG with these packed coefficients.
pub(in super::super) fn header(packed: &[u8]) -> Option<&[u8]> {
    CoefficientParts::split(packed).map(|parts| parts.header)
}

/// The position of the next block in each part.
#[derive(Clone, Copy, Default)]
struct BlockPlace {
    /// The number of blocks before the next block.
    block: usize,
    /// The number of bytes before the next block, in `bitmaps` and in the other streams.
    bitmaps: usize,
    nibbles: usize,
    bytes: usize,
    words: usize,
}

/// A function that reads an MCU into its blocks.
pub(super) type ReadMcu = for<'a> fn(&mut Reader<'a>, &mut [&mut Block]) -> Option<()>;

/// Reads the MCUs of packed coefficients in order.
pub(in super::super) struct Reader<'a> {
    parts: CoefficientParts<'a>,
    /// The component of each block of an MCU.
    components: &'a [u8],
    read_mcu: ReadMcu,
    /// The column of the next MCU that the caller reads or skips.
    column: usize,
    row: usize,
    /// The column of the MCU that is next in the streams. It may be before `column`, because skipped MCUs are
    /// counted only when a later one is read.
    read_column: usize,
    read_row: Option<usize>,
    place: BlockPlace,
    before: [i16; COMPONENTS],
    sound: bool,
}

impl<'a> Reader<'a> {
    /// Makes a reader. `scan` was started from the header of the coefficients, and `components` has the
    /// component of each block of an MCU. Returns `None` if the coefficients do not fit the scan.
    pub(super) fn new(
        packed: &'a [u8],
        scan: &DecodableScan<'_>,
        components: &'a [u8],
        read_mcu: ReadMcu,
    ) -> Option<Reader<'a>> {
        let parts = CoefficientParts::split(packed)?;
        let mcus = parts.mcus_per_row * (parts.index.len() / STREAMS);
        let fits = (mcus, parts.mcus_per_row) == (scan.mcus(), scan.mcus_per_row());
        (fits && parts.in_mcu == components.len()).then(|| Reader {
            parts,
            components,
            read_mcu,
            column: 0,
            row: 0,
            read_column: 0,
            read_row: None,
            place: BlockPlace::default(),
            before: [0; COMPONENTS],
            sound: true,
        })
    }

    /// Reads the next MCU into its blocks, or skips it.
    #[inline]
    pub(in super::super) fn next(&mut self, blocks: Option<&mut [&mut Block]>) {
        if let Some(blocks) = blocks {
            self.sound &= (self.read_mcu)(self, blocks).is_some();
        }
        self.column += 1;
        if self.column == self.parts.mcus_per_row {
            (self.column, self.row) = (0, self.row + 1);
        }
    }

    /// Whether everything that was read was valid.
    pub(in super::super) fn sound(&self) -> bool {
        self.sound
    }

    /// Reads the MCU that the caller asks for, using `expand` for its blocks and `count` for blocks that are
    /// skipped.
    #[inline(always)]
    pub(super) fn mcu(
        &mut self,
        blocks: &mut [&mut Block],
        expand: impl Fn(&PackedBlock<'_>, &mut Block) -> Escapes,
        count: impl Fn(&PackedBlock<'_>) -> (usize, usize),
    ) -> Option<()> {
        if self.read_row != Some(self.row) {
            self.begin_row()?;
        }
        while self.read_column < self.column {
            for at in 0..self.components.len() {
                if let Some(packed) = self.block(at)?.0 {
                    let (bytes, words) = count(&packed);
                    self.pass(bytes, words);
                }
            }
            self.read_column += 1;
        }
        for (at, block) in blocks.iter_mut().enumerate() {
            let (packed, dc) = self.block(at)?;
            if let Some(packed) = packed {
                let escapes = expand(&packed, block);
                self.place.bytes += escapes.bytes as usize;
                if escapes.words != 0 {
                    self.widen(packed.bitmap, escapes.words, block)?;
                }
            } else {
                **block = [0; 64];
            }
            block[0] = dc;
        }
        self.read_column += 1;
        Some(())
    }

    #[cold]
    fn begin_row(&mut self) -> Option<()> {
        let index = self.parts.index.get(self.row * STREAMS..)?.first_chunk::<STREAMS>()?;
        let [bitmaps, nibbles, bytes, words] = index.map(|number| u32::from_le_bytes(number) as usize);
        let block = self.row * self.parts.mcus_per_row * self.parts.in_mcu;
        self.place = BlockPlace { block, bitmaps, nibbles, bytes, words };
        (self.read_row, self.read_column, self.before) = (Some(self.row), 0, [0; COMPONENTS]);
        Some(())
    }

    /// Reads the next block's DC, and its AC coefficients if it has any. Bytes and words of AC remain to be
    /// read.
    #[inline(always)]
    fn block(&mut self, in_mcu: usize) -> Option<(Option<PackedBlock<'a>>, i16)> {
        let CoefficientParts { blocks, streams: [bitmaps, nibbles, bytes, _], .. } = self.parts;
        let head = *blocks.get(self.place.block)?;
        self.place.block += 1;
        let length = head & 15;
        // Nibbles and bytes are not told apart by a branch, which the processor could not predict. A byte can
        // always be loaded, because padding follows the bytes.
        let (nibble, byte) = (head as i8 >> 4, *bytes.get(self.place.bytes)? as i8);
        let is_byte = nibble == BYTE_DC;
        self.place.bytes += usize::from(is_byte);
        let mut difference = i16::from(if is_byte { byte } else { nibble });
        if is_byte && byte == WORD_DC {
            difference = self.word()?;
        }
        let component = usize::from(*self.components.get(in_mcu)?) % COMPONENTS;
        let dc = self.before[component].wrapping_add(difference);
        self.before[component] = dc;
        if length == 0 {
            return Some((None, dc));
        }
        let bits = (u64::BITS as u8).checked_sub(length * 8)?;
        let place = &mut self.place;
        let bitmap = u64::from_le_bytes(*bitmaps.get(place.bitmaps..)?.first_chunk()?) & (u64::MAX >> bits);
        // A block has 63 AC coefficients.
        let bitmap = bitmap & (u64::MAX >> 1);
        let packed = PackedBlock {
            bitmap,
            nibbles: nibbles.get(place.nibbles..)?.first_chunk()?,
            bytes: bytes.get(place.bytes..)?.first_chunk()?,
        };
        place.bitmaps += usize::from(length);
        place.nibbles += packed.count().div_ceil(2) as usize;
        Some((Some(packed), dc))
    }

    /// Skips `bytes` bytes and `words` words.
    #[inline(always)]
    fn pass(&mut self, bytes: usize, words: usize) {
        self.place.bytes += bytes;
        self.place.words += words * size_of::<i16>();
    }

    /// Sets the coefficients of a block that are stored as words. Bit `i` of `which` is set if the non-zero
    /// coefficient number `i` is stored as a word.
    #[cold]
    fn widen(&mut self, bitmap: u64, which: u64, block: &mut Block) -> Option<()> {
        for at in
            expand::places(bitmap).zip(0..).filter(|(_, at)| which >> at & 1 == 1).map(|(place, _)| place)
        {
            block[at] = self.word()?;
        }
        Some(())
    }

    fn word(&mut self) -> Option<i16> {
        let bytes = self.parts.streams[3].get(self.place.words..)?.first_chunk()?;
        self.place.words += size_of::<i16>();
        Some(i16::from_le_bytes(*bytes))
    }
}

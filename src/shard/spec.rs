//! The values with which a user chooses the order of rows ([`Shuffle`]) and says which process this is
//! ([`Shard`]).

use forebay_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// The share of one rank: `rank` of `world` training processes. The default is a single process.
///
/// ```
/// use forebay::Shard;
///
/// let shard = Shard::new(3, 8)?;
/// assert_eq!((shard.rank(), shard.world()), (3, 8));
/// assert!(Shard::new(8, 8).is_err(), "ranks count from 0");
/// # Ok::<(), forebay::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Shard {
    rank: u32,
    world: u32,
}

/// A share as it was deserialised, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    rank: u32,
    world: u32,
}

impl TryFrom<Unchecked> for Shard {
    type Error = Error;

    fn try_from(Unchecked { rank, world }: Unchecked) -> Result<Self> {
        Shard::new(rank, world)
    }
}

impl Shard {
    /// Rank `rank` (from 0) of `world` processes.
    ///
    /// # Errors
    /// `Invalid` if `world` is 0, or if `rank` is not below it.
    pub fn new(rank: u32, world: u32) -> Result<Self> {
        if world == 0 {
            return Err(Error::invalid("world is 0").hint("world counts the training processes: 1 or more"));
        }
        if rank >= world {
            return Err(Error::invalid(format!("rank {rank} is outside a world of {world}"))
                .hint(format!("ranks run from 0 to {}", world - 1)));
        }
        Ok(Shard { rank, world })
    }

    /// The number of this process among [`world`](Self::world) processes, from 0.
    pub fn rank(self) -> u32 {
        self.rank
    }

    /// The number of processes that share the data set.
    pub fn world(self) -> u32 {
        self.world
    }
}

impl Default for Shard {
    /// The share of a single process.
    fn default() -> Self {
        Shard { rank: 0, world: 1 }
    }
}

/// How rows are shuffled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mixing {
    /// No shuffle: rows come as they are stored.
    Stored,
    /// A shuffle buffer of several row groups, which come in random order. The default when a shuffle is
    /// asked for.
    #[default]
    Window,
    /// A uniform permutation of all rows.
    Exact,
}

impl Mixing {
    /// The name of the mixing in Rust, in Python and in saved positions.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Mixing::Stored => "stored",
            Mixing::Window => "window",
            Mixing::Exact => "exact",
        }
    }
}

/// The order of an epoch: as stored, shuffled within a window, or a uniform permutation. Default: as stored.
///
/// ```
/// use forebay::Shuffle;
/// let windowed = Shuffle::seeded(17).window_rows(65_536);
/// let uniform = Shuffle::exact(17);
/// let stored = Shuffle::stored();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shuffle {
    #[serde(default)]
    pub(crate) mixing: Mixing,
    #[serde(default)]
    pub(crate) seed: u64,
    #[serde(default)]
    pub(crate) window_rows: Option<u64>,
    #[serde(default)]
    pub(crate) lanes: Option<u32>,
    #[serde(default)]
    pub(crate) piece_rows: Option<u64>,
}

impl Shuffle {
    /// The ways to mix rows, by name.
    pub const MIXINGS: [&str; 3] = [Mixing::Window.name(), Mixing::Exact.name(), Mixing::Stored.name()];

    /// Puts row groups in random order, and shuffles their rows within a window of
    /// [`window_rows`](Self::window_rows): a shuffle buffer, except that the order of its rows is planned.
    ///
    /// In epoch 0 rows are delivered while the window still fills, so that the first batch does not wait for
    /// the whole window: the first batches come from few row groups.
    pub fn seeded(seed: u64) -> Self {
        Shuffle { mixing: Mixing::Window, seed, window_rows: None, lanes: None, piece_rows: None }
    }

    /// A uniform permutation of all rows. Each batch needs rows of every row group, so without a row cache
    /// all rows have to fit the memory budget.
    pub fn exact(seed: u64) -> Self {
        Shuffle { mixing: Mixing::Exact, ..Shuffle::seeded(seed) }
    }

    /// No shuffle: the stored rows are cut into [`lanes`](Self::lanes), and each lane delivers its rows as
    /// they are stored.
    pub fn stored() -> Self {
        Shuffle { mixing: Mixing::Stored, ..Shuffle::seeded(0) }
    }

    /// Sets the number of rows in the window of each lane. They are rounded to whole row groups of average
    /// size, at least one.
    ///
    /// The default is the number of rows that 1 GiB of memory holds once Parquet is decoded (images still
    /// compressed). It depends on the data set and the columns, never on the machine. Other orders have no
    /// window and refuse one.
    #[must_use]
    pub fn window_rows(self, rows: u64) -> Self {
        Shuffle { window_rows: Some(rows), ..self }
    }

    /// Cuts row groups of more than `rows` rows into pieces of at most that number, each of which is read
    /// separately: for row groups that take too much memory as a whole. The pieces of a row group are as
    /// equal as its rows allow, and come in random order like row groups; the window counts pieces. Reading a
    /// piece reads each page that has rows of it, so a piece should have several pages of rows; a column of
    /// lists is read as a whole for each piece.
    ///
    /// By default row groups are not cut. The cut is a part of the order, and of a position.
    #[must_use]
    pub fn piece_rows(self, rows: u64) -> Self {
        Shuffle { piece_rows: Some(rows), ..self }
    }

    /// Sets the number of interleaved lanes that make up the order of an epoch. As long as this number stays
    /// the same, the order does not depend on the world size (the number of processes). If the world size
    /// divides the number of lanes, and the number of lanes divides the global batch, each rank reads only
    /// lanes of its own in full steps. The default is the world size with which the run was first started,
    /// or the number of rows if that is smaller.
    #[must_use]
    pub fn lanes(self, lanes: u32) -> Self {
        Shuffle { lanes: Some(lanes), ..self }
    }

    /// The seed from which order and augmentation are drawn; 0 for the stored order.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The same order, with values filled in that the user left open.
    pub(crate) fn settled(self, lanes: u32, window_rows: u64) -> Self {
        let default = (self.mixing == Mixing::Window).then_some(window_rows.max(1));
        Shuffle { lanes: Some(lanes), window_rows: self.window_rows.or(default), ..self }
    }

    /// Refuses numbers that cannot work for any data set.
    pub(crate) fn validate(&self) -> Result<()> {
        if self.window_rows == Some(0) {
            return Err(Error::invalid("window_rows is 0")
                .hint("give at least 1 row; the stored order has no window"));
        }
        if self.piece_rows == Some(0) {
            return Err(Error::invalid("piece_rows is 0").hint("a piece has 1 row or more"));
        }
        let of_windows = [("window_rows", self.window_rows), ("piece_rows", self.piece_rows)];
        let given = of_windows.into_iter().find_map(|(option, rows)| rows.map(|_| option));
        if let Some(option) = given.filter(|_| self.mixing != Mixing::Window) {
            return Err(Error::invalid(format!("{option} is given to the {} order", self.mixing.name()))
                .hint(format!("leave out `{option}`: only a shuffle through a window has any")));
        }
        if self.lanes == Some(0) {
            return Err(Error::invalid("lanes is 0").hint("leave out `lanes` to have one for each rank"));
        }
        Ok(())
    }
}

impl Default for Shuffle {
    /// The stored order.
    fn default() -> Self {
        Shuffle::stored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixing_has_one_name_in_text_and_json() {
        for name in Shuffle::MIXINGS {
            let mixing: Mixing = serde_json::from_str(&format!("{name:?}")).unwrap();
            assert_eq!(mixing.name(), name);
            assert_eq!(serde_json::to_string(&mixing).unwrap(), format!("{name:?}"));
        }
    }

    #[test]
    fn only_a_window_has_rows_and_pieces() {
        for order in [Shuffle::exact(1), Shuffle::stored()] {
            assert!(order.validate().is_ok());
            for (given, option) in
                [(order.window_rows(9), "window_rows"), (order.piece_rows(9), "piece_rows")]
            {
                let error = given.validate().unwrap_err().to_string();
                assert!(
                    error.contains(&format!("{option} is given to the {} order", order.mixing.name())),
                    "{error}"
                );
            }
        }
        assert!(Shuffle::seeded(1).window_rows(9).piece_rows(9).validate().is_ok());
    }
}

//! The share of a process in a mesh: a grid of processes with named axes, of which only some divide the data.

use forebay_base::{Error, Result};

use super::spec::Shard;

impl Shard {
    /// The share of the process with this number in a mesh. The processes of a mesh are counted along the
    /// last axis first, as PyTorch and JAX count them. `axes` has the name and the size of each axis, and
    /// `data` the names of those that divide the data. All processes with the same coordinates on these axes
    /// have the same share: they hold parts of one replica of the model, which all need the same rows. If
    /// several axes divide the data, shares are counted along the last of `data` first.
    ///
    /// ```
    /// use forebay::Shard;
    ///
    /// // Two pipeline stages, four replicas, two tensor-parallel parts: 16 processes.
    /// let mesh = [("pp", 2), ("dp", 4), ("tp", 2)];
    /// assert_eq!(Shard::from_mesh(5, mesh, ["dp"])?, Shard::new(2, 4)?);
    /// assert_eq!(Shard::from_mesh(12, mesh, ["dp"])?, Shard::new(2, 4)?);
    /// # Ok::<(), forebay::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Invalid` if an axis has no size, or the mesh has 2^32 processes or more; if `data` is empty, names an
    /// axis twice, or names one that the mesh lacks; or if `rank` is not below the number of processes.
    pub fn from_mesh<'a>(
        rank: u32,
        axes: impl IntoIterator<Item = (&'a str, u32)>,
        data: impl IntoIterator<Item = &'a str>,
    ) -> Result<Shard> {
        let axes: Vec<(&str, u32)> = axes.into_iter().collect();
        let names = || axes.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        if let Some((name, _)) = axes.iter().find(|(_, size)| *size == 0) {
            return Err(Error::invalid(format!("the axis {name:?} of the mesh has a size of 0"))
                .hint("sizes count processes: 1 or more"));
        }
        let mut processes = 1_u32;
        // For each axis, its name, its size, and the coordinate of the process.
        let mut coordinates: Vec<(&str, u32, u32)> = Vec::with_capacity(axes.len());
        for &(name, size) in axes.iter().rev() {
            if coordinates.iter().any(|(other, ..)| *other == name) {
                return Err(
                    Error::invalid(format!("the mesh has two axes {name:?}")).hint("rename one of them")
                );
            }
            coordinates.push((name, size, rank / processes % size));
            processes = processes.checked_mul(size).ok_or_else(|| {
                Error::invalid("the mesh has 2^32 processes or more").hint("correct the sizes of its axes")
            })?;
        }
        if rank >= processes {
            return Err(Error::invalid(format!("rank {rank} is outside a mesh of {processes} processes"))
                .hint("give the mesh the sizes of all of its axes, and the rank among its processes"));
        }
        let (mut share, mut shares, mut seen) = (0, 1, Vec::new());
        for name in data {
            let found = coordinates.iter().find(|(other, ..)| *other == name);
            let Some(&(_, size, coordinate)) = found else {
                return Err(Error::invalid(format!("the mesh has no axis {name:?}"))
                    .hint(format!("its axes are {}", names())));
            };
            if seen.contains(&name) {
                return Err(Error::invalid(format!("the axis {name:?} is named twice")).hint("name it once"));
            }
            seen.push(name);
            (share, shares) = (share * size + coordinate, shares * size);
        }
        if seen.is_empty() {
            return Err(Error::invalid("no axis of the mesh divides the data")
                .hint(format!("name those that do, of {}", names())));
        }
        Shard::new(share, shares)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn replicas_have_the_same_share() {
        let mesh = [("pp", 2), ("dp", 3), ("tp", 2)];
        let shares = |data: &[&'static str]| -> Vec<u32> {
            (0..12).map(|rank| Shard::from_mesh(rank, mesh, data.iter().copied()).unwrap().rank()).collect()
        };
        assert_eq!(shares(&["dp"]), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
        assert_eq!(shares(&["pp", "dp"]), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
        assert_eq!(shares(&["dp", "pp"]), [0, 0, 2, 2, 4, 4, 1, 1, 3, 3, 5, 5]);
        assert_eq!(shares(&["pp", "dp", "tp"]), (0..12).collect::<Vec<_>>());
    }

    #[test]
    fn a_mesh_that_cannot_be_is_refused() {
        let refused = |rank, axes: &[(&'static str, u32)], data: &[&'static str]| {
            Shard::from_mesh(rank, axes.iter().copied(), data.iter().copied()).unwrap_err().to_string()
        };
        for (error, cause) in [
            (refused(8, &[("dp", 4), ("tp", 2)], &["dp"]), "rank 8 is outside a mesh of 8 processes"),
            (refused(0, &[("dp", 4)], &["data"]), "no axis \"data\" (its axes are dp)"),
            (refused(0, &[("dp", 4)], &[]), "no axis of the mesh divides the data"),
            (refused(0, &[("dp", 4)], &["dp", "dp"]), "named twice"),
            (refused(0, &[("dp", 4), ("dp", 2)], &["dp"]), "two axes \"dp\""),
            (refused(0, &[("dp", 0)], &["dp"]), "size of 0"),
            (refused(0, &[("dp", 1 << 20), ("tp", 1 << 20)], &["dp"]), "2^32 processes"),
            (refused(0, &[], &[]), "no axis of the mesh divides the data"),
        ] {
            assert!(error.contains(cause), "{cause}: {error}");
        }
    }

    proptest! {
        /// The model lists all coordinates in nested loops, and counts the different ones on the axes of the
        /// data.
        #[test]
        fn shares_are_those_of_the_coordinates(
            sizes in prop::collection::vec(1_u32..5, 1..5),
            chosen in prop::collection::vec(any::<bool>(), 5),
        ) {
            const NAMES: [&str; 4] = ["a", "b", "c", "d"];
            let axes: Vec<(&str, u32)> = NAMES.into_iter().zip(sizes.iter().copied()).collect();
            let data: Vec<usize> = (0..axes.len()).filter(|axis| chosen[*axis]).collect();
            prop_assume!(!data.is_empty());
            let mut places: Vec<Vec<u32>> = vec![vec![]];
            for size in &sizes {
                let longer = |place: &Vec<u32>| (0..*size).map(|at| [&place[..], &[at]].concat()).collect::<Vec<_>>();
                places = places.iter().flat_map(longer).collect();
            }
            let of_data = |place: &Vec<u32>| -> Vec<u32> { data.iter().map(|axis| place[*axis]).collect() };
            let mut all: Vec<Vec<u32>> = places.iter().map(of_data).collect();
            all.sort_unstable();
            all.dedup();
            for (rank, place) in (0..).zip(&places) {
                let shard = Shard::from_mesh(rank, axes.clone(), data.iter().map(|axis| NAMES[*axis])).unwrap();
                let wanted = all.iter().position(|one| *one == of_data(place)).unwrap();
                prop_assert_eq!((shard.rank() as usize, shard.world() as usize), (wanted, all.len()));
            }
        }
    }
}

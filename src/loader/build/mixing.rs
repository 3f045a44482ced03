//! The list of options that only a mix has.

use crate::loader::spec::LoaderSpec;

/// The names of the options that only a mix has.
pub(super) const OF_MIXES: [&str; 7] =
    ["schedule", "by", "random_shares", "stop", "repeat", "max_passes", "source"];

/// The name of the first option among [`OF_MIXES`] that is not at its default.
pub(super) fn of_mixes(spec: &LoaderSpec) -> Option<&'static str> {
    let default = LoaderSpec::default();
    let given = [
        !spec.schedule.is_empty(),
        !spec.by.is_empty(),
        spec.random_shares.is_some(),
        spec.stop != default.stop,
        spec.repeat != default.repeat,
        !spec.max_passes.is_empty(),
        spec.source,
    ];
    OF_MIXES.into_iter().zip(given).find(|(_, given)| *given).map(|(name, _)| name)
}

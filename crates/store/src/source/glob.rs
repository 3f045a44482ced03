//! Matches globs against paths: `*` and `?` stand for characters in a name, `[abc]` and `[!a-z]` for one
//! character, and `**` for any number of folders.
//!
//! The crate `globset` is not used: it would replace only the 60 lines here that match one name, and would
//! add two crates. `globset` also cannot find the folders that a glob may reach into.

use std::path::{Component, Path, PathBuf};

/// The characters that make a name a pattern.
pub(super) const WILDCARDS: [char; 3] = ['*', '?', '['];

/// Whether a name has wildcards.
pub fn is_pattern(name: &str) -> bool {
    name.contains(WILDCARDS)
}

/// Whether a pattern matches a whole name.
pub fn matches_name(pattern: &str, name: &str) -> bool {
    name_matches(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
}

/// Whether a pattern of a path, with `/` between its names, matches a path or a folder above it.
pub(super) fn matches_path(pattern: &str, path: &str) -> bool {
    let names = |text: &str| -> Vec<Vec<char>> {
        text.split('/').filter(|name| !name.is_empty()).map(|name| name.chars().collect()).collect()
    };
    let (pattern, path) = (names(pattern), names(path));
    (1..=path.len()).any(|depth| path_matches(&pattern, &path[..depth]))
}

/// A glob: the folder where it begins, and a pattern for each name of the path after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    /// The glob as it was written.
    path: PathBuf,
    base: PathBuf,
    segments: Vec<Vec<char>>,
}

/// The segment `**`, which stands for any number of folders.
const ANY_DEPTH: [char; 2] = ['*', '*'];

impl Glob {
    /// Splits a path before its first name with a wildcard. Returns `None` if there is no wildcard.
    pub(super) fn split(path: &Path) -> Option<Glob> {
        let mut base = PathBuf::new();
        let mut segments: Vec<Vec<char>> = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => {
                    let name = name.to_string_lossy();
                    if segments.is_empty() && !name.contains(WILDCARDS) {
                        base.push(component);
                    } else {
                        segments.push(name.chars().collect());
                    }
                }
                other => base.push(other),
            }
        }
        if segments.is_empty() {
            return None;
        }
        if base.as_os_str().is_empty() {
            base.push(".");
        }
        Some(Glob { path: path.to_owned(), base, segments })
    }

    /// The glob as it was written.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder where the glob begins. It is `.` if the first name already has a wildcard.
    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    /// Whether the glob itself contains `key=`. Such a key of `key=value` folders does not become a column.
    pub(super) fn spells(&self, key: &str) -> bool {
        let spelled =
            |segment: &Vec<char>| segment.starts_with(&key.chars().chain(['=']).collect::<Vec<_>>());
        self.segments.iter().any(spelled)
    }

    /// Finds out if the glob matches the file at the path `relative`, or a folder above it.
    pub(super) fn reach(&self, relative: &str) -> Reach {
        let names: Vec<Vec<char>> = relative.split('/').map(|name| name.chars().collect()).collect();
        if path_matches(&self.segments, &names) {
            return Reach::Whole;
        }
        match (1..names.len()).find(|&depth| path_matches(&self.segments, &names[..depth])) {
            Some(depth) => Reach::Folder(depth),
            None => Reach::No,
        }
    }

    /// Whether the glob matches the folder at the path `relative`, or may match something below it.
    pub(super) fn may_reach_below(&self, relative: &str) -> bool {
        let mut segments = self.segments.iter();
        for name in relative.split('/') {
            match segments.next() {
                // The folder is below one that the glob matches, or below `**`, which stands for any folders.
                None => return true,
                Some(segment) if segment[..] == ANY_DEPTH => return true,
                Some(segment) if !name_matches(segment, &name.chars().collect::<Vec<_>>()) => return false,
                Some(_) => {}
            }
        }
        true
    }

    /// The number of leading names of the glob before `**`. Down to this depth, the names of folders show
    /// what the glob may reach into.
    pub(super) fn named_depth(&self) -> usize {
        self.segments.iter().take_while(|segment| segment[..] != ANY_DEPTH).count()
    }

    /// Whether the glob's last name has a suffix. Files with this suffix are then wanted, even if it is not
    /// `.parquet`.
    pub(super) fn names_a_suffix(&self) -> bool {
        let last = self.segments.last().map_or(&[][..], |last| &last[..]);
        match last.iter().rposition(|&c| c == '.') {
            Some(dot) => last[dot + 1..].iter().any(|&c| c != '*'),
            None => false,
        }
    }
}

/// How a glob matches a file.
#[derive(Debug, PartialEq)]
pub(super) enum Reach {
    /// The glob matches the file itself.
    Whole,
    /// The glob matches a folder above the file: the folder with this many leading names of the file's path.
    Folder(usize),
    /// The glob matches neither the file nor a folder above it.
    No,
}

fn path_matches(pattern: &[Vec<char>], names: &[Vec<char>]) -> bool {
    match pattern.split_first() {
        None => names.is_empty(),
        Some((first, rest)) if first[..] == ANY_DEPTH => {
            (0..=names.len()).any(|skipped| path_matches(rest, &names[skipped..]))
        }
        Some((first, rest)) => names
            .split_first()
            .is_some_and(|(name, names)| name_matches(first, name) && path_matches(rest, names)),
    }
}

fn name_matches(pattern: &[char], name: &[char]) -> bool {
    // If the characters after a star do not match, it is enough to let the last star (`star`) take one more
    // character. Earlier stars need not be tried again.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some(_) => {
                if let Some(next) = one_matches(pattern, p, name[n]) {
                    p = next;
                    n += 1;
                    continue;
                }
            }
            None => {}
        }
        match star {
            Some((at, from)) => {
                p = at + 1;
                n = from + 1;
                star = Some((at, from + 1));
            }
            None => return false,
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// Matches one character: if the part of the pattern at `p` (a character, `?` or brackets) matches `c`,
/// returns the position of the next part.
fn one_matches(pattern: &[char], p: usize, c: char) -> Option<usize> {
    if pattern[p] == '?' {
        return Some(p + 1);
    }
    if pattern[p] != '[' {
        return (pattern[p] == c).then_some(p + 1);
    }
    let negated = matches!(pattern.get(p + 1), Some('!' | '^'));
    let from = p + 1 + usize::from(negated);
    // A `[` without a `]` is a plain character, and so is a `]` directly after the `[`.
    let Some(length) = pattern.get(from + 1..).and_then(|rest| rest.iter().position(|&c| c == ']')) else {
        return (c == '[').then_some(p + 1);
    };
    let set = &pattern[from..=from + length];
    let mut inside = false;
    let mut i = 0;
    while i < set.len() {
        if i + 2 < set.len() && set[i + 1] == '-' {
            inside |= (set[i]..=set[i + 2]).contains(&c);
            i += 3;
        } else {
            inside |= set[i] == c;
            i += 1;
        }
    }
    (inside != negated).then_some(from + length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(pattern: &str, path: &str) -> Reach {
        let glob = Glob::split(Path::new(pattern)).unwrap();
        assert_eq!(glob.base(), Path::new("."));
        glob.reach(path)
    }

    #[test]
    fn a_path_splits_at_its_first_wildcard() {
        let glob = Glob::split(Path::new("/data/a=1/part-*.parquet")).unwrap();
        assert_eq!(glob.base(), Path::new("/data/a=1"));
        assert_eq!(glob.path(), Path::new("/data/a=1/part-*.parquet"));
        assert!(glob.names_a_suffix());
        assert!(Glob::split(Path::new("/data/plain")).is_none());
        assert!(!Glob::split(Path::new("x/*")).unwrap().names_a_suffix());
    }

    #[test]
    fn each_wildcard_matches_what_it_should() {
        for (pattern, path) in [
            ("*.parquet", "a.parquet"),
            ("p?rt-*-*.parquet", "part-1-2.parquet"),
            ("a[0-9]x", "a7x"),
            ("a[!0-9]x", "aqx"),
            ("a[]]x", "a]x"),
            ("**/*.parquet", "a.parquet"),
            ("**/*.parquet", "x/y/a.parquet"),
            ("year=*/month=1?/a*", "year=2024/month=12/abc"),
            ("*a*b*c", "aabbcc"),
            ("é*", "été"),
        ] {
            assert_eq!(reach(pattern, path), Reach::Whole, "{pattern} {path}");
        }
        for (pattern, path) in [("*.parquet", "x/a.parquet"), ("a?", "a"), ("a[0-9]", "ax"), ("[ab", "a")] {
            assert_eq!(reach(pattern, path), Reach::No, "{pattern} {path}");
        }
        assert_eq!(reach("year=*", "year=1/x/a.parquet"), Reach::Folder(1));
    }

    #[test]
    fn only_folders_that_the_pattern_may_reach_into_are_entered() {
        let enters =
            |pattern: &str, folder: &str| Glob::split(Path::new(pattern)).unwrap().may_reach_below(folder);
        for (pattern, folder) in [
            ("*/2024-*/part-?.parquet", "a"),
            ("*/2024-*/part-?.parquet", "a/2024-01"),
            ("*/2024-*", "a/2024-01/deep/deeper"),
            ("**/x.parquet", "a/b/c"),
            ("a*/**/x.parquet", "ab/c/d"),
            ("a*/b/*.parquet", "ab/b"),
        ] {
            assert!(enters(pattern, folder), "{pattern} {folder}");
        }
        for (pattern, folder) in [
            ("*.parquet", "a"),
            ("*/2024-*/part-?.parquet", "a/2023-12"),
            ("a*/**/x.parquet", "b"),
            ("a*/b/*.parquet", "ab/c"),
        ] {
            assert!(!enters(pattern, folder), "{pattern} {folder}");
        }
    }

    #[test]
    fn names_tell_what_is_reached_up_to_any_depth() {
        let depth = |pattern: &str| Glob::split(Path::new(pattern)).unwrap().named_depth();
        assert_eq!(depth("t/*.parquet"), 1);
        assert_eq!(depth("*/2024-*/part-?.parquet"), 3);
        assert_eq!(depth("*/**/x"), 1);
        assert_eq!(depth("**/*/x"), 0);
    }
}

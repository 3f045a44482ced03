//! Chooses the files of one split of a folder that is laid out like a data set of the Hugging Face hub.
//!
//! The front matter of the folder's `README.md`, its card, may list configurations, and for each the files of
//! its splits. Otherwise the names of files and folders show the splits, as `datasets` finds them.

mod card;
mod names;

use std::collections::BTreeSet;

use forebay_base::error::{listed, nearest};
use forebay_base::{Error, ErrorKind, Place, Result};
use object_store::path::Path;

use super::glob::matches_path;
use super::list::{pinned, several_splits};
use super::store::Store;
use crate::snapshot::Snapshot;
use card::{BY_GLOB, Config};
use names::UnfitNames;

/// The name of the card.
const CARD: &str = "README.md";

/// The most bytes of a card that are read. Cards with the names of 20,000 classes are smaller.
const MAX_CARD_BYTES: u64 = 8 << 20;

/// The most names that a message lists.
const NAMES_SHOWN: usize = 10;

/// The part of a folder to open, if it is laid out like a data set of the Hugging Face hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HubPart {
    /// The split, such as `train`. Default: the files of all splits.
    pub split: Option<String>,
    /// The configuration. Default: the default configuration of the card, or the only one.
    pub config: Option<String>,
}

impl HubPart {
    /// Leaves only the files of this part in a snapshot of a folder.
    ///
    /// # Errors
    /// `Invalid` if the location is not a single folder, if there is no such split or configuration, or if
    /// the card is malformed.
    pub(super) async fn choose(&self, store: &Store, snapshot: &mut Snapshot) -> Result<()> {
        if *self == HubPart::default() {
            return Ok(());
        }
        let [folder] = &mut snapshot.indexes[..] else {
            return Err(Error::invalid("`split` and `config` choose among the files of one folder")
                .hint("give the folder of the data set, or leave them out"));
        };
        let place = Place::file(snapshot.root.as_str());
        if !folder.is_whole || !snapshot.tables.is_empty() {
            return Err(Error::invalid("`split` and `config` choose among the files of a folder")
                .hint("give the folder of the data set itself, not a glob or a table")
                .at(place));
        }
        // The location opened a part of the folder, so its index must not be written.
        folder.is_whole = false;
        let (above, _) = folder.path.as_ref().rsplit_once('/').unwrap_or_default();
        let card = Path::parse(format!("{above}/{CARD}").trim_start_matches('/'))
            .map_err(|error| Error::invalid(error.to_string()))?;
        let at_card = Place::file(store.shown(folder.volume, &card));
        let configs = match pinned(store, folder.volume, &card).await? {
            Some(pin) if pin.size > 0 => {
                let front = 0..pin.size.min(MAX_CARD_BYTES);
                let bytes = store.read(folder.volume, &pin, std::slice::from_ref(&front)).await?;
                let text = bytes.first().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                card::configs(&text.unwrap_or_default()).map_err(|error| error.at(at_card.clone()))?
            }
            _ => Vec::new(),
        };
        let paths: Vec<&str> = snapshot.files.iter().map(|file| file.relative.as_str()).collect();
        let kept = match configs.is_empty() {
            true => self.by_names(&paths).map_err(|error| error.at(place))?,
            false => self.by_card(&configs, &paths).map_err(|error| error.at(at_card))?,
        };
        let mut kept = kept.into_iter();
        snapshot.files.retain(|_| kept.next().unwrap_or(false));
        let left = snapshot.files.iter().map(|file| file.relative.as_str());
        snapshot.splits = match self.split {
            Some(_) => Vec::new(),
            None => several_splits(&snapshot.root, left).into_iter().collect(),
        };
        Ok(())
    }

    /// For each file, whether the card lists it for this part.
    fn by_card(&self, configs: &[Config], paths: &[&str]) -> Result<Vec<bool>> {
        let config = self.config_of(configs)?;
        if config.splits.is_empty() {
            return self.below(config.folder.as_deref(), paths, Some(config));
        }
        let wanted =
            config.splits.iter().filter(|(split, _)| self.split.as_ref().is_none_or(|of| of == split));
        let patterns: Vec<&String> = wanted.flat_map(|(_, patterns)| patterns).collect();
        if patterns.is_empty() {
            let whose = format!("configuration {:?} of the card", config.name);
            let splits = config.splits.iter().map(|(split, _)| split.as_str());
            return Err(match &self.split {
                Some(split) if !splits.clone().any(|of| of == split) => {
                    self.no_split(splits, &format!("{whose} has"))
                }
                Some(split) => {
                    Error::invalid(format!("{whose} lists no file of split {split:?}")).hint(BY_GLOB)
                }
                None => Error::invalid(format!("{whose} lists no file")).hint(BY_GLOB),
            });
        }
        // A path without wildcards names a file that has to be there.
        let is_path = |pattern: &&&String| !pattern.contains(['*', '?', '[', '{']);
        let mut named = patterns.iter().filter(is_path);
        let missing = named.find(|pattern| !paths.iter().any(|path| matches_path(pattern, path)));
        let found: Vec<bool> =
            paths.iter().map(|path| patterns.iter().any(|pattern| matches_path(pattern, path))).collect();
        if found.contains(&true) {
            return match missing {
                Some(missing) => Err(Error::new(
                    ErrorKind::NotFound,
                    format!("the card lists {missing}, which is not there"),
                )
                .hint("complete the copy of the data set, or name the files by a glob, without `split` and `config`")),
                None => Ok(found),
            };
        }
        let patterns = listed(patterns, NAMES_SHOWN);
        let cause = format!("the card lists {patterns}, which is no Parquet file here");
        let hint = "the hub has most data sets as Parquet: hf://datasets/owner/name@refs/convert/parquet";
        Err(Error::new(ErrorKind::NotFound, cause).hint(hint))
    }

    /// The configuration of the card that is meant.
    fn config_of<'a>(&self, configs: &'a [Config]) -> Result<&'a Config> {
        let named = |name: &str| configs.iter().find(|config| config.name == name);
        let names = || configs.iter().map(|config| config.name.as_str());
        match (&self.config, configs) {
            (Some(name), _) => named(name).ok_or_else(|| {
                Error::invalid(format!("the card has no configuration {name:?}"))
                    .hint(format!("it has {}", listed_near(name, names())))
            }),
            (None, [only]) => Ok(only),
            (None, _) => {
                let default = configs.iter().find(|config| config.is_default).or_else(|| named("default"));
                default.ok_or_else(|| {
                    Error::invalid(format!("the card has {} configurations", configs.len()))
                        .hint(format!("choose one with `config`: {}", listed(names(), NAMES_SHOWN)))
                })
            }
        }
    }

    /// For each file, whether the names of its folders and the file show that it is in this part.
    fn by_names(&self, paths: &[&str]) -> Result<Vec<bool>> {
        let Some(config) = &self.config else { return self.below(None, paths, None) };
        let of_config = format!("{}/", config.trim_end_matches('/'));
        if paths.iter().any(|path| path.starts_with(&of_config)) {
            return self.below(Some(config), paths, None);
        }
        let folders: BTreeSet<&str> =
            paths.iter().filter_map(|path| path.split_once('/')).map(|(folder, _)| folder).collect();
        let hint = match folders.len() {
            0 => "leave out `config`: all Parquet files are in the folder itself".to_owned(),
            _ => {
                format!("the folders with Parquet files are {}", listed_near(config, folders.iter().copied()))
            }
        };
        let cause = format!("there is no card that lists configuration {config:?}, and no such folder");
        Err(Error::invalid(cause).hint(hint))
    }

    /// For each file, whether it is below `folder`, and its name shows that it is in the split. `listed` is
    /// the configuration of a card whose folder it is.
    fn below(&self, folder: Option<&str>, paths: &[&str], listed: Option<&Config>) -> Result<Vec<bool>> {
        let folder = folder.map_or_else(String::new, |folder| format!("{}/", folder.trim_matches('/')));
        let below: Vec<Option<&str>> = paths.iter().map(|path| path.strip_prefix(&*folder)).collect();
        if let Some(Config { name, folder: Some(folder), .. }) = listed
            && below.iter().all(Option::is_none)
        {
            let cause = format!(
                "configuration {name:?} of the card has folder {folder:?}, which has no Parquet file"
            );
            return Err(Error::new(ErrorKind::NotFound, cause).hint(BY_GLOB));
        }
        let found = match &self.split {
            None => below.iter().map(Option::is_some).collect::<Vec<bool>>(),
            Some(split) => {
                let within: Vec<&str> = below.iter().flatten().copied().collect();
                let in_one_folder = self.config.is_none() && folder.is_empty();
                let mut found = names::of_split(split, &within, in_one_folder)
                    .map_err(|unfit| self.unfit(unfit, listed.is_some()))?
                    .into_iter();
                below.iter().map(|below| below.is_some() && found.next().unwrap_or(false)).collect()
            }
        };
        Ok(found)
    }

    fn unfit(&self, unfit: UnfitNames, has_card: bool) -> Error {
        let split = self.split.as_deref().unwrap_or_default();
        match unfit {
            UnfitNames::Unshown(splits) => {
                self.no_split(splits.iter().map(String::as_str), "the names of the files show")
            }
            UnfitNames::OtherKind(path) => {
                let cause =
                    format!("{path} shows split {split:?} in another way than other files show theirs");
                Error::invalid(cause).hint(BY_GLOB)
            }
            UnfitNames::Folders(folders) => {
                let shown =
                    listed(folders.iter().map(|of| if of.is_empty() { "." } else { of }), NAMES_SHOWN);
                let cause = format!("files of split {split:?} are in several folders: {shown}");
                let one = folders.iter().find(|folder| !folder.is_empty());
                Error::invalid(cause).hint(match one {
                    // Without a card, folders are usually configurations.
                    Some(one) if !has_card => format!("choose one of them with `config`, such as {one:?}"),
                    _ => BY_GLOB.to_owned(),
                })
            }
        }
    }

    fn no_split<'a>(&self, splits: impl Iterator<Item = &'a str>, what: &str) -> Error {
        let split = self.split.as_deref().unwrap_or_default();
        let within = match &self.config {
            Some(config) => format!(" in configuration {config:?}"),
            None => String::new(),
        };
        let cause = format!("{what} no split {split:?}{within}");
        let splits: Vec<&str> = splits.collect();
        let hint = match splits.is_empty() {
            true => BY_GLOB.to_owned(),
            false => format!("the splits are {}", listed_near(split, splits.into_iter())),
        };
        Error::invalid(cause).hint(hint)
    }
}

/// The first of some names, the number of the others, and the one that a misspelt `name` may stand for.
fn listed_near<'a>(name: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let near =
        nearest(name, names.clone()).map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
    listed(names, NAMES_SHOWN) + &near
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(split: &str, config: &str) -> HubPart {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        HubPart { split: given(split), config: given(config) }
    }

    fn kept<'a>(found: &Result<Vec<bool>>, paths: &[&'a str]) -> Vec<&'a str> {
        let found = found.as_ref().unwrap_or_else(|error| panic!("{error}"));
        paths.iter().zip(found).filter(|(_, found)| **found).map(|(path, _)| *path).collect()
    }

    const CARD_OF_TWO: &str = "---
configs:
- config_name: plain_text
  default: true
  data_files:
  - split: train
    path: plain_text/train-*
  - split: test
    path: plain_text/test-*
- config_name: small
  data_files:
  - split: train
    path:
    - \"small/a.parquet\"
    - small/**/b*.parquet
---
# A card
";

    #[test]
    fn a_card_says_which_files_a_split_has() {
        let paths = [
            "plain_text/test-00000-of-00001.parquet",
            "plain_text/train-00000-of-00002.parquet",
            "plain_text/train-00001-of-00002.parquet",
            "small/a.parquet",
            "small/x/b1.parquet",
        ];
        let configs = card::configs(CARD_OF_TWO).unwrap();
        for (split, config, expected) in [
            ("train", "", &paths[1..3]),
            ("test", "plain_text", &paths[..1]),
            ("", "", &paths[..3]),
            ("train", "small", &paths[3..]),
        ] {
            assert_eq!(kept(&part(split, config).by_card(&configs, &paths), &paths), expected);
        }
        for (split, config, said) in [
            ("dev", "", "no split \"dev\""),
            ("dev", "", "train, test"),
            ("train", "large", "it has plain_text, small"),
        ] {
            let refused = part(split, config).by_card(&configs, &paths).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
        let elsewhere = part("train", "").by_card(&configs, &["data.parquet"]).unwrap_err().to_string();
        assert!(
            elsewhere.contains("plain_text/train-*") && elsewhere.contains("refs/convert"),
            "{elsewhere}"
        );
    }

    #[test]
    fn a_configuration_without_files_and_long_lists_are_said_so() {
        let card = |configs: String| card::configs(&format!("---\nconfigs:\n{configs}---\n")).unwrap();
        let empty = card("- config_name: x\n  data_files: []\n".to_owned());
        for (split, said) in
            [("train", "lists no file of split \"train\""), ("", "\"x\" of the card lists no file")]
        {
            let refused = part(split, "").by_card(&empty, &["train.parquet"]).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
        let many = card((0..100).map(|at| format!("- config_name: config-{at:02}\n")).collect());
        let refused = part("train", "konfig-42").by_card(&many, &[]).unwrap_err().to_string();
        assert!(
            refused.ends_with("config-08, config-09 and 90 more; did you mean \"config-42\"?)"),
            "{refused}"
        );
        let refused = part("train", "").by_card(&many, &[]).unwrap_err().to_string();
        assert!(refused.ends_with("config-09 and 90 more)"), "{refused}");
    }

    #[test]
    fn names_decide_among_the_files_of_a_configuration() {
        let card = |config: &str| card::configs(&format!("---\nconfigs:\n- {config}\n---\n")).unwrap();
        let paths = ["de/train.parquet", "en/train.parquet", "english/train.parquet"];
        let english = card("{config_name: a, data_dir: ./en/}");
        assert_eq!(kept(&part("train", "").by_card(&english, &paths), &paths), ["en/train.parquet"]);
        for (config, said) in [
            (
                "{config_name: a, data_dir: fr}",
                "\"a\" of the card has folder \"fr\", which has no Parquet file",
            ),
            // Not a configuration that the card does not list.
            ("{config_name: a}", "in several folders: de, en, english (name the files"),
        ] {
            let refused = part("train", "").by_card(&card(config), &paths).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
    }

    #[test]
    fn one_of_several_configurations_must_be_chosen() {
        let card = CARD_OF_TWO.replace("  default: true\n", "");
        let configs = card::configs(&card).unwrap();
        let refused = part("train", "").by_card(&configs, &["small/a.parquet"]).unwrap_err().to_string();
        assert!(refused.contains("2 configurations") && refused.contains("plain_text, small"), "{refused}");
        let configs = card::configs(&card.replace("small", "default")).unwrap();
        assert!(part("train", "").by_card(&configs, &["default/a.parquet"]).is_ok());
    }

    #[test]
    fn without_a_card_the_names_say_it() {
        let converted = ["de/test/0000.parquet", "de/train/0000.parquet", "en/train/0000.parquet"];
        assert_eq!(kept(&part("train", "en").by_names(&converted), &converted), ["en/train/0000.parquet"]);
        assert_eq!(kept(&part("", "de").by_names(&converted), &converted), converted[..2]);
        for (split, config, said) in [
            ("train", "", "in several folders: de, en"),
            ("train", "fr", "the folders with Parquet files are de, en"),
            ("dev", "en", "show no split \"dev\""),
        ] {
            let refused = part(split, config).by_names(&converted).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
        let refused = part("train", "en").by_names(&["a.parquet"]).unwrap_err().to_string();
        assert!(refused.contains("leave out `config`") || refused.contains("leave out config"), "{refused}");
    }
}

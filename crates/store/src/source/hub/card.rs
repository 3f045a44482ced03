//! Reads the configurations in the front matter of a card: YAML between two lines `---` at its beginning.
//!
//! The card comes from the hub, so its YAML is read event by event, and deep nesting is refused. Aliases,
//! which can expand to any size, are not replaced: a card may have them, but not in its configurations.

use std::collections::HashSet;

use forebay_base::panics::caught;
use forebay_base::{Error, Result};
use yaml_rust2::Event;
use yaml_rust2::parser::Parser;
use yaml_rust2::scanner::TScalarStyle;

/// The hint for a card that cannot be used.
pub(super) const BY_GLOB: &str = "name the files of the split by a glob, and leave out `split` and `config`";

/// The line that begins and ends the front matter.
const BORDER: &str = "---";

/// The key that takes over the pairs of other mappings.
const MERGE: &str = "<<";

/// The greatest depth of lists and mappings.
const MAX_DEPTH: usize = 64;

/// The most `**` in a pattern, since the work of matching one grows with each.
const MAX_ANY_DEPTHS: usize = 4;

/// The split of files that are listed without one.
const ONLY_SPLIT: &str = "train";

/// A configuration of a data set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) name: String,
    pub(super) is_default: bool,
    /// The splits in their order, each with the patterns of its files; none for a split without files. They
    /// are relative to the folder of the card. Empty if names decide.
    pub(super) splits: Vec<(String, Vec<String>)>,
    /// The folder whose files the configuration has, if `splits` is empty.
    pub(super) folder: Option<String>,
}

/// A value in YAML.
#[derive(Debug)]
enum YamlNode {
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<(String, YamlNode)>),
    /// An empty value.
    Null,
    /// A place where an earlier value is repeated.
    Alias,
}

/// The configurations that a card lists; none if it has no front matter, or lists none.
///
/// # Errors
/// `Invalid` if the front matter is malformed.
pub(super) fn configs(card: &str) -> Result<Vec<Config>> {
    let Some((before, front)) = front_matter(card)? else { return Ok(Vec::new()) };
    let node = caught(|| parsed(front, before)).unwrap_or_else(|_| Err("it cannot be parsed".to_owned()));
    let node = node.map_err(|cause| malformed(&cause))?;
    if node.has_twice("configs") {
        return Err(malformed("it has the key \"configs\" twice"));
    }
    let Some(listed) = node.get("configs") else { return Ok(Vec::new()) };
    listed.check().map_err(|cause| malformed(&format!("its \"configs\" {cause}")))?;
    let listed = match listed {
        YamlNode::List(listed) => listed,
        YamlNode::Null => return Ok(Vec::new()),
        YamlNode::Text(_) | YamlNode::Map(_) | YamlNode::Alias => {
            return Err(malformed("its \"configs\" are not a list"));
        }
    };
    let configs = listed.iter().map(config).collect::<Result<Vec<_>>>()?;
    let mut defaults = configs.iter().filter(|config| config.is_default);
    if let (Some(one), Some(other)) = (defaults.next(), defaults.next()) {
        let (one, other) = (&one.name, &other.name);
        return Err(malformed(&format!("configurations {one:?} and {other:?} are both the default")));
    }
    if let Some(name) = repeated(configs.iter().map(|config| config.name.as_str())) {
        return Err(malformed(&format!("it lists configuration {name:?} twice")));
    }
    let of_splits = |config: &Config| {
        let name = repeated(config.splits.iter().map(|(split, _)| split.as_str()))?;
        Some(format!("configuration {:?} lists split {name:?} twice", config.name))
    };
    match configs.iter().find_map(of_splits) {
        Some(cause) => Err(malformed(&cause)),
        None => Ok(configs),
    }
}

/// The number of lines up to the first border, and the lines between the borders; `None` if the card does not
/// begin with a border. Empty lines may come before it, as for the hub's own client.
fn front_matter(card: &str) -> Result<Option<(usize, &str)>> {
    let trimmed = card.trim_start_matches('\u{feff}').trim_start();
    let Some(rest) = trimmed.strip_prefix(BORDER) else { return Ok(None) };
    let Some((line, front)) = rest.split_once('\n') else { return Ok(None) };
    if !line.trim().is_empty() {
        return Ok(None);
    }
    let before = card[..card.len() - front.len()].matches('\n').count();
    let mut end = 0;
    for line in front.split_inclusive('\n') {
        if line.trim_end() == BORDER {
            return Ok(Some((before, &front[..end])));
        }
        end += line.len();
    }
    Err(malformed("the line --- at its end is missing, or is not in the first 8 MiB of the card"))
}

fn config(node: &YamlNode) -> Result<Config> {
    let YamlNode::Map(_) = node else {
        return Err(malformed("a configuration is not a mapping"));
    };
    let name = node.get("config_name").and_then(YamlNode::text).unwrap_or("default").to_owned();
    let folder = node.get("data_dir").and_then(YamlNode::text).map(|folder| clean(folder).to_owned());
    let is_default = node.get("default").and_then(YamlNode::text) == Some("true");
    let within = |pattern: &str| match &folder {
        Some(folder) => format!("{folder}/{}", clean(pattern)),
        None => clean(pattern).to_owned(),
    };
    let patterns = |node: &YamlNode| -> Result<Vec<String>> {
        let texts: Option<Vec<String>> = match node {
            YamlNode::Text(text) => Some(vec![within(text)]),
            YamlNode::List(list) => list.iter().map(|one| one.text().map(within)).collect(),
            YamlNode::Null => Some(Vec::new()),
            YamlNode::Map(_) | YamlNode::Alias => None,
        };
        let refused = |cause: &str| malformed(&format!("configuration {name:?} lists a path {cause}"));
        let texts = texts.ok_or_else(|| refused("that is not a text"))?;
        match texts.iter().find(|text| text.matches("**").count() > MAX_ANY_DEPTHS) {
            Some(text) => Err(refused(&format!("with more than {MAX_ANY_DEPTHS} `**`: {text:?}"))),
            None => Ok(texts),
        }
    };
    let is_split = |one: &YamlNode| ["split", "path"].iter().any(|key| one.get(key).is_some());
    let splits = match node.get("data_files") {
        None | Some(YamlNode::Null) => Vec::new(),
        Some(YamlNode::Map(splits)) => {
            splits.iter().map(|(split, node)| Ok((split.clone(), patterns(node)?))).collect::<Result<_>>()?
        }
        Some(YamlNode::List(list)) if list.iter().any(is_split) => {
            let split = |one: &YamlNode| {
                let split = one.get("split").and_then(YamlNode::text).unwrap_or(ONLY_SPLIT).to_owned();
                let path = one.get("path").map(&patterns).transpose()?;
                Ok((split, path.unwrap_or_default()))
            };
            list.iter().map(split).collect::<Result<_>>()?
        }
        Some(files) => vec![(ONLY_SPLIT.to_owned(), patterns(files)?)],
    };
    Ok(Config { name, is_default, splits, folder })
}

/// A path without `./` before it and `/` behind it.
fn clean(path: &str) -> &str {
    path.trim_start_matches("./").trim_end_matches('/')
}

impl YamlNode {
    fn get(&self, key: &str) -> Option<&YamlNode> {
        let YamlNode::Map(pairs) = self else { return None };
        pairs.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    fn text(&self) -> Option<&str> {
        match self {
            YamlNode::Text(text) => Some(text),
            YamlNode::List(_) | YamlNode::Map(_) | YamlNode::Null | YamlNode::Alias => None,
        }
    }

    fn has_twice(&self, key: &str) -> bool {
        let YamlNode::Map(pairs) = self else { return false };
        pairs.iter().filter(|(name, _)| name == key).count() > 1
    }

    /// Says why this value cannot be used: it has an alias, a merge key, or a key twice in one mapping.
    fn check(&self) -> Result<(), String> {
        match self {
            YamlNode::Text(_) | YamlNode::Null => Ok(()),
            YamlNode::Alias => Err("have an alias (`*name`), which is not read".to_owned()),
            YamlNode::List(list) => list.iter().try_for_each(YamlNode::check),
            YamlNode::Map(pairs) if pairs.iter().any(|(key, _)| key == MERGE) => {
                Err(format!("have a merge key (`{MERGE}`), which is not read"))
            }
            YamlNode::Map(pairs) => match repeated(pairs.iter().map(|(key, _)| key.as_str())) {
                Some(key) => Err(format!("have the key {key:?} twice in one mapping")),
                None => pairs.iter().try_for_each(|(_, node)| node.check()),
            },
        }
    }
}

/// The first of these names that came before.
fn repeated<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = HashSet::new();
    names.find(|name| !seen.insert(*name))
}

/// A list or mapping whose end has not been read yet.
enum OpenNode {
    List(Vec<YamlNode>),
    /// The pairs, and a key whose value has not been read yet.
    Map(Vec<(String, YamlNode)>, Option<String>),
}

/// Reads a document of YAML, which begins after `before` lines of its file.
fn parsed(text: &str, before: usize) -> Result<YamlNode, String> {
    let mut parser = Parser::new_from_str(text);
    let mut open: Vec<OpenNode> = Vec::new();
    loop {
        let (event, _) = parser.next_token().map_err(|error| {
            let mark = error.marker();
            format!("{} in line {}, column {}", error.info(), before + mark.line(), mark.col() + 1)
        })?;
        let node = match event {
            Event::SequenceStart(..) => {
                open.push(OpenNode::List(Vec::new()));
                None
            }
            Event::MappingStart(..) => {
                open.push(OpenNode::Map(Vec::new(), None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(OpenNode::List(list)) => Some(YamlNode::List(list)),
                Some(OpenNode::Map(pairs, _)) => Some(YamlNode::Map(pairs)),
                None => return Err("a list ends before it begins".to_owned()),
            },
            Event::Scalar(text, TScalarStyle::Plain, ..) if is_null(&text) => Some(YamlNode::Null),
            Event::Scalar(text, ..) => Some(YamlNode::Text(text)),
            Event::Alias(_) => Some(YamlNode::Alias),
            Event::StreamEnd => return Ok(YamlNode::Map(Vec::new())),
            Event::Nothing | Event::StreamStart | Event::DocumentStart | Event::DocumentEnd => None,
        };
        if open.len() > MAX_DEPTH {
            return Err(format!("its lists are nested more than {MAX_DEPTH} deep"));
        }
        let Some(node) = node else { continue };
        match open.last_mut() {
            None => return Ok(node),
            Some(OpenNode::List(list)) => list.push(node),
            Some(OpenNode::Map(pairs, key)) => match (key.take(), node) {
                (Some(name), node) => pairs.push((name, node)),
                (None, YamlNode::Text(name)) => *key = Some(name),
                (None, YamlNode::Null) => *key = Some(String::new()),
                (None, _) => return Err("a key is not a text".to_owned()),
            },
        }
    }
}

/// Whether a text without quotes stands for an empty value.
fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

fn malformed(cause: &str) -> Error {
    Error::invalid(format!("the YAML at the beginning of the card is malformed: {cause}")).hint(BY_GLOB)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(yaml: &str) -> String {
        format!("---\nlicense: mit\n{yaml}---\n# Title\n---\n")
    }

    #[test]
    fn files_are_listed_in_several_forms() {
        let split = |name: &str, paths: &[&str]| {
            (name.to_owned(), paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>())
        };
        for (files, expected) in [
            ("data_files: a/*.parquet\n", vec![split("train", &["a/*.parquet"])]),
            ("data_files: [a.parquet, 'b.parquet']\n", vec![split("train", &["a.parquet", "b.parquet"])]),
            ("data_files:\n  - ./a.parquet\n", vec![split("train", &["a.parquet"])]),
            (
                "data_files:\n  - split: train\n    path: x-*\n  - {split: test, path: [y, z/]}\n",
                vec![split("train", &["x-*"]), split("test", &["y", "z"])],
            ),
            (
                "data_files:\n    train: x\n    test: [y]\n",
                vec![split("train", &["x"]), split("test", &["y"])],
            ),
            ("data_dir: en\n  data_files: a-*\n", vec![split("train", &["en/a-*"])]),
            ("data_dir: en\n", vec![]),
            ("data_files:\n", vec![]),
            ("data_files: []\n", vec![split("train", &[])]),
            ("data_files:\n  - split: test\n", vec![split("test", &[])]),
            ("data_files: {test: ~}\n", vec![split("test", &[])]),
        ] {
            let found = configs(&card(&format!("configs:\n- config_name: x\n  {files}"))).unwrap();
            assert_eq!(found[0].splits, expected, "{files}");
            assert_eq!(found[0].folder.is_some(), files.contains("data_dir"));
        }
        let configs = configs(&card("configs:\n- default: true\n- config_name: b\n")).unwrap();
        let names: Vec<(&str, bool)> = configs.iter().map(|of| (of.name.as_str(), of.is_default)).collect();
        assert_eq!(names, [("default", true), ("b", false)]);
    }

    #[test]
    fn a_card_without_configurations_lists_none() {
        let aliases = card("a: &x [1]\nb: *x\na: 2\n");
        for text in ["", "# Title\n", "---", "--- x\n---\n", &card("configs: []\n"), &card(""), &aliases] {
            assert_eq!(configs(text).unwrap(), [], "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let nested = |depth: usize| format!("x: {}{}\n", "[".repeat(depth), "]".repeat(depth));
        let (deep, deeper) = (nested(MAX_DEPTH + 1), nested(1_000));
        for (yaml, said) in [
            ("a: &x [1]\nconfigs: *x\n", "its \"configs\" have an alias (`*name`)"),
            ("a: &x y\nconfigs:\n- data_files: [*x]\n", "its \"configs\" have an alias"),
            ("configs: []\nconfigs: []\n", "the key \"configs\" twice"),
            ("configs:\n- data_dir: a\n  data_dir: b\n", "the key \"data_dir\" twice in one mapping"),
            ("configs:\n- data_dir: a\n- data_dir: b\n", "it lists configuration \"default\" twice"),
            (
                "configs:\n- data_files:\n  - {split: x, path: a}\n  - {split: x, path: b}\n",
                "lists split \"x\" twice",
            ),
            (&deep, "nested"),
            (&deeper, "malformed"),
            ("a: [1\n", "malformed"),
            ("? [a]\n: b\n", "a key is not a text"),
            ("configs:\n- data_files: [{a: b}]\n", "a path that is not a text"),
            ("configs:\n- data_files: '**/a**/**/a/**/**/b'\n", "more than 4"),
            ("configs: {config_name: a}\n", "its \"configs\" are not a list"),
            ("configs: 5\n", "its \"configs\" are not a list"),
            ("configs: [1, null]\n", "a configuration is not a mapping"),
            ("configs:\n- <<: {config_name: a}\n", "have a merge key (`<<`)"),
            (
                "configs:\n- {config_name: a, default: true}\n- {config_name: b, default: true}\n",
                "configurations \"a\" and \"b\" are both the default",
            ),
        ] {
            let refused = configs(&card(yaml)).unwrap_err().to_string();
            assert!(refused.contains(said), "{refused}");
        }
        let null = configs(&card("configs: null\n")).unwrap();
        assert!(null.is_empty());
        let below_empty_lines = configs(&format!("\u{feff}\n \r\n{}", card("configs: [{config_name: a}]\n")));
        assert_eq!(below_empty_lines.unwrap().len(), 1);
        let refused = configs("---\nlicense: mit\n").unwrap_err().to_string();
        assert!(refused.contains("the line --- at its end is missing"), "{refused}");
    }
}

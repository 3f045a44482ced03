//! Reads profiles from the files that all AWS tools use: `~/.aws/credentials` and `~/.aws/config`.

use std::collections::BTreeMap;
use std::io::ErrorKind::NotFound;
use std::path::{Path, PathBuf};

use forebay_arrow::fail::Foreign;
use forebay_base::{Error, ErrorKind, Place, Result};

use super::environment::Environment;
use super::process::Program;
use super::secret::Secret;

/// The profile that is used if neither the options nor the environment name one.
const DEFAULT: &str = "default";

/// The keys and values in one section of a file.
type Section = BTreeMap<String, Secret>;

/// A profile: its sections in the files `credentials` and `config`.
pub(super) struct Profile {
    name: String,
    credentials: Section,
    config: Section,
    /// The path of the `aws` program, for sources of credentials that only it supports.
    aws: Option<PathBuf>,
}

/// The way to get the credentials of a profile.
pub(super) enum CredentialSource {
    Static { id: Secret, secret: Secret, token: Option<Secret> },
    WebIdentity { token_file: String, role: String, session: Option<String> },
    Program(Program),
}

impl Profile {
    /// Reads the profile `named`; if that is `None`, the profile that `AWS_PROFILE` names, or else `default`.
    /// Returns `None` if none was named and the files have no `default`.
    pub(super) fn load(named: Option<&str>, environment: Environment<'_>) -> Result<Option<Profile>> {
        let asked = named.map(str::to_owned).or_else(|| environment("AWS_PROFILE"));
        let name = asked.as_deref().unwrap_or(DEFAULT);
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials", environment);
        let config = file("AWS_CONFIG_FILE", "config", environment);
        let credentials = section(credentials.as_deref(), |header| header == name)?;
        let config = section(config.as_deref(), |header| {
            header.strip_prefix("profile").map(str::trim) == Some(name)
                || (name == DEFAULT && header == DEFAULT)
        })?;
        if credentials.is_none() && config.is_none() {
            return match asked {
                None => Ok(None),
                Some(_) => Err(Error::invalid(format!("there is no AWS profile {name:?}"))
                    .hint("aws configure list-profiles lists them")),
            };
        }
        Ok(Some(Profile {
            name: name.to_owned(),
            credentials: credentials.unwrap_or_default(),
            config: config.unwrap_or_default(),
            aws: program_named("aws", environment),
        }))
    }

    pub(super) fn region(&self) -> Option<&str> {
        self.get("region")
    }

    pub(super) fn endpoint(&self) -> Option<&str> {
        self.get("endpoint_url")
    }

    /// The way to get the profile's credentials, tried in the order of the AWS tools; `None` if it has none.
    pub(super) fn source(&self) -> Result<Option<CredentialSource>> {
        if let (Some(role), Some(token_file)) = (self.get("role_arn"), self.get("web_identity_token_file")) {
            let session = self.get("role_session_name").map(str::to_owned);
            let (role, token_file) = (role.to_owned(), token_file.to_owned());
            return Ok(Some(CredentialSource::WebIdentity { token_file, role, session }));
        }
        if self.get("role_arn").is_some() {
            return self.exported("a role");
        }
        if self.get("sso_session").or_else(|| self.get("sso_start_url")).is_some() {
            return self.exported("single sign-on");
        }
        if let Some(keys) = keys(&self.credentials) {
            return Ok(Some(keys));
        }
        if self.get("login_session").is_some() {
            return self.exported("a login");
        }
        if let Some(command) = self.get("credential_process") {
            let shown = format!("credential_process of the AWS profile {:?}", self.name);
            return Ok(Some(CredentialSource::Program(Program::shell(command, shown))));
        }
        Ok(keys(&self.config))
    }

    /// Uses `aws configure export-credentials` to get the credentials. `what` names the profile's own source,
    /// such as single sign-on, for the error if there is no `aws` program.
    fn exported(&self, what: &str) -> Result<Option<CredentialSource>> {
        let Some(aws) = &self.aws else {
            let cause = format!(
                "the AWS profile {:?} takes its credentials from {what}, which needs the aws program",
                self.name
            );
            return Err(Error::new(ErrorKind::Unsupported, cause).hint(format!(
                "install the AWS CLI, or set the variables that \"aws configure export-credentials --profile {} \
                 --format env\" prints elsewhere",
                self.name
            )));
        };
        let arguments = ["configure", "export-credentials", "--profile", &self.name, "--format", "process"];
        let shown = format!("aws configure export-credentials --profile {}", self.name);
        Ok(Some(CredentialSource::Program(Program::new(aws, &arguments, shown))))
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.credentials.get(key).or_else(|| self.config.get(key)).map(Secret::expose)
    }
}

/// The access key in a section, if both halves are there: halves from two files would not match.
fn keys(section: &Section) -> Option<CredentialSource> {
    Some(CredentialSource::Static {
        id: section.get("aws_access_key_id")?.clone(),
        secret: section.get("aws_secret_access_key")?.clone(),
        token: section.get("aws_session_token").cloned(),
    })
}

/// The path of a file of the AWS tools: the value of an environment variable, or else `~/.aws/NAME`.
fn file(variable: &str, name: &str, environment: Environment<'_>) -> Option<PathBuf> {
    let home = environment("HOME").map(PathBuf::from);
    match environment(variable) {
        Some(path) => match (path.strip_prefix("~/"), &home) {
            (Some(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(path.into()),
        },
        None => home.map(|home| home.join(".aws").join(name)),
    }
}

fn program_named(name: &str, environment: Environment<'_>) -> Option<PathBuf> {
    let path = environment("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

/// Reads all sections whose header satisfies `fits`, merged into one. `None` if there is no such file or
/// section.
fn section(path: Option<&Path>, fits: impl Fn(&str) -> bool) -> Result<Option<Section>> {
    let Some(path) = path else { return Ok(None) };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == NotFound => return Ok(None),
        Err(error) => return Err(error.into_error().at(Place::file(path.to_string_lossy()))),
    };
    let mut found: Option<Section> = None;
    let mut inside = false;
    for line in text.lines() {
        // Indented lines, which belong to nested blocks, and comments are skipped.
        if line.starts_with([' ', '\t', '#', ';']) {
            continue;
        }
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            inside = fits(header.trim().trim_matches('"'));
            if inside {
                found.get_or_insert_default();
            }
            continue;
        }
        let (Some(section), Some((key, value))) = (found.as_mut().filter(|_| inside), line.split_once('='))
        else {
            continue;
        };
        let value = value.split(" #").next().unwrap_or_default().trim();
        section.insert(key.trim().to_ascii_lowercase(), Secret::new(value));
    }
    Ok(found)
}

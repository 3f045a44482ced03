//! Gets AWS credentials from the output of a program: the `credential_process` of a profile, or the `aws`
//! program for sources of credentials that only it supports.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use chrono::DateTime;
use forebay_base::{Error, ErrorKind, Result};
use object_store::CredentialProvider;
use object_store::aws::{AwsCredential, AwsCredentialProvider};
use serde::Deserialize;
use tokio::sync::Mutex;

/// Credentials are renewed this long before they expire.
const RENEWAL_MARGIN: Duration = Duration::from_secs(300);

/// A program and its arguments, which can contain secrets. Messages show the description `shown` instead.
#[derive(Clone)]
pub(super) struct Program {
    words: Vec<String>,
    shown: String,
}

impl Program {
    pub(super) fn new(path: &Path, arguments: &[&str], shown: String) -> Self {
        let path = path.to_string_lossy().into_owned();
        Program {
            words: std::iter::once(path).chain(arguments.iter().map(|&word| word.to_owned())).collect(),
            shown,
        }
    }

    /// Makes a program that runs a command line in the shell.
    pub(super) fn shell(command: &str, shown: String) -> Self {
        Program::new(Path::new("/bin/sh"), &["-c", command], shown)
    }

    /// Runs the program and parses the credentials that it prints. Errors do not repeat its output, which can
    /// be secret.
    fn run(&self) -> Result<Fresh> {
        let failed = |cause: &str| {
            Error::new(ErrorKind::Io, format!("{} {cause}", self.shown)).hint("run it by hand to see why")
        };
        let (program, arguments) = self.words.split_first().ok_or_else(|| failed("is empty"))?;
        let output = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .map_err(|error| failed(&format!("could not be started: {error}")))?;
        if !output.status.success() {
            return Err(failed(&format!("failed with {}", output.status)));
        }
        let printed: Printed = serde_json::from_slice(&output.stdout)
            .map_err(|_| failed("did not print credentials as JSON"))?;
        if printed.version != 1 {
            return Err(failed(&format!("printed version {} of the format, not 1", printed.version)));
        }
        let expiry = printed.expiration.map(|text| {
            DateTime::parse_from_rfc3339(&text)
                .map_err(|_| failed("printed an Expiration that is not a date"))
        });
        Ok(Fresh {
            credential: Arc::new(AwsCredential {
                key_id: printed.access_key_id,
                secret_key: printed.secret_access_key,
                token: printed.session_token,
            }),
            expiry: expiry.transpose()?.map(SystemTime::from),
        })
    }
}

/// The JSON that a program for credentials prints, in AWS's format.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    version: u32,
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    expiration: Option<String>,
}

#[derive(Clone)]
struct Fresh {
    credential: Arc<AwsCredential>,
    expiry: Option<SystemTime>,
}

impl Fresh {
    fn is_usable(&self) -> bool {
        self.expiry.is_none_or(|expiry| expiry > SystemTime::now() + RENEWAL_MARGIN)
    }
}

/// A source of credentials that runs a program, and runs it again before the credentials expire.
#[derive(Clone)]
pub(super) struct Process(Arc<Inner>);

struct Inner {
    program: Program,
    last: Mutex<Fresh>,
}

impl Process {
    /// Runs the program for the first time.
    pub(super) fn start(program: Program) -> Result<Self> {
        let last = Mutex::new(program.run()?);
        Ok(Process(Arc::new(Inner { program, last })))
    }

    pub(super) fn provider(&self) -> AwsCredentialProvider {
        Arc::new(self.clone())
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Process({})", self.0.program.shown)
    }
}

#[async_trait]
impl CredentialProvider for Process {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let mut last = self.0.last.lock().await;
        if !last.is_usable() {
            let program = self.0.program.clone();
            let failed = |error| object_store::Error::Generic { store: "S3", source: Box::new(error) };
            *last = tokio::task::spawn_blocking(move || program.run()).await?.map_err(failed)?;
        }
        Ok(last.credential.clone())
    }
}

//! `gs://`: Google Cloud Storage.
//!
//! Credentials come from the first of these that has any: the storage options, the environment, the file that
//! `gcloud auth application-default login` writes, the machine. With `skip_signature`, requests are sent
//! without credentials.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Place, Result};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder, GoogleConfigKey as Key};
use object_store::{ClientConfigKey, StaticCredentialProvider};
use serde::Deserialize;

use super::address::Address;
use super::build::{check_endpoint, client_options, keys, no_retries, refused};
use super::client::Client;
use super::environment::Environment;
use super::options::{Options, flag, malformed};
use crate::source::wire::Wire;

/// The settings that are credentials. If the storage options give one, none of the [`VARIABLES`] is read.
const IDENTITY: [Key; 5] = [
    Key::SkipSignature,
    Key::BearerToken,
    Key::ServiceAccount,
    Key::ServiceAccountKey,
    Key::ApplicationCredentials,
];

/// The environment variables that give credentials. Only the first one that is set is used.
const VARIABLES: [(&str, Key); 7] = [
    ("GOOGLE_SKIP_SIGNATURE", Key::SkipSignature),
    ("GOOGLE_BEARER_TOKEN", Key::BearerToken),
    ("GOOGLE_SERVICE_ACCOUNT", Key::ServiceAccount),
    ("GOOGLE_SERVICE_ACCOUNT_PATH", Key::ServiceAccount),
    ("SERVICE_ACCOUNT", Key::ServiceAccount),
    ("GOOGLE_SERVICE_ACCOUNT_KEY", Key::ServiceAccountKey),
    ("GOOGLE_APPLICATION_CREDENTIALS", Key::ApplicationCredentials),
];

/// The environment variable for the address of an emulator, which Google's own libraries also read.
const EMULATOR: &str = "STORAGE_EMULATOR_HOST";

/// The storage options that error messages suggest for a misspelt one.
const KNOWN: [&str; 7] = [
    "google_service_account",
    "google_service_account_path",
    "google_service_account_key",
    "google_application_credentials",
    "google_bearer_token",
    "google_base_url",
    "google_skip_signature",
];

pub(super) fn connect(
    address: &Address,
    options: &Options,
    wire: &Wire,
    environment: Environment<'_>,
) -> Result<Client> {
    let mut values: HashMap<Key, String> = HashMap::new();
    for (name, key, value) in keys::<Key>(options, "gs://", &KNOWN, &[])? {
        if values.insert(key, value.to_owned()).is_some() {
            return Err(malformed(name, "given once: the options also have it under another name"));
        }
    }
    if let Some(base) = environment("GOOGLE_BASE_URL") {
        values.entry(Key::BaseUrl).or_insert(base);
    }
    if let (false, Some(host)) = (values.contains_key(&Key::BaseUrl), environment(EMULATOR)) {
        let base = if host.contains("://") { host } else { format!("http://{host}") };
        values.insert(Key::BaseUrl, base);
        values.entry(Key::SkipSignature).or_insert_with(|| "true".to_owned());
    }
    if !IDENTITY.iter().any(|key| values.contains_key(key)) {
        let found = VARIABLES.iter().find_map(|(name, key)| Some((*key, environment(name)?)));
        values.extend(found);
    }
    let flag = |key: Key| values.get(&key).map_or(Ok(false), |value| flag(key.as_ref(), value));
    let anonymous = flag(Key::SkipSignature)?;
    let allow_http = flag(Key::Client(ClientConfigKey::AllowHttp))?;
    if let Some(base) = values.get(&Key::BaseUrl) {
        check_endpoint(base, "gs://", allow_http)?;
    }
    if let Some(key) = values.get(&Key::ServiceAccountKey) {
        check_service_account(Key::ServiceAccountKey, key.as_bytes())?;
    }
    if let Some(path) = values.get(&Key::ServiceAccount) {
        check_service_account(Key::ServiceAccount, &contents(Key::ServiceAccount, path)?)?;
    }
    if !anonymous
        && !IDENTITY.iter().any(|key| *key != Key::ApplicationCredentials && values.contains_key(key))
    {
        check_application_default(values.get(&Key::ApplicationCredentials), environment)?;
    }

    let settings = client_options(values.iter().filter_map(|(key, value)| match key {
        Key::Client(key) => Some((*key, value.as_str())),
        _ => None,
    }))?;
    wire.client(&settings)?;
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_client_options(settings)
        .with_retry(no_retries())
        .with_http_connector(wire.clone());
    if anonymous {
        // Empty credentials keep the client from looking for real ones, which it would not use and which may
        // be invalid.
        let nobody = GcpCredential { bearer: String::new() };
        builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(nobody)));
    }
    for (key, value) in &values {
        builder = builder.with_config(*key, value);
    }
    let store = builder.with_bucket_name(address.store()).build();
    Ok(Client::paged(store.map_err(|_| refused(address.root()))?))
}

/// The fields that the JSON key of every service account has; used to check a given key.
#[derive(Deserialize)]
#[expect(dead_code, reason = "only that they are there is looked at")]
struct ServiceAccount {
    private_key: String,
    private_key_id: String,
    client_email: String,
}

fn check_service_account(option: Key, key: &[u8]) -> Result<()> {
    serde_json::from_slice::<ServiceAccount>(key).map(|_| ()).map_err(|_| {
        malformed(option.as_ref(), "a service account's key").hint(
            "google_service_account is the path of the JSON file with it, google_service_account_key its content",
        )
    })
}

/// Reads the file that a storage option or a variable names. The error does not repeat `path`, because users
/// may have put the secret key itself there.
fn contents(option: Key, path: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        malformed(option.as_ref(), "the path of a file that can be read").hint(error.to_string())
    })
}

/// The field of a credentials file that says what kind of credentials it has.
#[derive(Deserialize)]
struct Credentials {
    r#type: String,
}

/// Checks that the file of application default credentials is of a supported kind; the error names the kind.
fn check_application_default(path: Option<&String>, environment: Environment<'_>) -> Result<()> {
    let (path, text) = match path {
        Some(path) => (PathBuf::from(path), contents(Key::ApplicationCredentials, path)?),
        None => {
            let Some(home) = environment("HOME") else { return Ok(()) };
            let path = PathBuf::from(home).join(".config/gcloud/application_default_credentials.json");
            let Ok(text) = std::fs::read(&path) else { return Ok(()) };
            (path, text)
        }
    };
    let place = || Place::file(path.to_string_lossy());
    let hint = "pass the storage option bearer_token, as gcloud auth print-access-token prints it";
    match serde_json::from_slice::<Credentials>(&text) {
        Ok(known) if matches!(known.r#type.as_str(), "service_account" | "authorized_user") => Ok(()),
        Ok(other) => {
            let cause = format!("Google credentials of type {:?} are not read", other.r#type);
            Err(Error::new(ErrorKind::Unsupported, cause).at(place()).hint(hint))
        }
        Err(_) => Err(Error::invalid("these are not Google credentials").at(place())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a test brings its own runtime")]

    use std::collections::BTreeMap;

    use object_store::ObjectStoreExt;
    use object_store::path::Path;

    use super::*;
    use crate::source::wire::fake::Fake;

    fn open(options: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<Client> {
        let map: BTreeMap<_, _> =
            options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let variable = |name: &str| Some(variables.iter().find(|(known, _)| *known == name)?.1.to_owned());
        let address = Address::parse("gs://b/x").unwrap().unwrap();
        connect(&address, &Options::new(&map), &Wire::new(), &variable)
    }

    #[tokio::test]
    async fn an_emulator_is_asked_without_credentials() {
        let headers = || {
            vec![("ETag", "\"e\"".to_owned()), ("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT".to_owned())]
        };
        let server = Fake::serve(move |_| (200, headers(), b"hello".to_vec())).await;
        let host = format!("127.0.0.1:{}", server.port);
        let store = open(&[], &[("STORAGE_EMULATOR_HOST", &host)]).unwrap();
        let body = store.get(&Path::from("x")).await.unwrap().bytes().await.unwrap();
        assert_eq!(body, "hello");
        assert!(server.asked().iter().all(|asked| asked.header("authorization").is_none()));
    }

    #[test]
    fn credentials_of_a_kind_that_is_not_read_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("adc.json");
        let path = file.to_string_lossy().into_owned();
        std::fs::write(&file, r#"{"type":"external_account","secret":"hunter2"}"#).unwrap();
        let variables = [("GOOGLE_APPLICATION_CREDENTIALS", path.as_str())];
        let error = open(&[], &variables).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("of type \"external_account\" are not read"), "{error}");
        assert!(open(&[("skip_signature", "true")], &variables).is_ok());
        std::fs::write(&file, "hunter2").unwrap();
        let error = open(&[], &variables).map(|_| ()).unwrap_err();
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }

    #[test]
    fn what_is_malformed_is_not_repeated() {
        let named = |options: &[_]| open(options, &[]).map(|_| ()).unwrap_err().to_string();
        assert!(
            named(&[("service_account_key", "hunter2")])
                .starts_with("storage option \"google_service_account_key\" is not a service account's key")
        );
        let path = "storage option \"google_service_account\" is not the path of a file that can be read (No such file";
        assert!(named(&[("service_account", "hunter2")]).starts_with(path));
        let path = path.replace("service_account", "application_credentials");
        assert!(named(&[("application_credentials", "hunter2")]).starts_with(&path));
        assert!(named(&[("timeout", "hunter2")]).starts_with("storage option \"timeout\" is not a duration"));
        for options in [
            [("service_account_key", "hunter2")],
            [("service_account", "hunter2")],
            [("application_credentials", "hunter2")],
            [("google_service_acount", "hunter2")],
        ] {
            let error = open(&options, &[]).map(|_| ()).unwrap_err();
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}

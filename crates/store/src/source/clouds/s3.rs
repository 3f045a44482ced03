//! `s3://`: Amazon S3, and other stores with the same protocol, such as MinIO, Ceph, R2 and Alluxio's
//! gateway.
//!
//! Credentials come from the first of these sources that has any, and only from that one:
//!
//! 1. the storage options: keys, a `profile`, a role with a web identity, or `skip_signature` for none
//! 2. the environment: keys, then a role with a web identity
//! 3. the profile that `AWS_PROFILE` names, or `default`, in the files that the AWS tools share
//! 4. the container's or the machine's own role
//!
//! Region and endpoint are looked up in the same order, each independently. If no source has a region or an
//! endpoint, S3 is asked for the region of the bucket.

use std::collections::HashMap;

use forebay_base::{Error, Result};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey as Key, Checksum};
use object_store::{ClientConfigKey, ClientOptions};

use super::address::Address;
use super::build::{check_endpoint, client_options, keys, no_retries, refused};
use super::client::Client;
use super::environment::Environment;
use super::options::{Options, flag, malformed, truth};
use super::process::Process;
use super::profile::{CredentialSource, Profile};
use super::region::Regional;
use crate::source::wire::Wire;

/// The names of the storage option that selects a profile. object_store has no such option.
const PROFILE: [&str; 2] = ["profile", "aws_profile"];

/// The environment variables that give credentials. Only one of the three groups is used.
const STATIC: [&str; 3] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
const WEB_IDENTITY: [&str; 3] = ["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME"];
const MACHINE: [&str; 5] = [
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_METADATA_ENDPOINT",
    "AWS_IMDSV1_FALLBACK",
];

/// The environment variables for region, endpoint and connection. Of two for the same setting, the first is
/// used.
const PLACE: [&str; 11] = [
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL_STS",
    "AWS_ALLOW_HTTP",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_REQUEST_PAYER",
    "AWS_S3_EXPRESS",
    "AWS_SKIP_SIGNATURE",
];

/// A region for checking all other settings while the real region is unknown.
const ANY_REGION: &str = "us-east-1";

/// The storage options that error messages suggest for a misspelt one.
const KNOWN: [&str; 27] = [
    "aws_access_key_id",
    "aws_secret_access_key",
    "aws_session_token",
    "aws_profile",
    "aws_region",
    "aws_default_region",
    "aws_endpoint",
    "aws_endpoint_url",
    "aws_endpoint_url_s3",
    "aws_endpoint_url_sts",
    "aws_virtual_hosted_style_request",
    "aws_skip_signature",
    "aws_request_payer",
    "aws_s3_express",
    "aws_role_arn",
    "aws_role_session_name",
    "aws_web_identity_token_file",
    "aws_container_credentials_relative_uri",
    "aws_container_credentials_full_uri",
    "aws_container_authorization_token_file",
    "aws_metadata_endpoint",
    "aws_imdsv1_fallback",
    "aws_unsigned_payload",
    "aws_checksum_algorithm",
    "aws_server_side_encryption",
    "aws_sse_customer_key_base64",
    "aws_sse_kms_key_id",
];

pub(super) fn connect(
    address: &Address,
    options: &Options,
    wire: &Wire,
    environment: Environment<'_>,
) -> Result<Client> {
    let setup = Setup::read(options, environment)?;
    let settings = setup.client_options()?;
    let client = wire.client(&settings)?;
    let builder = setup.builder(address.store(), settings, wire);
    let root = address.root().to_owned();
    if setup.has_region() || setup.endpoint().is_some() {
        return built(builder, &root).map(Client::paged);
    }
    // Settings that are invalid in every region are refused now, and not only at the first request.
    built(builder.clone().with_region(ANY_REGION), &root)?;
    let build = move |region: String| built(builder.clone().with_region(region), &root);
    Ok(Client::paged(Regional::new(address.store(), client, build)))
}

fn built(builder: AmazonS3Builder, root: &str) -> Result<AmazonS3> {
    builder.build().map_err(|_| refused(root))
}

/// The settings from which a client is built. It contains secrets, so it has no `Debug`.
struct Setup {
    values: HashMap<Key, String>,
    process: Option<Process>,
}

impl Setup {
    fn read(options: &Options, environment: Environment<'_>) -> Result<Self> {
        let mut values = HashMap::new();
        for (name, key, value) in keys::<Key>(options, "s3://", &KNOWN, &PROFILE)? {
            check(name, key, value)?;
            if values.insert(key, value.to_owned()).is_some() {
                return Err(malformed(name, "given once: the options also have it under another name"));
            }
        }
        let mut setup = Setup { values, process: None };
        let named = PROFILE.iter().find_map(|key| options.get(key)).map(str::to_owned);
        let profile = Profile::load(named.as_deref(), environment)?;
        setup.take_identity(named.is_some(), profile.as_ref(), environment)?;
        setup.take(PLACE, environment)?;
        if let Some(profile) = &profile {
            setup.offer(Key::Region, profile.region());
            if setup.endpoint().is_none() {
                setup.offer(Key::Endpoint, profile.endpoint());
            }
        }
        setup.check_endpoint()?;
        Ok(setup)
    }

    /// Takes the credentials from the first source that has any. `named` says that the options name a
    /// profile, which then takes precedence over the environment.
    fn take_identity(
        &mut self,
        named: bool,
        profile: Option<&Profile>,
        environment: Environment<'_>,
    ) -> Result<()> {
        let anonymous = self.values.get(&Key::SkipSignature).and_then(|value| truth(value)).unwrap_or(false);
        let has = |key| self.values.contains_key(key);
        match (has(&Key::AccessKeyId), has(&Key::SecretAccessKey)) {
            _ if anonymous => return Ok(()),
            (true, true) => return Ok(()),
            (false, false) => {}
            (given, _) => {
                let other = if given { "aws_secret_access_key" } else { "aws_access_key_id" };
                return Err(Error::invalid(format!("storage option {other:?} is missing"))
                    .hint("an access key has two halves"));
            }
        }
        if has(&Key::WebIdentityTokenFile) || has(&Key::ContainerCredentialsRelativeUri) {
            return Ok(());
        }
        if !named {
            if STATIC[..2].iter().all(|name| environment(name).is_some()) {
                return self.take(STATIC, environment);
            }
            if WEB_IDENTITY[..2].iter().all(|name| environment(name).is_some()) {
                return self.take(WEB_IDENTITY, environment);
            }
        }
        match profile.map(Profile::source).transpose()?.flatten() {
            Some(CredentialSource::Static { id, secret, token }) => {
                self.offer(Key::AccessKeyId, Some(id.expose()));
                self.offer(Key::SecretAccessKey, Some(secret.expose()));
                self.offer(Key::Token, token.as_ref().map(|token| token.expose()));
            }
            Some(CredentialSource::WebIdentity { token_file, role, session }) => {
                self.offer(Key::WebIdentityTokenFile, Some(&token_file));
                self.offer(Key::RoleArn, Some(&role));
                self.offer(Key::RoleSessionName, session.as_deref());
            }
            Some(CredentialSource::Program(program)) => self.process = Some(Process::start(program)?),
            None if named => {
                return Err(Error::invalid("the AWS profile of the storage options has no credentials"));
            }
            None => self.take(MACHINE, environment)?,
        }
        Ok(())
    }

    /// Takes values from the environment variables `names`, for settings that have no value yet.
    fn take<const N: usize>(&mut self, names: [&str; N], environment: Environment<'_>) -> Result<()> {
        for name in names {
            let Ok(key) = name.to_ascii_lowercase().parse::<Key>() else { continue };
            let key = if key == Key::DefaultRegion { Key::Region } else { key };
            let settled = match key {
                Key::Region => self.has_region(),
                Key::Endpoint | Key::S3Endpoint => self.endpoint().is_some(),
                _ => false,
            };
            if settled || self.values.contains_key(&key) {
                continue;
            }
            let value = environment(name);
            if value.as_deref().is_some_and(|value| check(name, key, value).is_err()) {
                return Err(Error::invalid(format!("the variable {name} is not true or false")));
            }
            self.offer(key, value.as_deref());
        }
        Ok(())
    }

    fn offer(&mut self, key: Key, value: Option<&str>) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            self.values.entry(key).or_insert_with(|| value.to_owned());
        }
    }

    fn has_region(&self) -> bool {
        self.values.contains_key(&Key::Region) || self.values.contains_key(&Key::DefaultRegion)
    }

    fn endpoint(&self) -> Option<&str> {
        [Key::S3Endpoint, Key::Endpoint].iter().find_map(|key| self.values.get(key)).map(String::as_str)
    }

    fn check_endpoint(&self) -> Result<()> {
        let Some(endpoint) = self.endpoint() else { return Ok(()) };
        let allow_http = Key::Client(ClientConfigKey::AllowHttp);
        let allowed = self.values.get(&allow_http).and_then(|value| truth(value)).unwrap_or(false);
        check_endpoint(endpoint, "s3://", allowed)
    }

    fn client_options(&self) -> Result<ClientOptions> {
        client_options(self.values.iter().filter_map(|(key, value)| match key {
            Key::Client(key) => Some((*key, value.as_str())),
            _ => None,
        }))
    }

    fn builder(&self, bucket: &str, settings: ClientOptions, wire: &Wire) -> AmazonS3Builder {
        let mut builder = AmazonS3Builder::new()
            .with_client_options(settings)
            .with_retry(no_retries())
            .with_http_connector(wire.clone());
        for (key, value) in &self.values {
            builder = builder.with_config(*key, value);
        }
        if let Some(process) = &self.process {
            builder = builder.with_credentials(process.provider());
        }
        builder.with_bucket_name(bucket)
    }
}

/// Refuses an invalid value of a setting. Settings of the connection are checked where it is made.
fn check(name: &str, key: Key, value: &str) -> Result<()> {
    match key {
        Key::RequestPayer if value.eq_ignore_ascii_case("requester") => Ok(()),
        Key::Checksum if value.parse::<Checksum>().is_err() => Err(malformed(name, "sha256 or crc64nvme")),
        key if is_flag(key) => flag(name, value).map(|_| ()),
        _ => Ok(()),
    }
}

fn is_flag(key: Key) -> bool {
    matches!(
        key,
        Key::SkipSignature
            | Key::VirtualHostedStyleRequest
            | Key::S3Express
            | Key::ImdsV1Fallback
            | Key::UnsignedPayload
            | Key::DisableTagging
            | Key::DisableBulkDelete
            | Key::RequestPayer
            | Key::Client(ClientConfigKey::AllowHttp)
    )
}

#[cfg(test)]
mod tests;

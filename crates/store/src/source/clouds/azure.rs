//! `az://`, `abfs://` and `abfss://`: Azure's blobs.
//!
//! The account comes from the first of these that has it: the URL, the storage options, the environment.
//! Credentials come from the URL's signature, else from the storage options, else from the environment. These
//! can give an account key, a shared access signature, a token, a client secret, a workload identity or the
//! `az` program (`use_azure_cli`). Without any of them, the identity of the machine is used.

use std::collections::HashMap;

use forebay_base::{Error, Result};
use object_store::ClientConfigKey;
use object_store::azure::{AzureConfigKey as Key, MicrosoftAzureBuilder};

use super::address::Address;
use super::build::{check_endpoint, client_options, keys, no_retries, refused};
use super::client::Client;
use super::environment::Environment;
use super::options::{Options, flag, malformed};
use crate::source::wire::Wire;

/// The settings that are credentials. If the URL or the options give one of them, no environment variable is
/// read for the others.
const SECRETS: [Key; 8] = [
    Key::SasKey,
    Key::AccessKey,
    Key::Token,
    Key::ClientSecret,
    Key::FederatedTokenFile,
    Key::UseAzureCli,
    Key::SkipSignature,
    Key::CredentialType,
];

/// The environment variables that are read. Azure's own libraries and programs use the same names.
const VARIABLES: [&str; 22] = [
    "AZURE_STORAGE_ACCOUNT_NAME",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_TOKEN",
    "AZURE_STORAGE_CLIENT_ID",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_TENANT_ID",
    "AZURE_AUTHORITY_HOST",
    "AZURE_FEDERATED_TOKEN_FILE",
    "AZURE_STORAGE_USE_EMULATOR",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_ENDPOINT",
    "AZURE_USE_AZURE_CLI",
    "AZURE_SKIP_SIGNATURE",
    "AZURE_MSI_ENDPOINT",
    "AZURE_IDENTITY_ENDPOINT",
    "AZURE_OBJECT_ID",
];

/// More environment variables that are read, with the setting that each one gives.
const OTHERS: [(&str, Key); 3] = [
    ("AZURE_STORAGE_ACCOUNT", Key::AccountName),
    ("AZURE_STORAGE_KEY", Key::AccessKey),
    ("IDENTITY_ENDPOINT", Key::MsiEndpoint),
];

/// The storage options that error messages suggest for a misspelt one.
const KNOWN: [&str; 16] = [
    "azure_storage_account_name",
    "azure_storage_account_key",
    "azure_storage_access_key",
    "azure_storage_sas_token",
    "azure_storage_sas_key",
    "azure_storage_token",
    "azure_storage_client_id",
    "azure_storage_client_secret",
    "azure_storage_tenant_id",
    "azure_storage_authority_host",
    "azure_storage_use_emulator",
    "azure_storage_endpoint",
    "azure_federated_token_file",
    "azure_use_azure_cli",
    "azure_skip_signature",
    "azure_credential_type",
];

/// The account that Azurite, the emulator of Azure's storage, has by default. Its key is public.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const EMULATOR_ENDPOINT: &str = "http://127.0.0.1:10000";

pub(super) fn connect(
    address: &Address,
    options: &Options,
    wire: &Wire,
    environment: Environment<'_>,
) -> Result<Client> {
    let values = read(address, options, environment)?;
    let settings = client_options(values.iter().filter_map(|(key, value)| match key {
        Key::Client(key) => Some((*key, value.as_str())),
        _ => None,
    }))?;
    wire.client(&settings)?;
    let mut builder = MicrosoftAzureBuilder::new()
        .with_client_options(settings)
        .with_retry(no_retries())
        .with_http_connector(wire.clone());
    for (key, value) in &values {
        builder = builder.with_config(*key, value);
    }
    let store = builder.with_container_name(address.store()).build();
    Ok(Client::paged(store.map_err(|_| refused(address.root()))?))
}

/// Collects the settings of the client from the URL, the storage options and the environment.
fn read(address: &Address, options: &Options, environment: Environment<'_>) -> Result<HashMap<Key, String>> {
    let mut values: HashMap<Key, String> = HashMap::new();
    for (name, key, value) in keys::<Key>(options, "az://", &KNOWN, &[])? {
        if values.insert(key, value.to_owned()).is_some() {
            return Err(malformed(name, "given once: the options also have it under another name"));
        }
    }
    if let Some(signature) = address.query() {
        values.retain(|key, _| !SECRETS.contains(key));
        values.insert(Key::SasKey, signature.expose().to_owned());
    }
    if let Some(host) = address.account() {
        take_account(host, &mut values)?;
    }
    let settled = SECRETS.iter().any(|key| values.contains_key(key));
    let named =
        VARIABLES.iter().filter_map(|name| Some((*name, name.to_ascii_lowercase().parse::<Key>().ok()?)));
    for (name, key) in named.chain(OTHERS) {
        let Some(value) = environment(name).filter(|_| !(settled && SECRETS.contains(&key))) else {
            continue;
        };
        values.entry(key).or_insert(value);
    }

    let flag = |key: Key| values.get(&key).map_or(Ok(false), |value| flag(key.as_ref(), value));
    for key in [Key::SkipSignature, Key::UseAzureCli, Key::UseFabricEndpoint, Key::DisableTagging] {
        flag(key)?;
    }
    let allow_http = flag(Key::Client(ClientConfigKey::AllowHttp))?;
    let emulator = flag(Key::UseEmulator)?;
    if values.get(&Key::AccessKey).is_some_and(|key| !is_base64(key)) {
        return Err(malformed(Key::AccessKey.as_ref(), "an account key")
            .hint("it is in base64: copy all of it, with the = at its end"));
    }
    if emulator {
        emulate(&mut values, environment);
    }
    if let Some(endpoint) = values.get(&Key::Endpoint) {
        check_endpoint(endpoint, "az://", allow_http || emulator)?;
    }
    if !values.contains_key(&Key::AccountName) {
        return Err(Error::invalid(format!("{} names no storage account", address.root())).hint(
            "pass the storage option account_name, or write abfss://container@account.dfs.core.windows.net",
        ));
    }
    Ok(values)
}

/// Whether `text` has the characters and the length of Base64.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let is_digit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    text.len().is_multiple_of(4) && text.len() - digits.len() <= 2 && digits.chars().all(is_digit)
}

/// Reads the account from the host of a URL, and also the endpoint if it is not Azure's default one.
fn take_account(host: &str, values: &mut HashMap<Key, String>) -> Result<()> {
    let malformed = || {
        Error::invalid("the URL's host is not an Azure account's")
            .hint("write abfss://container@account.dfs.core.windows.net/path")
    };
    let (account, rest) = host.split_once('.').ok_or_else(malformed)?;
    let (kind, domain) = rest.split_once('.').ok_or_else(malformed)?;
    if let Some(zone) = kind.strip_prefix('z').filter(|_| rest.ends_with(".fabric.microsoft.com")) {
        // This is the private link of a Microsoft Fabric workspace: the zone belongs to the account's name.
        values.insert(Key::AccountName, format!("{account}.z{zone}"));
        values.insert(Key::Endpoint, format!("https://{host}"));
        values.insert(Key::UseFabricEndpoint, "true".to_owned());
        return Ok(());
    }
    if !matches!(kind, "dfs" | "blob") {
        return Err(malformed());
    }
    values.insert(Key::AccountName, account.to_owned());
    match domain {
        "core.windows.net" => {}
        "fabric.microsoft.com" => {
            values.insert(Key::UseFabricEndpoint, "true".to_owned());
        }
        // Any other domain is taken for a national cloud of Azure, such as `core.chinacloudapi.cn`.
        other => {
            values.entry(Key::Endpoint).or_insert_with(|| format!("https://{account}.blob.{other}"));
        }
    }
    Ok(())
}

/// Changes the settings for the emulator, whose URLs have the account in the path, and whose key is public.
fn emulate(values: &mut HashMap<Key, String>, environment: Environment<'_>) {
    values.remove(&Key::UseEmulator);
    let account = values.entry(Key::AccountName).or_insert_with(|| EMULATOR_ACCOUNT.to_owned()).clone();
    let endpoint = values.remove(&Key::Endpoint).or_else(|| environment("AZURITE_BLOB_STORAGE_URL"));
    let endpoint = endpoint.unwrap_or_else(|| EMULATOR_ENDPOINT.to_owned());
    let endpoint = endpoint.trim_end_matches('/');
    let endpoint = match endpoint.strip_suffix(&account) {
        Some(before) if before.ends_with('/') => endpoint.to_owned(),
        _ => format!("{endpoint}/{account}"),
    };
    values.insert(Key::Endpoint, endpoint);
    values.insert(Key::Client(ClientConfigKey::AllowHttp), "true".to_owned());
    if !SECRETS.iter().any(|key| values.contains_key(key)) {
        values.insert(Key::AccessKey, EMULATOR_KEY.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn settled(
        url: &str,
        options: &[(&str, &str)],
        variables: &[(&str, &str)],
    ) -> Result<HashMap<Key, String>> {
        let map: BTreeMap<_, _> =
            options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let variable = |name: &str| Some(variables.iter().find(|(known, _)| *known == name)?.1.to_owned());
        let address = Address::parse(url).unwrap().unwrap();
        let values = read(&address, &Options::new(&map), &variable)?;
        connect(&address, &Options::new(&map), &Wire::new(), &variable)?;
        Ok(values)
    }

    #[test]
    fn the_account_comes_from_the_url_or_the_options_or_a_variable() {
        let account = |url, options: &[_], variables: &[_]| {
            let values = settled(url, options, variables).unwrap();
            (values[&Key::AccountName].clone(), values.get(&Key::Endpoint).cloned().unwrap_or_default())
        };
        let named = |name: &str, endpoint: &str| (name.to_owned(), endpoint.to_owned());
        assert_eq!(account("abfss://c@a.dfs.core.windows.net/x", &[], &[]), named("a", ""));
        assert_eq!(
            account("az://c", &[("account_name", "b")], &[("AZURE_STORAGE_ACCOUNT", "v")]),
            named("b", "")
        );
        assert_eq!(account("az://c", &[], &[("AZURE_STORAGE_ACCOUNT", "v")]), named("v", ""));
        let china = "https://a.blob.core.chinacloudapi.cn";
        assert_eq!(account("abfss://c@a.dfs.core.chinacloudapi.cn", &[], &[]), named("a", china));
        let error = settled("az://c", &[], &[]).unwrap_err().to_string();
        assert!(
            error.starts_with("az://c names no storage account (pass the storage option account_name"),
            "{error}"
        );
        assert!(settled("abfss://c@example.com", &[], &[]).is_err());
    }

    #[test]
    fn credentials_of_one_source_are_not_mixed_with_another_s() {
        let variables = [("AZURE_STORAGE_ACCOUNT", "a"), ("AZURE_STORAGE_KEY", "a2V5")];
        let values = settled("az://c/x?sv=1&sig=s", &[("account_key", "b3B0")], &variables).unwrap();
        assert_eq!(values[&Key::SasKey], "sv=1&sig=s");
        assert!(!values.contains_key(&Key::AccessKey));
        let values = settled("az://c/x", &[("sas_token", "sv=1&sig=o")], &variables).unwrap();
        assert!(!values.contains_key(&Key::AccessKey));
        assert_eq!(settled("az://c/x", &[], &variables).unwrap()[&Key::AccessKey], "a2V5");
    }

    #[test]
    fn the_emulator_is_found_where_everyone_has_it() {
        let emulator = settled("az://c", &[("use_emulator", "true")], &[]).unwrap();
        assert_eq!(emulator[&Key::Endpoint], "http://127.0.0.1:10000/devstoreaccount1");
        let given = [("use_emulator", "true"), ("endpoint", "http://azurite:10000/devstoreaccount1/")];
        assert_eq!(
            settled("az://c", &given, &[]).unwrap()[&Key::Endpoint],
            "http://azurite:10000/devstoreaccount1"
        );
    }

    #[test]
    fn a_malformed_value_is_named() {
        for (name, shown, what) in [
            ("account_key", "azure_storage_account_key", "an account key"),
            ("use_fabric_endpoint", "azure_use_fabric_endpoint", "true or false"),
            ("skip_signature", "azure_skip_signature", "true or false"),
            ("timeout", "timeout", "a duration"),
            ("azure_allow_http", "allow_http", "true or false"),
        ] {
            let error = settled("az://c", &[("account_name", "a"), (name, "hunter2")], &[]).unwrap_err();
            let sentence = error.to_string();
            assert!(sentence.starts_with(&format!("storage option {shown:?} is not {what}")), "{sentence}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn what_is_malformed_is_not_repeated() {
        for options in [
            [("account_key", "hunter2!"), ("account_name", "a")],
            [("acount_key", "hunter2"), ("token", "t")],
        ] {
            let error = settled("az://c", &options, &[]).unwrap_err();
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}

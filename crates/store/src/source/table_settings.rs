//! Translates the settings by which Iceberg describes access to a table's files into storage options.

use std::collections::BTreeMap;

/// Iceberg's settings for S3, each with the storage option that has the same meaning.
const S3: [(&str, &str); 7] = [
    ("s3.access-key-id", "aws_access_key_id"),
    ("s3.secret-access-key", "aws_secret_access_key"),
    ("s3.session-token", "aws_session_token"),
    ("s3.endpoint", "aws_endpoint"),
    ("client.region", "aws_region"),
    ("s3.region", "aws_region"),
    ("s3.path-style-access", "aws_virtual_hosted_style_request"),
];
const AZURE: [(&str, &str); 6] = [
    ("adls.account-name", "azure_storage_account_name"),
    ("adls.account-key", "azure_storage_account_key"),
    ("adls.sas-token", "azure_storage_sas_token"),
    ("adls.tenant-id", "azure_storage_tenant_id"),
    ("adls.client-id", "azure_storage_client_id"),
    ("adls.client-secret", "azure_storage_client_secret"),
];

/// The storage options that correspond to `config`, Iceberg's settings for the files of a table at
/// `location`.
pub fn store_options(location: &str, config: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let scheme = location.split_once("://").map_or("", |(scheme, _)| scheme);
    let known: &[(&str, &str)] = match scheme {
        "s3" | "s3a" | "s3n" => &S3,
        "abfs" | "abfss" | "wasb" | "wasbs" | "az" => &AZURE,
        _ => &[],
    };
    let mut options = BTreeMap::new();
    for (name, option) in known {
        // The name of a setting may be followed by the host of an account: `adls.sas-token.HOST`.
        let behind = format!("{name}.");
        let found = config.iter().find(|(key, _)| key == name || key.starts_with(&behind));
        let Some((_, value)) = found.filter(|(_, value)| !value.is_empty()) else { continue };
        let value = match *name {
            "s3.path-style-access" => (!value.eq_ignore_ascii_case("true")).to_string(),
            _ => value.clone(),
        };
        if *name == "s3.endpoint" && value.starts_with("http://") {
            options.insert("aws_allow_http".to_owned(), "true".to_owned());
        }
        options.entry((*option).to_owned()).or_insert(value);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn settings_of_files_are_options_of_their_store() {
        let config = pairs(&[
            ("s3.access-key-id", "id"),
            ("s3.endpoint", "http://localhost:9000"),
            ("s3.path-style-access", "true"),
            ("adls.sas-token.acme.dfs.core.windows.net", "sas"),
            ("other", "x"),
        ]);
        let of_s3 = store_options("s3://acme/t/metadata/v1.metadata.json", &config);
        let expected = [
            ("aws_access_key_id", "id"),
            ("aws_allow_http", "true"),
            ("aws_endpoint", "http://localhost:9000"),
            ("aws_virtual_hosted_style_request", "false"),
        ];
        assert_eq!(of_s3, pairs(&expected));
        let of_azure = store_options("abfss://c@acme.dfs.core.windows.net/t", &config);
        assert_eq!(of_azure, pairs(&[("azure_storage_sas_token", "sas")]));
        assert_eq!(store_options("file:///t", &config), BTreeMap::new());
    }
}

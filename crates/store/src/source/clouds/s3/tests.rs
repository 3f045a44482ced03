#![allow(clippy::disallowed_methods, reason = "a test brings its own runtime")]

use std::collections::BTreeMap;
use std::path::Path;

use forebay_base::ErrorKind;

use super::*;
use crate::source::clouds::Secret;

const CANARY: &str = "hunter2-canary";

/// A temporary home folder with the files `credentials` and `config` of AWS, and environment variables.
struct Home {
    folder: tempfile::TempDir,
    variables: BTreeMap<String, String>,
}

impl Home {
    fn new(credentials: &str, config: &str, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let aws = folder.path().join(".aws");
        std::fs::create_dir(&aws).unwrap();
        std::fs::write(aws.join("credentials"), credentials).unwrap();
        std::fs::write(aws.join("config"), config).unwrap();
        let mut variables: BTreeMap<_, _> =
            variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        variables.insert("HOME".into(), folder.path().to_string_lossy().into_owned());
        Home { folder, variables }
    }

    fn read(&self, options: &[(&str, &str)]) -> Result<Setup> {
        let map = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Setup::read(&Options::new(&map), &|name| self.variables.get(name).cloned())
    }

    /// The access key id, secret key, session token, region and endpoint that result from these options.
    fn settled(&self, options: &[(&str, &str)]) -> [String; 5] {
        let setup = self.read(options).unwrap();
        let keys = [Key::AccessKeyId, Key::SecretAccessKey, Key::Token, Key::Region];
        let [id, secret, token, region] = keys.map(|key| setup.values.get(&key).cloned().unwrap_or_default());
        [id, secret, token, region, setup.endpoint().unwrap_or_default().to_owned()]
    }

    fn sentence(&self, options: &[(&str, &str)]) -> String {
        let error = self.read(options).map(|_| ()).unwrap_err();
        assert!(!format!("{error:?}").contains(CANARY), "{error:?}");
        error.to_string()
    }
}

const CREDENTIALS: &str = "\
# a comment
[default]
aws_access_key_id = file-id
aws_secret_access_key = file=secret

[work]
aws_access_key_id=work-id
aws_secret_access_key=work-secret
aws_session_token=work-token
";

const CONFIG: &str = "\
[default]
region = eu-west-1
s3 =
    endpoint_url = https://nested.example.com
[profile work]
region = us-west-2
endpoint_url = https://work.example.com
";

const VARIABLES: [(&str, &str); 3] = [
    ("AWS_ACCESS_KEY_ID", "env-id"),
    ("AWS_SECRET_ACCESS_KEY", "env-secret"),
    ("AWS_SESSION_TOKEN", "env-token"),
];

#[test]
fn credentials_come_from_the_first_source_and_from_it_alone() {
    let files = Home::new(CREDENTIALS, CONFIG, &[]);
    assert_eq!(files.settled(&[]), ["file-id", "file=secret", "", "eu-west-1", ""]);
    let work = ["work-id", "work-secret", "work-token", "us-west-2", "https://work.example.com"];
    assert_eq!(files.settled(&[("profile", "work")]), work);
    let named = Home::new(CREDENTIALS, CONFIG, &[("AWS_PROFILE", "work")]);
    assert_eq!(named.settled(&[]), work);

    let variables = Home::new(CREDENTIALS, CONFIG, &VARIABLES);
    assert_eq!(variables.settled(&[]), ["env-id", "env-secret", "env-token", "eu-west-1", ""]);
    assert_eq!(variables.settled(&[("AWS_PROFILE", "work")]), work);
    let given = [("access_key_id", "opt-id"), ("AWS_SECRET_ACCESS_KEY", "opt-secret")];
    assert_eq!(variables.settled(&given), ["opt-id", "opt-secret", "", "eu-west-1", ""]);
    assert_eq!(variables.settled(&[("skip_signature", "true")])[..3], ["", "", ""]);
}

#[test]
fn region_and_endpoint_come_from_the_first_source_too() {
    let variables = [
        ("AWS_DEFAULT_REGION", "ap-south-1"),
        ("AWS_REGION", "eu-north-1"),
        ("AWS_ENDPOINT_URL", "https://any.example.com"),
        ("AWS_ENDPOINT_URL_S3", "https://s3.example.com"),
    ];
    let home = Home::new(CREDENTIALS, CONFIG, &variables);
    assert_eq!(home.settled(&[])[3..], ["eu-north-1", "https://s3.example.com"]);
    let given = [("region", "sa-east-1"), ("endpoint", "http://localhost:9000")];
    assert_eq!(home.settled(&given)[3..], ["sa-east-1", "http://localhost:9000"]);
    assert!(!Home::new("", "", &[]).read(&[]).unwrap().has_region());
}

#[test]
fn a_web_identity_is_taken_from_variables_or_from_a_profile() {
    let variables = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"), ("AWS_ROLE_ARN", "arn:x")];
    let setup = Home::new(CREDENTIALS, CONFIG, &variables).read(&[]).unwrap();
    assert_eq!(setup.values[&Key::RoleArn], "arn:x");
    assert!(!setup.values.contains_key(&Key::AccessKeyId));
    let config = "[default]\nrole_arn = arn:y\nweb_identity_token_file = /other\n";
    let setup = Home::new("", config, &[]).read(&[]).unwrap();
    assert_eq!(
        (&*setup.values[&Key::RoleArn], &*setup.values[&Key::WebIdentityTokenFile]),
        ("arn:y", "/other")
    );
}

fn script(folder: &Path, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_program_is_run_again_once_its_credentials_expire() {
    let mut home = Home::new("", "", &[]);
    let folder = home.folder.path().to_owned();
    let print = "n=$(cat $0.n 2>/dev/null || echo 0); echo $((n+1)) > $0.n; \
                 echo \"{\\\"Version\\\":1,\\\"AccessKeyId\\\":\\\"id$n\\\",\\\"SecretAccessKey\\\":\\\"s\\\",\
                 \\\"Expiration\\\":\\\"$(cat $0.until)\\\"}\"";
    script(&folder, "print", print);
    std::fs::write(folder.join("print.until"), "2001-01-01T00:00:00Z").unwrap();
    let config = format!("[default]\ncredential_process = {}\n", folder.join("print").display());
    std::fs::write(folder.join(".aws/config"), config).unwrap();
    home.variables.insert("AWS_REGION".into(), "x".into());

    let process = home.read(&[]).unwrap().process.unwrap();
    std::fs::write(folder.join("print.until"), "2999-01-01T00:00:00Z").unwrap();
    let provider = process.provider();
    // The first credentials, `id0`, had already expired, so the program ran again. `id1` does not expire.
    for _ in 0..2 {
        assert_eq!(provider.get_credential().await.unwrap().key_id, "id1");
    }
}

#[test]
fn a_program_that_fails_says_so_without_its_words() {
    for (command, why) in [
        (format!("echo {CANARY}"), "did not print credentials as JSON"),
        (format!("echo {CANARY} >&2; exit 3"), "failed with exit status: 3"),
    ] {
        let home = Home::new("", &format!("[default]\ncredential_process = {command}\n"), &[]);
        let sentence = home.sentence(&[]);
        assert!(sentence.starts_with("credential_process of the AWS profile \"default\""), "{sentence}");
        assert!(sentence.contains(why), "{sentence}");
    }
}

#[test]
fn single_sign_on_goes_through_the_aws_program() {
    let config = "[profile sso]\nsso_session = corp\nregion = eu-west-1\n";
    let mut home = Home::new("", config, &[("AWS_PROFILE", "sso")]);
    let error = home.read(&[]).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("install the AWS CLI"), "{error}");

    let folder = home.folder.path().to_owned();
    let print = "[ \"$*\" = 'configure export-credentials --profile sso --format process' ] || exit 1\n\
                 echo '{\"Version\":1,\"AccessKeyId\":\"sso-id\",\"SecretAccessKey\":\"s\"}'";
    script(&folder, "aws", print);
    home.variables.insert("PATH".into(), folder.to_string_lossy().into_owned());
    assert!(home.read(&[]).unwrap().process.is_some());
}

#[test]
fn what_cannot_be_is_refused_without_its_value() {
    let home = Home::new(CREDENTIALS, CONFIG, &[]);
    for (options, sentence) in [
        (
            vec![("regoin", CANARY)],
            "storage option \"regoin\" is not known to s3:// (did you mean \"region\"?)",
        ),
        (
            vec![("access_key_id", CANARY)],
            "storage option \"aws_secret_access_key\" is missing (an access key has two halves)",
        ),
        (
            vec![("access_key_id", CANARY), ("secret_access_key", "")],
            "storage option \"secret_access_key\" is empty (give it its value, or leave it out)",
        ),
        (vec![("skip_signature", CANARY)], "storage option \"skip_signature\" is not true or false"),
        (
            vec![("profile", "none")],
            "there is no AWS profile \"none\" (aws configure list-profiles lists them)",
        ),
        (
            vec![("endpoint", "https://ann:hunter2-canary@h")],
            "the endpoint for s3:// is malformed (write it as in https://store.example.com:9000)",
        ),
        (
            vec![("endpoint", "http://minio:9000")],
            "the endpoint for s3:// is plain http://, which anyone in between can read \
             (use https://, or pass the storage option allow_http=true)",
        ),
    ] {
        assert_eq!(home.sentence(&options), sentence);
    }
    assert!(home.read(&[("endpoint", "http://minio:9000"), ("allow_http", "true")]).is_ok());
}

#[test]
fn a_builder_that_refuses_is_not_quoted() {
    let home = Home::new(CREDENTIALS, CONFIG, &[]);
    let setup = home.read(&[("copy_if_not_exists", CANARY)]).unwrap();
    let builder = setup.builder("b", setup.client_options().unwrap(), &Wire::new());
    let error = built(builder, "s3://b").map(|_| ()).unwrap_err();
    assert!(!format!("{error:?}").contains(CANARY), "{error:?}");
    assert!(error.to_string().starts_with("the storage options for s3://b"), "{error}");
    assert_eq!(format!("{}", Secret::new(CANARY)), "***");
}

#[test]
fn a_value_that_is_malformed_is_refused_when_the_store_is_opened_though_its_region_is_not_known() {
    let home = Home::new("", "", &[]);
    let variable = |name: &str| home.variables.get(name).cloned();
    let address = Address::parse("s3://b/x").unwrap().unwrap();
    let open = |options: &[(&str, &str)]| {
        let map = options.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        connect(&address, &Options::new(&map), &Wire::new(), &variable).map(|_| ())
    };
    assert!(open(&[("timeout", "30s"), ("request_payer", "requester")]).is_ok());
    let time = "a duration (write it as in \"180s\", \"500ms\" or \"3m\")";
    for (name, what) in [
        ("timeout", time),
        ("connect_timeout", time),
        ("aws_timeout", time),
        ("pool_max_idle_per_host", "a count (write it as in \"64\")"),
        ("allow_invalid_certificates", "true or false"),
        ("aws_imdsv1_fallback", "true or false"),
        ("request_payer", "true or false"),
        ("checksum_algorithm", "sha256 or crc64nvme"),
        ("proxy_ca_certificate", "a certificate in PEM"),
    ] {
        let error = open(&[(name, CANARY)]).unwrap_err();
        let shown = name.strip_prefix("aws_timeout").map_or(name, |_| "timeout");
        assert_eq!(error.to_string(), format!("storage option {shown:?} is not {what}"));
    }
    let error = open(&[("conditional_put", CANARY)]).unwrap_err();
    assert!(error.to_string().starts_with("the storage options for s3://b"), "{error}");
    let home = Home::new("", "", &[("AWS_ALLOW_HTTP", CANARY)]);
    assert_eq!(home.sentence(&[]), "the variable AWS_ALLOW_HTTP is not true or false");
}

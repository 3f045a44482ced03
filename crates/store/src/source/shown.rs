//! Removes passwords and signatures from a location, so that it can be shown in messages.
//!
//! Nothing is assumed about the text: a mistyped URL is taken for a path elsewhere, but still contains a
//! password. If a text can be understood in two ways, and one of them has a secret, the secret is hidden.

use super::clouds::is_scheme;

/// The text that replaces a secret.
const HIDDEN: &str = "***";

/// A query field is taken for a secret if its name contains one of these.
const SECRET_NAMES: [&str; 13] = [
    "sig",
    "token",
    "key",
    "secret",
    "passw",
    "pwd",
    "credential",
    "auth",
    "access",
    "code",
    "jwt",
    "session",
    "sas",
];

/// The characters that begin a query, a fragment, or a field inside them.
const BEGIN_FIELD: [char; 4] = ['?', '#', '&', ';'];

/// A text is percent-decoded this many times in a row to find secrets that were encoded several times.
const LAYERS: usize = 4;

/// Returns a location that is safe to show. It is the text as written, with `***` in place of a user and
/// password, of the query of an `http://` or `https://` URL, and of any query with a signature.
///
/// The text need not be a valid URL: a password is also found in `https:/user:password@host` and
/// `s3:key:secret@bucket`. A text that can only be a path, an object's key or a glob is unchanged.
///
/// ```
/// use forebay_store::source::shown;
///
/// assert_eq!(shown("https://ann:hunter2@host/x.parquet?sig=abc"), "https://***@host/x.parquet?***");
/// assert_eq!(shown("s3://acme/day=1/part-?.parquet"), "s3://acme/day=1/part-?.parquet");
/// ```
pub fn shown(location: &str) -> String {
    let mut shown = hidden(location).unwrap_or_else(|| location.to_owned());
    let mut plain = shown.clone();
    for _ in 0..LAYERS {
        plain = leniently_decoded(&plain);
        if let Some(hidden) = hidden(&plain) {
            (shown, plain) = (hidden.clone(), hidden);
        }
    }
    shown
}

/// Percent-decodes a text, and leaves malformed escapes as they are.
fn leniently_decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        match piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&piece.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'%');
                bytes.extend_from_slice(piece.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Replaces the secrets in a text by `***`; `None` if it has no secrets.
fn hidden(text: &str) -> Option<String> {
    let (scheme, rest) = split_scheme(text);
    let rest_at = text.len() - rest.len();
    let is_web = matches!(scheme.as_deref(), Some("http" | "https"));
    let end = query(rest, is_web);
    let place = &rest[..end.unwrap_or(rest.len())];
    let place_without = match scheme.as_deref() {
        Some(scheme) if scheme != "file" => without_login(scheme, place),
        _ => without_password(place),
    };
    if end.is_none() && place_without.is_none() {
        return None;
    }
    let mut shown = text[..rest_at].to_owned();
    shown += place_without.as_deref().unwrap_or(place);
    if let Some(at) = end {
        shown.extend(rest[at..].chars().next());
        shown += HIDDEN;
    }
    Some(shown)
}

/// Splits a text after its scheme, even if the colon or slashes are mistyped. Returns the scheme in lower
/// case, or `None` if it is unknown, and the text after it.
fn split_scheme(text: &str) -> (Option<String>, &str) {
    let trimmed =
        text.trim_start_matches(|c: char| c.is_whitespace() || c.is_control() || "'\"<\u{feff}".contains(c));
    let Some(end) = trimmed.find(':').or_else(|| trimmed.find("//")) else { return (None, text) };
    let end = trimmed.find("//").map_or(end, |slashes| slashes.min(end));
    let name = trimmed[..end].trim().to_ascii_lowercase();
    match is_scheme(&name) {
        true => {
            let rest = &trimmed[end..];
            (Some(name), rest.strip_prefix(':').unwrap_or(rest).trim_start_matches(['/', '\\', ' ']))
        }
        false => (None, text),
    }
}

/// Replaces the login before the host by `***`. `place` is the URL after its scheme. `None` if it has no
/// login.
fn without_login(scheme: &str, place: &str) -> Option<String> {
    let end = place.find(['/', '\\']).unwrap_or(place.len());
    let (host, path) = place.split_at(end);
    // In `abfss://container@account`, the text before the `@` is the container, not a login.
    let is_container = matches!(scheme, "abfs" | "abfss") && !host.contains(':');
    if let Some(at) = host.rfind('@').filter(|_| !is_container) {
        let path = without_password_in_url(path).unwrap_or_else(|| path.to_owned());
        return Some(format!("{HIDDEN}{}{path}", &host[at..]));
    }
    if has_odd_port(host) {
        // There is no `@` before the first slash: the password contains a slash, or its `@` is encoded.
        let kept = place.rfind('@').map_or("", |at| &place[at..]);
        return Some(format!("{HIDDEN}{kept}"));
    }
    without_password_in_url(path).map(|path| format!("{host}{path}"))
}

/// Whether the text after the colon in `host` is not a port number, so that it may be a password.
fn has_odd_port(host: &str) -> bool {
    let after = host.rsplit_once(']').map_or(host, |(_, after)| after);
    after.split_once(':').is_some_and(|(_, port)| !port.is_empty() && port.parse::<u16>().is_err())
}

/// Hides the login of another URL inside a path; `None` if the path contains no URL with a login.
fn without_password_in_url(path: &str) -> Option<String> {
    path.contains("://").then(|| without_password(path)).flatten()
}

/// Hides a login in a text of unknown form. It replaces the text up to the last `@`, beginning after the last
/// slash before the first colon. `None` if no `@` follows the first colon.
fn without_password(text: &str) -> Option<String> {
    let colon = text.find(':')?;
    let at = text.rfind('@').filter(|&at| at > colon)?;
    let start = text[..colon].rfind(['/', '\\']).map_or(0, |slash| slash + 1);
    Some(format!("{}{HIDDEN}{}", &text[..start], &text[at..]))
}

/// The offset of the query to hide, if there is one. The query of a web address is always hidden. In other
/// locations a `?` is a wildcard, unless a field after it looks like a signature.
fn query(rest: &str, is_web: bool) -> Option<usize> {
    if is_web {
        return rest.find(BEGIN_FIELD);
    }
    let begins = rest.match_indices(BEGIN_FIELD).map(|(at, _)| at);
    let secret = begins.into_iter().find(|&at| {
        let field = rest[at + 1..].split(BEGIN_FIELD).next().unwrap_or_default();
        // A name with a slash is not a field, but a path after a wildcard, such as `?/token=1`.
        field.split_once('=').is_some_and(|(name, _)| !name.contains('/') && is_secret(name))
    })?;
    Some(rest[..secret].find('?').unwrap_or(secret))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_without_a_secret_is_shown_as_it_was_written() {
        for location in [
            "",
            "data/train",
            "/data/a@b/x y.parquet",
            "/data/12:30/x.parquet",
            "user@host:data",
            "./part-?.parquet",
            "data/?/token=1/*.parquet",
            "~/x",
            "s3://acme/x/*.parquet",
            "s3://acme/day=1/part-?.parquet",
            "s3://acme/ann@example.com/x",
            "s3://acme/a%20b#c",
            "gs://b/a&b=c",
            "az://c/x?/*.parquet",
            "abfss://c@a.dfs.core.windows.net/x",
            "hdfs://nn:8020/data",
            "hdfs:///data/x",
            "hf://datasets/owner/name@v1.0/x",
            "https://host:8443/a@b.parquet",
            "http://[::1]:9000/x",
            "file:///data/x",
            "ftp://host/x",
        ] {
            assert_eq!(shown(location), location);
        }
    }

    #[test]
    fn a_login_and_a_query_are_hidden_where_they_stand() {
        for (location, seen) in [
            ("https://ann:CANARY@host/x", "https://***@host/x"),
            ("https://CANARY@host/x", "https://***@host/x"),
            ("https://host/x?CANARY", "https://host/x?***"),
            ("https://host/x#CANARY", "https://host/x#***"),
            (
                "http://ann:CANARY@127.0.0.1:9000/a?b=1&X-Amz-Signature=CANARY",
                "http://***@127.0.0.1:9000/a?***",
            ),
            ("az://c/x/*.parquet?sv=1&sig=CANARY", "az://c/x/*.parquet?***"),
            ("abfss://c@a.dfs.core.windows.net/x?sig=CANARY", "abfss://c@a.dfs.core.windows.net/x?***"),
            ("s3://AKIA:CANARY@bucket/x", "s3://***@bucket/x"),
            ("s3://b/x?AWSAccessKeyId=A&Signature=CANARY", "s3://b/x?***"),
            ("s3://b/p-?.parquet?token=CANARY", "s3://b/p-?***"),
        ] {
            assert_eq!(shown(location), seen);
        }
    }

    #[test]
    fn a_mistyped_url_gives_no_secret_away() {
        let logins =
            ["ann:CANARY", "ann:CAN/ARY/CANARY", ":CANARY", "CANARY", "ann:CAN@CANARY", "ann:C%2FCANARY"];
        let starts = [
            "https://",
            "https:/",
            "https:",
            "https:///",
            "https//",
            "http:\\\\",
            " https://",
            "\thttps://",
            "HTTPS://",
            "htps://",
            "ht tps://",
            "s3://",
            "S3://",
            "s3:/",
            "s3:",
            "s3a:",
            "gs:/",
            "hdfs://",
            "ftp://",
            "'https://",
            "<https://",
            "\u{feff}https://",
            "/home/ann/https://",
            "./https:/",
            "url=https://",
            "https : //",
            "",
            "abfss://",
            "hf://",
            "file://",
            "https://other/x,https://",
            "https://a:1/https://",
        ];
        for start in starts {
            for login in logins {
                // A login without a colon is only a user name, which may be shown outside of http URLs.
                let is_bare = !login.contains(':') && !start.trim().to_ascii_lowercase().starts_with("http");
                let encoded = if login.contains('@') { "@host" } else { "%40host/x" };
                for end in ["@host/x.parquet", "@host", encoded, "@host:9000/x?a=b"] {
                    let location = format!("{start}{login}{end}");
                    let seen = shown(&location);
                    assert!(is_bare || !seen.contains("CANARY"), "{location}: {seen}");
                }
            }
        }
    }

    #[test]
    fn no_form_of_a_signature_is_shown() {
        let queries = [
            "?X-Amz-Signature=CANARY",
            "?a=b&X-Amz-Security-Token=CANARY",
            "?AWSAccessKeyId=CANARY",
            "?sig=CANARY",
            "?sv=1&se=2&sig=CANARY",
            "?SIG=CANARY",
            "?token=CANARY",
            "?access_token=CANARY",
            "#token=CANARY",
            "&X-Goog-Signature=CANARY",
            ";sig=CANARY",
            "?X-Amz-Credential=CANARY",
            "?password=CANARY",
            "?apikey=CANARY",
            "%3FX-Amz-Signature%3DCANARY",
            "%3fsig=CANARY",
            "%253Fsig%253DCANARY",
            "?%73ig=CANARY",
            "%zz%3Fsig=CANARY",
        ];
        let starts = [
            "https://h/x",
            "https:/h/x",
            "https:h/x",
            "https//h/x",
            " https://h/x",
            "s3://b/x",
            "S3:/b/x",
            "s3:b/x",
            "az://c/x",
            "abfss://c@a/x",
            "gs://b/x",
            "hf://datasets/o/n/x",
            "hdfs://n/x",
            "file:///x",
            "/data/x",
            "x",
            "h/x",
            "ftp://h/x",
            "https://h",
        ];
        for start in starts {
            for query in queries {
                let location = format!("{start}{query}");
                let seen = shown(&location);
                assert!(!seen.contains("CANARY"), "{location}: {seen}");
            }
        }
    }

    #[test]
    fn what_was_hidden_once_stays_as_it_is() {
        for location in
            ["https://a:b@h/x?y", "s3:k:s@b/x?sig=1", "%68ttps://a:b@h", "a:b@c", "https://a:b/c@d?e"]
        {
            let once = shown(location);
            assert_eq!(shown(&once), once);
        }
    }
}

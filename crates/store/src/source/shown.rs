//! Shows a user's location without its secrets.
//!
//! Only the text is parsed, without assumptions: a mistyped URL that is taken for a path still contains its
//! password. If a text can be read in two ways, the one with a secret counts.

use super::clouds::is_scheme;

/// The text that replaces a secret.
const HIDDEN: &str = "***";

/// Parts of the names of query fields whose values are signatures or credentials.
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

/// The characters that begin a query, a fragment or a field of either.
const BEGIN_FIELD: [char; 4] = ['?', '#', '&', ';'];

/// How often a text is percent-decoded to look for secrets: once for each layer of encoding, and a few times
/// more.
const LAYERS: usize = 4;

/// A location that is safe to show: as it was written, but with `***` for a user and password, and for the
/// query of an `http://` or `https://` URL or any query that signs.
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

/// Percent-decodes what it can, and leaves the rest.
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

/// The text without its secrets; `None` if it has none.
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

/// A known scheme in lower case, and the text after its colon and any number of slashes.
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

/// The part after the scheme without the login before its host; `None` if there is none.
fn without_login(scheme: &str, place: &str) -> Option<String> {
    let end = place.find(['/', '\\']).unwrap_or(place.len());
    let (host, path) = place.split_at(end);
    // `abfss://container@account` names no user.
    let is_container = matches!(scheme, "abfs" | "abfss") && !host.contains(':');
    if let Some(at) = host.rfind('@').filter(|_| !is_container) {
        let path = without_password_in_url(path).unwrap_or_else(|| path.to_owned());
        return Some(format!("{HIDDEN}{}{path}", &host[at..]));
    }
    if has_odd_port(host) {
        // The password contains a slash, or an encoded `@`, so its end is unknown.
        let kept = place.rfind('@').map_or("", |at| &place[at..]);
        return Some(format!("{HIDDEN}{kept}"));
    }
    without_password_in_url(path).map(|path| format!("{host}{path}"))
}

/// Whether the text after the host's colon cannot be a port.
fn has_odd_port(host: &str) -> bool {
    let after = host.rsplit_once(']').map_or(host, |(_, after)| after);
    after.split_once(':').is_some_and(|(_, port)| !port.is_empty() && port.parse::<u16>().is_err())
}

/// A path that contains another URL, without that URL's password.
fn without_password_in_url(path: &str) -> Option<String> {
    path.contains("://").then(|| without_password(path)).flatten()
}

/// Hides a login in a text of unknown form: everything from the beginning of the name that has the first
/// colon to the last `@`. Returns `None` if there is no `@` after that colon.
fn without_password(text: &str) -> Option<String> {
    let colon = text.find(':')?;
    let at = text.rfind('@').filter(|&at| at > colon)?;
    let start = text[..colon].rfind(['/', '\\']).map_or(0, |slash| slash + 1);
    Some(format!("{}{HIDDEN}{}", &text[..start], &text[at..]))
}

/// The offset of a query that must be hidden. The query of a web address always is; elsewhere a `?` is a
/// wildcard, unless a field is a signature.
fn query(rest: &str, is_web: bool) -> Option<usize> {
    if is_web {
        return rest.find(BEGIN_FIELD);
    }
    let begins = rest.match_indices(BEGIN_FIELD).map(|(at, _)| at);
    let secret = begins.into_iter().find(|&at| {
        let field = rest[at + 1..].split(BEGIN_FIELD).next().unwrap_or_default();
        // A folder `token=1` after a wildcard is not a field.
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
                // A name by itself is not a secret, unless something else shows a login.
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

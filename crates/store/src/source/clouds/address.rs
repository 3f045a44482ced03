//! Parses a URL into a store, and a key or prefix in that store.
//!
//! Only text is parsed here: there are no connections, and nothing is read from the environment.
//!
//! The `ObjectStoreScheme` of object_store is not used, for three reasons: it knows only 11 of these 16
//! schemes, it treats `https://` with the host of a cloud as a store of that cloud, and it takes a parsed
//! URL, in which the wildcard `?` is the beginning of a query.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use forebay_base::error::nearest;
use forebay_base::{Error, ErrorKind, Result};

use super::secret::Secret;
use crate::source::glob::{self, Glob};

/// Every supported URL scheme, with the kind of store that it stands for.
const SCHEMES: [(&str, Scheme); 16] = [
    ("s3", Scheme::S3),
    ("s3a", Scheme::S3),
    ("gs", Scheme::Gcs),
    ("gcs", Scheme::Gcs),
    ("az", Scheme::Azure),
    ("azure", Scheme::Azure),
    ("adl", Scheme::Azure),
    ("abfs", Scheme::Azure),
    ("abfss", Scheme::Azure),
    ("http", Scheme::Http),
    ("https", Scheme::Http),
    ("hdfs", Scheme::Hdfs),
    ("hopsfs", Scheme::Hdfs),
    ("viewfs", Scheme::Hdfs),
    ("hf", Scheme::HuggingFace),
    ("file", Scheme::Local),
];

const AS_S3: &str = "a store that speaks S3 is s3:// with the storage option endpoint";

/// URL schemes that are not supported, with a hint how to read the same files in another way.
const FOREIGN: [(&[&str], &str); 5] = [
    (
        &[
            "alluxio", "b2", "bos", "cos", "cosn", "ks3", "lakefs", "minio", "o3fs", "obs", "oci", "ofs",
            "oss", "r2", "swift", "tos",
        ],
        AS_S3,
    ),
    (&["dbfs", "jfs", "maprfs", "nfs", "smb"], "mount it, and give the path of the folder"),
    (
        &["ftp", "ftps", "rsync", "scp", "sftp", "ssh"],
        "copy the files to a disk or a store, or serve them by https://",
    ),
    (
        &["swebhdfs", "webhdfs"],
        "the same files are hdfs://host:port/path, with the port of the name node's RPC",
    ),
    (
        &["wasb", "wasbs"],
        "the same blobs are az://container/path or abfss://container@account.dfs.core.windows.net/path",
    ),
];

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    S3,
    Gcs,
    Azure,
    Http,
    Hdfs,
    HuggingFace,
    /// A `file://` URL. Other code reads local files; the scheme is only listed to be suggested after a typo.
    Local,
}

/// A store and a key or prefix in it, as parsed from a URL. `Debug` shows no secret.
#[derive(Clone)]
pub(in crate::source) struct Address {
    scheme: Scheme,
    root: String,
    /// The bucket, container or data set; for HTTP and HDFS the host and port.
    store: String,
    /// The host of the Azure account, in `abfss://container@HOST`.
    account: Option<String>,
    /// The revision of a data set on the Hugging Face hub.
    revision: Option<String>,
    userinfo: Option<Secret>,
    query: Option<Secret>,
    key: Key,
}

/// The key of a URL: percent-decoded, and as the user wrote it.
#[derive(Clone)]
struct Key {
    plain: String,
    written: String,
}

/// One way to read the key of a URL: as the literal key of an object, or as a glob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::source) struct Meaning {
    /// The key or prefix to look up literally.
    pub(in crate::source) key: String,
    /// The glob to match if no object has this key.
    pub(in crate::source) glob: Option<Glob>,
}

impl Meaning {
    /// Reads `key` as a literal key, and as a glob if it has wildcards.
    pub(in crate::source) fn for_key(key: &str) -> Meaning {
        Meaning { key: key.to_owned(), glob: Glob::split(Path::new(key)) }
    }
}

impl Address {
    /// Makes an address that has only a scheme, a store and a key.
    fn plain(scheme: Scheme, root: String, store: &str, key: Key) -> Address {
        let store = store.to_owned();
        Address { scheme, root, store, account: None, revision: None, userinfo: None, query: None, key }
    }

    /// Reads a URL. `None` if it is a path or a `file://` URL.
    ///
    /// In `http://` and `https://` URLs, a `?` begins a query. In Azure's URLs it does so only if a shared
    /// access signature follows. Elsewhere `?` is a wildcard, and text that looks like a query
    /// (`?name=value`) is refused.
    ///
    /// Fails with `Unsupported` for an unknown scheme, and with `Invalid` for a URL that is malformed.
    /// Neither message repeats user information or a query.
    pub(in crate::source) fn parse(url: &str) -> Result<Option<Address>> {
        let Some((name, rest)) = url.split_once("://") else { return Ok(None) };
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(legal) {
            return Ok(None);
        }
        let name = name.to_ascii_lowercase();
        let Some((_, scheme)) = SCHEMES.iter().find(|(known, _)| *known == name) else {
            return Err(unknown(&name));
        };
        let written = CutUrl { name: &name, rest };
        match scheme {
            Scheme::Local => Ok(None),
            Scheme::S3 => written.bucket(Scheme::S3, "s3").map(Some),
            Scheme::Gcs => written.bucket(Scheme::Gcs, "gs").map(Some),
            Scheme::Azure => written.azure().map(Some),
            Scheme::Http => written.http().map(Some),
            Scheme::Hdfs => written.hdfs().map(Some),
            Scheme::HuggingFace => written.hugging_face().map(Some),
        }
    }

    /// The store's root as users write it, without secrets: `s3://acme`, `gs://b`, `az://container`,
    /// `abfss://container@account.dfs.core.windows.net`, `https://host:8443`, `hdfs://ns1`,
    /// `hf://datasets/owner/name@revision` (without a revision if it is `main`).
    pub(in crate::source) fn root(&self) -> &str {
        &self.root
    }

    /// The key or prefix below the root, percent-decoded, without a leading `/`. It may hold wildcards and
    /// end in `/`; no segment but the last is empty, and none is `.` or `..`.
    pub(in crate::source) fn key(&self) -> &str {
        &self.key.plain
    }

    /// The ways to read the key, in the order in which they are tried: first percent-decoded, where an
    /// encoded character is never a wildcard; then as written, because names can contain a `%`, such as the
    /// folder `at=12%3A00` of a partition that Spark wrote.
    pub(in crate::source) fn meanings(&self) -> Vec<Meaning> {
        let Key { plain, written } = &self.key;
        let decoded = Meaning { key: plain.clone(), glob: glob_of(written) };
        let literal = (written != plain).then(|| Meaning::for_key(written));
        std::iter::once(decoded).chain(literal).collect()
    }

    /// Whether the store can list the objects below a prefix; plain HTTP cannot.
    pub(in crate::source) fn lists(&self) -> bool {
        self.scheme != Scheme::Http
    }

    /// Whether the store's server understands HTTP's `If-Match` header with a quoted entity tag.
    pub(in crate::source) fn takes_if_match(&self) -> bool {
        matches!(self.scheme, Scheme::S3 | Scheme::Gcs | Scheme::Azure | Scheme::Http)
    }

    /// Whether both addresses can use the same client: they have the same root, user information and query.
    pub(in crate::source) fn same_store(&self, other: &Address) -> bool {
        self.scheme == other.scheme
            && self.root == other.root
            && self.userinfo == other.userinfo
            && self.query == other.query
    }

    pub(super) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The bucket, container or data set (`owner/name`); for HTTP and HDFS the host and port.
    pub(super) fn store(&self) -> &str {
        &self.store
    }

    /// The host of an Azure account, if the URL names one.
    pub(super) fn account(&self) -> Option<&str> {
        self.account.as_deref()
    }

    /// The revision of a data set on the Hugging Face hub; `main` if the URL names none.
    pub(super) fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(MAIN)
    }

    /// The `user:password` of the URL, still percent-encoded.
    pub(super) fn userinfo(&self) -> Option<&Secret> {
        self.userinfo.as_ref()
    }

    /// The query after the `?`, as it was written.
    pub(super) fn query(&self) -> Option<&Secret> {
        self.query.as_ref()
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({}/{})", self.root, self.key())
    }
}

/// The revision of a data set on the Hugging Face hub, if its URL names none.
const MAIN: &str = "main";

/// A URL that was split at `://` into the name of its scheme and the rest.
struct CutUrl<'a> {
    name: &'a str,
    rest: &'a str,
}

impl CutUrl<'_> {
    fn bucket(&self, scheme: Scheme, shown: &str) -> Result<Address> {
        let (authority, path) = self.authority();
        if authority.contains('@') {
            return Err(self.invalid("holds credentials").hint("pass them as storage options"));
        }
        self.refuse_query(path)?;
        self.name_of("bucket", authority)?;
        Ok(Address::plain(scheme, format!("{shown}://{authority}"), authority, self.key(path)?))
    }

    /// Parses `az://container/key` or `abfss://container@account.dfs.core.windows.net/key`.
    fn azure(&self) -> Result<Address> {
        let (authority, path) = self.authority();
        let (container, account) = match authority.split_once('@') {
            Some((container, account)) => (container, Some(self.host(account)?)),
            None => (authority, None),
        };
        self.name_of("container", container)?;
        let signature = path.rfind('?').filter(|&at| is_signature(&path[at + 1..]));
        let (path, query) = match signature {
            Some(at) => (&path[..at], Some(Secret::new(&path[at + 1..]))),
            None => (path, None),
        };
        self.refuse_query(path)?;
        let root = match &account {
            Some(account) => format!("{}://{container}@{account}", self.name),
            None => format!("az://{container}"),
        };
        Ok(Address {
            scheme: Scheme::Azure,
            root,
            store: container.to_owned(),
            account,
            revision: None,
            userinfo: None,
            query,
            key: self.key(path)?,
        })
    }

    fn http(&self) -> Result<Address> {
        let end = self.rest.find(['/', '?', '#']).unwrap_or(self.rest.len());
        let (authority, path) = self.rest.split_at(end);
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(Secret::new(userinfo)), host),
            None => (None, authority),
        };
        let host = self.host(host)?;
        if let Some(what) = metadata_service(&host) {
            return Err(self.invalid(&format!("names {what}, which holds no data")));
        }
        let path = path.split('#').next().unwrap_or_default();
        let (path, query) = match path.split_once('?') {
            Some((path, query)) if !query.is_empty() => (path, Some(Secret::new(query))),
            Some((path, _)) => (path, None),
            None => (path, None),
        };
        Ok(Address {
            scheme: Scheme::Http,
            root: format!("{}://{host}", self.name),
            store: host,
            account: None,
            revision: None,
            userinfo,
            query,
            key: self.key(path)?,
        })
    }

    /// Parses `hdfs://host:port/key`, `hdfs://nameservice/key`, or `hdfs:///key` for the default name service
    /// in Hadoop's configuration.
    fn hdfs(&self) -> Result<Address> {
        let (authority, path) = self.authority();
        if authority.contains('@') {
            return Err(self.invalid("names a user").hint("set HADOOP_USER_NAME"));
        }
        self.refuse_query(path)?;
        if !authority.is_empty() {
            let (host, port) = authority.split_once(':').unwrap_or((authority, "8020"));
            self.name_of("name node", host)?;
            port.parse::<u16>().map_err(|_| self.invalid("has an invalid port"))?;
        }
        let scheme = if self.name == "viewfs" { "viewfs" } else { "hdfs" };
        Ok(Address::plain(Scheme::Hdfs, format!("{scheme}://{authority}"), authority, self.key(path)?))
    }

    /// Parses `hf://datasets/owner/name[@revision][/key]`. The slashes in a revision must be percent-encoded,
    /// except in the names that the hub itself makes (`refs/convert/parquet`, `refs/pr/7`).
    fn hugging_face(&self) -> Result<Address> {
        let form = "write hf://datasets/owner/name, hf://datasets/owner/name@revision/path";
        let Some(rest) = self.rest.strip_prefix("datasets/") else {
            return Err(self.invalid("does not begin with hf://datasets/").hint(form));
        };
        self.refuse_query(rest)?;
        let (owner, rest) =
            rest.split_once('/').ok_or_else(|| self.invalid("names no data set").hint(form))?;
        let end = rest.find(['/', '@']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        for part in [owner, name] {
            self.name_of("data set", part).map_err(|error| error.hint(form))?;
        }
        let (revision, path) = match rest.strip_prefix('@') {
            None => (None, rest),
            Some(rest) => {
                let (revision, path) = rest.split_at(revision_length(rest));
                let revision =
                    decoded(revision).ok_or_else(|| self.invalid("has a malformed revision").hint(form))?;
                let names = |name: &str| !name.is_empty() && name != "." && name != "..";
                if !revision.split('/').all(names) || revision.contains(char::is_control) {
                    return Err(self.invalid("has a malformed revision").hint(form));
                }
                (Some(revision).filter(|revision| revision != MAIN), path)
            }
        };
        let at = revision.as_ref().map(|revision| format!("@{revision}")).unwrap_or_default();
        Ok(Address {
            scheme: Scheme::HuggingFace,
            root: format!("hf://datasets/{owner}/{name}{at}"),
            store: format!("{owner}/{name}"),
            account: None,
            revision,
            userinfo: None,
            query: None,
            key: self.key(path)?,
        })
    }

    /// Splits the rest of the URL at its first `/`. The second part begins with this `/`.
    fn authority(&self) -> (&str, &str) {
        self.rest.split_at(self.rest.find('/').unwrap_or(self.rest.len()))
    }

    fn key(&self, path: &str) -> Result<Key> {
        let written = path.strip_prefix('/').unwrap_or(path);
        let Some(key) = decoded(written) else {
            return Err(self.invalid("has a % without two hex digits").hint("write a literal % as %25"));
        };
        if key.contains(char::is_control) {
            return Err(self.invalid("holds a control character"));
        }
        let names = key.strip_suffix('/').unwrap_or(&key);
        if names.split('/').any(|name| matches!(name, "." | "..")) {
            return Err(self.invalid("holds a \".\" or \"..\", which is not resolved in a URL"));
        }
        if !key.is_empty() && names.split('/').any(str::is_empty) {
            let hint =
                "write one / between names; objects whose keys hold // are not read: copy them to other keys";
            return Err(self.invalid("holds an empty name").hint(hint));
        }
        Ok(Key { plain: key, written: written.to_owned() })
    }

    /// Normalises a host with an optional port as browsers do; fails if it is malformed.
    fn host(&self, written: &str) -> Result<String> {
        let malformed = || self.invalid("has a malformed host");
        if written.is_empty() || written.contains(['@', '\\']) || written.contains(char::is_whitespace) {
            return Err(malformed());
        }
        let scheme = if self.name == "http" { "http" } else { "https" };
        let url = url::Url::parse(&format!("{scheme}://{written}/")).map_err(|_| malformed())?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(malformed)?;
        Ok(match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        })
    }

    fn name_of(&self, what: &str, name: &str) -> Result<()> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '$');
        if name.is_empty() {
            return Err(self.invalid(&format!("names no {what}")));
        }
        if !name.chars().all(legal) || name.chars().all(|c| c == '.') {
            return Err(self.invalid(&format!("has a malformed {what} name")));
        }
        Ok(())
    }

    /// Refuses a query in the URL of a store that supports none. It would become part of the key, and
    /// messages show keys, so they could show a signature.
    fn refuse_query(&self, path: &str) -> Result<()> {
        match path.split_once('?') {
            Some((_, query)) if is_signature(query) => {
                Err(self.invalid("holds a signature").hint("use the https:// form of a presigned URL"))
            }
            Some(_) if has_query(path) => {
                Err(self.invalid("holds a query").hint("write a ? that is part of a name as %3F"))
            }
            _ => Ok(()),
        }
    }

    fn invalid(&self, cause: &str) -> Error {
        Error::invalid(format!("the {}:// URL {cause}", self.name))
    }
}

/// Whether `name`, which must be in lower case, is a supported URL scheme.
pub(in crate::source) fn is_scheme(name: &str) -> bool {
    SCHEMES.iter().any(|(known, _)| *known == name)
}

/// Whether some `?` in the path of a URL begins a query such as `?name=value`. Any other `?` is a wildcard.
pub(in crate::source) fn has_query(path: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    path.split('?').skip(1).any(|query| query.split_once('=').is_some_and(|(name, _)| is_name(name)))
}

/// Whether a query contains a signature or a token, which makes it a secret.
pub(super) fn is_signature(query: &str) -> bool {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().any(|(name, _)| {
        let name = name.to_ascii_lowercase();
        name == "sig" || name.ends_with("signature") || name.ends_with("token")
    })
}

/// The number of bytes that the revision takes at the start of `rest`, which is the text after the `@`.
fn revision_length(rest: &str) -> usize {
    let segment = |from: usize| rest[from..].find('/').map_or(rest.len(), |length| from + length);
    ["refs/convert/", "refs/pr/"]
        .iter()
        .find(|made| rest.starts_with(**made))
        .map_or_else(|| segment(0), |made| segment(made.len()))
}

/// A description of `host` if it is the metadata service of a cloud, which gives credentials to machines and
/// must not be read as data.
pub(in crate::source) fn metadata_service(host: &str) -> Option<&'static str> {
    const EC2: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let link_local = |ip: Ipv4Addr| ip.is_link_local();
    let is_one = match bare.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => link_local(ip),
        Ok(IpAddr::V6(ip)) => {
            ip.is_unicast_link_local() || ip == EC2 || ip.to_ipv4_mapped().is_some_and(link_local)
        }
        Err(_) => bare.trim_end_matches('.') == "metadata.google.internal",
    };
    is_one.then_some("a metadata service")
}

/// Whether `host`, with or without a port, is this machine's loopback address.
pub(in crate::source) fn is_loopback(host: &str) -> bool {
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The glob in a URL's path, if it has a wildcard that is not percent-encoded.
pub(in crate::source) fn glob_of(written: &str) -> Option<Glob> {
    Glob::split(Path::new(&escaped(written))).filter(|_| written.contains(glob::WILDCARDS))
}

/// Turns the key of a URL into a glob. It is percent-decoded, and wildcards that were encoded get brackets,
/// so that they match only themselves.
fn escaped(written: &str) -> String {
    let names = written.split('/').map(|name| {
        // Encoded and plain characters are kept apart, because only plain ones can be wildcards.
        let mut pieces = name.split('%');
        let mut text = pieces.next().unwrap_or_default().to_owned();
        let mut bytes: Vec<u8> = Vec::new();
        for piece in pieces {
            let (digits, rest) = piece.split_at_checked(2).unwrap_or(("", piece));
            bytes.extend(u8::from_str_radix(digits, 16));
            if !rest.is_empty() {
                push_literal(&mut text, &bytes);
                bytes.clear();
                text.push_str(rest);
            }
        }
        push_literal(&mut text, &bytes);
        text
    });
    names.collect::<Vec<_>>().join("/")
}

fn push_literal(glob: &mut String, bytes: &[u8]) {
    for c in String::from_utf8_lossy(bytes).chars() {
        match glob::WILDCARDS.contains(&c) {
            true => glob.extend(['[', c, ']']),
            false => glob.push(c),
        }
    }
}

/// Percent-decodes a text; `None` if an escape is malformed, or if the result is not UTF-8.
pub(in crate::source) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
                u8::try_from(digit()? << 4 | digit()?).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn unknown(name: &str) -> Error {
    let foreign = FOREIGN.iter().find(|(names, _)| names.contains(&name)).map(|(_, hint)| *hint);
    // Only schemes with the same first letter are suggested, because a typo is rarely in the first letter.
    let known = SCHEMES.iter().map(|(known, _)| *known).filter(|known| known.get(..1) == name.get(..1));
    let hint = match (foreign, nearest(name, known)) {
        (Some(hint), _) => hint.to_owned(),
        (None, Some(near)) => format!("did you mean {near}://?"),
        (None, None) => format!("known are s3, gs, az, abfss, https, hdfs, hf and file; {AS_S3}"),
    };
    Error::new(ErrorKind::Unsupported, format!("{name}:// is not read")).hint(hint)
}

#[cfg(test)]
mod tests;

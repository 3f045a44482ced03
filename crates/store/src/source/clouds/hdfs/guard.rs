//! If the configuration demands Kerberos, refuses a name node that accepts clients without authentication.
//! Java's client does so too, but the Rust client that is used here does not.
//!
//! Before the first request, each configured name node is asked for its authentication methods over a
//! connection of its own. A node that cannot be reached is ignored here: the client then fails by itself, or
//! uses another node.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use forebay_base::{Error, ErrorKind};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryFutureExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const AUTHENTICATION: &str = "hadoop.security.authentication";
const FALLBACK: &str = "ipc.client.fallback-to-simple-auth-allowed";

/// The default port of a name node.
const DEFAULT_PORT: u16 = 8020;

/// The longest time to wait for the answer of a name node, including the connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The size in bytes of the longest answer that is read.
const MAX_ANSWER_BYTES: u32 = 1 << 20;

/// The bytes that are sent to a name node: the beginning of a connection in Hadoop's protocol, and a SASL
/// request for the authentication methods that it offers.
const HELLO: &[u8] =
    b"hrpc\x09\x00\xdf\x00\x00\x00\x0e\x0a\x08\x02\x10\x00\x18\x41\x22\x00\x28\x01\x02\x10\x01";

/// The part of Hadoop's configuration that concerns name nodes and authentication.
#[derive(Clone, Debug, Default)]
pub(super) struct Configuration(HashMap<String, String>);

impl Configuration {
    /// Reads the files of Hadoop's configuration, which `options` override.
    pub(super) fn read(options: impl IntoIterator<Item = (String, String)>) -> forebay_base::Result<Self> {
        let folder = std::env::var_os("HADOOP_CONF_DIR").map(PathBuf::from);
        let home = || std::env::var_os("HADOOP_HOME").map(|home| FilePath::new(&home).join("etc/hadoop"));
        let mut all = HashMap::new();
        for file in folder
            .or_else(home)
            .iter()
            .flat_map(|dir| ["core-site.xml", "hdfs-site.xml"].map(|f| dir.join(f)))
        {
            if file.exists() {
                let read = properties(&file).map_err(|cause| {
                    Error::invalid(format!("{} cannot be read: {cause}", file.display()))
                        .hint("check HADOOP_CONF_DIR")
                });
                all.extend(read?);
            }
        }
        all.extend(options);
        Ok(Configuration(all))
    }

    /// Whether the configuration demands Kerberos and does not allow a fallback to simple authentication.
    pub(super) fn needs_kerberos(&self) -> bool {
        let is_secure = self.get(AUTHENTICATION).is_some_and(|method| !method.eq_ignore_ascii_case("simple"));
        is_secure && !self.get(FALLBACK).is_some_and(|allowed| allowed.eq_ignore_ascii_case("true"))
    }

    /// The addresses (`host:port`) of the name nodes that serve a URL, according to the configuration.
    pub(super) fn name_nodes(&self, url: &str) -> Vec<String> {
        let (scheme, authority) = url.split_once("://").unwrap_or(("hdfs", url));
        let authority = authority.split('/').next().unwrap_or_default();
        if scheme == "viewfs" {
            let table = format!("fs.viewfs.mounttable.{authority}.link");
            let links = self.0.iter().filter(|(key, _)| key.starts_with(&table)).map(|(_, link)| link);
            let links = links.filter(|link| link.starts_with("hdfs://"));
            return links.flat_map(|link| self.name_nodes(link)).collect();
        }
        if authority.is_empty() {
            let default = self
                .get("fs.defaultFS")
                .filter(|url| url.strip_prefix("hdfs://").is_some_and(|rest| !rest.starts_with('/')));
            return default.map_or_else(Vec::new, |url| self.name_nodes(url));
        }
        let of_service = self.get(&format!("dfs.ha.namenodes.{authority}"));
        match of_service {
            Some(ids) => {
                let address =
                    |id: &str| self.get(&format!("dfs.namenode.rpc-address.{authority}.{}", id.trim()));
                ids.split(',').filter_map(address).map(str::to_owned).collect()
            }
            None if authority.contains(':') => vec![authority.to_owned()],
            None => vec![format!("{authority}:{DEFAULT_PORT}")],
        }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|value| value.trim())
    }
}

/// A store that checks the authentication of its name nodes before the first request.
#[derive(Debug)]
pub(super) struct Guarded {
    store: Arc<dyn ObjectStore>,
    door: Arc<Door>,
}

/// The name nodes to check. `is_open` is set once all of them have been asked, and none was found to accept
/// clients without authentication.
#[derive(Debug)]
struct Door {
    name_nodes: Vec<String>,
    is_open: tokio::sync::OnceCell<()>,
}

impl Guarded {
    pub(super) fn new(store: Arc<dyn ObjectStore>, name_nodes: Vec<String>) -> Self {
        Guarded { store, door: Arc::new(Door { name_nodes, is_open: tokio::sync::OnceCell::new() }) }
    }
}

impl Door {
    async fn pass(&self) -> Result<()> {
        self.is_open.get_or_try_init(|| self.ask()).await.copied()
    }

    async fn ask(&self) -> Result<()> {
        for node in &self.name_nodes {
            if let Ok(Ok(true)) = timeout(ANSWER_TIMEOUT, takes_anyone(node)).await {
                let cause = format!(
                    "the name node {node} asks for no Kerberos, which {AUTHENTICATION} demands: it may not be the one it seems to be"
                );
                let error = Error::new(ErrorKind::Denied, cause)
                    .hint(format!("if that is meant, set {FALLBACK} to true, as for Java's client"));
                return Err(object_store::Error::Generic { store: "HDFS", source: Box::new(error) });
            }
        }
        Ok(())
    }
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for Guarded {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.door.pass().await?;
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.door.pass().await?;
        self.store.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.door.pass().await?;
        self.store.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.door.pass().await?;
        self.store.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (store, door) = (self.store.clone(), self.door.clone());
        async move { door.pass().await.map(|()| store.delete_stream(locations)) }
            .boxed()
            .try_flatten_stream()
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (store, door, prefix) = (self.store.clone(), self.door.clone(), prefix.cloned());
        let listed = async move { door.pass().await.map(|()| store.list(prefix.as_ref())) };
        listed.boxed().try_flatten_stream().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.door.pass().await?;
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.door.pass().await?;
        self.store.copy_opts(from, to, options).await
    }
}

/// Whether the HDFS client would connect to this name node with only a user name, and no authentication.
async fn takes_anyone(node: &str) -> io::Result<bool> {
    let mut stream = TcpStream::connect(node).await?;
    stream.write_all(HELLO).await?;
    let length = stream.read_u32().await?;
    if length > MAX_ANSWER_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer).await?;
    offers_simple(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Whether the HDFS client would skip authentication after this answer to [`HELLO`]. It does so if the server
/// ends the negotiation at once, or if SIMPLE is the first offered method that the client knows. `None` if
/// the server refused the request.
fn offers_simple(answer: &[u8]) -> Option<bool> {
    const STATUS: u64 = 2;
    const STATE: u64 = 2;
    const AUTH: u64 = 4;
    const METHOD: u64 = 1;
    const NEGOTIATE: u64 = 1;
    let mut answer = Message(answer);
    let status = answer.inner()?.find_map(|(field, value)| (field == STATUS).then(|| value.number())?);
    if status.unwrap_or(0) != 0 {
        return None;
    }
    let fields: Vec<(u64, WireValue<'_>)> = answer.inner()?.collect();
    let state = fields.iter().find_map(|(field, value)| (*field == STATE).then(|| value.number())?)?;
    if state != NEGOTIATE {
        return Some(state == 0);
    }
    let has_token = std::env::var_os("HADOOP_TOKEN_FILE_LOCATION").is_some();
    let ways = fields.iter().filter(|(field, _)| *field == AUTH).filter_map(|(_, value)| {
        let mut fields = Message(value.bytes()?);
        fields.find_map(|(field, value)| (field == METHOD).then(|| value.bytes())?)
    });
    let mut known =
        ways.filter(|way| [&b"SIMPLE"[..], b"KERBEROS"].contains(way) || (has_token && *way == b"TOKEN"));
    Some(known.next().is_some_and(|way| way == b"SIMPLE"))
}

/// The bytes of a protobuf message. It iterates over the fields, each with its number.
struct Message<'a>(&'a [u8]);

enum WireValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    fn number(&self) -> Option<u64> {
        if let WireValue::Number(number) = self { Some(*number) } else { None }
    }

    fn bytes(&self) -> Option<&'a [u8]> {
        if let WireValue::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

impl<'a> Message<'a> {
    /// Splits off the embedded message at the front, which begins with its length.
    fn inner(&mut self) -> Option<Message<'a>> {
        let length = usize::try_from(self.varint()?).ok()?;
        self.0.split_off(..length).map(Message)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.0.split_off_first()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

impl<'a> Iterator for Message<'a> {
    type Item = (u64, WireValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => WireValue::Number(self.varint()?),
            1 => WireValue::Bytes(self.0.split_off(..8)?),
            2 => WireValue::Bytes(self.inner()?.0),
            5 => WireValue::Bytes(self.0.split_off(..4)?),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

/// Reads the properties in one XML file of Hadoop's configuration, as pairs of name and value.
fn properties(file: &FilePath) -> std::result::Result<Vec<(String, String)>, String> {
    let text = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let (folder, included) = (file.parent().unwrap_or(file), Included::default());
    let include = |_: Option<&str>, uri: &str| included.read(&folder.join(uri.trim_start_matches("file://")));
    let options =
        roxmltree::ParsingOptions { allow_dtd: true, entity_resolver: Some(&include), ..Default::default() };
    let tree = roxmltree::Document::parse_with_options(&text, options).map_err(|error| error.to_string())?;
    let found = tree.descendants().filter(|node| node.has_tag_name("property")).filter_map(|property| {
        let text = |name| property.children().find(|node| node.has_tag_name(name))?.text();
        Some((text("name")?.trim().to_owned(), text("value")?.to_owned()))
    });
    Ok(found.collect())
}

/// The texts of included files, in a linked list: they must live as long as the XML document that uses them.
#[derive(Default)]
struct Included {
    text: OnceCell<String>,
    next: OnceCell<Box<Included>>,
}

impl Included {
    fn read<'a>(&'a self, path: &FilePath) -> std::result::Result<Option<&'a str>, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        Ok(Some(self.keep(text)))
    }

    fn keep(&self, text: String) -> &str {
        match self.text.get() {
            None => self.text.get_or_init(|| text),
            Some(_) => self.next.get_or_init(Box::default).keep(text),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a test brings its own runtime")]

    use futures::TryStreamExt;
    use tokio::net::TcpListener;

    use super::*;

    /// Encodes the answer of a name node, with the SASL state `state` and the authentication methods `ways`.
    fn answer(state: u8, ways: &[&str]) -> Vec<u8> {
        let field = |tag: u8, bytes: &[u8]| [&[tag, bytes.len() as u8], bytes].concat();
        let mut sasl = vec![0x10, state];
        for way in ways {
            sasl.extend(field(0x22, &[field(0x0a, way.as_bytes()), field(0x12, b"")].concat()));
        }
        let header = [0x08, 0xdf, 0xff, 0xff, 0xff, 0x0f, 0x10, 0];
        let delimited = |bytes: &[u8]| [&[bytes.len() as u8], bytes].concat();
        [delimited(&header), delimited(&sasl)].concat()
    }

    /// Starts a fake name node that sends `answer` to one connection. Returns its address.
    async fn name_node(answer: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut hello = vec![0; HELLO.len()];
            stream.read_exact(&mut hello).await.unwrap();
            assert_eq!(hello, HELLO);
            stream.write_u32(answer.len() as u32).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        });
        address
    }

    #[tokio::test]
    async fn a_name_node_that_takes_anyone_is_refused_and_one_of_kerberos_is_not() {
        for (answer, is_refused) in [
            (answer(0, &[]), true),
            (answer(1, &["SIMPLE"]), true),
            (answer(1, &["TOKEN", "SIMPLE"]), true),
            (answer(1, &["SIMPLE", "KERBEROS"]), true),
            (answer(1, &["TOKEN", "KERBEROS"]), false),
            (answer(1, &["KERBEROS", "SIMPLE"]), false),
            (b"no answer".to_vec(), false),
        ] {
            let node = name_node(answer.clone()).await;
            let store = Guarded::new(Arc::new(object_store::memory::InMemory::new()), vec![node.clone()]);
            let listed: Result<Vec<ObjectMeta>> = store.list(None).try_collect().await;
            assert_eq!(listed.is_err(), is_refused, "{answer:?}");
            if let Err(error) = listed {
                let words = format!("{error}");
                assert!(words.contains(&node) && words.contains(FALLBACK), "{words}");
            }
        }
        let unreachable =
            Guarded::new(Arc::new(object_store::memory::InMemory::new()), vec!["127.0.0.1:1".into()]);
        assert!(unreachable.list_with_delimiter(None).await.is_ok());
    }

    #[test]
    fn kerberos_is_needed_unless_it_may_fall_back() {
        let of = |pairs: &[(&str, &str)]| {
            Configuration(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        };
        assert!(!of(&[]).needs_kerberos());
        assert!(!of(&[(AUTHENTICATION, "simple")]).needs_kerberos());
        assert!(of(&[(AUTHENTICATION, "kerberos")]).needs_kerberos());
        assert!(of(&[(AUTHENTICATION, "kerberos"), (FALLBACK, "false")]).needs_kerberos());
        assert!(!of(&[(AUTHENTICATION, "kerberos"), (FALLBACK, " true\n")]).needs_kerberos());
        let ha = of(&[
            ("fs.defaultFS", "hdfs://ns1"),
            ("dfs.ha.namenodes.ns1", "a, b"),
            ("dfs.namenode.rpc-address.ns1.a", "n1:9000"),
            ("dfs.namenode.rpc-address.ns1.b", "n2:9000"),
            ("fs.viewfs.mounttable.v.linkFallback", "hdfs://n3/x"),
        ]);
        assert_eq!(ha.name_nodes("hdfs://"), ["n1:9000", "n2:9000"]);
        assert_eq!(ha.name_nodes("hdfs://ns1"), ["n1:9000", "n2:9000"]);
        assert_eq!(ha.name_nodes("hdfs://n4"), ["n4:8020"]);
        assert_eq!(ha.name_nodes("hdfs://n4:1"), ["n4:1"]);
        assert_eq!(ha.name_nodes("viewfs://v"), ["n3:8020"]);
        assert!(of(&[("fs.defaultFS", "hdfs:///")]).name_nodes("hdfs://").is_empty());
    }

    #[test]
    fn properties_are_read_with_what_is_included() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("core-site.xml");
        fs::write(folder.path().join("more.xml"), "<property><name>b</name><value>2</value></property>")
            .unwrap();
        fs::write(
            &file,
            "<?xml version=\"1.0\"?>\n<!DOCTYPE configuration [<!ENTITY more SYSTEM \"more.xml\">]>\n<configuration>\
             <property><name> a </name><value>1</value><final>true</final></property>&more;</configuration>",
        )
        .unwrap();
        let owned = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(properties(&file).unwrap(), [owned("a", "1"), owned("b", "2")]);
        fs::write(&file, "<configuration>").unwrap();
        assert!(properties(&file).is_err());
    }
}

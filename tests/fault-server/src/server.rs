//! Start, stop, outages; what all connections share.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{oneshot, watch};

use crate::connection;
use crate::fault::Fault;
use crate::link::{Link, Pace};
use crate::list::PAGE;
use crate::log::{Exchange, Log, Stats};
use crate::rule::{Match, Rule, Rules};
use crate::store::{Credentials, Store};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// Between an accept that failed and the next one: too many open files are not fewer a microsecond later.
const BREATH: Duration = Duration::from_millis(10);
/// Threads that serve, if nothing is said: two saturate loopback.
const THREADS: usize = 2;

/// How nobody is served. Connections that exist are reset, in either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outage {
    /// Nobody listens: connecting is refused, and nobody can count how often it was tried. The port is kept.
    Refuse,
    /// New connections are accepted, counted, and reset.
    Reset,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) seed: u64,
    pub(crate) store: Store,
    pub(crate) rules: Rules,
    pub(crate) log: Log,
    pub(crate) link: Link,
    /// The rate of the link, handed out to all connections.
    pub(crate) pace: Option<Pace>,
    pub(crate) outage: watch::Sender<Option<Outage>>,
}

/// What to serve, and over which link.
pub struct Builder {
    folders: BTreeMap<String, PathBuf>,
    marks: Vec<String>,
    link: Link,
    seed: u64,
    port: u16,
    threads: usize,
    page: usize,
    rules: Vec<Rule>,
    credentials: Option<Credentials>,
    log: Option<PathBuf>,
}

impl Builder {
    /// Serves the files below `path` as the objects of `bucket`.
    pub fn folder(mut self, bucket: impl Into<String>, path: impl Into<PathBuf>) -> Builder {
        self.folders.insert(bucket.into(), path.into());
        self
    }

    /// An object without bytes whose key ends in a slash, by which programs mark a folder of `bucket`.
    pub fn mark(mut self, bucket: &str, key: &str) -> Builder {
        self.marks.push(format!("{bucket}/{key}"));
        self
    }

    /// What lies between the server and whoever asks. Default: nothing.
    pub fn link(mut self, link: Link) -> Builder {
        self.link = link;
        self
    }

    /// What all draws follow from. Default: 0.
    pub fn seed(mut self, seed: u64) -> Builder {
        self.seed = seed;
        self
    }

    /// The port on 127.0.0.1. Default: a free one.
    pub fn port(mut self, port: u16) -> Builder {
        self.port = port;
        self
    }

    /// Threads that serve. Default: 2.
    pub fn threads(mut self, threads: usize) -> Builder {
        self.threads = threads.max(1);
        self
    }

    /// Keys a page of a list at most. Default and S3's limit: 1,000; less shows whether a client pages.
    pub fn page(mut self, keys: usize) -> Builder {
        self.page = keys.clamp(1, PAGE);
        self
    }

    /// A rule that holds from the start; see [`FaultServer::add`].
    pub fn rule(mut self, when: Match, then: Fault) -> Builder {
        self.rules.push(Rule { when, then });
        self
    }

    /// What every request must carry. Default: nothing.
    pub fn credentials(mut self, credentials: Credentials) -> Builder {
        self.credentials = Some(credentials);
        self
    }

    /// A file to which each exchange is written as it ends, a line of JSON each.
    pub fn log_to(mut self, file: impl Into<PathBuf>) -> Builder {
        self.log = Some(file.into());
        self
    }

    /// Starts to serve. Fails if a folder is not there, or the port or the file of the log cannot be had.
    pub fn start(self) -> io::Result<FaultServer> {
        for (bucket, path) in &self.folders {
            if !path.is_dir() {
                let what = format!("{}, folder of bucket {bucket:?}: not a folder", path.display());
                return Err(io::Error::new(io::ErrorKind::NotFound, what));
            }
        }
        let shared = Arc::new(Shared {
            seed: self.seed,
            store: Store::new(self.folders, self.marks, self.page),
            rules: Rules::new(self.seed),
            log: Log::new(self.log.as_deref())?,
            link: self.link,
            pace: self.link.rate.map(Pace::new),
            outage: watch::Sender::new(None),
        });
        shared.store.require(self.credentials);
        self.rules.into_iter().for_each(|rule| shared.rules.add(rule));

        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.threads)
            .thread_name("fault-server")
            .enable_io()
            .enable_time()
            .build()?;
        let entered = runtime.enter();
        let listener = bind((Ipv4Addr::LOCALHOST, self.port).into())?.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        drop(entered);
        let (stop, stopped) = oneshot::channel::<()>();
        let served = shared.clone();
        let main = async move {
            tokio::select! {
                _ = stopped => {}
                // Without a listener there is nothing to serve: whoever asks is refused, and sees it.
                _ = accept(listener, address, served) => {}
            }
        };
        // The runtime ends with this thread, and with the runtime all tasks and sockets.
        #[allow(clippy::disallowed_methods, reason = "the server's own runtime on the server's own thread")]
        let thread =
            thread::Builder::new().name("fault-server".into()).spawn(move || runtime.block_on(main))?;
        Ok(FaultServer { address, shared, stop: Some(stop), thread: Some(thread) })
    }
}

/// A server that runs until it is dropped. Dropping it frees its port, its connections and its threads.
pub struct FaultServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FaultServer {
    /// Begins to say what to serve.
    pub fn builder() -> Builder {
        Builder {
            folders: BTreeMap::new(),
            marks: Vec::new(),
            link: Link::default(),
            seed: 0,
            port: 0,
            threads: THREADS,
            page: PAGE,
            rules: Vec::new(),
            credentials: None,
            log: None,
        }
    }

    /// As in `http://127.0.0.1:40123`; buckets are its folders.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What all draws follow from; to be printed when a test fails.
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// From now on `then` happens to those requests. Of several rules that choose a request, the oldest acts.
    pub fn add(&self, when: Match, then: Fault) {
        self.shared.rules.add(Rule { when, then });
    }

    /// From now on nothing goes wrong by rule. Stalls that have begun go on.
    pub fn clear_rules(&self) {
        self.shared.rules.clear();
    }

    /// From now on nobody is served, and connections are reset. `None` ends it, on the same port.
    ///
    /// With [`Outage::Refuse`] the listener closes and opens within a moment, not at once: until it closes,
    /// connections are reset; until it opens, they are refused.
    pub fn outage(&self, outage: Option<Outage>) {
        self.shared.outage.send_replace(outage);
    }

    /// From now on every request must carry these; `None` lets everybody in. Others are answered 403.
    pub fn require(&self, credentials: Option<Credentials>) {
        self.shared.store.require(credentials);
    }

    /// Gives an object another ETag than its file has, or with `None` its file's again: a new version, byte
    /// for byte the same.
    pub fn set_etag(&self, bucket: &str, key: &str, etag: Option<&str>) {
        self.shared.store.set_etag(format!("{bucket}/{key}"), etag.map(String::from));
    }

    /// Every exchange since the start or the last [`reset`](Self::reset), those that still go on included.
    pub fn log(&self) -> Vec<Exchange> {
        self.shared.log.exchanges()
    }

    /// Sums since the start or the last [`reset`](Self::reset).
    pub fn stats(&self) -> Stats {
        self.shared.log.stats()
    }

    /// Empties log and sums; the rules stay, and count and measure time afresh.
    pub fn reset(&self) {
        self.shared.log.reset();
        self.shared.rules.rewind();
    }
}

impl Drop for FaultServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed; here is no place for another.
            let _ = thread.join();
        }
    }
}

/// A socket that holds its port and does not listen yet. Connecting to it is refused. The port may be shared,
/// so that during an outage the next socket has it before this one gives it up.
fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn accept(mut listener: TcpListener, address: SocketAddr, shared: Arc<Shared>) -> io::Result<()> {
    let mut outages = shared.outage.subscribe();
    let refused = |outage: &Option<Outage>| *outage == Some(Outage::Refuse);
    let mut connections = 0;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = outages.wait_for(refused) => None,
            accepted = listener.accept() => Some(accepted),
        };
        match accepted {
            Some(Ok((stream, _))) => {
                connections += 1;
                tokio::spawn(connection::serve(stream, connections, shared.clone()));
            }
            // A client that left before it was accepted, or too many open files: that client's matter.
            Some(Err(_)) => tokio::time::sleep(BREATH).await,
            None => {
                let next = bind(address)?;
                drop(listener);
                let _ = outages.wait_for(|outage| !refused(outage)).await;
                listener = next.listen(BACKLOG)?;
            }
        }
    }
}

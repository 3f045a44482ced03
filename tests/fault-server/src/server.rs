//! Start, stop and outages of the server, and the state that all connections share.

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
use crate::log::{Log, LoggedExchange, Stats};
use crate::rule::{FaultRule, Match, Rules};
use crate::store::{Credentials, Store};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1024;
/// The pause after a failed accept: if too many files are open, a microsecond later there are still too many.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// The default number of serving threads; two saturate loopback.
const THREADS: usize = 2;

/// The ways to serve nobody. In both of them, existing connections are reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outage {
    /// Nobody listens: connecting is refused, and cannot be counted. The port is kept.
    Refuse,
    /// New connections are accepted, counted and reset.
    Reset,
}

/// The state that all connections share.
pub(crate) struct Shared {
    pub(crate) seed: u64,
    pub(crate) store: Store,
    pub(crate) rules: Rules,
    pub(crate) log: Log,
    pub(crate) link: Link,
    /// The rate of the link, which all connections share.
    pub(crate) pace: Option<Pace>,
    pub(crate) outage: watch::Sender<Option<Outage>>,
}

/// Configures a server: the folders that it serves, and the link.
pub struct Builder {
    folders: BTreeMap<String, PathBuf>,
    marks: Vec<String>,
    link: Link,
    seed: u64,
    port: u16,
    threads: usize,
    page: usize,
    rules: Vec<FaultRule>,
    credentials: Option<Credentials>,
    log: Option<PathBuf>,
}

impl Builder {
    /// Serves the files below `path` as the objects of `bucket`.
    pub fn folder(mut self, bucket: impl Into<String>, path: impl Into<PathBuf>) -> Builder {
        self.folders.insert(bucket.into(), path.into());
        self
    }

    /// Adds an empty object whose key ends in a slash, with which programs mark a folder of `bucket`.
    pub fn mark(mut self, bucket: &str, key: &str) -> Builder {
        self.marks.push(format!("{bucket}/{key}"));
        self
    }

    /// The link between the server and its clients. Default: without delay.
    pub fn link(mut self, link: Link) -> Builder {
        self.link = link;
        self
    }

    /// The seed of all random draws. Default: 0.
    pub fn seed(mut self, seed: u64) -> Builder {
        self.seed = seed;
        self
    }

    /// The port on 127.0.0.1. Default: a free one.
    pub fn port(mut self, port: u16) -> Builder {
        self.port = port;
        self
    }

    /// The number of serving threads. Default: 2.
    pub fn threads(mut self, threads: usize) -> Builder {
        self.threads = threads.max(1);
        self
    }

    /// The highest number of keys on a page of a list. The default, and the limit of S3, is 1,000. Small
    /// pages show whether a client asks for further pages.
    pub fn page(mut self, keys: usize) -> Builder {
        self.page = keys.clamp(1, PAGE);
        self
    }

    /// Adds a rule that holds from the start, like [`FaultServer::add`].
    pub fn rule(mut self, when: Match, then: Fault) -> Builder {
        self.rules.push(FaultRule { when, then });
        self
    }

    /// The credentials that every request must carry. Default: none.
    pub fn credentials(mut self, credentials: Credentials) -> Builder {
        self.credentials = Some(credentials);
        self
    }

    /// The file to which each exchange is written when it ends, one line of JSON each.
    pub fn log_to(mut self, file: impl Into<PathBuf>) -> Builder {
        self.log = Some(file.into());
        self
    }

    /// Starts the server. Fails if a folder does not exist, or if the port or the log file cannot be opened.
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
                // `accept` returns only if it cannot listen again after an outage. Clients are then refused.
                _ = accept(listener, address, served) => {}
            }
        };
        // The runtime ends with this thread, and its tasks and sockets end with the runtime.
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
    /// Begins to configure a server.
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

    /// The URL, such as `http://127.0.0.1:40123`; buckets are its folders.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The seed of all random draws, to be printed when a test fails.
    pub fn seed(&self) -> u64 {
        self.shared.seed
    }

    /// Adds a rule: from now on, `then` happens to requests that match `when`. If several rules choose a
    /// request, the oldest acts.
    pub fn add(&self, when: Match, then: Fault) {
        self.shared.rules.add(FaultRule { when, then });
    }

    /// Removes all rules. Stalls that have begun go on.
    pub fn clear_rules(&self) {
        self.shared.rules.clear();
    }

    /// Begins an outage, in which nobody is served and connections are reset. `None` ends it, on the same
    /// port.
    ///
    /// With [`Outage::Refuse`] the listener closes and opens within a moment, not at once: until it closes,
    /// connections are reset; until it opens, they are refused.
    pub fn outage(&self, outage: Option<Outage>) {
        self.shared.outage.send_replace(outage);
    }

    /// Requires these credentials of every request from now on; `None` admits everybody. Other requests are
    /// answered 403.
    pub fn require(&self, credentials: Option<Credentials>) {
        self.shared.store.require(credentials);
    }

    /// Gives an object another ETag than its file has, which stands for a new version with the same bytes.
    /// `None` restores the ETag of the file.
    pub fn set_etag(&self, bucket: &str, key: &str, etag: Option<&str>) {
        self.shared.store.set_etag(format!("{bucket}/{key}"), etag.map(String::from));
    }

    /// Every exchange since the start or the last [`reset`](Self::reset), including exchanges in progress.
    pub fn log(&self) -> Vec<LoggedExchange> {
        self.shared.log.exchanges()
    }

    /// The sums since the start or the last [`reset`](Self::reset).
    pub fn stats(&self) -> Stats {
        self.shared.log.stats()
    }

    /// Empties the log and the sums. The rules stay, with their counts and clocks restarted.
    pub fn reset(&self) {
        self.shared.log.reset();
        self.shared.rules.rewind();
    }
}

impl Drop for FaultServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed already, and a drop must not panic.
            let _ = thread.join();
        }
    }
}

/// A socket that holds its port and does not listen yet, so connecting is refused. Two sockets may hold the
/// port, so that at the start of an outage a new socket takes it before the old one releases it.
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
            // A client left before it was accepted, or too many files are open: only that client is affected.
            Some(Err(_)) => tokio::time::sleep(ACCEPT_PAUSE).await,
            None => {
                let next = bind(address)?;
                drop(listener);
                let _ = outages.wait_for(|outage| !refused(outage)).await;
                listener = next.listen(BACKLOG)?;
            }
        }
    }
}

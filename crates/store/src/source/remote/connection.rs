//! A connection to an object store. It can replace its client if credentials are refused, and repeats
//! requests until they are answered.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use forebay_base::{Error, ErrorKind, Result};
use futures::future::BoxFuture;
use object_store::ObjectStore;
use tokio::time::{sleep, timeout};

use super::pace::{self, Pace};
use super::trouble::{Outage, Trouble};
use crate::source::clouds::{self, Address, Client, Options};
use crate::source::traffic::Traffic;
use crate::source::wire::{EXCHANGE, Exchange, Wire};

/// How long failing requests for an object are repeated before the failure becomes an error.
const DEFAULT_RETRY_TIMEOUT: Duration = Duration::from_secs(180);

/// How long a request may receive nothing before it is given up and repeated.
const DEFAULT_STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The connection of one data set to one object store.
#[derive(Clone)]
pub(in crate::source) struct Remote {
    client: Arc<RwLock<Client>>,
    pub(super) origin: ClientOrigin,
    /// The URL of the store's root without secrets; empty if the user provided the client.
    root: Arc<str>,
    pub(super) pace: Arc<Pace>,
    pub(super) limits: Limits,
    pub(super) traffic: Arc<Traffic>,
}

impl Remote {
    /// Creates a connection to the store at this address. No request is sent yet.
    pub(in crate::source) fn connect(
        address: &Address,
        options: &Options,
        traffic: Arc<Traffic>,
    ) -> Result<Self> {
        let wire = Wire::new();
        let store = clouds::connect(address, options, &wire)?;
        let origin = ClientOrigin::Address(Arc::new((address.clone(), options.clone(), wire)));
        let limits = Limits {
            retry: options.retry_timeout()?.unwrap_or(DEFAULT_RETRY_TIMEOUT),
            stall: options.stall_timeout()?.unwrap_or(DEFAULT_STALL_TIMEOUT),
        };
        let most = options.max_concurrency()?.unwrap_or(pace::MAX_SLOTS);
        Ok(Remote::new(store, origin, address.root(), limits, most, traffic))
    }

    /// Another connection to the same store, for example in a child process after a fork.
    pub(in crate::source) fn connect_again(&self) -> Result<Self> {
        match &self.origin {
            ClientOrigin::Address(origin) => Remote::connect(&origin.0, &origin.1, self.traffic.clone()),
            ClientOrigin::User => Err(Error::new(
                ErrorKind::Closed,
                "this store was given to the data set before the process forked, and its connections are the parent's",
            )
            .hint("open the data set in the child, or start workers with spawn or forkserver")),
        }
    }

    /// A connection through a client that the user provided.
    pub(in crate::source) fn of_user(store: Arc<dyn ObjectStore>, traffic: Arc<Traffic>) -> Self {
        let limits = Limits { retry: DEFAULT_RETRY_TIMEOUT, stall: DEFAULT_STALL_TIMEOUT };
        Remote::new(Client::whole(store), ClientOrigin::User, "", limits, pace::MAX_SLOTS, traffic)
    }

    fn new(
        store: Client,
        origin: ClientOrigin,
        root: &str,
        limits: Limits,
        most: usize,
        traffic: Arc<Traffic>,
    ) -> Self {
        let client = Arc::new(RwLock::new(store));
        let pace = Arc::new(Pace::new(most, traffic.clone()));
        Remote { client, origin, root: root.into(), pace, limits, traffic }
    }

    /// The URL of an object, in the form in which users write it.
    pub(in crate::source) fn shown(&self, path: &str) -> String {
        match &*self.root {
            "" => path.to_string(),
            root => format!("{root}/{path}"),
        }
    }

    /// The largest number of requests at a time.
    pub(in crate::source) fn most_at_once(&self) -> usize {
        self.pace.most()
    }

    pub(super) fn client(&self) -> Client {
        self.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a new client with credentials that are looked up again, after those of the client `refused` were
    /// refused. Returns whether the next try may have other credentials.
    fn renew(&self, refused: &Client) -> bool {
        let ClientOrigin::Address(origin) = &self.origin else { return false };
        let (address, options, wire) = &**origin;
        let mut client = self.client.write().unwrap_or_else(PoisonError::into_inner);
        if !client.is_same(refused) {
            return true; // Another request has just done it.
        }
        match clouds::connect(address, options, wire) {
            Ok(store) => {
                *client = store;
                true
            }
            Err(_) => false,
        }
    }

    /// Counts a failure. If the store asks for fewer requests, reduces their number.
    fn note(&self, trouble: &Trouble) {
        match trouble {
            Trouble::Passing { throttled: true, .. } => {
                self.traffic.throttled.add(1);
                self.pace.throttled();
            }
            Trouble::Stalled(_) => self.traffic.stalls.add(1),
            _ => {}
        }
    }

    /// Does what is needed after a failure before a request is repeated: waits, or looks up the credentials
    /// again (at most once). Fails if the request must not be repeated.
    pub(super) async fn recover(&self, trouble: Trouble, client: &Client, outage: &mut Outage) -> Result<()> {
        self.note(&trouble);
        if matches!(trouble, Trouble::Denied(_)) && !outage.renewed && self.renew(client) {
            outage.renewed = true;
            return Ok(());
        }
        sleep(outage.wait(trouble)?).await;
        self.traffic.retries.add(1);
        Ok(())
    }

    /// Repeats a request until there is an answer. `ask` returns `None` if an answer ended early; this is
    /// treated like a temporary failure.
    pub(super) async fn patiently<'a, T>(
        &self,
        ask: impl Fn(Client) -> BoxFuture<'a, object_store::Result<Option<T>>> + Send + Sync,
    ) -> Result<T> {
        self.patiently_for(Duration::ZERO, ask).await
    }

    /// Works like [`patiently`](Self::patiently), for a request whose answer is expected only after the time
    /// `more`.
    pub(super) async fn patiently_for<'a, T>(
        &self,
        more: Duration,
        ask: impl Fn(Client) -> BoxFuture<'a, object_store::Result<Option<T>>> + Send + Sync,
    ) -> Result<T> {
        let mut outage = Outage::new(self.limits.retry);
        loop {
            let (client, exchange, stall) =
                (self.client(), Exchange::default(), outage.silence(self.limits.stall));
            self.traffic.requests.add(1);
            let asked = EXCHANGE.scope(exchange.clone(), ask(client.clone()));
            let trouble = match timeout(stall + more, asked).await {
                Ok(Ok(Some(answer))) => return Ok(answer),
                Ok(Ok(None)) => Trouble::passing("the response ended early"),
                Ok(Err(error)) => Trouble::from_store_error(&error, &exchange),
                Err(_) => silence(stall),
            };
            self.recover(trouble, &client, &mut outage).await?;
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client is left out, because clients print their secret keys.
        f.debug_struct("Remote").field("root", &self.root).finish_non_exhaustive()
    }
}

/// How the client of a connection is made.
#[derive(Clone)]
pub(super) enum ClientOrigin {
    /// The client is made here from an address and options, and is made again if the credentials are refused.
    Address(Arc<(Address, Options, Wire)>),
    /// The user provided the client.
    User,
}

impl ClientOrigin {
    pub(super) fn takes_if_match(&self) -> bool {
        matches!(self, ClientOrigin::Address(origin) if origin.0.takes_if_match())
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) retry: Duration,
    pub(super) stall: Duration,
}

pub(super) fn silence(stall: Duration) -> Trouble {
    Trouble::Stalled(format!("no response came for {:.0} s", stall.as_secs_f64()))
}

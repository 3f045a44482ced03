//! `hdfs://`, `hopsfs://` and `viewfs://`: Hadoop's file system, over its own protocol.
//!
//! The configuration is Hadoop's: `core-site.xml` and `hdfs-site.xml` in `HADOOP_CONF_DIR` or
//! `HADOOP_HOME/etc/hadoop`. Storage options with a dot in their name override it. The user is
//! `HADOOP_USER_NAME`; if `hadoop.security.authentication` is `kerberos`, it is the user of the ticket that
//! `kinit` got, and [`guard`] refuses a server that does not ask for Kerberos.

mod guard;

use std::sync::Arc;

use forebay_base::panics::caught;
use forebay_base::{Error, ErrorKind, Result};
use guard::{Configuration, Guarded};
use hdfs_native_object_store::HdfsObjectStoreBuilder;
use object_store::ObjectStore;

use super::address::Address;
use super::options::{Options, unknown};

pub(super) fn connect(address: &Address, options: &Options) -> Result<Arc<dyn ObjectStore>> {
    // Without this runtime, the client would start one of its own, which cannot be shut down from a task.
    let runtime = tokio::runtime::Handle::try_current()
        .map_err(|_| Error::new(ErrorKind::Internal, "HDFS needs a runtime"))?;
    let mut configuration = Vec::new();
    for (key, value) in options.theirs() {
        if !key.contains('.') {
            return Err(unknown(key, "hdfs://", std::iter::empty())
                .hint("Hadoop's own keys have a dot: dfs.nameservices, hadoop.security.authentication"));
        }
        configuration.push((key, value));
    }
    let guarding =
        Configuration::read(configuration.iter().map(|(key, value)| (key.to_string(), value.to_string())))?;
    let builder = HdfsObjectStoreBuilder::new()
        .with_url(address.root())
        .with_config(configuration)
        .with_io_runtime(runtime);
    // The client panics if the operating system has no name for the user of this process.
    let store = caught(|| builder.build())
        .map_err(|_| refused(address, "the user has no name").hint("set HADOOP_USER_NAME"))?;
    let words = |error: object_store::Error| match error {
        object_store::Error::Generic { source, .. } => source.to_string(),
        _ => "it is malformed".to_owned(),
    };
    let store = store.map_err(|error| refused(address, &words(error)).hint("check HADOOP_CONF_DIR"))?;
    Ok(match guarding.needs_kerberos() {
        true => Arc::new(Guarded::new(Arc::new(store), guarding.name_nodes(address.root()))),
        false => Arc::new(store),
    })
}

fn refused(address: &Address, why: &str) -> Error {
    Error::invalid(format!("the Hadoop configuration does not fit {}: {why}", address.root()))
}

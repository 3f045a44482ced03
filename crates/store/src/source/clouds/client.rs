//! The client of a store, with one set of credentials.

use std::ops::Deref;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::list::PaginatedListStore;

/// The client of a store. Clones share its connections.
#[derive(Clone)]
pub(in crate::source) struct Client {
    store: Arc<dyn ObjectStore>,
    pages: Option<Arc<dyn PaginatedListStore>>,
}

impl Client {
    /// Makes the client of a store that can list its objects page by page.
    pub(super) fn paged(store: impl ObjectStore + PaginatedListStore) -> Self {
        let store = Arc::new(store);
        Client { store: store.clone(), pages: Some(store) }
    }

    /// Makes the client of a store that can only list all of its objects at once.
    pub(in crate::source) fn whole(store: Arc<dyn ObjectStore>) -> Self {
        Client { store, pages: None }
    }

    /// The interface for listing page by page, if the store has it.
    pub(in crate::source) fn pages(&self) -> Option<&Arc<dyn PaginatedListStore>> {
        self.pages.as_ref()
    }

    pub(in crate::source) fn is_same(&self, other: &Client) -> bool {
        Arc::ptr_eq(&self.store, &other.store)
    }
}

impl Deref for Client {
    type Target = dyn ObjectStore;

    fn deref(&self) -> &Self::Target {
        &*self.store
    }
}

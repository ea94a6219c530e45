//! The keys of a prefix with all changes: list them, watch from the next revision on, and list again after a compaction.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::store::error::{Error, Result};
use crate::store::model::{Entry, Event, Revision};
use crate::store::{Store, Watch};

/// The keys below a prefix, kept up to date.
pub struct Follow {
    store: Arc<dyn Store>,
    prefix: String,
    known: BTreeMap<String, Entry>,
    revision: Revision,
    watch: Box<dyn Watch>,
}

impl Follow {
    /// Lists the present keys, and watches from there on.
    ///
    /// # Errors
    /// If the store cannot be reached.
    pub fn new(store: Arc<dyn Store>, prefix: &str) -> Result<Self> {
        let listing = store.list(prefix)?;
        // From the revision after the listing: no change is missed, and none is reported twice.
        let watch = store.watch(prefix, listing.revision + 1)?;
        Ok(Self {
            store,
            prefix: prefix.to_owned(),
            known: listing.entries.into_iter().collect(),
            revision: listing.revision,
            watch,
        })
    }

    /// Returns the latest known keys.
    #[must_use]
    pub fn known(&self) -> &BTreeMap<String, Entry> {
        &self.known
    }

    /// Returns the revision of the latest known keys.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the next changes. Returns nothing if none arrived within `patience`. After a compaction, returns the
    /// difference between the known and the present keys: the last change of each key, and deletions with the listing's
    /// revision.
    ///
    /// # Errors
    /// If the store cannot be reached. The call may be repeated, and no change is missed.
    pub fn next(&mut self, patience: Duration) -> Result<Vec<Event>> {
        let events = match self.watch.next(patience) {
            Err(Error::Compacted { .. }) => self.list_again()?,
            events => events?,
        };
        for event in &events {
            self.revision = self.revision.max(event.revision);
            match &event.entry {
                Some(entry) => self.known.insert(event.key.clone(), entry.clone()),
                None => self.known.remove(&event.key),
            };
        }
        Ok(events)
    }

    fn list_again(&mut self) -> Result<Vec<Event>> {
        let listing = self.store.list(&self.prefix)?;
        self.watch = self.store.watch(&self.prefix, listing.revision + 1)?;
        self.revision = listing.revision;
        let there: BTreeMap<_, _> = listing.entries.into_iter().collect();
        let gone = self.known.keys().filter(|key| !there.contains_key(*key));
        let mut events: Vec<Event> = gone
            .map(|key| Event {
                key: key.clone(),
                revision: listing.revision,
                entry: None,
            })
            .collect();
        let news = there
            .into_iter()
            .filter(|(key, entry)| self.known.get(key) != Some(entry));
        events.extend(news.map(|(key, entry)| Event {
            key,
            revision: entry.modified,
            entry: Some(entry),
        }));
        Ok(events)
    }
}

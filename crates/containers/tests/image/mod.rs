//! Images: sources, layers and the store.

mod hostile;
mod no_panic;
mod odd;
mod overlay;
mod registry;
mod sources;
mod store;
mod support;

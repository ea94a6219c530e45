//! Information for nodes: the documents, and their shipped schema.

mod schema;
mod telling;

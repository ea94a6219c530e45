//! Information for nodes: the documents, and their shipped schema.

mod ahead;
mod schema;
mod telling;

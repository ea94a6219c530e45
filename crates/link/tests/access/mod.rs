//! The access model in virtual time: order, bounds, determinism, and the distributions of its parts.

mod edge;
mod laws;
mod parts;
mod within;

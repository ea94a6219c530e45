//! BPF objects: what all crates with BPF programs have in common.
//!
//! Objects are compiled by `tools/compile_bpf.rs` and stand in the library as [`Aligned`] bytes. Once loaded by
//! libbpf-rs, their [`map`]s, [`program`]s and [`constants`] are found by name; arrays are read and written as
//! [`Mapped`] memory without system calls; programs are put on interfaces by [`attach`]. Call [`listen`] before loading: errors
//! ([`BpfError::refused`]) then say what libbpf and the verifier said.

mod error;
mod mapped;
mod messages;
mod object;

pub use error::{BpfError, Result};
pub use mapped::Mapped;
pub use messages::{listen, take as last_messages};
pub use object::{Aligned, Side, attach, constants, link, map, mapped, page_bytes, program};

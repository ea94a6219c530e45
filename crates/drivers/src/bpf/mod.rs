//! Loading and sharing of BPF objects, for all crates with BPF programs.
//!
//! Objects are compiled by `tools/compile_bpf.rs` and are in the library as [`Aligned`] bytes. Once loaded by
//! libbpf-rs, their [`map`]s, [`program`]s and [`constants`] are found by name. Arrays are read and written as
//! [`Mapped`] memory without system calls. [`attach`] puts programs on interfaces. Call [`listen`] before loading:
//! errors ([`BpfError::refused`]) then carry the messages of libbpf and the verifier.

mod error;
mod mapped;
mod messages;
mod object;

pub use error::{BpfError, Result};
pub use mapped::Mapped;
pub use messages::{listen, take as last_messages};
pub use object::{Aligned, Side, attach, constants, link, map, mapped, page_bytes, program};

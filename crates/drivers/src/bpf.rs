//! What all of the drivers' BPF objects have in common.

use libbpf_rs::{MapCore, Object};

use crate::error::{DriverError, Result};

/// BPF's ELF reader wants the object aligned.
#[repr(C, align(8))]
pub(crate) struct Aligned<T: ?Sized>(pub(crate) T);

/// A map by its name.
pub(crate) fn map<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Map<'a>> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| DriverError::Unable(format!("the BPF object has no map {name}")))
}

/// A program by its name.
pub(crate) fn program<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::Program<'a>> {
    let found = object.progs().find(|program| program.name() == name);
    found.ok_or_else(|| DriverError::Unable(format!("the BPF object has no program {name}")))
}

/// An object's constants, if they are those that its source has, in the order of their definition: in a wrong order they
/// would send frames astray.
pub(crate) fn constants<'a>(value: Option<&'a mut [u8]>, expected: &[u32]) -> Option<&'a mut [u8]> {
    let expected: Vec<u8> = expected.iter().flat_map(|c| c.to_ne_bytes()).collect();
    value.filter(|value| **value == *expected)
}

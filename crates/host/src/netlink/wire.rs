//! Attributes of netlink messages.

/// Iterates over attributes (type without its flag bits, value); stops at malformed ones.
///
/// Dumps are parsed by hand instead of as typed messages: newer kernels add and extend attributes, and an unused one
/// must not make a whole dump unreadable.
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let h = rest.first_chunk::<4>()?;
        let len = u16::from_ne_bytes([h[0], h[1]]) as usize;
        let kind = u16::from_ne_bytes([h[2], h[3]]) & 0x3fff;
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Returns a NUL-terminated string attribute.
pub(super) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.split(|&b| b == 0).next().unwrap_or_default()).into_owned()
}

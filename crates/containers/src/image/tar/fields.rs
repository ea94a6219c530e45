//! The numeric fields of a header.

use ::tar::Header;

use crate::image::error::Fault;

/// Archives consist of blocks of this size, bytes.
pub(super) const BLOCK: u64 = 512;

/// Returns the number of bytes that fill the last block of a content.
pub(super) fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK
}

/// The numeric fields of every header.
pub(super) struct Numbers {
    pub(super) mode: i64,
    pub(super) uid: i64,
    pub(super) gid: i64,
    pub(super) size: u64,
    pub(super) mtime: i64,
}

impl Numbers {
    pub(super) fn of(header: &Header) -> Result<Self, Fault> {
        let old = header.as_old();
        let field = |bytes: &[u8], what: &str| {
            number(bytes).ok_or_else(|| Fault::damaged(format!("a header's {what} is no number")))
        };
        let size = field(&old.size, "size")?;
        Ok(Self {
            mode: field(&old.mode, "mode")?,
            uid: field(&old.uid, "owner")?,
            gid: field(&old.gid, "group")?,
            size: u64::try_from(size).map_err(|_| Fault::damaged("a header's size is negative"))?,
            mtime: field(&old.mtime, "time")?,
        })
    }
}

/// Parses a number in octal digits, or in GNU's binary form for larger values. An empty field is 0.
pub(super) fn number(field: &[u8]) -> Option<i64> {
    let (first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        // Two's complement without the marker bit; values outside of i64 are rejected.
        let sign = if first & 0x40 != 0 { -1 } else { 0 };
        let mut value = i64::from(first & 0x3f) | (sign << 6);
        for byte in rest {
            value = value.checked_mul(256)? | i64::from(*byte);
        }
        return Some(value);
    }
    let text = field.split(|b| *b == 0).next()?;
    let text = std::str::from_utf8(text).ok()?.trim();
    match text {
        "" => Some(0),
        digits if digits.bytes().all(|b| (b'0'..=b'7').contains(&b)) => {
            i64::from_str_radix(digits, 8).ok()
        }
        _ => None,
    }
}

/// Returns the major and minor number of a device.
pub(super) fn device(header: &Header) -> Option<(u32, u32)> {
    let (major, minor) = match (header.as_ustar(), header.as_gnu()) {
        (Some(ustar), _) => (ustar.dev_major, ustar.dev_minor),
        (_, Some(gnu)) => (gnu.dev_major, gnu.dev_minor),
        _ => return None,
    };
    let part = |field: &[u8], most: i64| {
        let value = number(field).filter(|n| (0..=most).contains(n))?;
        u32::try_from(value).ok()
    };
    // The kernel's maximum for each number.
    Some((part(&major, 0xfff)?, part(&minor, 0xf_ffff)?))
}

/// Checks the header's checksum, which may be computed from signed or unsigned bytes.
pub(super) fn check_sum(header: &Header) -> Result<(), Fault> {
    let bytes = header.as_bytes();
    let counted = |at: usize| match (148..156).contains(&at) {
        true => b' ',
        false => bytes[at],
    };
    let unsigned: i64 = (0..bytes.len()).map(|at| i64::from(counted(at))).sum();
    let signed: i64 = (0..bytes.len())
        .map(|at| i64::from(counted(at) as i8))
        .sum();
    match number(&header.as_old().cksum) {
        Some(sum) if sum == unsigned || sum == signed => Ok(()),
        _ => Err(Fault::damaged("the check sum of a header is wrong")),
    }
}

/// Parses a decimal number.
pub(super) fn whole_number(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok()?;
    let good = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    good.then(|| digits.parse().ok()).flatten()
}

/// Parses seconds since 1970 with a fraction to seconds and nanoseconds; further digits are truncated.
pub(super) fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds = i64::try_from(whole_number(whole.as_bytes())?).ok()?;
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanoseconds: u32 = format!("{fraction:0<9}")[..9].parse().ok()?;
    match (negative, nanoseconds) {
        (false, _) => Some((seconds, nanoseconds)),
        (true, 0) => Some((-seconds, 0)),
        (true, _) => Some((-seconds - 1, 1_000_000_000 - nanoseconds)),
    }
}

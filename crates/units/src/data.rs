//! Data rates and sizes, in whole bits per second and whole bytes.

use std::fmt;
use std::str::FromStr;

use crate::decimal::Decimal;
use crate::error::UnitError;
use crate::quantity::{Quantity, Unit};
use crate::serial::text_form;

pub(crate) const DATARATE: Quantity = Quantity {
    name: "data rate",
    format: "datarate",
    example: "10 Mbit/s",
    units: &[
        Unit {
            name: "bit/s",
            factor: 1,
        },
        Unit {
            name: "kbit/s",
            factor: 1_000,
        },
        Unit {
            name: "Mbit/s",
            factor: 1_000_000,
        },
        Unit {
            name: "Gbit/s",
            factor: 1_000_000_000,
        },
        Unit {
            name: "Tbit/s",
            factor: 1_000_000_000_000,
        },
    ],
    hints: &[
        ("bps", "did you mean \"bit/s\"?"),
        ("kbps", "did you mean \"kbit/s\"?"),
        ("Kbps", "did you mean \"kbit/s\"?"),
        ("mbps", "did you mean \"Mbit/s\"?"),
        ("Mbps", "did you mean \"Mbit/s\"?"),
        ("gbps", "did you mean \"Gbit/s\"?"),
        ("Gbps", "did you mean \"Gbit/s\"?"),
        ("Tbps", "did you mean \"Tbit/s\"?"),
        ("bit", "did you mean \"bit/s\"?"),
        ("kbit", "did you mean \"kbit/s\"?"),
        ("Mbit", "did you mean \"Mbit/s\"?"),
        ("Gbit", "did you mean \"Gbit/s\"?"),
        ("b/s", "did you mean \"bit/s\"?"),
        ("kb/s", "did you mean \"kbit/s\"?"),
        ("Mb/s", "did you mean \"Mbit/s\"?"),
        ("Gb/s", "did you mean \"Gbit/s\"?"),
        (
            "Bps",
            "rates are in bits: multiply by 8 and write \"bit/s\"",
        ),
        (
            "B/s",
            "rates are in bits: multiply by 8 and write \"bit/s\"",
        ),
        (
            "kB/s",
            "rates are in bits: multiply by 8 and write \"kbit/s\"",
        ),
        (
            "MB/s",
            "rates are in bits: multiply by 8 and write \"Mbit/s\"",
        ),
        (
            "MBps",
            "rates are in bits: multiply by 8 and write \"Mbit/s\"",
        ),
        (
            "GB/s",
            "rates are in bits: multiply by 8 and write \"Gbit/s\"",
        ),
        (
            "GBps",
            "rates are in bits: multiply by 8 and write \"Gbit/s\"",
        ),
    ],
    range: "it must lie between 0 bit/s and 18446744073709551615 bit/s (64 bits)",
};

pub(crate) const DATASIZE: Quantity = Quantity {
    name: "data size",
    format: "datasize",
    example: "256 KiB",
    units: &[
        Unit {
            name: "B",
            factor: 1,
        },
        Unit {
            name: "kB",
            factor: 1_000,
        },
        Unit {
            name: "KiB",
            factor: 1 << 10,
        },
        Unit {
            name: "MB",
            factor: 1_000_000,
        },
        Unit {
            name: "MiB",
            factor: 1 << 20,
        },
        Unit {
            name: "GB",
            factor: 1_000_000_000,
        },
        Unit {
            name: "GiB",
            factor: 1 << 30,
        },
        Unit {
            name: "TB",
            factor: 1_000_000_000_000,
        },
        Unit {
            name: "TiB",
            factor: 1 << 40,
        },
    ],
    hints: &[
        ("b", "sizes are in bytes: did you mean \"B\"?"),
        ("bit", "sizes are in bytes: divide by 8 and write \"B\""),
        ("byte", "did you mean \"B\"?"),
        ("bytes", "did you mean \"B\"?"),
        ("K", "did you mean \"kB\" (1000 B) or \"KiB\" (1024 B)?"),
        ("k", "did you mean \"kB\" (1000 B) or \"KiB\" (1024 B)?"),
        ("KB", "did you mean \"kB\" (1000 B) or \"KiB\" (1024 B)?"),
        (
            "M",
            "did you mean \"MB\" (1000000 B) or \"MiB\" (1048576 B)?",
        ),
        ("G", "did you mean \"GB\" or \"GiB\"?"),
        ("Mbit", "sizes are in bytes: divide by 8 and write \"MB\""),
    ],
    range: "it must lie between 0 B and 18446744073709551615 B (64 bits)",
};

/// A data rate in whole bits per second. Units are decimal (1 kbit/s = 1000 bit/s).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataRate(u64);

impl DataRate {
    /// Returns a rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Returns the rate in bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }
}

impl FromStr for DataRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bps = DATARATE.parse_integer(text, "bit/s")?;
        u64::try_from(bps)
            .map(Self)
            .map_err(|_| DATARATE.out_of_range(text))
    }
}

impl fmt::Display for DataRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The largest unit not above the rate that needs at most three decimals.
        for (index, unit) in DATARATE.units.iter().enumerate().rev() {
            let number = Decimal::from_integer(i128::from(self.0)).shifted(-3 * index as i32);
            if index == 0 || (self.0 >= unit.factor && number.decimals() <= 3) {
                return write!(f, "{number} {}", unit.name);
            }
        }
        Ok(())
    }
}

/// A data size in whole bytes. `kB` is 1000 bytes, `KiB` is 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataSize(u64);

impl DataSize {
    /// Returns a size of `bytes` bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for DataSize {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes = DATASIZE.parse_integer(text, "B")?;
        u64::try_from(bytes)
            .map(Self)
            .map_err(|_| DATASIZE.out_of_range(text))
    }
}

impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0 B");
        }
        let unit = DATASIZE
            .units
            .iter()
            .rev()
            .find(|unit| self.0.is_multiple_of(unit.factor))
            .unwrap_or(&DATASIZE.units[0]);
        write!(f, "{} {}", self.0 / unit.factor, unit.name)
    }
}

text_form!(DataRate, DATARATE, DataSize, DATASIZE);

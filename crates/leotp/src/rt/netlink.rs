//! Just enough netlink to own an nftables table and one routing rule.

use super::sys;
use std::fs::File;
use std::io::{self, Read, Write};

/// A netlink message being built. Attributes are padded to 4 bytes.
pub(crate) struct Msg(pub(crate) Vec<u8>);

impl Msg {
    /// Creates a message; `header` follows the netlink header.
    pub(crate) fn new(kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut b = vec![0; 4];
        b.extend_from_slice(&kind.to_ne_bytes());
        b.extend_from_slice(&flags.to_ne_bytes());
        b.extend_from_slice(&[0; 8]);
        b.extend_from_slice(header);
        Self(b)
    }

    pub(crate) fn attr(&mut self, kind: u16, data: &[u8]) -> &mut Self {
        self.0
            .extend_from_slice(&((data.len() + 4) as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    pub(crate) fn string(&mut self, kind: u16, s: &str) -> &mut Self {
        let mut b = s.as_bytes().to_vec();
        b.push(0);
        self.attr(kind, &b)
    }

    /// A 32-bit number in network order, as nftables wants them.
    pub(crate) fn be32(&mut self, kind: u16, v: u32) -> &mut Self {
        self.attr(kind, &v.to_be_bytes())
    }

    /// Attributes inside an attribute.
    pub(crate) fn nest(&mut self, kind: u16, f: impl FnOnce(&mut Self)) -> &mut Self {
        const NLA_F_NESTED: u16 = 0x8000;
        let at = self.0.len();
        self.0.extend_from_slice(&[0; 2]);
        self.0
            .extend_from_slice(&(kind | NLA_F_NESTED).to_ne_bytes());
        f(self);
        let len = (self.0.len() - at) as u16;
        self.0[at..at + 2].copy_from_slice(&len.to_ne_bytes());
        self
    }

    fn finish(mut self, seq: u32) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0[8..12].copy_from_slice(&seq.to_ne_bytes());
        self.0
    }
}

pub(crate) const REQUEST: u16 = 1;
pub(crate) const ACK: u16 = 4;
pub(crate) const EXCL: u16 = 0x200;
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const APPEND: u16 = 0x800;

/// A netlink socket that asks and waits for the answers.
#[derive(Debug)]
pub(crate) struct Netlink {
    file: File,
    seq: u32,
}

impl Netlink {
    pub(crate) fn open(protocol: i32) -> io::Result<Self> {
        Ok(Self {
            file: sys::netlink(protocol)?.into(),
            seq: 0,
        })
    }

    /// Sends the messages as one datagram and waits for the acknowledgement of each that requests
    /// one. The first refusal is the error.
    pub(crate) fn ask(&mut self, msgs: Vec<Msg>) -> io::Result<()> {
        let mut out = Vec::new();
        let mut open = 0;
        for m in msgs {
            self.seq += 1;
            open += usize::from(u16::from_ne_bytes([m.0[6], m.0[7]]) & ACK != 0);
            out.extend(m.finish(self.seq));
        }
        self.file.write_all(&out)?;
        let mut buf = vec![0; 1 << 16];
        while open > 0 {
            let n = self.file.read(&mut buf)?;
            let mut at = 0;
            while at + 20 <= n {
                let word = |i: usize| {
                    u32::from_ne_bytes([
                        buf[at + i],
                        buf[at + i + 1],
                        buf[at + i + 2],
                        buf[at + i + 3],
                    ])
                };
                let len = (word(0) as usize).max(16);
                const ERROR: u16 = 2;
                if u16::from_ne_bytes([buf[at + 4], buf[at + 5]]) == ERROR {
                    let code = word(16) as i32;
                    if code != 0 {
                        // A refused batch is not acknowledged message by message.
                        return Err(io::Error::from_raw_os_error(-code));
                    }
                    open -= 1;
                }
                at += len.next_multiple_of(4);
                if open == 0 {
                    break;
                }
            }
        }
        Ok(())
    }
}

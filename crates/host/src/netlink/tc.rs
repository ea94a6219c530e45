//! Traffic control: queueing disciplines, classes and filters, with options in the layout of the kernel's headers.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};

use super::batch::Batch;
use super::socket::Socket;
use super::wire::{attributes, text};
use crate::error::Result;

/// From the kernel's `rtnetlink.h` and `gen_stats.h`.
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;

/// Returns the handle `major:minor`.
#[must_use]
pub const fn handle(major: u16, minor: u16) -> u32 {
    ((major as u32) << 16) | minor as u32
}

/// Operation on a traffic control object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcVerb {
    /// Adds a queueing discipline; fails with `EEXIST` if the place is taken.
    AddQdisc,
    /// Adds a queueing discipline, or changes the options of the existing one.
    ReplaceQdisc,
    /// Deletes a queueing discipline.
    DeleteQdisc,
    /// Adds a class.
    AddClass,
    /// Adds a class, or changes the options of the existing one.
    ReplaceClass,
    /// Deletes a class.
    DeleteClass,
    /// Adds a filter.
    AddFilter,
    /// Deletes filters.
    DeleteFilter,
}

impl TcVerb {
    fn request(self) -> (u16, u16) {
        let (new, replace) = (NLM_F_CREATE | NLM_F_EXCL, NLM_F_CREATE | NLM_F_REPLACE);
        match self {
            TcVerb::AddQdisc => (libc::RTM_NEWQDISC, new),
            TcVerb::ReplaceQdisc => (libc::RTM_NEWQDISC, replace),
            TcVerb::DeleteQdisc => (libc::RTM_DELQDISC, 0),
            TcVerb::AddClass => (libc::RTM_NEWTCLASS, new),
            TcVerb::ReplaceClass => (libc::RTM_NEWTCLASS, replace),
            TcVerb::DeleteClass => (libc::RTM_DELTCLASS, 0),
            TcVerb::AddFilter => (libc::RTM_NEWTFILTER, new),
            TcVerb::DeleteFilter => (libc::RTM_DELTFILTER, 0),
        }
    }
}

/// A traffic control object.
#[derive(Clone, Debug, Default)]
pub struct Tc<'a> {
    /// Interface it belongs to.
    pub ifindex: u32,
    /// Handle of the object; 0 to let the kernel choose.
    pub handle: u32,
    /// Handle of the parent.
    pub parent: u32,
    /// Filters: priority and protocol.
    pub info: u32,
    /// `fq`, `netem`, `bpf`, ...
    pub kind: &'a str,
    /// Options, if the kind has any.
    pub options: Option<Attributes>,
}

impl Tc<'_> {
    /// Parent of an interface's root discipline.
    pub const ROOT: u32 = 0xffff_ffff;
    /// Parent of `clsact`.
    pub const CLSACT: u32 = 0xffff_fff1;
    /// Parent of filters on received frames.
    pub const INGRESS: u32 = 0xffff_fff2;
    /// Parent of filters on frames about to be sent.
    pub const EGRESS: u32 = 0xffff_fff3;

    /// Returns [`Tc::info`] of a filter for frames of all protocols.
    #[must_use]
    pub const fn all_protocols(priority: u16) -> u32 {
        ((priority as u32) << 16) | (libc::ETH_P_ALL as u16).to_be() as u32
    }
}

/// Attributes to be sent.
#[derive(Clone, Debug, Default)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// Returns attributes that follow a structure, as some kinds require.
    #[must_use]
    pub fn behind(structure: &[u8]) -> Attributes {
        let mut bytes = structure.to_vec();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        Attributes(bytes)
    }

    /// Adds an attribute with these bytes.
    #[must_use]
    pub fn put(mut self, kind: u16, value: &[u8]) -> Attributes {
        self.0.extend(((4 + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Adds an attribute with a number of four bytes.
    #[must_use]
    pub fn u32(self, kind: u16, value: u32) -> Attributes {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Adds an attribute with a number of eight bytes.
    #[must_use]
    pub fn u64(self, kind: u16, value: u64) -> Attributes {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Adds an attribute with a text.
    #[must_use]
    pub fn text(self, kind: u16, value: &str) -> Attributes {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.put(kind, &bytes)
    }

    /// Adds an attribute that contains others.
    #[must_use]
    pub fn nest(self, kind: u16, inner: Attributes) -> Attributes {
        self.put(kind, &inner.0)
    }
}

impl Batch {
    /// Adds, changes or deletes a traffic control object.
    pub fn tc(&mut self, verb: TcVerb, tc: &Tc<'_>) -> &mut Self {
        let mut body = vec![0; 4];
        for word in [tc.ifindex, tc.handle, tc.parent, tc.info] {
            body.extend(word.to_ne_bytes());
        }
        let mut attributes = Attributes(body);
        if !tc.kind.is_empty() {
            attributes = attributes.text(TCA_KIND, tc.kind);
        }
        if let Some(options) = &tc.options {
            attributes = attributes.put(TCA_OPTIONS, &options.0);
        }
        let (kind, flags) = verb.request();
        self.push_bytes(kind, flags, &attributes.0)
    }
}

/// Counters of a queueing discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QdiscStats {
    /// Interface.
    pub ifindex: u32,
    /// `fq`, `netem`, ...
    pub kind: String,
    /// Handle.
    pub handle: u32,
    /// Its parent.
    pub parent: u32,
    /// Packets sent.
    pub packets: u64,
    /// Bytes of the sent packets.
    pub bytes: u64,
    /// Packets dropped, for all causes.
    pub drops: u64,
    /// Packets inside.
    pub queued: u64,
    /// The kind's own statistics, in the layout of its kernel header.
    pub own: Vec<u8>,
}

impl Socket {
    /// Returns the counters of all queueing disciplines of the namespace.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn qdisc_stats(&mut self) -> Result<Vec<QdiscStats>> {
        let what = "read counters of queueing disciplines";
        self.dump(what, libc::RTM_GETQDISC, &[0; 20], |kind, p| {
            Ok((kind == libc::RTM_NEWQDISC).then(|| stats(p)).flatten())
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let found = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(found))
}

fn stats(p: &[u8]) -> Option<QdiscStats> {
    let mut stats = QdiscStats {
        ifindex: word(p, 4)?,
        handle: word(p, 8)?,
        parent: word(p, 12)?,
        ..QdiscStats::default()
    };
    for (kind, value) in attributes(p.get(20..)?) {
        match kind {
            TCA_KIND => stats.kind = text(value),
            TCA_STATS2 => {
                for (kind, value) in attributes(value) {
                    match kind {
                        TCA_STATS_BASIC => {
                            stats.bytes = u64::from_ne_bytes(value.get(..8)?.try_into().ok()?);
                            stats.packets = word(value, 8)?.into();
                        }
                        TCA_STATS_QUEUE => {
                            stats.queued = word(value, 0)?.into();
                            stats.drops = word(value, 8)?.into();
                        }
                        TCA_STATS_APP => stats.own = value.to_vec(),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(stats)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::VethEnd;
    use crate::netns::NetNs;

    #[test]
    fn a_qdisc_comes_counts_and_goes() {
        let ns = NetNs::new().unwrap();
        let mut socket = Socket::open_in(&ns).unwrap();
        let end = |name, ifindex| VethEnd {
            name,
            ifindex: Some(ifindex),
            ..VethEnd::default()
        };
        let clsact = Tc {
            ifindex: 102,
            handle: handle(0xffff, 0),
            parent: Tc::CLSACT,
            kind: "clsact",
            ..Tc::default()
        };
        let mut batch = Batch::new();
        batch.create_veth(&end("a", 102), &end("b", 103)).unwrap();
        batch.tc(TcVerb::AddQdisc, &clsact);
        socket.send(&mut batch).unwrap();
        let there = |socket: &mut Socket| {
            let found = socket.qdisc_stats().unwrap();
            found.iter().any(|q| q.kind == "clsact" && q.ifindex == 102)
        };
        assert!(there(&mut socket));
        batch.tc(TcVerb::AddQdisc, &clsact);
        let error = socket.send(&mut batch).unwrap_err().to_string();
        assert!(
            error.contains("add queueing discipline clsact ffff:0"),
            "{error}"
        );
        batch.tc(TcVerb::DeleteQdisc, &clsact);
        socket.send(&mut batch).unwrap();
        assert!(!there(&mut socket));
    }
}

//! Datagrams on their way to the kernel: equal neighbours become one GSO train.

use super::{GSO_BYTES, GSO_SEGMENTS, TX_BATCH, UDP_SEGMENT, in_addr, to_raw};
use crate::core::{HopLimit, Path};
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

/// Datagrams waiting to be sent, one after the other in one buffer.
#[derive(Default)]
pub(crate) struct TxBuffer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) items: Vec<Outgoing>,
}

/// A datagram of a train.
pub(crate) struct Outgoing {
    pub(crate) path: Path,
    pub(crate) hop_limit: HopLimit,
    /// The datagram's place in the buffer.
    pub(crate) bytes: Range<usize>,
}

/// The train that the next datagram may join.
struct Open {
    path: Path,
    hop_limit: HopLimit,
    segment: usize,
    total: usize,
}

impl Open {
    /// Whether the train takes the next datagram: all have equal length except the last, and
    /// agree in all else.
    fn takes(&self, next: &Outgoing) -> bool {
        self.path == next.path
            && self.hop_limit == next.hop_limit
            && next.bytes.len() <= self.segment
            && self.total + next.bytes.len() <= GSO_BYTES
    }
}

pub(super) struct Train {
    /// Position in `Trains::which`.
    pub(super) first: usize,
    pub(super) count: usize,
    segment: usize,
    control: [u64; 12],
    control_len: usize,
    name: libc::sockaddr_storage,
    name_len: u32,
}

#[derive(Default)]
pub(super) struct Trains {
    pub(super) which: Vec<usize>,
    pub(super) trains: Vec<Train>,
    iov: Vec<libc::iovec>,
}

impl Trains {
    /// Takes datagrams from `which` until a batch is full; returns how many.
    pub(super) fn fill(&mut self, tx: &TxBuffer, which: &[usize], gso: bool) -> usize {
        let mut open: Option<Open> = None;
        for (n, &w) in which.iter().enumerate() {
            let item = &tx.items[w];
            let len = item.bytes.len();
            let train = self.trains.last_mut().filter(|t| t.count < GSO_SEGMENTS);
            if let (Some(o), Some(train), true) = (&mut open, train, gso)
                && o.takes(item)
            {
                train.count += 1;
                o.total += len;
                self.which.push(w);
                // A shorter datagram ends its train.
                if len < o.segment {
                    open = None;
                }
                continue;
            }
            if self.trains.len() == TX_BATCH {
                return n;
            }
            self.which.push(w);
            let (name, name_len) = to_raw(item.path.dst);
            self.trains.push(Train {
                first: self.which.len() - 1,
                count: 1,
                segment: len,
                control: [0; 12],
                control_len: 0,
                name,
                name_len,
            });
            open = Some(Open {
                path: item.path,
                hop_limit: item.hop_limit,
                segment: len,
                total: len,
            });
        }
        which.len()
    }

    /// The messages of the trains, for a socket that is `transparent` or one of this host's own.
    pub(super) fn messages(&mut self, tx: &TxBuffer, transparent: bool) -> Vec<libc::mmsghdr> {
        self.iov.clear();
        for &w in &self.which {
            let bytes = &tx.bytes[tx.items[w].bytes.clone()];
            self.iov.push(libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            });
        }
        for t in &mut self.trains {
            let item = &tx.items[self.which[t.first]];
            t.put_control(item.path.src.ip(), item.hop_limit, transparent);
        }
        let iov = self.iov.as_mut_ptr();
        let make = |t: &mut Train| {
            // SAFETY: all-zero is a valid mmsghdr; `first` is inside `iov`.
            let (mut m, iov): (libc::mmsghdr, _) = unsafe { (zeroed(), iov.add(t.first)) };
            m.msg_hdr.msg_name = (&raw mut t.name).cast();
            m.msg_hdr.msg_namelen = t.name_len;
            m.msg_hdr.msg_iov = iov;
            m.msg_hdr.msg_iovlen = t.count as _;
            if t.control_len > 0 {
                m.msg_hdr.msg_control = t.control.as_mut_ptr().cast();
                m.msg_hdr.msg_controllen = t.control_len as _;
            }
            m
        };
        self.trains.iter_mut().map(make).collect()
    }
}

impl Train {
    /// Control messages: the source address (a transparent socket is bound to
    /// it), the hop limit if it is not the system's and, for a train, the size of its segments.
    fn put_control(&mut self, src: IpAddr, hop_limit: HopLimit, transparent: bool) {
        self.control_len = 0;
        if let Some(hops) = hop_limit {
            let (level, kind) = match src {
                IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TTL),
                IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT),
            };
            self.put(level, kind, i32::from(hops));
        }
        match src {
            _ if transparent || src.is_unspecified() => {}
            IpAddr::V4(a) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: in_addr(a),
                    ipi_addr: in_addr(Ipv4Addr::UNSPECIFIED),
                };
                self.put(libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            }
            IpAddr::V6(a) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: a.octets(),
                    },
                    ipi6_ifindex: 0,
                };
                self.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            }
        }
        if self.count > 1 {
            self.put(libc::SOL_UDP, UDP_SEGMENT, self.segment as u16);
        }
    }

    fn put<T: Copy>(&mut self, level: i32, kind: i32, value: T) {
        let len = size_of::<T>() as u32;
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute.
        let (space, cmsg_len) =
            unsafe { (libc::CMSG_SPACE(len) as usize, libc::CMSG_LEN(len) as usize) };
        assert!(
            self.control_len + space <= size_of::<[u64; 12]>(),
            "control messages fit their buffer"
        );
        // SAFETY: the assertion above keeps header and data inside `control`,
        // which is aligned for cmsghdr because CMSG_SPACE is a multiple of 8.
        unsafe {
            let c = self
                .control
                .as_mut_ptr()
                .cast::<u8>()
                .add(self.control_len)
                .cast::<libc::cmsghdr>();
            (*c).cmsg_level = level;
            (*c).cmsg_type = kind;
            (*c).cmsg_len = cmsg_len as _;
            libc::CMSG_DATA(c).cast::<T>().write_unaligned(value);
        }
        self.control_len += space;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(items: impl Iterator<Item = (u16, HopLimit, usize)>) -> TxBuffer {
        let mut tx = TxBuffer::default();
        for (port, hop_limit, len) in items {
            let a = tx.bytes.len();
            tx.bytes.resize(a + len, 0);
            tx.items.push(Outgoing {
                path: Path {
                    src: ([10, 0, 0, 1], 1).into(),
                    dst: ([10, 0, 0, 2], port).into(),
                },
                hop_limit,
                bytes: a..a + len,
            });
        }
        tx
    }

    fn counts(t: &Trains) -> Vec<usize> {
        t.trains.iter().map(|t| t.count).collect()
    }

    #[test]
    fn what_is_alike_leaves_together() {
        let some = [(1, None, 100), (1, None, 100), (1, None, 40), (1, None, 40)];
        let others = [
            (1, Some(9), 40),
            (1, Some(9), 40),
            (1, Some(8), 40),
            (2, Some(8), 40),
        ];
        let tx = buffer(some.into_iter().chain(others));
        let which: Vec<usize> = (0..8).collect();
        let mut t = Trains::default();
        assert_eq!(t.fill(&tx, &which, true), 8);
        // A shorter one ends its train; another TTL or path begins one.
        assert_eq!(counts(&t), [3, 1, 2, 1, 1]);
        let mut single = Trains::default();
        assert_eq!(single.fill(&tx, &which, false), 8);
        assert_eq!(counts(&single), [1; 8]);
    }

    #[test]
    fn a_full_batch_says_how_its_trains_are_cut() {
        let tx = buffer((0..400).map(|i| (1 + i / 2, None, 100)));
        let which: Vec<usize> = (0..400).collect();
        let mut t = Trains::default();
        assert_eq!(t.fill(&tx, &which, true), 2 * TX_BATCH);
        let messages = t.messages(&tx, false);
        assert_eq!(messages.len(), TX_BATCH);
        assert!(t.trains.iter().all(|t| t.count == 2 && t.control_len > 0));
    }
}

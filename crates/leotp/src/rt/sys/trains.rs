//! Datagrams on their way to the kernel: equal neighbours become one GSO train.

use super::{GSO_BYTES, GSO_SEGMENTS, TX_BATCH, UDP_SEGMENT, in_addr, to_raw};
use crate::core::Path;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr};

/// Datagrams waiting to be sent, one after the other in one buffer.
#[derive(Default)]
pub(crate) struct TxBuffer {
    pub(crate) bytes: Vec<u8>,
    /// Path, start and end of each.
    pub(crate) items: Vec<(Path, usize, usize)>,
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
    pub(super) fn fill(
        &mut self,
        tx: &TxBuffer,
        which: &[usize],
        gso: bool,
        transparent: bool,
    ) -> usize {
        let mut last: Option<(Path, usize, usize, bool)> = None;
        for (n, &w) in which.iter().enumerate() {
            let (path, a, b) = tx.items[w];
            let len = b - a;
            let joins = matches!(last, Some((p, seg, total, open)) if gso && open && p == path && len <= seg && total + len <= GSO_BYTES)
                && self.trains.last().is_some_and(|t| t.count < GSO_SEGMENTS);
            if !joins && self.trains.len() == TX_BATCH {
                return n;
            }
            self.which.push(w);
            if joins {
                if let (Some(t), Some((_, seg, total, open))) =
                    (self.trains.last_mut(), last.as_mut())
                {
                    t.count += 1;
                    *total += len;
                    // A shorter datagram ends its train.
                    *open = len == *seg;
                }
            } else {
                let (name, name_len) = to_raw(path.dst);
                self.trains.push(Train {
                    first: self.which.len() - 1,
                    count: 1,
                    segment: len,
                    control: [0; 12],
                    control_len: 0,
                    name,
                    name_len,
                });
                last = Some((path, len, len, true));
            }
        }
        for t in &mut self.trains {
            let path = tx.items[self.which[t.first]].0;
            t.put_control(path.src.ip(), transparent);
        }
        which.len()
    }

    pub(super) fn messages(&mut self, tx: &TxBuffer) -> Vec<libc::mmsghdr> {
        self.iov.clear();
        for &w in &self.which {
            let (_, a, b) = tx.items[w];
            self.iov.push(libc::iovec {
                iov_base: tx.bytes[a..].as_ptr().cast_mut().cast(),
                iov_len: b - a,
            });
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
    /// it) and, for a train, the size of its segments.
    fn put_control(&mut self, src: IpAddr, transparent: bool) {
        self.control_len = 0;
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

//! The sending socket on a real trunk. Needs root.

use super::*;
use crate::quiet::be_silent;
use constel_host::netlink::{Batch, LinkChange, Socket, VethEnd};
use constel_host::netns::NetNs;

const SEND: u32 = 110;
const RECEIVE: u32 = 111;
const ETHERTYPE: u16 = 0x88b5;
const FRAME: usize = 64;

fn memory(slots: usize) -> Mapped {
    // SAFETY: plain system calls; the results are checked.
    let fd = unsafe {
        let fd = libc::memfd_create(c"slots".as_ptr(), libc::MFD_CLOEXEC);
        assert!(fd >= 0);
        assert_eq!(libc::ftruncate(fd, (slots * SLOT_BYTES) as i64), 0);
        OwnedFd::from_raw_fd(fd)
    };
    Mapped::new("slots", fd.as_fd(), slots * SLOT_BYTES, 0, true).unwrap()
}

/// Queues a frame that says its number, from the slot of that number.
fn queue(xsk: &mut Xsk, slots: &Mapped, number: u8) {
    let offset = (usize::from(number) << SLOT_SHIFT) + FRAME;
    let mut frame = [number; FRAME];
    frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    // SAFETY: in bounds; the slot is ours.
    unsafe {
        slots
            .ptr(offset, FRAME)
            .copy_from_nonoverlapping(frame.as_ptr(), FRAME);
    }
    xsk.queue(slots, offset, FRAME as u32, None);
}

/// Frames that arrive at the far end: a packet socket there.
fn listen() -> OwnedFd {
    // SAFETY: plain system calls with locals; the results are checked.
    unsafe {
        let protocol = ETHERTYPE.to_be();
        let fd = libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_NONBLOCK,
            i32::from(protocol),
        );
        assert!(fd >= 0);
        let mut at: libc::sockaddr_ll = std::mem::zeroed();
        at.sll_family = libc::AF_PACKET as u16;
        at.sll_protocol = protocol;
        at.sll_ifindex = RECEIVE as i32;
        let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        assert_eq!(libc::bind(fd, (&raw const at).cast(), size), 0);
        OwnedFd::from_raw_fd(fd)
    }
}

/// The numbers of the frames that have arrived. Sending hands them over before it returns.
fn arrived(fd: &OwnedFd) -> Vec<u8> {
    let mut numbers = Vec::new();
    let mut frame = [0_u8; FRAME];
    loop {
        // SAFETY: into a local of that length.
        let len = unsafe { libc::recv(fd.as_raw_fd(), frame.as_mut_ptr().cast(), FRAME, 0) };
        if len > 0 {
            numbers.push(frame[FRAME - 1]);
        // The interface's failure is reported once.
        } else if io::Error::last_os_error().raw_os_error() != Some(libc::ENETDOWN) {
            return numbers;
        }
    }
}

#[test]
fn what_the_kernel_refuses_is_sent_later_and_in_its_order() {
    let ns = NetNs::new().unwrap();
    let test = || {
        be_silent().unwrap();
        let mut socket = Socket::open().unwrap();
        let end = |name, ifindex| VethEnd {
            name,
            ifindex: Some(ifindex),
            ..VethEnd::default()
        };
        let mut batch = Batch::new();
        batch
            .create_veth(&end("tb", SEND), &end("ta", RECEIVE))
            .unwrap();
        batch.link_up(SEND);
        socket.send(&mut batch).unwrap();
        let mut set = |up| {
            let mut batch = Batch::new();
            let change = LinkChange {
                ifindex: RECEIVE,
                up: Some(up),
                ..LinkChange::default()
            };
            batch.change_link(&change).unwrap();
            socket.send(&mut batch).unwrap();
        };
        let slots = memory(64);
        let mut xsk = Xsk::new(&slots, SEND).unwrap();
        let far = listen();
        let mut freed = Vec::new();

        // No receiver at the other end takes frames: each call ends with the first frame refused, as with a full queue.
        (1..=3).for_each(|number| queue(&mut xsk, &slots, number));
        for times in 1..=5 {
            assert_eq!(xsk.kick(true, |slot| freed.push(slot)).unwrap(), 0);
            assert_eq!((xsk.pending(), xsk.refused()), (3, times));
        }
        queue(&mut xsk, &slots, 4);
        assert_eq!((freed.len(), arrived(&far)), (0, vec![]));
        set(true);
        assert_eq!(xsk.kick(true, |slot| freed.push(slot)).unwrap(), 4);
        assert_eq!(xsk.pending(), 0);
        assert_eq!(arrived(&far), [1, 2, 3, 4]);
        assert_eq!(freed, [1, 2, 3, 4]);

        // One that is given up is lost, its slot comes back, and the next is sent.
        set(false);
        freed.clear();
        (5..=6).for_each(|number| queue(&mut xsk, &slots, number));
        xsk.kick(true, |slot| freed.push(slot)).unwrap();
        xsk.kick(false, |slot| freed.push(slot)).unwrap();
        assert_eq!(xsk.pending(), 1);
        set(true);
        xsk.kick(true, |slot| freed.push(slot)).unwrap();
        assert_eq!((arrived(&far), freed.clone()), (vec![6], vec![5, 6]));

        // Again and again, round the ring and beyond.
        set(false);
        freed.clear();
        queue(&mut xsk, &slots, 7);
        for _ in 0..3 * TX_RING {
            xsk.kick(true, |slot| freed.push(slot)).unwrap();
            assert_eq!((xsk.pending(), freed.len()), (1, 0));
        }
        set(true);
        assert_eq!(xsk.kick(true, |slot| freed.push(slot)).unwrap(), 1);
        assert_eq!((arrived(&far), freed.clone()), (vec![7], vec![7]));
    };
    ns.run(test).unwrap();
}

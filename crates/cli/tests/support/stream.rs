//! A TCP stream between two nodes.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};

use super::hangs_after;
use super::lab::Lab;

/// How many bytes are sent.
pub(crate) const STREAM_BYTES: usize = 4 << 20;

/// From a node to an address of another; returns how many bytes arrive.
pub(crate) fn stream(lab: &Lab, from: &str, to: &str, address: IpAddr) -> usize {
    let listener = lab
        .node(to)
        .run(|| TcpListener::bind((address, 0)).unwrap());
    let listener = listener.unwrap();
    let goal = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&goal, hangs_after()).unwrap();
    let mut sender = lab.node(from).run(connect).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    receiver.set_read_timeout(Some(hangs_after())).unwrap();
    sender.set_write_timeout(Some(hangs_after())).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || sender.write_all(&vec![1; STREAM_BYTES]).unwrap());
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).unwrap();
        all.len()
    })
}

//! The cost of sealing a frame between machines, and of opening it: `cargo run --release -p constel-cluster --example seal_cost`.

use std::hint::black_box;
use std::time::Instant;

use constel_cluster::underlay::{Cipher, Key, Label, pack};
use constel_link::PortId;

const FRAMES: u32 = 100_000;

fn main() {
    let cipher = Cipher::new(&Key::new([1; 32]), 0, 1, 1);
    println!("bytes of a frame, ns to pack, to pack and seal, to pack, seal and open");
    for bytes in [64, 300, 1_514] {
        let frame = vec![5; bytes];
        let mut datagram = Vec::new();
        let mut each_ns = |seal: bool, open: bool| {
            let began = Instant::now();
            for sequence in 0..FRAMES {
                let label = Label {
                    lab: 1,
                    from: PortId(0),
                    to: PortId(1),
                    sequence,
                    token: 1,
                    session: 1,
                    due_ns: 0,
                };
                pack(&label, &frame, &mut datagram);
                if seal {
                    cipher.seal(&mut datagram);
                }
                if open {
                    assert!(cipher.open(&mut datagram).is_some());
                }
                black_box(&datagram);
            }
            began.elapsed().as_nanos() / u128::from(FRAMES)
        };
        let costs = [(false, false), (true, false), (true, true)].map(|(s, o)| each_ns(s, o));
        println!("{bytes}, {}, {}, {}", costs[0], costs[1], costs[2]);
    }
}

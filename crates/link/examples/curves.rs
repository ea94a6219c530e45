//! Compares the channel in virtual time with closed forms, as CSV: `law`, the parameter, the simulated and the
//! theoretical value. The tests in `tests/curves.rs` check that both agree; `experiments/swarm` draws them.

#[path = "../tests/medium/drive/mod.rs"]
mod drive;

use constel_link::medium::Access;
use drive::{FRAME_NS, aloha, bianchi, carrier_sense};

/// Virtual seconds of each point.
const SECONDS: u64 = 100;

fn main() {
    println!("law,x,seen,said");
    for step in 1..=20 {
        let g = f64::from(step) * 0.15;
        let seen = aloha(Access::Aloha, g, SECONDS);
        println!("ALOHA,{g},{seen},{}", g * (-2.0 * g).exp());
        let seen = aloha(Access::SlottedAloha { slot_ns: FRAME_NS }, g, SECONDS);
        println!("slotted ALOHA,{g},{seen},{}", g * (-g).exp());
    }
    for window in [32, 128] {
        for n in [2, 3, 5, 7, 10, 15, 20, 30, 40, 50] {
            let seen = carrier_sense(n, window, SECONDS / 2);
            println!("CSMA of {window} slots,{n},{seen},{}", bianchi(n, window));
        }
    }
}

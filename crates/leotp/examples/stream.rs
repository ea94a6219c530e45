//! The library in twenty lines: what one thread writes, another reads, over LEOTP on the loopback.
//!
//! ```console
//! $ cargo run --release -p leotp --example stream
//! ```

use leotp::core::Params;
use leotp::rt::{Fetch, FetchOptions, Publisher};
use std::io::{Read, Write};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The publisher's end: a flow with an id of our choice, that is written while it is served.
    let mut publisher = Publisher::bind(&["127.0.0.1:0".parse()?], Params::default())?;
    let address = publisher.locals()[0];
    let flow_id = 0x5eed;
    let mut flow = publisher.publish_live(flow_id, 1 << 20);
    let writer = std::thread::spawn(move || {
        for line in 0..1000 {
            // Blocks while the reader is a mebibyte behind.
            writeln!(
                flow,
                "line {line} of a stream that is made while it is read"
            )?;
        }
        flow.finish();
        std::io::Result::Ok(())
    });
    // It is served as long as the caller polls it.
    std::thread::spawn(move || while publisher.poll(Duration::from_millis(100)).is_ok() {});

    // The reader's end: a blocking `Read` (feature `futures-io`: `AsyncFetch`, an `AsyncRead`).
    let mut text = String::new();
    Fetch::open(FetchOptions::new(address, flow_id))?.read_to_string(&mut text)?;
    println!(
        "{} bytes, {} lines; the last: {}",
        text.len(),
        text.lines().count(),
        text.lines().last().unwrap_or("")
    );
    match writer.join() {
        Ok(result) => Ok(result?),
        Err(_) => Err("the writer failed".into()),
    }
}

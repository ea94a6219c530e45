//! The dissector, run by tshark over packets whose fields are known, single and in trains as captures on the sending
//! host see them.
//!
//! Needs tshark: `cargo test --release -p leotp --test wireshark -- --ignored`.

use leotp::wire::{DataHeader, Interest, META_BASE, Range, Timing};
use std::process::Command;

const FLOW: u64 = 0x0102_0304_0506_0708;

fn range(start: u64, bytes: u64) -> Range {
    Range {
        start,
        end: start + bytes,
    }
}

fn interest(range: Range, padding: u16) -> Vec<u8> {
    let mut b = vec![];
    Interest {
        flow: FLOW,
        range,
        timestamp: 1_000_000_007,
        rate_bps: 20_000_000,
        rtx: true,
        fresh: false,
        bare: false,
        sparse: true,
        tag: 0xabcd,
        padding,
    }
    .encode(&mut b);
    b
}

fn header(range: Range, timed: bool) -> DataHeader {
    DataHeader {
        flow: FLOW,
        range,
        timing: timed.then_some(Timing {
            timestamp: 640,
            interest_owd: Some(-64),
            tag: 0xabcd,
            queued_us: 192,
        }),
        fin: false,
        rtx: false,
    }
}

fn data(start: u64, bytes: usize, timed: bool) -> Vec<u8> {
    let mut b = vec![];
    header(range(start, bytes as u64), timed).encode_data(&vec![7; bytes], &mut b);
    b
}

fn vph(r: Range) -> Vec<u8> {
    let mut b = vec![];
    header(r, false).encode_vph(&mut b);
    b
}

/// A capture file (IPv4 without a link header) of UDP datagrams to the default port.
fn pcap(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![];
    for v in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 228] {
        file.extend_from_slice(&v.to_le_bytes());
    }
    for payload in payloads {
        let total = (payload.len() + 28) as u16;
        let mut ip = vec![0x45, 0];
        ip.extend_from_slice(&total.to_be_bytes());
        ip.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        ip.extend_from_slice(&leotp::rt::DEFAULT_PORT.to_be_bytes());
        ip.extend_from_slice(&40_000u16.to_be_bytes());
        ip.extend_from_slice(&(total - 20).to_be_bytes());
        ip.extend_from_slice(&[0, 0]);
        ip.extend_from_slice(payload);
        for v in [0, 0, ip.len() as u32, ip.len() as u32] {
            file.extend_from_slice(&v.to_le_bytes());
        }
        file.extend_from_slice(&ip);
    }
    file
}

#[test]
#[ignore = "needs tshark"]
fn tshark_shows_the_fields() {
    let wide = (1 << 32) + 5;
    // Payload that happens to hold the flow id is no next datagram.
    let mut tricky = data(0, 300, false);
    tricky[100..108].copy_from_slice(&FLOW.to_be_bytes());
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (interest(range(1400, 1400), 0), "1|1400|2800|20000000|"),
        (
            interest(range(META_BASE, 64), 9),
            "1|4611686018427387904|4611686018427387968|20000000|",
        ),
        (data(100, 50, false), "2|100|150||"),
        (data(wide, 50, true), "2|4294967301|4294967351||-1"),
        (vph(range(100, 5000)), "3|100|5100||"),
        (tricky, "2|0|300||"),
        // Trains: the last datagram may be shorter.
        (
            [
                interest(range(0, 1400), 0),
                interest(range(1400, 1400), 0),
                interest(range(2800, 700), 0),
            ]
            .concat(),
            "1,1,1|0,1400,2800|1400,2800,3500|20000000,20000000,20000000|",
        ),
        (
            [
                data(0, 1400, true),
                data(2800, 1400, true),
                data(1400, 60, true),
            ]
            .concat(),
            "2,2,2|0,2800,1400|1400,4200,1460||-1,-1,-1",
        ),
        // Neither is a packet of ours.
        (vec![0x21; 60], "||||"),
        (data(0, 10, false)[..12].to_vec(), "2|||||malformed"),
        (
            [interest(range(0, 9), 0), vec![0]].concat(),
            "1|0|9|20000000||malformed",
        ),
    ];
    let dir = tempfile::tempdir().expect("directory");
    let file = dir.path().join("packets.pcap");
    let payloads: Vec<Vec<u8>> = cases.iter().map(|c| c.0.clone()).collect();
    std::fs::write(&file, pcap(&payloads)).expect("capture");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/wireshark/leotp.lua");
    let fields = ["type", "start", "end", "rate", "owd", "malformed"];
    let mut tshark = Command::new("tshark");
    tshark
        .arg("-r")
        .arg(&file)
        .args(["-X", &format!("lua_script:{script}")])
        .args(["-T", "fields", "-E", "separator=|"]);
    for field in fields {
        tshark.args(["-e", &format!("leotp.{field}")]);
    }
    let o = tshark.output().expect("tshark");
    let (out, err) = (
        String::from_utf8_lossy(&o.stdout),
        String::from_utf8_lossy(&o.stderr),
    );
    assert!(o.status.success() && !err.contains("Lua Error"), "{err}");
    let got: Vec<String> = out
        .lines()
        .map(|line| {
            let (known, bad) = line.rsplit_once('|').unwrap_or((line, ""));
            // The last column holds the expert's message where there is one.
            if bad.is_empty() {
                known.to_owned()
            } else {
                format!("{known}|malformed")
            }
        })
        .collect();
    let want: Vec<&str> = cases.iter().map(|c| c.1).collect();
    assert_eq!(got, want);
}

//! TCP over 20 Mbit/s, 10 to 300 ms and 0 to 2 % loss: throughput next to the Mathis curve. `--controls` chooses other
//! congestion controls than reno, cubic and bbr, those of `congestion` included.
//! `benches/tcp_ns3.py` runs the same cases in ns-3 and puts both side by side.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use constel_drivers::Links;
use constel_drivers::relay::{Relay, RelayConfig};
use constel_link::{Delay, EdgeUpdate, Impairment, Loss, PortId, QueueLimit};
use serde_json::{Value, json};

use crate::common::*;
use crate::support::{ETH0, Node, set, v4};

const RATE_BPS: u64 = 20_000_000;
const RTTS_MS: [u64; 4] = [10, 50, 100, 300];
const LOSSES: [f64; 4] = [0.0, 0.001, 0.01, 0.02];
/// Duration of the measurement, after the same time of warm-up.
const SECONDS: f64 = 20.0;
const MSS_BYTES: f64 = 1448.0;

/// A bulk transfer, connected.
pub(crate) struct Stream {
    sender: TcpStream,
    receiver: TcpStream,
}

impl Stream {
    pub(crate) fn open(near: &Node, far: &Node, to: Ipv4Addr, port: u16, cc: &str) -> Stream {
        let listener = far.run(|| TcpListener::bind((to, port)).unwrap());
        let at = SocketAddr::new(to.into(), port);
        let sender = near.run(|| TcpStream::connect_timeout(&at, Duration::from_secs(5)).unwrap());
        // SAFETY: pointer and length describe `cc`.
        let set = unsafe {
            libc::setsockopt(
                sender.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                cc.as_ptr().cast(),
                cc.len() as u32,
            )
        };
        assert_eq!(set, 0, "{cc}: {}", std::io::Error::last_os_error());
        let (receiver, _) = listener.accept().unwrap();
        Stream { sender, receiver }
    }

    /// Goodput in bit/s over `seconds`, from `warm_up` on, and retransmitted segments since the start.
    pub(crate) fn run(self, warm_up: Duration, seconds: f64) -> (f64, u32) {
        let Stream {
            mut sender,
            mut receiver,
        } = self;
        let stop = Arc::new(AtomicBool::new(false));
        let sending = {
            let stop = stop.clone();
            thread::spawn(move || {
                let buffer = vec![0u8; 256 << 10];
                while !stop.load(Ordering::Relaxed) && sender.write_all(&buffer).is_ok() {}
                retransmitted(&sender)
            })
        };
        receiver
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut buffer = vec![0u8; 1 << 20];
        let start = Instant::now();
        let (mut bytes, mut from) = (0u64, None);
        loop {
            let n = receiver.read(&mut buffer).unwrap();
            if let Some(from) = from {
                bytes += n as u64;
                let took = Instant::now().duration_since(from).as_secs_f64();
                if took >= seconds {
                    stop.store(true, Ordering::Relaxed);
                    // The sender may be stuck in a write: empty the pipe until it has noticed.
                    while !sending.is_finished() && receiver.read(&mut buffer).is_ok_and(|n| n > 0)
                    {
                    }
                    let again = sending.join().unwrap();
                    return (bytes as f64 * 8.0 / took, again);
                }
            } else if start.elapsed() > warm_up {
                from = Some(Instant::now());
            }
        }
    }
}

/// `tcpi_total_retrans`.
fn retransmitted(stream: &TcpStream) -> u32 {
    const TOTAL_RETRANS_AT: usize = 100;
    let mut info = [0u8; 104];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: pointer and length describe `info`.
    unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    let at = TOTAL_RETRANS_AT..TOTAL_RETRANS_AT + 4;
    info[at].try_into().map_or(0, u32::from_ne_bytes)
}

fn cells(row: &[String]) -> String {
    row.iter().map(|cell| format!(" {cell:>8}")).collect()
}

/// Mathis, Semke, Mahdavi, Ott 1997: MSS / RTT * sqrt(3/2) / sqrt(p); sqrt(3/4) with an acknowledgement for every other
/// segment. The result, bit/s of payload, is at most the link's capacity.
fn mathis_bps(rtt_s: f64, loss: f64) -> f64 {
    let link = RATE_BPS as f64 * MSS_BYTES / 1514.0;
    if loss == 0.0 {
        return link;
    }
    (MSS_BYTES * 8.0 / rtt_s * (1.5 / loss).sqrt()).min(link)
}

pub(crate) fn tcp_truth(options: &Options) -> Vec<Value> {
    let seconds = options.seconds_or(SECONDS);
    say(
        options,
        &format!(
            "\nTCP over 20 Mbit/s, queue of one bandwidth-delay product: goodput in Mbit/s over {seconds} s"
        ),
    );
    say(
        options,
        &format!(
            "{:>8} {:>8} |{} | {:>8}",
            "rtt ms",
            "loss %",
            cells(&options.controls),
            "Mathis"
        ),
    );
    let cases: Vec<(u64, f64)> = RTTS_MS
        .iter()
        .filter(|&&rtt| options.rtt_ms.is_none_or(|asked| asked == rtt))
        .flat_map(|&rtt| LOSSES.iter().map(move |&loss| (rtt, loss)))
        .collect();
    let mut results = Vec::new();
    let mut table = vec![Vec::new(); cases.len()];
    // Congestion controls that the kernel lacks stay loaded as long as this.
    let _provided: Vec<_> = options
        .controls
        .iter()
        .filter(|cc| !constel_drivers::congestion::kernel_has(cc))
        .map(|cc| constel_drivers::congestion::provide(cc).unwrap())
        .collect();
    for cc in &options.controls {
        let config = RelayConfig {
            priority: options.priority,
            ..RelayConfig::new("bench", 2 * cases.len() as u32, options.seed)
        };
        let relay = Relay::new(config).unwrap();
        let mut changes = Vec::new();
        let pairs: Vec<(Node, Node)> = cases
            .iter()
            .enumerate()
            .map(|(n, &(rtt_ms, loss))| {
                let pair = (Node::new(), Node::new());
                let (a, b) = (2 * n as u32, 2 * n as u32 + 1);
                for (node, port, n) in [(&pair.0, a, 1), (&pair.1, b, 2)] {
                    node.plug(&relay, PortId(port), 0, false);
                    node.addresses(ETH0, n);
                }
                let there = Impairment {
                    delay: Delay::constant(rtt_ms * MS / 2),
                    rate_bps: std::num::NonZeroU64::new(RATE_BPS),
                    queue: QueueLimit {
                        bytes: (RATE_BPS * rtt_ms / 8000).max(30_000),
                    },
                    loss: if loss > 0.0 {
                        Loss::Bernoulli { loss_ratio: loss }
                    } else {
                        Loss::None
                    },
                    up_from_ns: 0,
                    profile: 0,
                };
                let back = Impairment::delay_only(rtt_ms * MS / 2);
                changes.extend([set(a, b, there), set(b, a, back)]);
                pair
            })
            .collect();
        let handle = relay.start_relay().unwrap();
        handle.apply(EdgeUpdate { changes }, None).unwrap();
        let measured: Vec<(f64, u32)> = thread::scope(|scope| {
            let streams: Vec<_> = pairs
                .iter()
                .map(|(near, far)| Stream::open(near, far, v4(2), 9001, cc))
                .map(|s| scope.spawn(|| s.run(Duration::from_secs_f64(seconds), seconds)))
                .collect();
            streams.into_iter().map(|s| s.join().unwrap()).collect()
        });
        let lateness = handle.lateness().unwrap().quantiles();
        for (n, (&(rtt_ms, loss), (bps, again))) in cases.iter().zip(measured).enumerate() {
            table[n].push(format!("{:.2}", bps / 1e6));
            results.push(json!({
                "what": "tcp_truth", "congestion_control": cc, "rtt_ms": rtt_ms,
                "loss_ratio": loss, "goodput_bps": bps, "retransmitted": again,
                "mathis_bps": mathis_bps(rtt_ms as f64 / 1e3, loss), "lateness": lateness,
                "seconds": seconds, "seed": options.seed,
            }));
        }
    }
    for ((rtt_ms, loss), row) in cases.iter().zip(table) {
        let mathis = mathis_bps(*rtt_ms as f64 / 1e3, *loss) / 1e6;
        say(
            options,
            &format!(
                "{rtt_ms:>8} {:>8.1} |{} | {mathis:>8.2}",
                loss * 100.0,
                cells(&row)
            ),
        );
    }
    results
}

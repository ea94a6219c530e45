//! `leotp get`.

use crate::common::{Failure, ParamArgs, draw, human_bytes, human_rate, parse_flow, read_key};
use leotp::core::FlowError;
use leotp::rt::{DEFAULT_PORT, Fetch, FetchOptions, RunError, catch_signals, stop_requested};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The Producer, HOST or HOST:PORT (default 5047).
    remote: String,
    /// Flow id, hexadecimal.
    #[arg(value_parser = parse_flow)]
    flow: u64,
    /// File to write; - is standard output. The bytes gather in FILE.part until
    /// all have come and been checked.
    #[arg(short, long)]
    output: PathBuf,
    /// Continue FILE.part where an earlier get left off.
    #[arg(long)]
    resume: bool,
    /// The flow is sealed; the key is in this file (64 hexadecimal digits).
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    key_file: Option<PathBuf>,
    /// Local address and port.
    #[arg(long, value_name = "ADDR:PORT")]
    bind: Option<SocketAddr>,
    /// Give up after this many seconds without a new byte; 0: never.
    #[arg(long, default_value_t = 30)]
    patience: u64,
    /// Print counters as JSON on standard output at the end (standard error if
    /// the data goes to standard output).
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    params: ParamArgs,
}

/// The address of HOST, HOST:PORT, [IPv6] or [IPv6]:PORT.
pub(crate) fn resolve(s: &str) -> Result<SocketAddr, Failure> {
    let bare = s.strip_prefix('[').and_then(|s| s.strip_suffix(']'));
    let all = match bare.unwrap_or(s).parse::<IpAddr>() {
        Ok(ip) => return Ok((ip, DEFAULT_PORT).into()),
        Err(_) if !s.contains(':') => (s, DEFAULT_PORT).to_socket_addrs(),
        Err(_) => s.to_socket_addrs(),
    };
    all.map_err(|e| Failure::Io(format!("resolve {s}"), e))?
        .next()
        .ok_or_else(|| Failure::Usage(format!("{s}: no address")))
}

/// The partial file at its end, and what it holds so far.
fn open_part(path: &PathBuf, resume: bool) -> std::io::Result<(File, u64, blake3::Hasher)> {
    let mut hasher = blake3::Hasher::new();
    let mut have = 0;
    if resume && path.exists() {
        let mut f = File::open(path)?;
        let mut buf = vec![0; 1 << 16];
        loop {
            let n = f.read(&mut buf)?;
            if n == 0 {
                break;
            }
            hasher.update(&buf[..n]);
            have += n as u64;
        }
    }
    let f = OpenOptions::new()
        .create(true)
        .write(true)
        .append(have > 0)
        .truncate(have == 0)
        .open(path)?;
    Ok((f, have, hasher))
}

pub(crate) fn run(a: &Args) -> Result<(), Failure> {
    catch_signals()?;
    let params = a.params.params()?;
    let stdout = a.output.as_os_str() == "-";
    if stdout && a.resume {
        return Err(Failure::Usage(String::from(
            "--resume needs a file to continue",
        )));
    }
    let mut part = a.output.clone().into_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    let io = |what: String| move |e| Failure::Io(what, e);
    let (mut out, start, hasher): (Box<dyn Write>, u64, _) = if stdout {
        (Box::new(std::io::stdout()), 0, blake3::Hasher::new())
    } else {
        let (f, have, h) =
            open_part(&part, a.resume).map_err(io(format!("open {}", part.display())))?;
        (Box::new(BufWriter::with_capacity(1 << 18, f)), have, h)
    };
    let options = FetchOptions {
        remote: resolve(&a.remote)?,
        flow: a.flow,
        start,
        prefix: Some(hasher),
        local: a.bind,
        patience: (a.patience > 0).then(|| Duration::from_secs(a.patience)),
        key: a.key_file.as_deref().map(read_key).transpose()?,
        rtt: None,
        params,
    };
    let began = Instant::now();
    let mut fetch = Fetch::open(options)?;
    let mut progress = Progress {
        next: began,
        began,
        start,
        last: (began, start),
    };
    let mut at = start;
    let result = loop {
        match fetch.poll(Duration::from_millis(100)) {
            Ok(Some(b)) => {
                out.write_all(&b)
                    .map_err(io(format!("write {}", a.output.display())))?;
                at += b.len() as u64;
            }
            Ok(None) if fetch.is_done() => break Ok(()),
            Ok(None) => {}
            Err(e) => break Err(e),
        }
        progress.show(at, &fetch, false);
        if stop_requested() {
            break Ok(());
        }
    };
    out.flush()
        .map_err(io(format!("write {}", a.output.display())))?;
    drop(out);
    progress.show(at, &fetch, true);
    let done = result.is_ok() && fetch.is_done();
    if done && !stdout {
        std::fs::rename(&part, &a.output).map_err(io(format!("rename {}", part.display())))?;
    }
    if a.json {
        let s = began.elapsed().as_secs_f64();
        let v = serde_json::json!({
            "complete": done, "bytes": at, "resumed_from": start, "seconds": s,
            "goodput_bps": (at - start) as f64 * 8.0 / s,
            "consumer": fetch.stats(), "datagrams": fetch.io_stats(),
            "hop_rtt_ms": fetch.consumer().cc().hop_rtt_ns().map(|n| n / 1e6),
            "rtt_ms": fetch.consumer().srtt_ns().map(|n| n / 1e6),
            "peak_rss_bytes": leotp::rt::peak_rss_bytes(), "cpu_s": leotp::rt::cpu_seconds(),
        });
        if stdout {
            eprintln!("{v}")
        } else {
            println!("{v}")
        }
    }
    if !done && !stdout {
        let name = part.display();
        if at == 0 {
            std::fs::remove_file(&part).map_err(io(format!("remove {name}")))?;
        } else if matches!(result, Err(RunError::Flow(FlowError::Digest))) {
            eprintln!("{name} holds bytes that are not the flow's: get it again without --resume");
        } else if a.key_file.is_none() {
            let has = human_bytes(at);
            eprintln!("{name} has {has}; continue with --resume");
        }
    }
    result.map_err(Failure::Run)
}

struct Progress {
    next: Instant,
    began: Instant,
    start: u64,
    last: (Instant, u64),
}

impl Progress {
    fn show(&mut self, at: u64, fetch: &Fetch, end: bool) {
        let now = Instant::now();
        if !draw() || (now < self.next && !end) {
            return;
        }
        self.next = now + Duration::from_millis(200);
        let (since, from) = if end {
            (self.began, self.start)
        } else {
            self.last
        };
        let rate = (at - from) as f64 * 8.0 / (now - since).as_secs_f64().max(1e-3);
        self.last = (now, at);
        let total = fetch.total();
        let of = total.map_or_else(String::new, |t| {
            format!(
                " of {} ({:.0} %)",
                human_bytes(t),
                100.0 * at as f64 / t.max(1) as f64
            )
        });
        let left = match total {
            Some(t) if !end && rate > 0.0 => {
                format!(", {:.0} s left", (t - at) as f64 * 8.0 / rate)
            }
            _ => String::new(),
        };
        eprint!(
            "\r\x1b[K{}{of} at {}{left}{}",
            human_bytes(at),
            human_rate(rate),
            if end { "\n" } else { "" }
        );
    }
}

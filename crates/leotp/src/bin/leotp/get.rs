//! `leotp get`.

use crate::common::{Failure, ParamArgs, draw, human_bytes, human_rate, parse_flow, read_key};
use leotp::core::{FlowError, Freshness};
use leotp::rt::{
    DEFAULT_PORT, Fetch, FetchOptions, RunError, catch_signals, open_regular, stop_requested,
};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The Producer, HOST or HOST:PORT (default 5047).
    remote: String,
    /// Flow id, hexadecimal.
    #[arg(value_parser = parse_flow)]
    flow: u64,
    /// File to write; - is standard output. The bytes are collected in FILE.part until all
    /// have arrived and been checked. An existing device or named pipe is written to as
    /// they arrive.
    #[arg(short, long)]
    output: PathBuf,
    /// Continue FILE.part where an earlier get left off.
    #[arg(long)]
    resume: bool,
    /// Take no bytes that nodes on the path have cached: all come from the Producer itself.
    #[arg(long)]
    fresh: bool,
    /// Take the flow's record from nodes on the path, too: for a Producer that is gone. It
    /// may be that of an older flow with the same id.
    #[arg(long, conflicts_with = "fresh")]
    cached: bool,
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

/// The destination of the bytes.
enum Output {
    Stdout,
    /// An existing file that is not a regular one: the bytes are written to it, and it is never replaced.
    InPlace(PathBuf),
    /// A file, and the file that collects its bytes until it is complete.
    File {
        file: PathBuf,
        part: PathBuf,
    },
}

impl Output {
    fn of(path: &Path) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self::Stdout);
        }
        let looked = |e| Failure::Io(format!("look at {}", path.display()), e);
        let is_link = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
        let file = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                let why = format!("{} is a folder: name a file in it", path.display());
                return Err(Failure::Usage(why));
            }
            // It is never opened, and would be waited for like a pipe without a reader.
            Ok(found) if found.file_type().is_socket() => {
                let why = format!("{} is a socket: name a file", path.display());
                return Err(Failure::Usage(why));
            }
            Ok(found) if !found.is_file() => return Ok(Self::InPlace(path.to_owned())),
            // A symbolic link stays: the file that it points to is written.
            Ok(_) => std::fs::canonicalize(path).map_err(looked)?,
            Err(_) if is_link => {
                let why = format!("{} is a link that leads nowhere", path.display());
                return Err(Failure::Usage(why));
            }
            Err(_) => path.to_owned(),
        };
        let mut part = file.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        Ok(Self::File { file, part })
    }

    /// Returns the writer of the bytes, the number of bytes that it already has, and their hasher.
    fn open(&self, resume: bool) -> Result<(Box<dyn Write>, u64, blake3::Hasher), Failure> {
        let buffered = |f| Box::new(BufWriter::with_capacity(1 << 18, f));
        match self {
            Self::Stdout => Ok((Box::new(io::stdout()), 0, blake3::Hasher::new())),
            Self::InPlace(path) => {
                let opened = open_in_place(path);
                let f = opened.map_err(|e| Failure::Io(format!("open {}", path.display()), e))?;
                Ok((buffered(f), 0, blake3::Hasher::new()))
            }
            Self::File { part, .. } => {
                let opened = open_part(part, resume);
                let opened = opened.map_err(|e| Failure::Io(format!("open {}", part.display()), e));
                opened.map(|(f, have, hasher)| (buffered(f) as Box<dyn Write>, have, hasher))
            }
        }
    }
}

/// Opens a device or a named pipe for writing; if a pipe has no reader, waits for one, or for a signal.
fn open_in_place(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let held = loop {
        match options.open(path) {
            Ok(held) => break held,
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) && !stop_requested() => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(e) => return Err(e),
        }
    };
    // It has a reader, so this does not wait, and writes wait for the reader from now on. The reader must not see an end in between.
    let file = options.custom_flags(libc::O_NOCTTY).open(path);
    drop(held);
    file
}

/// Returns the partial file, positioned at its end, with the number and hash of its bytes.
fn open_part(path: &Path, resume: bool) -> io::Result<(File, u64, blake3::Hasher)> {
    let mut hasher = blake3::Hasher::new();
    let mut have = 0;
    if resume && path.exists() {
        let mut f = open_regular(path)?;
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
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(path)?;
    if !f.metadata()?.is_file() {
        let why = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok((f, have, hasher))
}

pub(crate) fn run(a: &Args) -> Result<(), Failure> {
    catch_signals()?;
    let params = a.params.params()?;
    let output = Output::of(&a.output)?;
    let stdout = matches!(output, Output::Stdout);
    if a.resume && !matches!(output, Output::File { .. }) {
        return Err(Failure::Usage(String::from(
            "--resume needs a file to continue",
        )));
    }
    let io = |what: String| move |e| Failure::Io(what, e);
    let (mut out, start, hasher) = output.open(a.resume)?;
    let options = FetchOptions {
        remote: resolve(&a.remote)?,
        flow: a.flow,
        start,
        prefix: Some(hasher),
        local: a.bind,
        patience: (a.patience > 0).then(|| Duration::from_secs(a.patience)),
        key: a.key_file.as_deref().map(read_key).transpose()?,
        rtt: None,
        freshness: match (a.fresh, a.cached) {
            (true, _) => Freshness::All,
            (_, true) => Freshness::Any,
            _ => Freshness::Record,
        },
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
    if let (true, Output::File { file, part }) = (done, &output) {
        replace(file, part).map_err(io(format!("rename {}", part.display())))?;
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
    if matches!(result, Err(RunError::Flow(FlowError::Digest))) {
        let again = "get it again with --fresh";
        eprintln!(
            "bytes are not the flow's; nodes on the way may have kept those of an older one: {again}"
        );
    }
    if let (false, Output::File { part, .. }) = (done, &output) {
        let name = part.display();
        if at == 0 {
            std::fs::remove_file(part).map_err(io(format!("remove {name}")))?;
        } else if matches!(result, Err(RunError::Flow(FlowError::Digest))) {
            eprintln!("{name} holds them: do not --resume it");
        } else if a.key_file.is_none() {
            let has = human_bytes(at);
            eprintln!("{name} has {has}; continue with --resume");
        }
    }
    result.map_err(Failure::Run)
}

/// Gives the finished file its name. The target was a file, or missing, when the transfer began.
fn replace(file: &Path, part: &Path) -> io::Result<()> {
    if std::fs::symlink_metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other(format!(
            "{} is no longer a file; the data is in {}",
            file.display(),
            part.display()
        )));
    }
    std::fs::rename(part, file)
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

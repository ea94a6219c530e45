//! `leotp serve`.

use crate::common::{Failure, ParamArgs, human_bytes, parse_flow, random_flow, read_key};
use leotp::rt::{
    DEFAULT_PORT, FileSource, Publisher, SealedFile, catch_signals, random_bytes, stop_requested,
};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// File to serve; - serves standard input as it arrives.
    file: PathBuf,
    /// Address and port to listen on (repeatable; default: every address, port 5047).
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,
    /// Flow id, hexadecimal; random by default. Anyone with the id can fetch the flow.
    #[arg(long, value_parser = parse_flow)]
    flow: Option<u64>,
    /// Seal the file with the key in this file (64 hexadecimal digits): nodes on
    /// the path can neither read nor forge it.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// With standard input, keep this many bytes for repairs and late Consumers.
    #[arg(long, default_value_t = 64 << 20)]
    keep: u64,
    /// Print counters as JSON on standard output at the end.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    params: ParamArgs,
}

/// A file that was opened and hashed; `None`: a signal came before that was done.
fn opened<S>(source: io::Result<S>, file: &Path) -> Result<Option<S>, Failure> {
    match source {
        Ok(source) => Ok(Some(source)),
        Err(e) if e.kind() == io::ErrorKind::Interrupted && stop_requested() => Ok(None),
        Err(e) => Err(Failure::Io(format!("open {}", file.display()), e)),
    }
}

pub(crate) fn run(a: &Args) -> Result<(), Failure> {
    catch_signals()?;
    let params = a.params.params()?;
    let mut listen = a.listen.clone();
    if listen.is_empty() {
        listen = vec![
            SocketAddr::from(([0, 0, 0, 0], DEFAULT_PORT)),
            SocketAddr::from(([0u16; 8], DEFAULT_PORT)),
        ];
    }
    let flow = match a.flow {
        Some(f) => f,
        None => random_flow()?,
    };
    let live = a.file.as_os_str() == "-";
    let mut p = Publisher::bind(&listen, params)?;
    let failed: Arc<Mutex<Option<io::Error>>> = Arc::default();
    if live && a.key_file.is_some() {
        return Err(Failure::Usage(String::from(
            "--key-file: only files can be sealed, not standard input",
        )));
    }
    if live {
        let mut w = p.publish_live(flow, a.keep);
        let failed = Arc::clone(&failed);
        let waker = p.waker();
        std::thread::spawn(move || {
            match std::io::copy(&mut std::io::stdin().lock(), &mut w) {
                Ok(_) => w.finish(),
                // The flow stays without an end, so that no Consumer takes the part for the whole.
                Err(e) => {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                    waker.wake();
                }
            }
        });
        eprintln!("serving standard input as flow {flow:016x}");
    } else if let Some(k) = &a.key_file {
        let s = SealedFile::open_unless(
            &a.file,
            &read_key(k)?,
            flow,
            random_bytes()?,
            &stop_requested,
        );
        let Some(s) = opened(s, &a.file)? else {
            return Ok(());
        };
        eprintln!(
            "serving {} ({}), sealed, as flow {flow:016x}",
            a.file.display(),
            human_bytes(s.plain_len())
        );
        p.publish(flow, Box::new(s));
    } else {
        let s = FileSource::open_unless(&a.file, &stop_requested);
        let Some(s) = opened(s, &a.file)? else {
            return Ok(());
        };
        eprintln!(
            "serving {} ({}) as flow {flow:016x}",
            a.file.display(),
            human_bytes(s.length())
        );
        p.publish(flow, Box::new(s));
    }
    let key = if a.key_file.is_some() {
        " --key-file FILE"
    } else {
        ""
    };
    for l in p.locals() {
        let host = if l.ip().is_unspecified() {
            format!("HOST:{}", l.port())
        } else {
            l.to_string()
        };
        eprintln!("on {l}: leotp get {host} {flow:016x} -o FILE{key}");
    }
    let mut warned = live;
    while !stop_requested() {
        p.poll(Duration::from_millis(200))?;
        let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(e) = failed {
            let what = "read standard input; the flow is incomplete";
            return Err(Failure::Io(what.to_owned(), e));
        }
        if !warned && p.stats().source_failures > 0 {
            warned = true;
            let file = a.file.display();
            eprintln!("leotp: {file} cannot be read, or has changed since it was published");
        }
    }
    if a.json {
        let v = serde_json::json!({ "producer": p.stats(), "datagrams": p.io_stats(), "peak_rss_bytes": leotp::rt::peak_rss_bytes(), "cpu_s": leotp::rt::cpu_seconds() });
        let _ = writeln!(std::io::stdout(), "{v}");
    }
    Ok(())
}

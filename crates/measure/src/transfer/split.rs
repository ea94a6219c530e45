//! Split TCP: a proxy on the path ends each connection that passes it and opens another one to the server, with the
//! client's address. Every hop between two proxies, and between a proxy and an end, is a TCP connection of its own.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leotp::rt::{
    Intercept, InterceptOptions, Intercepted, accept, connect_from, cpu_seconds, peak_rss_bytes,
    reset, stop_requested,
};

use crate::transfer::TransferError;

/// The time within which the next proxy or the server must answer.
const DIAL_WITHIN: Duration = Duration::from_secs(20);
/// How often the proxy checks for a signal to end.
const LOOK: Duration = Duration::from_millis(200);
/// The stack of a thread; its buffer is on the heap.
const STACK_BYTES: usize = 128 << 10;
/// The largest number of simultaneous connections; each has two threads.
const MAX_CONNECTIONS: u64 = 4096;

#[derive(Debug, Default)]
struct Counters {
    open: AtomicU64,
    taken: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
    bytes: AtomicU64,
}

/// Splits connections until a signal asks for the end. Returns the counters.
///
/// # Errors
/// Missing permissions, or a congestion control that the kernel does not have.
pub fn run(
    options: &InterceptOptions,
    ready: impl FnOnce(),
) -> Result<serde_json::Value, TransferError> {
    let intercept = Intercept::start(options)?;
    let counters = Arc::new(Counters::default());
    let mut threads = Vec::new();
    for listener in intercept.listeners()? {
        let (counters, congestion) = (Arc::clone(&counters), options.congestion.clone());
        threads.push(std::thread::spawn(move || {
            take_all(&listener, &counters, congestion.as_deref());
        }));
    }
    ready();
    for thread in threads {
        // The panic message has been printed; the listener of the other address family continues until the end.
        let _ = thread.join();
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Ok(serde_json::json!({
        "taken": count(&counters.taken), "refused": count(&counters.refused),
        "unanswered": count(&counters.unanswered), "bytes": count(&counters.bytes),
        "open": count(&counters.open), "cpu_s": cpu_seconds(), "peak_rss_bytes": peak_rss_bytes(),
    }))
}

fn take_all(listener: &TcpListener, counters: &Arc<Counters>, congestion: Option<&str>) {
    while !stop_requested() {
        let taken = match accept(listener, LOOK) {
            Ok(Some(taken)) => taken,
            Ok(None) => continue,
            // The client has already gone, or there are no file descriptors: the next accept may succeed.
            Err(_) => {
                std::thread::sleep(Duration::from_millis(10));
                continue;
            }
        };
        if counters.open.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            reset(&taken.stream);
            continue;
        }
        counters.taken.fetch_add(1, Ordering::Relaxed);
        counters.open.fetch_add(1, Ordering::Relaxed);
        let (for_thread, congestion) = (Arc::clone(counters), congestion.map(str::to_owned));
        let split = move || {
            split(&taken, &for_thread, congestion.as_deref());
            for_thread.open.fetch_sub(1, Ordering::Relaxed);
        };
        if thread(split).is_err() {
            counters.open.fetch_sub(1, Ordering::Relaxed);
            counters.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn thread(f: impl FnOnce() + Send + 'static) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(f)
}

/// Handles one connection until both directions have ended.
fn split(taken: &Intercepted, counters: &Arc<Counters>, congestion: Option<&str>) {
    let near = &taken.stream;
    let far = match connect_from(taken.src, taken.dst, congestion, DIAL_WITHIN) {
        Ok(far) => far,
        Err(_) => {
            counters.unanswered.fetch_add(1, Ordering::Relaxed);
            reset(near);
            return;
        }
    };
    let copies = (near.try_clone(), far.try_clone());
    let (Ok(near_copy), Ok(far_copy)) = copies else {
        reset(near);
        reset(&far);
        return;
    };
    let of_thread = Arc::clone(counters);
    let back = thread(move || copy(&far_copy, &near_copy, &of_thread.bytes));
    match back {
        Ok(back) => {
            copy(near, &far, &counters.bytes);
            let _ = back.join();
        }
        Err(_) => {
            reset(near);
            reset(&far);
        }
    }
}

/// Copies one direction until its end, which it passes on. On an error it resets both connections.
fn copy(mut from: &TcpStream, mut to: &TcpStream, bytes: &AtomicU64) {
    let _ = to.set_nodelay(true);
    let mut buf = vec![0; 1 << 16];
    loop {
        match from.read(&mut buf) {
            Ok(0) => {
                // An error here is ignored: the other direction may have reset the connection already.
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            Ok(n) if to.write_all(&buf[..n]).is_ok() => {
                bytes.fetch_add(n as u64, Ordering::Relaxed);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            _ => {
                reset(from);
                reset(to);
                return;
            }
        }
    }
}

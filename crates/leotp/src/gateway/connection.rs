//! The two directions of a connection, a thread for each: TCP into a flow, a flow
//! into TCP. Both block, which is how back-pressure passes from one side to the other.

use crate::rt::{Fetch, FetchOptions, LiveFlow, RunError, Waker};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The gateway's state of a connection.
pub(super) struct Connection {
    /// The index of the peer that has the other side.
    pub(super) peer: usize,
    pub(super) client: IpAddr,
    /// The flow published here.
    pub(super) ours: u64,
    /// The flow fetched from the peer.
    pub(super) theirs: u64,
    pub(super) stream: Option<TcpStream>,
    /// Taken (`None`) once the server has answered.
    pub(super) writer: Option<LiveFlow>,
    /// Ends the thread that fetches.
    pub(super) stop: Arc<Stop>,
    /// The peer's flow has been passed on.
    pub(super) arrived: bool,
    /// The peer has passed ours on.
    pub(super) delivered: bool,
}

impl Connection {
    /// Creates a connection whose threads have not started; `writer` writes the flow published here.
    pub(super) fn new(
        peer: usize,
        client: IpAddr,
        (ours, theirs): (u64, u64),
        writer: LiveFlow,
    ) -> Self {
        Self {
            peer,
            client,
            ours,
            theirs,
            stream: None,
            writer: Some(writer),
            stop: Arc::default(),
            arrived: false,
            delivered: false,
        }
    }
}

/// Stops a thread that fetches, in whatever call it waits. There are many such threads, and polling would wake
/// each of them for nothing.
#[derive(Debug, Default)]
pub(super) struct Stop {
    asked: AtomicBool,
    waker: OnceLock<Waker>,
}

impl Stop {
    pub(super) fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }

    /// From now on `ask` wakes the thread. It may have been called before.
    fn wakes(&self, waker: Waker) {
        // Set by one thread, once.
        let _ = self.waker.set(waker);
    }

    fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Stack of a thread; its buffers are on the heap.
const STACK_BYTES: usize = 256 << 10;

/// The longest wait of a thread for the network: the flow has timers of its own.
const WAIT: Duration = Duration::from_secs(60);

/// A thread's report to the gateway; the number is the connection's.
#[derive(Debug)]
pub(super) enum ThreadReport<T> {
    /// Something else.
    Other(T),
    /// The flow from the other side has been passed on, its end too.
    Arrived(u64),
    /// TCP or the flow is broken.
    Broken(u64),
}

/// The channel for reports of threads.
#[derive(Debug)]
pub(super) struct Tell<T> {
    pub(super) to: Sender<ThreadReport<T>>,
    pub(super) waker: Waker,
}

impl<T> Clone for Tell<T> {
    fn clone(&self) -> Self {
        Self {
            to: self.to.clone(),
            waker: self.waker.clone(),
        }
    }
}

impl<T> Tell<T> {
    pub(super) fn tell(&self, told: ThreadReport<T>) {
        // An error means that the gateway has ended, and needs no report.
        let _ = self.to.send(told);
        self.waker.wake();
    }
}

/// Starts a thread with a small stack.
pub(super) fn spawn(name: &str, f: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = std::thread::Builder::new().name(name.to_owned());
    builder.stack_size(STACK_BYTES).spawn(f).map(|_| ())
}

/// Copies TCP into a flow, until the sender ends it. The flow of a broken connection has no end:
/// only the end of the TCP stream is one.
pub(super) fn tcp_to_flow<T: Send + 'static>(
    id: u64,
    mut stream: TcpStream,
    mut flow: LiveFlow,
    bytes: Arc<AtomicU64>,
    tell: Tell<T>,
) -> io::Result<()> {
    spawn("tcp-to-leotp", move || {
        let mut buf = vec![0; 1 << 16];
        loop {
            match stream.read(&mut buf) {
                Ok(0) => break flow.finish(),
                Ok(n) => {
                    if flow.write_all(&buf[..n]).is_err() {
                        // The flow was withdrawn: the connection is over already.
                        break;
                    }
                    bytes.fetch_add(n as u64, Ordering::Relaxed);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => break tell.tell(ThreadReport::Broken(id)),
            }
        }
    })
}

/// A flow into TCP, until its end or until `stop`.
pub(super) fn flow_to_tcp<T: Send + 'static>(
    id: u64,
    options: FetchOptions,
    stream: TcpStream,
    stop: Arc<Stop>,
    bytes: Arc<AtomicU64>,
    tell: Tell<T>,
) -> io::Result<()> {
    spawn("leotp-to-tcp", move || {
        let told = match pass_on(options, &stream, &stop, &bytes) {
            Ok(true) => ThreadReport::Arrived(id),
            Ok(false) => return,
            Err(_) => ThreadReport::Broken(id),
        };
        tell.tell(told);
    })
}

/// Whether all has been passed on; `false`: it was stopped.
fn pass_on(
    options: FetchOptions,
    mut stream: &TcpStream,
    stop: &Stop,
    bytes: &AtomicU64,
) -> Result<bool, RunError> {
    let mut fetch = Fetch::open(options)?;
    stop.wakes(fetch.waker());
    while !fetch.is_done() {
        if stop.is_asked() {
            return Ok(false);
        }
        if let Some(b) = fetch.poll(WAIT)? {
            stream.write_all(&b).map_err(RunError::io("write to TCP"))?;
            bytes.fetch_add(b.len() as u64, Ordering::Relaxed);
        }
    }
    let ended = stream.shutdown(Shutdown::Write);
    ended.map_err(RunError::io("end a TCP direction"))?;
    Ok(true)
}

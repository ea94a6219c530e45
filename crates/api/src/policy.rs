//! The connection of a live policy: the lab sends states, the policy answers decisions.

use std::io::{self, BufRead, BufReader, Read as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::answers::{PolicyAnswer, PolicyState};
use crate::server::{left, refuse, say};
use crate::{ApiError, ErrorCode, REQUEST_LIMIT_BYTES};

/// Interval at which the client is checked while no step begins.
const LOOK: Duration = Duration::from_millis(250);

/// The next state for a policy.
#[derive(Debug, PartialEq)]
pub enum PolicyTurn {
    /// A decision is due.
    Decide(Box<PolicyState>),
    /// No step began within the time.
    Nothing,
    /// The lab ends, or the policy has left.
    Ended,
}

/// The lab's side of a policy. One thread waits for states while another passes answers on.
pub trait PolicySeat: Send + Sync {
    /// Returns the latest state that was not returned yet, within this time.
    fn next(&self, within: Duration) -> PolicyTurn;

    /// Takes an answer, in time or not.
    ///
    /// # Errors
    /// When it cannot be carried out. The decision before holds, and the refusal is counted.
    fn answer(&self, answer: PolicyAnswer) -> Result<(), ApiError>;

    /// Counts an answer that is not understood.
    fn misunderstood(&self, error: &ApiError);

    /// The policy is no longer connected.
    fn left(&self);
}

/// Sends states and takes answers until the lab ends or the policy leaves.
pub(crate) fn serve<'s>(
    stream: &'s UnixStream,
    reader: &mut BufReader<&'s UnixStream>,
    out: impl io::Write + Send,
    seat: &dyn PolicySeat,
) -> io::Result<()> {
    let out = Mutex::new(out);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A client that goes away in the middle of an answer has left.
            drop(answers(reader, &out, seat));
            seat.left();
        });
        let sent = states(stream, &out, seat);
        // The thread above ends with its connection.
        drop(stream.shutdown(Shutdown::Both));
        sent
    })
}

fn states(
    stream: &UnixStream,
    out: &Mutex<impl io::Write>,
    seat: &dyn PolicySeat,
) -> io::Result<()> {
    loop {
        match seat.next(LOOK) {
            PolicyTurn::Decide(state) => {
                let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
                say(&mut *out, &state)?;
            }
            PolicyTurn::Nothing if left(stream)? => return Ok(()),
            PolicyTurn::Nothing => {}
            PolicyTurn::Ended => return Ok(()),
        }
    }
}

fn answers(
    reader: &mut BufReader<&UnixStream>,
    out: &Mutex<impl io::Write>,
    seat: &dyn PolicySeat,
) -> io::Result<()> {
    loop {
        let mut line = String::new();
        let got = reader
            .by_ref()
            .take(REQUEST_LIMIT_BYTES)
            .read_line(&mut line)?;
        if got == 0 {
            return Ok(());
        }
        let bad = |error: String| ApiError::new(ErrorCode::BadRequest, error);
        let too_long = !line.ends_with('\n') && got as u64 == REQUEST_LIMIT_BYTES;
        let answer = match too_long {
            true => Err(bad(format!(
                "an answer has at most {REQUEST_LIMIT_BYTES} bytes"
            ))),
            false => serde_json::from_str::<PolicyAnswer>(&line)
                .map_err(|error| bad(format!("not an answer of a policy: {error}"))),
        };
        let refused = match answer {
            Ok(answer) => seat.answer(answer).err(),
            Err(error) => {
                seat.misunderstood(&error);
                Some(error)
            }
        };
        if let Some(error) = refused {
            refuse(
                &mut *out.lock().unwrap_or_else(PoisonError::into_inner),
                &error,
            )?;
        }
        if too_long {
            // The rest of the line is no line of its own.
            return Ok(());
        }
    }
}

//! Tokens and sessions: random, compared in constant time, few.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Mutex;

/// Sessions at a time; the oldest goes for a new one.
const SESSIONS: usize = 64;

/// 192 random bits as 32 characters of an address.
///
/// # Errors
/// When the kernel gives none.
pub fn random() -> io::Result<String> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bytes = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let letters = bytes
        .iter()
        .map(|byte| char::from(LETTERS[usize::from(byte & 63)]));
    Ok(letters.collect())
}

/// Returns whether two secrets are the same. The duration does not reveal where they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len()
        && a.bytes()
            .zip(b.bytes())
            .fold(0, |sum, (x, y)| sum | (x ^ y))
            == 0
}

/// The token, which is valid for one session, and the sessions.
#[derive(Debug)]
pub struct Sessions {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    token: String,
    sessions: VecDeque<String>,
}

impl Sessions {
    /// With a token and no session.
    ///
    /// # Errors
    /// When the kernel gives no random numbers.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            inner: Mutex::new(Inner {
                token: random()?,
                sessions: VecDeque::new(),
            }),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The token that is good now.
    #[must_use]
    pub fn token(&self) -> String {
        self.lock().token.clone()
    }

    /// Gives a session for the token, which is good no longer: another one is. `None`: it is not the token.
    ///
    /// # Errors
    /// When the kernel gives no random numbers.
    pub fn exchange(&self, token: &str) -> io::Result<Option<String>> {
        let mut inner = self.lock();
        if !same(token, &inner.token) {
            return Ok(None);
        }
        let session = random()?;
        inner.token = random()?;
        if inner.sessions.len() == SESSIONS {
            inner.sessions.pop_front();
        }
        inner.sessions.push_back(session.clone());
        Ok(Some(session))
    }

    /// Whether this is a session.
    #[must_use]
    pub fn has(&self, session: &str) -> bool {
        let inner = self.lock();
        let all = inner.sessions.iter();
        all.fold(false, |found, own| found | same(session, own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_once() {
        let sessions = Sessions::new().unwrap();
        let token = sessions.token();
        assert_eq!(token.len(), 32);
        assert_eq!(sessions.exchange("").unwrap(), None);
        assert_eq!(sessions.exchange(&token[1..]).unwrap(), None);
        let session = sessions.exchange(&token).unwrap().unwrap();
        assert!(sessions.has(&session));
        assert!(!sessions.has(&token));
        assert_eq!(sessions.exchange(&token).unwrap(), None);
        assert!(sessions.exchange(&sessions.token()).unwrap().is_some());
    }

    #[test]
    fn the_oldest_session_goes() {
        let sessions = Sessions::new().unwrap();
        let mut all =
            (0..=SESSIONS).map(|_| sessions.exchange(&sessions.token()).unwrap().unwrap());
        let first = all.next().unwrap();
        let last = all.last().unwrap();
        assert!(!sessions.has(&first) && sessions.has(&last));
    }
}

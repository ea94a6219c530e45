//! Requests that the kernel refused.

use std::fmt;

/// Requests of a batch that the kernel refused. All others were carried out.
#[derive(Clone, PartialEq, Eq)]
pub struct BatchError {
    /// In the order of the batch; never empty.
    pub failures: Vec<RequestError>,
    /// Number of requests in the batch.
    pub total: usize,
}

/// One refused request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestError {
    /// Position in the batch, from 0.
    pub index: usize,
    /// Description of the request, such as `create veth h12/isl0`.
    pub what: String,
    /// The kernel's error number, positive.
    pub errno: i32,
    /// The kernel's explanation (extended ACK), if it sent one.
    pub explanation: Option<String>,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::io::Error::from_raw_os_error(self.errno).to_string();
        // std appends " (os error 17)", which does not help a reader.
        let text = text.split(" (os error").next().unwrap_or_default();
        write!(f, "{}: {text}", self.what)?;
        match &self.explanation {
            Some(e) => write!(f, " ({e})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        for (i, e) in self.failures.iter().take(SHOWN).enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{e}")?;
        }
        if self.failures.len() > SHOWN {
            write!(f, "; and {} more", self.failures.len() - SHOWN)?;
        }
        if self.total > 1 {
            write!(
                f,
                " ({} of {} requests failed)",
                self.failures.len(),
                self.total
            )?;
        }
        Ok(())
    }
}

/// As `Display`: a batch may have ten thousand failures, and `unwrap` would print them all.
impl fmt::Debug for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchError({self})")
    }
}

impl std::error::Error for BatchError {}

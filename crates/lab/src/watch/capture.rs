//! Captured frames as a file: the interface of each frame, and the comment on it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use constel_api::{ApiError, CaptureItem, CaptureSource, ErrorCode};
use constel_drivers::{TapPoint, Tapped, Tapping, mono_ns};
use constel_exchange::pcapng::{self, Direction};
use constel_link::rules::{Classifier, Head};
use constel_scenario::{DiskFiles, read_rules};

/// The description of a frame in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameText {
    /// The interface, counted from 0.
    pub interface: u32,
    /// The direction.
    pub direction: Option<Direction>,
    /// The place of the frame, in words; the file adds what happened to it.
    pub place: String,
}

/// A filter of frames, in either direction of a conversation.
#[derive(Debug)]
pub struct Filter([Classifier; 2]);

impl Filter {
    /// Parses a filter. The text has the form of `match` in a box's rule, with or without braces.
    ///
    /// # Errors
    /// [`ErrorCode::BadValue`], with all errors in it.
    pub fn new(text: &str) -> Result<Filter, ApiError> {
        let bad = |error: String| ApiError::new(ErrorCode::BadValue, error);
        let inner = text.trim();
        let inner = inner
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
            .unwrap_or(inner);
        if inner.contains(['\n', '\r']) {
            return Err(bad("a filter is one line".to_owned()));
        }
        // The text becomes the match of a rule, so that the rule parser reports its errors.
        let rules = format!("rules:\n- both: pass\n  match: {{{inner}}}\n");
        let file = read_rules("filter", rules.as_bytes(), &DiskFiles::in_folder(""));
        let file = file.map_err(|errors| bad(errors.to_string()))?;
        let classifier = |direction| Classifier::new(&file.rules, direction);
        Ok(Filter(constel_link::rules::Direction::BOTH.map(classifier)))
    }

    /// Returns whether the filter matches this frame.
    #[must_use]
    pub fn takes(&self, frame: &[u8]) -> bool {
        let head = Head::read(frame);
        self.0.iter().any(|way| way.find(&head).is_some())
    }
}

/// A capture in progress.
pub struct Capture<S> {
    tapping: Tapping,
    say: S,
    filter: Option<Filter>,
    header: Option<Vec<u8>>,
    /// The offset from `CLOCK_MONOTONIC` to the time of day at the beginning of the capture.
    wall_ns: u64,
}

impl<S: FnMut(&Tapped) -> Option<FrameText> + Send> Capture<S> {
    /// Creates a capture file with these interfaces. It contains the frames that `filter` matches and that `say`
    /// describes.
    #[must_use]
    pub fn new(tapping: Tapping, interfaces: &[String], filter: Option<Filter>, say: S) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall_ns = since.map_or(0, |since| since.as_nanos() as u64);
        Self {
            tapping,
            say,
            filter,
            header: Some(pcapng::header(interfaces)),
            wall_ns: wall_ns.saturating_sub(mono_ns()),
        }
    }

    fn block(&mut self, seen: &Tapped) -> Option<Vec<u8>> {
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| !filter.takes(&seen.bytes))
        {
            return None;
        }
        let said = (self.say)(seen)?;
        let comment = format!("{}{}", said.place, happened(seen));
        let at_ns = self.wall_ns + seen.at_ns;
        Some(pcapng::packet(
            said.interface,
            at_ns,
            &seen.bytes,
            said.direction,
            &comment,
        ))
    }
}

/// Describes what happened to a frame, after its place.
fn happened(seen: &Tapped) -> String {
    let after = seen.entered_ns.map_or_else(String::new, |entered_ns| {
        let ns = seen.at_ns.saturating_sub(entered_ns);
        format!(" after {:.6} ms", ns as f64 / 1e6)
    });
    match seen.sight {
        TapPoint::Enters => String::new(),
        TapPoint::Leaves(_) => after,
        TapPoint::Dropped(cause) => format!(": dropped{after}: {}", cause.as_str()),
    }
}

impl<S: FnMut(&Tapped) -> Option<FrameText> + Send> CaptureSource for Capture<S> {
    fn next(&mut self, within: Duration) -> CaptureItem {
        // The header comes first, before any frame.
        if let Some(header) = self.header.take() {
            return CaptureItem::Bytes(header);
        }
        let end = Instant::now() + within;
        loop {
            match self
                .tapping
                .next(end.saturating_duration_since(Instant::now()))
            {
                Ok(Some(seen)) => {
                    if let Some(block) = self.block(&seen) {
                        return CaptureItem::Bytes(block);
                    }
                    // Frames that do not match must not keep the reader from being checked.
                    if Instant::now() >= end {
                        return CaptureItem::Nothing;
                    }
                }
                Ok(None) => return CaptureItem::Nothing,
                Err(_) => return CaptureItem::Ended,
            }
        }
    }

    fn end(&mut self) -> Vec<u8> {
        pcapng::statistics(self.wall_ns + mono_ns(), self.tapping.lost())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use constel_link::{DropCause, PortId};

    /// A datagram of IPv4 from port 5000 to port 53.
    fn datagram() -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14] = 0x45;
        frame[23] = 17;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[34..38].copy_from_slice(&[0x13, 0x88, 0, 53]);
        frame
    }

    #[test]
    fn a_filter_takes_both_ways_of_a_conversation() {
        let takes = |text: &str| Filter::new(text).unwrap().takes(&datagram());
        assert!(takes("protocol: udp, dport: 53"));
        assert!(takes("{dport: 5000}"), "the other way");
        assert!(takes("dst: 10.0.0.1"));
        assert!(takes(""));
        assert!(!takes("protocol: tcp"));
        assert!(!takes("sport: 53, dst: 10.0.0.2"));
        let error = Filter::new("protocol: udb, dports: 7").unwrap_err();
        assert_eq!(error.code, ErrorCode::BadValue);
        assert!(
            error.error.contains("dports") && error.error.contains("udb"),
            "{error}"
        );
        assert!(Filter::new("dport: 1}\nrules: {").is_err());
    }

    #[test]
    fn what_happened_is_said_with_the_time_it_took() {
        let seen = |sight| Tapped {
            passage: None,
            at_ns: 5_000_000,
            entered_ns: Some(2_500_000),
            from: PortId(1),
            sight,
            bytes: Vec::new(),
        };
        assert_eq!(happened(&seen(TapPoint::Enters)), "");
        assert_eq!(
            happened(&seen(TapPoint::Leaves(PortId(2)))),
            " after 2.500000 ms"
        );
        assert_eq!(
            happened(&seen(TapPoint::Dropped(DropCause::Loss))),
            ": dropped after 2.500000 ms: by the loss law"
        );
    }
}

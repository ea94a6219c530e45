//! Reference frames and time scales that files of positions name, and states in them as segments.

use constel_orbit::inertial::{Inertial, ToTeme};
use constel_orbit::scales::TimeScale;
use constel_units::Utc;

use crate::ephemeris::{Frame, Method, Segment, SegmentError, State};
use crate::text::shown;

/// A frame that a file may give positions in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// One that is interpolated as it is.
    Own(Frame),
    /// One whose states are turned into TEME when they are read.
    Inertial(Inertial),
}

impl Reference {
    /// Returns the frame with this name in a file, whatever the case of its letters: the names of CCSDS 502.0-B
    /// and of its SANA registry, of STK, and of Constel's own CSV.
    ///
    /// # Errors
    /// A text that lists the supported frames.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let word: String = name
            .chars()
            .filter(|c| c.is_ascii_alphanumeric())
            .map(|c| c.to_ascii_uppercase())
            .collect();
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| word.starts_with(prefix));
        Ok(match word.as_str() {
            "TEME" | "TEMEOFDATE" => Self::Own(Frame::Teme),
            "EME2000" | "MEME2000" | "J2000" | "MEMEOFJ2000" => Self::Inertial(Inertial::Eme2000),
            "TOD" | "TODEARTH" | "TRUEOFDATE" => Self::Inertial(Inertial::Tod),
            "MOD" | "MODEARTH" | "MEANOFDATE" => Self::Inertial(Inertial::Mod),
            "GCRF" | "GCRS" | "ICRF" | "ICRS" | "INERTIAL" => Self::Inertial(Inertial::Gcrf),
            // True of date, turned with the Earth: ITRF without polar motion, which is left out everywhere.
            "TDR" | "GRC" | "FIXED" | "WGS84" | "ECEF" => Self::Own(Frame::Itrf),
            // ITRF2000, ITRF-97, ICRF3 and so on: realisations of one frame differ by centimetres.
            _ if begins(&["ITRF"]) => Self::Own(Frame::Itrf),
            _ if begins(&["GCRF", "ICRF"]) => Self::Inertial(Inertial::Gcrf),
            _ => {
                return Err(format!(
                    "frame {} is not supported, only ITRF, TEME, GCRF, ICRF, EME2000, MOD and TOD",
                    shown(name)
                ));
            }
        })
    }
}

/// States of one object as a file gives them: in its frame, and with the readings of its clock as instants.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) reference: Reference,
    pub(crate) scale: TimeScale,
    /// `None`: the method that suits the states.
    pub(crate) method: Option<Method>,
    /// `None`: the degree that suits the states.
    pub(crate) degree: Option<u32>,
    /// Interpolation is allowed between these; `None`: between the first and the last state.
    pub(crate) usable: Option<(Utc, Utc)>,
    /// Whether the states are what holes left of more. Then `degree` and `usable` are narrowed to what they allow.
    pub(crate) cut: bool,
    pub(crate) states: Vec<State>,
}

impl Block {
    /// The states in UTC, and in ITRF or TEME.
    ///
    /// # Errors
    /// Everything that would make interpolation impossible.
    pub(crate) fn segment(self) -> Result<Segment, SegmentError> {
        let Self {
            reference,
            scale,
            mut states,
            ..
        } = self;
        for state in &mut states {
            state.at = scale.to_utc(state.at);
        }
        let frame = match reference {
            Reference::Own(frame) => frame,
            Reference::Inertial(inertial) => {
                let mut to_teme = ToTeme::new(inertial);
                for state in &mut states {
                    (state.position_m, state.velocity_m_per_s) =
                        to_teme.state(state.at, state.position_m, state.velocity_m_per_s);
                }
                Frame::Teme
            }
        };
        let suited = Segment::suited(&states);
        let method = self.method.unwrap_or(suited.0);
        let degree = self.degree.unwrap_or(match (method, suited) {
            (Method::Lagrange, (Method::Hermite, _)) => {
                u32::try_from(states.len().saturating_sub(1)).map_or(7, |most| most.clamp(1, 7))
            }
            _ => suited.1,
        });
        let mut usable = self
            .usable
            .map(|(from, to)| (scale.to_utc(from), scale.to_utc(to)));
        let mut degree = degree;
        if self.cut
            && let [first, .., last] = states.as_slice()
        {
            degree = degree.min(most_degree(method, states.len()));
            usable = usable.map(|(from, to)| (from.max(first.at), to.min(last.at)));
        }
        Segment::new(frame, method, degree, states, usable)
    }
}

/// Highest degree of a polynomial through this number of states.
fn most_degree(method: Method, states: usize) -> u32 {
    let most = match method {
        Method::Lagrange => states.saturating_sub(1),
        Method::Hermite => (2 * states).saturating_sub(1),
    };
    u32::try_from(most).unwrap_or(u32::MAX)
}

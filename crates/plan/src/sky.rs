//! The satellites of a lab as topology's [`Sky`]: orbits on one side, ITRF positions on the other.

use constel_orbit::{EarthRotation, Satellite, time::DUT1_UNKNOWN_S};
use constel_topology::{Sky, SkyError};
use constel_units::{TimeSpan, Utc};

/// All satellites of a lab, in node order.
pub(crate) struct OrbitSky {
    pub(crate) start: Utc,
    pub(crate) satellites: Vec<Satellite>,
}

impl Sky for OrbitSky {
    fn count(&self) -> usize {
        self.satellites.len()
    }

    fn positions_itrf_m(&self, t_ns: u64, out: &mut [[f64; 3]]) -> Result<(), SkyError> {
        let failed = |satellite, reason: String| SkyError { satellite, t_ns, reason };
        let utc = i64::try_from(t_ns)
            .ok()
            .and_then(|ns| self.start.checked_add(TimeSpan::from_ns(ns)))
            .ok_or_else(|| failed(0, "the time is beyond the year 2262".to_owned()))?;
        // One sine and cosine of the Earth's rotation for all satellites.
        let rotation = EarthRotation::at(utc, DUT1_UNKNOWN_S);
        for (index, (satellite, slot)) in self.satellites.iter().zip(out).enumerate() {
            let teme = satellite
                .position_teme_m(utc)
                .map_err(|error| failed(index, error.to_string()))?;
            *slot = rotation.position_itrf_m(teme).to_array();
        }
        Ok(())
    }
}

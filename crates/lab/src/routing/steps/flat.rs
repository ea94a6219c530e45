//! Six hours of lab time at 10 ms steps, in virtual time: memory does not grow after the first hour.

use super::*;
use crate::testing::blueprint;
use crate::watch::event_log::EventLog;
use crate::watch::rows::Rows;
use constel_api::EventData;
use constel_link::EdgeChange;
use constel_plan::{EdgesApplied, RouteRow, RoutesApplied, RoutesPlan};

/// Two satellites and two stations: a lab whose steps cost almost nothing.
const TINY: &str = "constel: 1
name: tiny
start: 2026-11-21T00:00:00Z
duration: 6 h
step: 10 ms
constellations:
  sat:
    walker: {pattern: delta, inclination: 60 deg, satellites: 2, planes: 1, phasing: 0, altitude: 8000 km}
    isl: {pattern: none}
    gsl:
      min_elevation: 5 deg
      policy: {hysteresis: 5 deg}
      link: {rate: 100 Mbit/s, queue: 256 KiB}
ground:
  stations:
    west: {latitude: -48 deg, longitude: 148 deg}
    east: {latitude: -42 deg, longitude: -124 deg}
routing: {mode: computed}
";

/// Kernels that accept everything and store nothing. Lateness and duration change with each update.
struct Nowhere {
    clock: Arc<LabClock>,
    updates: u64,
}

impl Applier for Nowhere {
    type Error = String;
    type Pending = ();

    fn start(&mut self, _: u64, _: &[EdgeChange]) -> Result<(), String> {
        Ok(())
    }

    fn submit_edges(&mut self, _: &[EdgeChange], _: Option<u64>) -> Result<(), String> {
        self.updates += 1;
        Ok(())
    }

    fn edges_applied(&mut self, (): ()) -> Result<EdgesApplied, String> {
        // Between 1 us and 1 ms, with no repeated value.
        let spread = self.updates.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
        Ok(EdgesApplied {
            took_ns: 1_000 + spread,
            late_ns: spread,
        })
    }

    fn put_map(&mut self, _: &[RouteRow]) {}

    fn forget(&mut self, _: &[Adjacency]) -> Result<(), String> {
        Ok(())
    }

    fn learn(&mut self, _: &[Adjacency]) -> Result<(), String> {
        Ok(())
    }

    fn install_routes(&mut self, routes: &RoutesPlan) -> Result<RoutesApplied, String> {
        Ok(RoutesApplied {
            requests: routes.len(),
            stood_ns: self.clock.machine_ns(),
        })
    }
}

/// Resident memory of this process, bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

const HOUR_NS: u64 = 3_600_000_000_000;

const HOURS: usize = 6;

/// The growth of memory that is tolerated in the hours after the first, for the allocator. Keeping data of each
/// step and event, as an earlier version did, would need 150 MB.
const BREATH: u64 = 4 << 20;

/// The test runs in a process of its own, so that other tests' memory does not count.
#[test]
fn six_hours_of_10_ms_steps_take_no_more_memory_than_one() {
    let own = "routing::steps::flat::six_hours_in_a_process_of_its_own";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            own,
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{words}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(words.contains("1 passed"), "it ran: {words}");
}

#[test]
#[ignore = "run by six_hours_of_10_ms_steps_take_no_more_memory_than_one"]
fn six_hours_in_a_process_of_its_own() {
    let clock = Arc::new(LabClock::held_virtual());
    let planner = Planner::new(Arc::new(blueprint(TINY)));
    let applier = Nowhere {
        clock: Arc::clone(&clock),
        updates: 0,
    };
    let mut steps = Steps::new(planner, applier, Arc::clone(&clock), Arc::default());
    let log = Arc::new(EventLog::default());
    log.write_to(Box::new(std::io::sink()), "events.ndjson".into());
    let mut rows = Rows::default();
    steps.begin_held().unwrap();
    let zero = clock.machine_ns();
    steps.release(zero).unwrap();
    clock.start(zero);
    let mut hours: Vec<u64> = Vec::with_capacity(HOURS);
    let mut handovers = 0;
    while hours.len() < HOURS {
        let next = steps.prepare();
        handovers += next.handovers.len();
        assert!(steps.take_effect(next, |_| false).unwrap());
        steps.times.paths_ns.record(steps.current().step % 100_000);
        // An event and a row every 0.1 s: their lists are full within the first hour.
        if steps.current().step.is_multiple_of(10) {
            let t_ns = steps.current().t_ns;
            let station = "a station with a name".to_owned();
            let what = EventData::Handover {
                station: station.clone(),
                port: None,
                from: None,
                to: None,
            };
            log.emit(Some(t_ns as i64), what);
            rows.push((t_ns, station));
        }
        if steps.current().t_ns >= (hours.len() as u64 + 1) * HOUR_NS {
            hours.push(resident());
        }
    }
    assert!(handovers > 3, "{handovers}");
    assert_eq!(steps.times.lateness_ns.count(), HOURS as u64 * 360_000);
    println!("{hours:?}");
    let (first, most) = (hours[0], *hours.iter().max().unwrap());
    assert!(most <= first + BREATH, "{hours:?}");
    // The quantiles of known numbers must be within the documented error.
    let late = &steps.times.lateness_ns;
    for share in [0.5_f64, 0.99] {
        let exact = share * f64::from(1 << 20);
        let off = (late.quantile(share) as f64 - exact).abs() / exact;
        assert!(off < 0.002, "{share}: {off}");
    }
}

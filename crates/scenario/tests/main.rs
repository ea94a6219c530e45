//! The crate's integration tests: one program, so that they are linked once.

mod box_scenario;
mod golden;
mod mending;
mod properties;
mod rules;
mod shipped;

/// Returns the processor time of the calling thread, seconds. Other programs of the host take none of it.
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    let ns: f64 = text.split(' ').next().unwrap().parse().unwrap();
    ns / 1e9
}

//! The Python module `constel._native`: what of Constel is pure, in the interpreter's own process.
//!
//! * `Scenario`: a scenario, laid out; its plans, and answers about intervals of its time as tables.
//! * `Table`: columns with names, for every reader of Arrow's C stream.
//!
//! Labs are not run here: the package starts `constel run` and asks it over its socket, so that an interpreter that dies
//! takes them down. The public package is `python/constel`; this module is its engine room.

mod arrow;
mod failure;
mod samples;
mod scenario;
mod table;
mod yaml;

use pyo3::prelude::*;

/// The module.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::samples::{edges, interfaces, usage};
    #[pymodule_export]
    use crate::scenario::{Plan, Scenario};
    #[pymodule_export]
    use crate::table::Table;
    #[pymodule_export]
    use crate::yaml::{nanoseconds, parse_yaml};

    /// The version of Constel.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}

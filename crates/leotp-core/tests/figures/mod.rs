//! The paper's order of effects, in virtual time. Run with `--nocapture` for the
//! figures; the assertions hold the order, not the paper's exact values.

mod loss;
mod measure;
mod rate;
mod sharing;
mod switching;
use crate::vnet;

//! `constel down`: take a running lab down.

use constel_control::Lab;
use serde_json::json;

use crate::args;
use crate::exit::{Exit, Outcome};
use crate::output;

/// Returns when the lab is gone.
pub(crate) fn run(args: &args::Lab) -> Outcome {
    Lab::attach(&args.lab)?.down()?;
    if args.json {
        output::json(&json!({"lab": args.lab, "down": true}))?;
    } else {
        output::text(&format!("{} is down\n", args.lab))?;
    }
    Ok(Exit::Done)
}

//! `constel down`: take a running lab down.

use std::time::{Duration, Instant};

use constel_api::Request;
use constel_host::claim::{LabState, RuntimeDir};
use serde_json::json;

use super::labs;
use crate::args::Lab;
use crate::exit::{Exit, Outcome};
use crate::output;

/// The lab's own process takes it down; a large one needs a while.
const DOWN_WITHIN: Duration = Duration::from_secs(180);

/// Returns when the lab is gone.
pub(crate) fn run(args: &Lab) -> Outcome {
    let entry = labs::find_alive(&args.lab)?;
    labs::ask(&args.lab, &Request::Down)?;
    let end = Instant::now() + DOWN_WITHIN;
    let runtime = RuntimeDir::default();
    while let Some(now) = runtime
        .find(&entry.lab)?
        .filter(|now| now.pid() == entry.pid())
    {
        if now.state == LabState::Dead {
            return Err(anyhow::anyhow!(
                "lab '{0}' died while it was being taken down; `constel clean {0}` removes what it left",
                args.lab
            )
            .into());
        }
        if Instant::now() > end {
            return Err(
                anyhow::anyhow!("lab '{}' is not down after {DOWN_WITHIN:?}", args.lab).into(),
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    if args.json {
        output::json(&json!({"lab": args.lab, "down": true}))?;
    } else {
        output::text(&format!("{} is down\n", args.lab))?;
    }
    Ok(Exit::Done)
}

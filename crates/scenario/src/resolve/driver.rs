//! The driver that carries the frames, and settings that only some drivers support.

use constel_link::DriverKind;
use constel_units::TimeSpan;

use super::no_effect;
use crate::diagnostic::Diagnostics;
use crate::parse::Parsed;
use crate::raw::{DriverChoice, StackTime, Threads};
use crate::walk::Seg::Key;

/// To which times frames are gathered: a wish that only one driver knows.
pub(super) fn grain(parsed: &Parsed, errors: &mut Diagnostics) -> TimeSpan {
    let links = &parsed.raw.links;
    if links.grain.is_some() && links.driver != DriverChoice::Relay {
        let path = [Key("links"), Key("grain")];
        no_effect(parsed, errors, &path, "driver: relay");
    }
    links.grain.unwrap_or(TimeSpan::from_ns(0))
}

/// How many threads move frames: a wish that only one driver knows.
pub(super) fn threads(parsed: &Parsed, errors: &mut Diagnostics) -> Threads {
    let links = &parsed.raw.links;
    let other = !matches!(links.driver, DriverChoice::Relay | DriverChoice::Auto);
    if other && links.threads != Threads::Auto {
        let path = [Key("links"), Key("threads")];
        no_effect(parsed, errors, &path, "driver: relay");
    }
    links.threads
}

/// Returns how stacks' time is accounted for: only one driver has the choice.
pub(super) fn stack_time(parsed: &Parsed, errors: &mut Diagnostics) -> StackTime {
    let links = &parsed.raw.links;
    let path = [Key("links"), Key("stack_time")];
    if !matches!(links.driver, DriverChoice::Relay | DriverChoice::Auto) && parsed.is_written(&path)
    {
        no_effect(parsed, errors, &path, "driver: relay");
    }
    links.stack_time
}

/// The bound must be one that can be held and, where it was written, one that will be looked at.
pub(super) fn check_lateness(parsed: &Parsed, grain: TimeSpan, errors: &mut Diagnostics) {
    let links = &parsed.raw.links;
    let path = [Key("links"), Key("max_lateness")];
    if links.max_lateness < grain {
        let bound = links.max_lateness;
        let message = format!("`max_lateness` is {bound}, less than `grain`, {grain}");
        let error = parsed
            .error_at(&path, "order", message)
            .with_reason("frames leave up to a grain late, so that such a bound cannot be held");
        errors.push(error);
    }
    let capabilities = links.driver.kind().map(DriverKind::capabilities);
    let refusal = capabilities.and_then(|c| c.lateness_refusal());
    if let Some(why) = refusal.filter(|_| parsed.is_written(&path)) {
        let message = "`max_lateness` is a bound that `links: {driver: netem}` cannot check";
        let error = parsed
            .error_at(&path, "driver", message)
            .with_reason(why)
            .with_suggestion("remove `max_lateness`, or choose another driver");
        errors.push(error);
    }
}

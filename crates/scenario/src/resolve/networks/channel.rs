//! `channel` of a network: the parameters that its access needs, and the link settings that a channel supports.

use super::super::no_effect;
use crate::diagnostic::Diagnostics;
use crate::model::{Access, Channel, Name};
use crate::parse::Parsed;
use crate::raw::{DriverChoice, RawLink, RawNetwork};
use crate::walk::Seg::Key;
use constel_units::TimeSpan;

/// Length of the Ethernet header before a packet.
const HEADER_BYTES: u64 = 14;

/// Returns the channel of a network with `medium: shared`; errors go to `errors`.
pub(super) fn resolve(
    parsed: &Parsed,
    name: &Name,
    raw: &RawNetwork,
    errors: &mut Diagnostics,
) -> Option<Channel> {
    let network = [Key("networks"), Key(name.as_str())];
    if matches!(
        parsed.raw.links.driver,
        DriverChoice::Edt | DriverChoice::Netem
    ) {
        let path = [network[0], network[1], Key("medium")];
        let message = "`medium: shared` needs `driver: relay`".to_owned();
        let error = parsed.error_at(&path, "driver", message);
        errors.push(
            error.with_reason("drivers in the kernel know edges, and no channel between them"),
        );
    }
    if let Some(link) = &raw.link {
        for (key, there) in ineffective(link) {
            if there {
                let path = [network[0], network[1], Key("link"), Key(key)];
                no_effect(parsed, errors, &path, "medium: links");
            }
        }
    }
    let Some(channel) = &raw.channel else {
        let message = format!("network `{name}` needs `channel`");
        let error = parsed.error_at_key(&network, "missing-key", message);
        errors.push(
            error.with_reason("with `medium: shared` members take turns, and it defines how"),
        );
        return None;
    };
    if let (Access::Tdma { slot } | Access::SlottedAloha { slot }, Some(link)) =
        (channel.access, &raw.link)
    {
        let needs = longest(channel, raw, link);
        if slot < needs {
            let path = [network[0], network[1], Key("channel"), Key("access")];
            let message = format!(
                "a slot of {slot} is shorter than a frame of the MTU, {needs} with preamble and guard"
            );
            errors.push(parsed.error_at(&path, "out-of-range", message));
        }
    }
    Some(*channel)
}

/// How long a frame of the MTU keeps the channel at the lowest rate, guard included.
fn longest(channel: &Channel, raw: &RawNetwork, link: &RawLink) -> TimeSpan {
    let steps = raw.law.iter().flat_map(|law| &law.by_range);
    let rates = steps.map(|step| step.rate.bps());
    let rate_bps = rates.fold(link.rate.bps(), u64::min).max(1);
    let bits = u128::from(link.mtu.bytes() + HEADER_BYTES) * 8;
    let bits_ns = (bits * 1_000_000_000).div_ceil(u128::from(rate_bps));
    let bits_ns = i64::try_from(bits_ns).unwrap_or(i64::MAX);
    let around_ns = channel.preamble.ns() + channel.guard.ns();
    TimeSpan::from_ns(bits_ns.saturating_add(around_ns))
}

/// Keys of `link` that a channel has no use for.
fn ineffective(link: &RawLink) -> [(&'static str, bool); 4] {
    [
        ("rate_law", link.rate_law.is_some()),
        ("overhead", link.overhead.is_some()),
        ("queue_frames", link.queue_frames.is_some()),
        ("aqm", link.aqm.is_some()),
    ]
}

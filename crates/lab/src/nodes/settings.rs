//! The initial settings of every node.

use constel_host::template::{ROUTER, Setting};
use constel_scenario::model::{Igp, Scenario};

use crate::routing::router::Router;

/// Returns the settings of every node, which belong to its namespace.
pub(crate) fn node_settings(scenario: &Scenario) -> Vec<Setting> {
    let routing = &scenario.routing;
    let mut settings = ROUTER.to_vec();
    settings.extend(Router::of(scenario).settings());
    // Babel's neighbours communicate over IPv6 link-local addresses, whatever they route (RFC 8966, 3).
    let daemons = routing.mode.daemons();
    let is_babel = daemons.is_some_and(|daemons| daemons.protocol == Igp::Babel);
    if !routing.families.ipv6 && !is_babel {
        settings.retain(|(key, _)| !key.contains("/ipv6/"));
        settings.push(("net/ipv6/conf/all/disable_ipv6", "1"));
        settings.push(("net/ipv6/conf/default/disable_ipv6", "1"));
    }
    settings
}

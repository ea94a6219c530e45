//! What every node is born with.

use constel_host::template::{ROUTER, Setting};
use constel_scenario::model::Scenario;

use crate::routing::router::Router;

/// Settings of every node. They live and die with its namespace.
pub(crate) fn node_settings(scenario: &Scenario) -> Vec<Setting> {
    let routing = &scenario.routing;
    let mut settings = ROUTER.to_vec();
    settings.extend(Router::of(scenario).settings());
    if !routing.families.ipv6 {
        settings.retain(|(key, _)| !key.contains("/ipv6/"));
        settings.push(("net/ipv6/conf/all/disable_ipv6", "1"));
        settings.push(("net/ipv6/conf/default/disable_ipv6", "1"));
    }
    settings
}

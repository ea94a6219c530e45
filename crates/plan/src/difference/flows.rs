//! Flows that are added to a running lab and removed from it.

use constel_scenario::Scenario;
use constel_scenario::model::{Action, Flow, Name, PathFunctions};
use constel_scenario::raw::RawFlow;
use constel_units::TimeSpan;

use super::words::words;
use super::{ChangeKind, Difference, Past, ScenarioChange};

/// A flow that is added to begin at once begins with the next millisecond, so that its time is short in text.
const MILLISECOND_NS: u64 = 1_000_000;

impl Difference {
    /// Adds the changes of flows. A flow that both have stays as it is.
    pub(super) fn flows(&mut self, running: &Scenario, changed: &Scenario, past: &Past) {
        let find = |flows: &[Flow], name: &Name| {
            let mut flows = flows.iter();
            flows.find(|other| other.name == *name).cloned()
        };
        let mut taken = past.ports.clone();
        for flow in &running.traffic {
            let Some(now) = find(&changed.traffic, &flow.name) else {
                self.removed.push(flow.name.clone());
                self.push(Some((running, flow)), None, None);
                continue;
            };
            // The flow itself has its actual time and port.
            let own = find(&past.flows, &flow.name).unwrap_or_else(|| flow.clone());
            self.compare_flows((running, flow), (changed, &now), &own);
            self.traffic.push(own);
        }
        for flow in &changed.traffic {
            if find(&running.traffic, &flow.name).is_some() {
                continue;
            }
            let mut flow = flow.clone();
            let at_once = (past.now_ns / MILLISECOND_NS + 1) * MILLISECOND_NS;
            let begins = at_once.max(flow.at.ns().unsigned_abs());
            flow.at = TimeSpan::from_ns(i64::try_from(begins).unwrap_or(i64::MAX));
            while let Some((node, port)) = flow.server()
                && taken.contains(&(node.clone(), port))
                && port < u16::MAX
            {
                flow.set_server_port(port + 1);
            }
            let server = flow.server();
            taken.extend(server.map(|(node, port)| (node.clone(), port)));
            let refused = against(&flow, running, past);
            self.push(None, Some((changed, &flow)), refused);
            self.added.push(flow.clone());
            self.traffic.push(flow);
        }
        self.traffic.sort_by_key(|flow| flow.at);
    }

    /// Adds the change of a flow that both scenarios have; `own` is the flow in the running lab.
    fn compare_flows(
        &mut self,
        (running, flow): (&Scenario, &Flow),
        (changed, now): (&Scenario, &Flow),
        own: &Flow,
    ) {
        if flow == now {
            return;
        }
        let mut moved = now.clone();
        if let Some((_, port)) = flow.server() {
            moved.set_server_port(port);
        }
        if moved != *flow {
            let refused = "a flow does not change: give the changed one another name";
            let refused = Some(refused.to_owned());
            self.push(Some((running, flow)), Some((changed, now)), refused);
            return;
        }
        // Without `port` in the file, ports follow from the order of flows. Those of probes are never in the file.
        let Some((_, port)) = own.server() else {
            return;
        };
        if !matches!(flow.action, Action::Ping(_)) {
            let stays = |port: u16| Some(format!("{port}, where its server listens"));
            self.changes.push(ScenarioChange {
                key: format!("traffic.{}.port", flow.name),
                kind: ChangeKind::Changed,
                before: stays(port),
                after: stays(port),
                refused: None,
            });
        }
    }

    /// Adds the change of a flow; each side is its scenario and the flow with its actual time.
    fn push(
        &mut self,
        before: Option<(&Scenario, &Flow)>,
        after: Option<(&Scenario, &Flow)>,
        refused: Option<String>,
    ) {
        let Some((_, either)) = before.or(after) else {
            return;
        };
        let own = |(scenario, flow): (&Scenario, &Flow)| {
            let mut all = scenario.raw.traffic.iter();
            let raw = all.find(|raw| raw.name == flow.name);
            let raw = raw.map(|raw| RawFlow {
                at: flow.at,
                ..raw.clone()
            });
            words(&serde_json::to_value(raw).unwrap_or_default())
        };
        self.changes.push(ScenarioChange {
            key: format!("traffic.{}", either.name),
            kind: match (before, after) {
                (None, _) => ChangeKind::Added,
                (_, None) => ChangeKind::Removed,
                _ => ChangeKind::Changed,
            },
            before: before.map(own),
            after: after.map(own),
            refused,
        });
    }
}

/// Returns the reason why a flow cannot be added.
fn against(flow: &Flow, running: &Scenario, past: &Past) -> Option<String> {
    if past.names.contains(&flow.name) {
        return Some(
            "the results have a flow of this name already: give it another name".to_owned(),
        );
    }
    let over = past
        .end_ns
        .filter(|end| flow.end().ns().unsigned_abs() > *end);
    if let Some(end_ns) = over {
        return Some(format!(
            "it would end at lab time {}, after the lab's end at {:.1} s",
            flow.end(),
            end_ns as f64 / 1e9
        ));
    }
    let transfers = matches!(flow.action, Action::Transfer(_));
    if transfers && running.transport != PathFunctions::default() {
        return Some(
            "functions on the path (`transport`) are set up for the flows of the start".to_owned(),
        );
    }
    None
}

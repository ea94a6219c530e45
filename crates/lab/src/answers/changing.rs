//! The execution of changes to a running lab: a request is checked and then applied here, or by all machines if
//! there are several.

use std::num::NonZeroU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use constel_api::answers::{DelaysSet, LinkSet, RoutesAfter};
use constel_api::{ApiError, EventData, SetLink};
use constel_drivers::{DriverError, Links};
use constel_link::{EffectsChange, PortId};
use constel_plan::Blueprint;
use constel_topology::NodeId;

use super::by_hand::{EffectTarget, Ending, Impairing, Made, ManualChange, MemberMove, Moved};
use super::view::{Held, View, find};
use super::{delays, impair};
use crate::clock::mono_ns;
use crate::information::News;

/// The reason why a change is refused, by the link plane or by this module.
struct Refused(ApiError);

impl From<DriverError> for Refused {
    fn from(error: DriverError) -> Self {
        Self(impair::refusal(&error))
    }
}

impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        refused.0
    }
}

/// The longest wait for computed routes after a change. They normally follow within milliseconds.
const ROUTES_WITHIN: Duration = Duration::from_secs(5);

impl View {
    /// Takes the members out of their networks that the scenario declares as away when the lab starts.
    ///
    /// # Errors
    /// When the link plane refuses.
    pub(crate) fn begin_away(
        &self,
        blueprint: &Blueprint,
        links: &dyn Links,
    ) -> Result<(), DriverError> {
        for (_, port) in blueprint.lab.away() {
            self.move_member(blueprint, links, (port, false), None)?;
        }
        Ok(())
    }

    /// Moves a member into or out of its network, at the lab time at which all machines do so, or now.
    ///
    /// # Errors
    /// When the link plane refuses: nothing was changed.
    fn move_member(
        &self,
        blueprint: &Blueprint,
        links: &dyn Links,
        (port, joined): (PortId, bool),
        at_ns: Option<u64>,
    ) -> Result<Moved, DriverError> {
        // The lock is held until the move is recorded: two moves of neighbours must not read each other's old
        // state.
        let mut away = self.away.lock().unwrap_or_else(|e| e.into_inner());
        let own = |(from, to)| links.effects(from, to).map(|effects| effects.own);
        let Some(planned) = away.plan(&blueprint.lab.layout, port, joined, own)? else {
            return Ok(Moved {
                changed: false,
                at_mono_ns: mono_ns(),
                version: None,
            });
        };
        let effects = planned.effects.clone();
        let ((), at_mono_ns) =
            self.change_by_hand(links, |_| Ok::<_, DriverError>(((), effects)))?;
        let layout = &blueprint.lab.layout;
        let own = layout.port(port);
        let name = format!("{}/{}", layout.node(own.node).name, own.name());
        let t_ns = at_ns.or_else(|| self.clock.now_ns()).unwrap_or(0);
        let failed = planned.failed.clone();
        // The list of failed edges is what routes avoid, so that routes leave the edges of an absent member.
        let version = self.failed.set(&name, t_ns, failed);
        away.moved(planned);
        Ok(Moved {
            changed: true,
            at_mono_ns,
            version,
        })
    }

    /// Returns the state of routes after a change that took effect at `at_mono_ns`. The caller must hold no node
    /// while it waits: a lab can only go down when its nodes are no longer held.
    pub(super) fn routes_after(&self, version: Option<u64>, at_mono_ns: u64) -> RoutesAfter {
        let Some(version) = version else {
            return RoutesAfter::Untouched;
        };
        let wanted = || !self.stop.load(Ordering::Acquire);
        let stood = self.failed.wait_for_routes(version, ROUTES_WITHIN, wanted);
        let after_ns = mono_ns().saturating_sub(at_mono_ns);
        match stood {
            None => RoutesAfter::NotOurs,
            Some(true) => RoutesAfter::Converged { after_ns },
            Some(false) => RoutesAfter::NotYet {
                waited_ns: after_ns,
            },
        }
    }

    /// Makes a change, on all machines if there are several.
    ///
    /// # Errors
    /// When the lab is not up (any more), the link plane refuses, or other machines do not receive the order.
    pub(super) fn everywhere(&self, what: &ManualChange) -> Result<Made, ApiError> {
        match &self.orders {
            None => self.make(what, None),
            // Lab time has not started, so that the machines have no common instant for the change.
            Some(_) if self.clock.zero_mono_ns().is_none() => Err(ApiError::coming_up()),
            Some(orders) => orders.order(what, &self.stop),
        }
    }

    /// Makes a change on this machine. If all machines make it at one lab time, it is recorded with that time.
    ///
    /// # Errors
    /// When the lab is not up (any more), or the link plane refuses: nothing was changed.
    pub(crate) fn make(&self, what: &ManualChange, at_ns: Option<u64>) -> Result<Made, ApiError> {
        match what {
            ManualChange::Link(what) => {
                let (answer, version) = self.put(what, at_ns)?;
                Ok(Made::Link(answer, version))
            }
            ManualChange::Member(what) => Ok(Made::Member(self.move_by_hand(what, at_ns)?)),
            ManualChange::Delays(what) => {
                let answer = self.put_delays(what.network, what.delays_ns.as_deref(), at_ns)?;
                Ok(Made::Delays(answer))
            }
        }
    }

    fn move_by_hand(&self, what: &MemberMove, at_ns: Option<u64>) -> Result<Moved, ApiError> {
        let Held { kernels, links, .. } = self.held()?;
        let to = (what.port, what.joined);
        let moved = self.move_member(&kernels.blueprint, links.as_ref(), to, at_ns);
        let moved = moved.map_err(|error| impair::refusal(&error))?;
        if moved.changed {
            self.inform(|| News::Failed);
            let (network, node) = (what.network.clone(), what.node.clone());
            let happened = match what.joined {
                true => EventData::MemberJoined { network, node },
                false => EventData::MemberLeft { network, node },
            };
            self.log.emit(self.noted_at(at_ns), happened);
        }
        Ok(moved)
    }

    pub(super) fn put_delays(
        &self,
        place: usize,
        delays_ns: Option<&[Vec<Option<u64>>]>,
        at_ns: Option<u64>,
    ) -> Result<DelaysSet, ApiError> {
        let Held { kernels, links, .. } = self.held()?;
        let links = links.as_ref();
        let blueprint = kernels.blueprint.as_ref();
        let changed = self.change_by_hand(links, |_| {
            let changes = delays::changes(blueprint, links, place, delays_ns)?;
            Ok::<_, DriverError>((changes.clone(), changes))
        });
        let (changes, at_mono_ns) = changed.map_err(|error| impair::refusal(&error))?;
        let (delays, range) = delays::listed(&blueprint.lab.layout, &changes);
        let answer = DelaysSet {
            at_mono_ns,
            network: blueprint.lab.scenario.networks[place].name.to_string(),
            edges: changes.len(),
        };
        let what = EventData::DelaysSet {
            network: answer.network.clone(),
            edges: answer.edges,
            reset: delays_ns.is_none(),
            delays,
            range,
        };
        self.log.emit(self.noted_at(at_ns), what);
        Ok(answer)
    }

    /// Returns the lab time with which a change is recorded: the common time of all machines, or now.
    fn noted_at(&self, at_ns: Option<u64>) -> Option<i64> {
        at_ns.map_or_else(|| self.t_ns(), |t| i64::try_from(t).ok())
    }

    /// Resolves an order to edges or a port.
    ///
    /// # Errors
    /// When a name is unknown, there is no such link, or a value is not valid.
    pub(super) fn impairing(&self, held: &Held, order: &SetLink) -> Result<Impairing, ApiError> {
        let blueprint = &held.blueprint;
        let named = |name: &str| find(blueprint, name);
        // A single name with `/` is a port; every other form names a link.
        let port = match order.b {
            None => impair::port(blueprint, &order.a, named)?,
            Some(_) => None,
        };
        let (link, on) = match port {
            Some(port) => (order.a.clone(), EffectTarget::Port(port)),
            None => {
                let ends = impair::ends(&order.a, order.b.as_deref(), named)?;
                let name = |node: NodeId| blueprint.lab.layout.node(node).name.as_str();
                let link = format!("{}-{}", name(ends.0), name(ends.1));
                let links = held.links.as_ref();
                let edges = impair::edges_between(blueprint, links, &held.snapshot, ends)?;
                (link, EffectTarget::Edges(edges))
            }
        };
        let impairing = Impairing {
            link,
            on,
            effects: order.effects.as_ref().clone(),
            reset: order.reset,
            for_ns: order.for_ns.map(NonZeroU64::get),
        };
        impair::check(&impairing)?;
        Ok(impairing)
    }

    /// Sets effects on edges or a port. Also returns the version of the list of failed links, if that changed.
    ///
    /// # Errors
    /// As [`View::make`].
    fn put(
        &self,
        what: &Impairing,
        at_ns: Option<u64>,
    ) -> Result<(LinkSet, Option<u64>), ApiError> {
        let held = self.held()?;
        let links = held.links.as_ref();
        let patch = (&what.effects, what.reset);
        // Laws of time count from lab time zero. A change before the clock starts counts from now.
        let zero_ns = self.clock.zero_mono_ns().unwrap_or_else(mono_ns);
        let t_ns = at_ns.or_else(|| self.clock.now_ns());
        let before = match what.for_ns {
            Some(_) => self.effects_before(links, &what.on)?,
            None => Vec::new(),
        };
        let (answer, version) = match &what.on {
            // A port's effects also apply to edges that appear later, but only present edges have a delay that can
            // be checked.
            EffectTarget::Port(port) => {
                let t_ns = t_ns.unwrap_or(held.snapshot.t_ns);
                let (effects, at_mono_ns) = self.change_by_hand(links, |by_hand| {
                    let own = by_hand.port(*port);
                    let (now, changes) = impair::on_port(*port, &own, patch, zero_ns);
                    let edges = held.snapshot.edges_from(*port).iter();
                    for edge in edges {
                        // Jitter must not exceed the delay on any of the edges, else delays would be negative.
                        impair::check_jitter(&now, &edge.impairment, t_ns)?;
                    }
                    Ok::<_, Refused>((now, changes))
                })?;
                let mut answer = impair::port_set(&held.snapshot, *port, &effects, at_mono_ns);
                answer.port = Some(what.link.clone());
                (answer, None)
            }
            EffectTarget::Edges(edges) => {
                let now_ns = t_ns.unwrap_or(held.snapshot.t_ns);
                let mut away = self.away.lock().unwrap_or_else(|e| e.into_inner());
                let (set, at_mono_ns) = self.change_by_hand(links, |_| {
                    let planned = impair::on_edges(links, (edges, &away), patch, zero_ns)?;
                    for change in &planned.1 {
                        let EffectsChange::Edge { from, to, effects } = change else {
                            continue;
                        };
                        let edge = held.snapshot.edge(*from, *to);
                        if let (Some(effects), Some(edge)) = (effects, edge) {
                            impair::check_jitter(effects, &edge.impairment, now_ns)?;
                        }
                    }
                    Ok::<_, Refused>(planned)
                })?;
                for (edge, failed) in &set.failed {
                    away.set_failed(*edge, *failed);
                }
                // Only single edges can be down, and so only they change the list that routes avoid. Edges of absent
                // members are in it already.
                let mut failed = set.failed;
                failed.retain(|(edge, _)| away.failed_by_hand(*edge).is_none());
                let version = self.failed.set(&what.link, t_ns.unwrap_or(0), failed);
                drop(away);
                let answer = LinkSet {
                    at_mono_ns,
                    edges: set.edges,
                    port: None,
                    routes: RoutesAfter::Untouched,
                };
                (answer, version)
            }
        };
        // Nodes that receive topology information must see a failed link as absent.
        if version.is_some() {
            self.inform(|| News::Failed);
        }
        let first = answer.edges.first();
        let effects = first.map(|edge| edge.effects.clone()).unwrap_or_default();
        let happened = EventData::LinkSet {
            link: what.link.clone(),
            reset: what.reset,
            effects,
            for_ns: what.for_ns,
        };
        self.log.emit(self.noted_at(t_ns), happened);
        if let Some(for_ns) = what.for_ns {
            self.ends_later(Ending {
                at_mono_ns: answer.at_mono_ns.saturating_add(for_ns),
                link: what.link.clone(),
                patch: what.effects.clone().starting_later(zero_ns),
                before,
            });
        }
        Ok((answer, version))
    }
}

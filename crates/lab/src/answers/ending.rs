//! Changes of links by command that end by themselves.

use std::sync::PoisonError;

use constel_api::answers::BriefEffects;
use constel_api::{ApiError, ErrorCode, EventData};
use constel_drivers::{DriverError, Links};
use constel_link::{Effects, EffectsChange};
use constel_plan::ManualEffects;

use super::by_hand::{EffectTarget, Ending, Place};
use super::impair;
use super::view::View;
use crate::clock::mono_ns;
use crate::information::News;

impl View {
    /// Checks that a change can end by itself.
    ///
    /// # Errors
    /// Before lab time, and in a lab on several machines.
    pub(super) fn may_end_by_itself(&self) -> Result<(), ApiError> {
        if self.orders.is_some() {
            let error = "changes of a lab on several machines stay until they are reset: leave out the time";
            return Err(ApiError::new(ErrorCode::Unsupported, error.to_owned()));
        }
        match self.clock.zero_mono_ns() {
            Some(_) => Ok(()),
            None => Err(ApiError::coming_up()),
        }
    }

    /// Returns the effects by command that these places have now.
    ///
    /// # Errors
    /// When the link plane has stopped.
    pub(super) fn effects_before(
        &self,
        links: &dyn Links,
        on: &EffectTarget,
    ) -> Result<Vec<(Place, Effects)>, ApiError> {
        let by_hand = self.by_hand.lock().unwrap_or_else(PoisonError::into_inner);
        let own = |place| effects_of(links, &by_hand, place).map(|own| (place, own));
        let all: Result<_, DriverError> = match on {
            EffectTarget::Port(port) => own(Place::Port(*port)).map(|one| vec![one]),
            EffectTarget::Edges(edges) => {
                edges.iter().map(|edge| own(Place::Edge(*edge))).collect()
            }
        };
        all.map_err(|error| impair::refusal(&error))
    }

    /// Has a change end later.
    pub(super) fn ends_later(&self, ending: Ending) {
        let mut endings = self.endings.lock().unwrap_or_else(PoisonError::into_inner);
        endings.push(ending);
    }

    /// Ends the changes whose time is over.
    pub(crate) fn end_due(&self) {
        let due: Vec<Ending> = {
            let mut endings = self.endings.lock().unwrap_or_else(PoisonError::into_inner);
            if endings.is_empty() {
                return;
            }
            // The list is taken out of its lock: setting effects takes long, and other requests add endings.
            let now_ns = mono_ns();
            let all = std::mem::take(&mut *endings).into_iter();
            let (due, later) = all.partition(|ending| ending.at_mono_ns <= now_ns);
            *endings = later;
            due
        };
        for ending in due {
            // A link plane that refuses has stopped, which the next step reports.
            drop(self.end(&ending));
        }
    }

    fn end(&self, ending: &Ending) -> Result<(), ApiError> {
        let held = self.held()?;
        let links = held.links.as_ref();
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = self.change_by_hand(links, |by_hand| {
            // Later commands may have set other fields since: only those of this change go back.
            let (mut changes, mut down) = (Vec::new(), Vec::new());
            for (place, before) in &ending.before {
                let now = effects_of(links, by_hand, *place)?.without(&ending.patch, before);
                match *place {
                    Place::Edge(edge) => {
                        // An edge of an absent member stays down until the member returns.
                        let now = match away.failed_by_hand(edge) {
                            Some(_) => now.merged(&Effects::failed(true)),
                            None => {
                                down.push((edge, now.down == Some(true)));
                                now
                            }
                        };
                        changes.push(EffectsChange::of_edge(edge, now));
                    }
                    Place::Port(port) => changes.push(EffectsChange::Port {
                        port,
                        effects: (!now.is_empty()).then_some(now),
                    }),
                }
            }
            let first = changes
                .first()
                .and_then(EffectsChange::effects)
                .map(BriefEffects::of);
            Ok::<_, DriverError>(((down, first.unwrap_or_default()), changes))
        });
        let ((down, first), _) = changed.map_err(|error| impair::refusal(&error))?;
        for (edge, failed) in &down {
            away.set_failed(*edge, *failed);
        }
        drop(away);
        let t_ns = self.clock.now_ns().unwrap_or(0);
        if self.failed.set(&ending.link, t_ns, down).is_some() {
            self.inform(|| News::Failed);
        }
        // Readers of the log see the end as any other change of the link.
        let happened = EventData::LinkSet {
            link: ending.link.clone(),
            reset: false,
            effects: first,
            for_ns: None,
        };
        self.log.emit(self.t_ns(), happened);
        Ok(())
    }
}

/// Returns the effects by command of a place.
fn effects_of(
    links: &dyn Links,
    by_hand: &ManualEffects,
    place: Place,
) -> Result<Effects, DriverError> {
    match place {
        Place::Edge((from, to)) => links.effects(from, to).map(|effects| effects.own),
        Place::Port(port) => Ok(by_hand.port(port)),
    }
}

//! The rules of a running box: they are installed, changed and counted here.
//!
//! A rule that changes gets a new slot. Its new edges exist before the first frame is steered to them, together
//! with every other change, and the old edges remain until the last frame on them has arrived. A change therefore
//! neither loses nor delays a frame of any rule.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Instant, SystemTime};

use constel_api::answers::{Capturing, DirectionCounters, RuleShown, RulesChanged};
use constel_api::{ApiError, CaptureOrder, CaptureSource, ErrorCode, RuleChange};
use constel_drivers::relay::{EdgeTimes, RelayHandle};
use constel_drivers::{DriverError, Links, mono_ns};
use constel_link::rules::{Action, Direction, Rule, Rules, Via};
use constel_link::{
    EdgeChange, EdgeCounters, EdgeUpdate, Effects, EffectsChange, Impairment, Nanos, PortId,
};
use constel_scenario::model::RuleFile;
use constel_scenario::{DiskFiles, nearest, read_rules};
use constel_units::Utc;
use serde_json::json;

use crate::captures::Captures;
use crate::counters::{Edges, FirstAndLast, Rates, of_both, way};
use crate::edits::{changed, never_reached, odd_interfaces};
use crate::joined::Joined;
use crate::ports::{ROUTER, Slot, UNMATCHED};
use crate::skies::{Passed, Skies};
use crate::steer::{ByRules, Seen};

/// The statistics of a rule's earlier versions, by direction.
#[derive(Default)]
struct Past {
    counters: [EdgeCounters; 2],
    seen: [FirstAndLast; 2],
}

/// The rules of a running box.
pub(crate) struct Live {
    handle: RelayHandle,
    seen: Arc<Seen>,
    joined: Arc<Joined>,
    /// The folder that paths in rules are relative to.
    folder: PathBuf,
    /// The interfaces, in order.
    names: Vec<String>,
    state: Mutex<State>,
}

struct State {
    file: RuleFile,
    /// The slots of the rules, in the order of the rules.
    slots: Vec<Slot>,
    free: VecDeque<Slot>,
    /// Slots to whose edges frames are no longer steered, and the rules that had them.
    leaving: Vec<(Slot, String)>,
    /// The counters that each edge had when its slot was assigned to the present rule.
    before: HashMap<usize, EdgeCounters>,
    /// Earlier versions of rules, by name.
    past: HashMap<String, Past>,
    removed: EdgeCounters,
    rates: Rates,
    skies: Skies,
    captures: Captures,
}

/// A handover at one end of a rule's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handover {
    /// The rule and the end, as in `calls/from`.
    pub(crate) end: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

fn index(direction: Direction) -> usize {
    usize::from(direction == Direction::Reverse)
}

impl State {
    fn counters(&self, edges: &Edges, slot: Slot, direction: Direction) -> EdgeCounters {
        let Some(stats) = edges.get(slot, direction) else {
            return EdgeCounters::default();
        };
        match self.before.get(&slot.place(direction)) {
            Some(before) => stats.counters.since(before),
            None => stats.counters,
        }
    }

    /// Returns the counters of a rule in all its versions.
    fn all_counters(
        &self,
        edges: &Edges,
        (name, slot): (&str, Slot),
        direction: Direction,
    ) -> EdgeCounters {
        let mut sum = self.counters(edges, slot, direction);
        for (old, _) in self.leaving.iter().filter(|(_, whose)| whose == name) {
            sum.add(&self.counters(edges, *old, direction));
        }
        if let Some(past) = self.past.get(name) {
            sum.add(&past.counters[index(direction)]);
        }
        sum
    }

    /// Returns when the first and the last frame of a rule arrived, in all its versions.
    fn all_seen(
        &self,
        seen: &Seen,
        (name, slot): (&str, Slot),
        direction: Direction,
    ) -> FirstAndLast {
        let old = self.leaving.iter().filter(|(_, whose)| whose == name);
        let slots = old.map(|(old, _)| *old).chain([slot]);
        let past = self.past.get(name);
        let past = past.and_then(|past| past.seen[index(direction)]);
        slots
            .map(|slot| seen.get(slot, direction))
            .fold(past, of_both)
    }
}

impl Live {
    /// Installs the first rules.
    ///
    /// # Errors
    /// When the relay has stopped, or refuses an edge.
    pub(crate) fn start(
        handle: RelayHandle,
        file: RuleFile,
        (folder, joined, names): (PathBuf, Joined, Vec<String>),
    ) -> Result<Live, DriverError> {
        let state = State {
            file: RuleFile {
                rules: Rules::default(),
                written: Vec::new(),
                ..file.clone()
            },
            slots: Vec::new(),
            free: Slot::of_rules().collect(),
            leaving: Vec::new(),
            before: HashMap::new(),
            past: HashMap::new(),
            removed: EdgeCounters::default(),
            rates: Rates::default(),
            skies: Skies::default(),
            captures: Captures::default(),
        };
        let live = Live {
            handle,
            seen: Arc::new(Seen::new()),
            joined: Arc::new(joined),
            folder,
            names,
            state: Mutex::new(state),
        };
        let pass = [UNMATCHED, ROUTER].into_iter().flat_map(|slot| {
            Direction::BOTH.map(|direction| {
                let (from, to) = slot.edge(direction);
                let impairment = Impairment::delay_only(0);
                EdgeChange::Set {
                    from,
                    to,
                    impairment,
                }
            })
        });
        let update = EdgeUpdate {
            changes: pass.collect(),
        };
        live.handle.apply(update, None)?;
        live.put_in_force(&mut live.lock(), file)?;
        Ok(live)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the number of rules.
    pub(crate) fn len(&self) -> usize {
        self.lock().slots.len()
    }

    /// Returns the present rules.
    pub(crate) fn file(&self) -> RuleFile {
        self.lock().file.clone()
    }

    /// Replaces the present rules.
    fn put_in_force(&self, state: &mut State, file: RuleFile) -> Result<(), DriverError> {
        let known: HashMap<&str, (&Rule, Slot)> = state
            .file
            .rules
            .iter()
            .zip(&state.slots)
            .map(|(rule, slot)| (rule.name.as_str(), (rule, *slot)))
            .collect();
        let kept = |rule: &Rule| {
            let same = known
                .get(rule.name.as_str())
                .filter(|(old, _)| *old == rule);
            same.map(|(_, slot)| *slot)
        };
        let mut slots: Vec<Option<Slot>> = file.rules.iter().map(kept).collect();
        let missing = slots.iter().filter(|slot| slot.is_none()).count();
        if missing > state.free.len() {
            let text = format!(
                "{missing} rules change and only {} can at present: too many changed a moment ago and still have frames \
                 under way",
                state.free.len()
            );
            return Err(DriverError::Unable(text));
        }
        let stay: Vec<Slot> = slots.iter().flatten().copied().collect();
        let leave: Vec<(Slot, String)> = state
            .slots
            .iter()
            .zip(&state.file.rules)
            .filter(|(slot, _)| !stay.contains(slot))
            .map(|(slot, rule)| (*slot, rule.name.clone()))
            .collect();
        let (now, wall_ns) = (mono_ns(), Utc::from(SystemTime::now()).unix_ns());
        for via in vias(&file.rules) {
            let begun = state.skies.begin(via, now, wall_ns);
            begun.map_err(DriverError::Unable)?;
        }
        let mut effects = Vec::new();
        let mut changes = Vec::new();
        let mut taken = Vec::new();
        for (rule, slot) in file.rules.iter().zip(&mut slots) {
            if slot.is_some() {
                continue;
            }
            // There are enough slots: the caller has counted them.
            let Some(fresh) = state.free.pop_front() else {
                break;
            };
            taken.push(fresh);
            *slot = Some(fresh);
            for direction in Direction::BOTH {
                let Some(action) = rule.action(direction) else {
                    continue;
                };
                let (from, to) = fresh.edge(direction);
                effects.push(edge_effects(fresh, direction, action.effects()));
                changes.push(EdgeChange::Set {
                    from,
                    to,
                    impairment: state.skies.impairment(action, direction),
                });
            }
        }
        // Effects are sent first: the relay keeps them until their edges exist.
        let stood = self.handle.apply_effects(effects).and_then(|_| {
            changes.sort_by_key(EdgeChange::edge);
            self.handle.apply(EdgeUpdate { changes }, None)
        });
        let slots: Vec<Slot> = slots.into_iter().flatten().collect();
        let steered = stood.and_then(|_| {
            for slot in &taken {
                self.seen.clear(*slot);
            }
            let ports = taken.iter();
            let ports = ports.flat_map(|slot| Direction::BOTH.map(|way| slot.edge(way).0));
            self.handle.forget_times(ports.collect())?;
            let named = file.rules.iter().zip(&slots);
            let named = named.map(|(rule, slot)| (rule.name.as_str(), *slot));
            state.captures.follow(&self.handle, named)?;
            let known = (&self.joined, &self.seen, &self.names[..]);
            let steer = ByRules::new(&file.rules, slots.clone(), known);
            self.handle.steer(Box::new(steer))
        });
        if let Err(error) = steered {
            state
                .leaving
                .extend(taken.into_iter().map(|slot| (slot, String::new())));
            return Err(error);
        }
        state.leaving.extend(leave);
        state.slots = slots;
        state.file = file;
        let State { skies, file, .. } = state;
        skies.retain(|via| vias(&file.rules).any(|used| used == via));
        Ok(())
    }

    /// Applies the second of each sky that contains `now` to the edges of its paths. Returns the ends whose
    /// satellite changed.
    ///
    /// # Errors
    /// When the relay has stopped.
    pub(crate) fn glide(&self, now: Nanos) -> Result<Vec<Handover>, DriverError> {
        let mut state = self.lock();
        let passed = state.skies.pass(now);
        if passed.is_empty() {
            state.skies.prepare();
            return Ok(Vec::new());
        }
        let (mut changes, mut handovers) = (Vec::new(), Vec::new());
        for (rule, slot) in state.file.rules.iter().zip(&state.slots) {
            let mut told = false;
            for direction in Direction::BOTH {
                let Some(action) = rule.action(direction) else {
                    continue;
                };
                let Some(news) = passed.iter().find(|p| action.via() == Some(&p.via)) else {
                    continue;
                };
                let (from, to) = slot.edge(direction);
                changes.push(EdgeChange::Set {
                    from,
                    to,
                    impairment: state.skies.impairment(action, direction),
                });
                if !std::mem::replace(&mut told, true) {
                    handovers.extend(handed(&rule.name, news));
                }
            }
        }
        changes.sort_by_key(EdgeChange::edge);
        self.handle.apply(EdgeUpdate { changes }, None)?;
        Ok(handovers)
    }

    /// Does the work of each second: samples the rates, and removes edges whose last frame has arrived.
    ///
    /// # Errors
    /// When the relay has stopped.
    pub(crate) fn tick(&self) -> Result<(), DriverError> {
        let edges = Edges::new(self.handle.all_edges()?);
        let mut state = self.lock();
        let names = state.file.rules.iter().map(|rule| rule.name.as_str());
        let all = names.zip(state.slots.iter().copied());
        let bytes = all.chain([("", UNMATCHED)]).map(|(name, slot)| {
            let of = |way| state.all_counters(&edges, (name, slot), way).offered_bytes;
            (name.to_owned(), Direction::BOTH.map(of))
        });
        let bytes = bytes.collect();
        state.rates.sample(mono_ns(), bytes);
        let (gone, leaving) = std::mem::take(&mut state.leaving)
            .into_iter()
            .partition::<Vec<_>, _>(|(slot, _)| {
                let held = |direction| edges.get(*slot, direction).map_or(0, |stats| stats.held);
                Direction::BOTH.map(held) == [0, 0]
            });
        state.leaving = leaving;
        let (mut changes, mut effects) = (Vec::new(), Vec::new());
        for (slot, name) in gone {
            let both = Direction::BOTH.map(|way| state.counters(&edges, slot, way));
            if state.file.rules.place(&name).is_some() {
                let past = state.past.entry(name).or_default();
                for (direction, more) in Direction::BOTH.into_iter().zip(&both) {
                    let at = index(direction);
                    past.counters[at].add(more);
                    let seen = self.seen.get(slot, direction);
                    past.seen[at] = of_both(past.seen[at], seen);
                }
            } else {
                let past = state.past.remove(&name).unwrap_or_default();
                both.iter()
                    .chain(&past.counters)
                    .for_each(|more| state.removed.add(more));
            }
            for direction in Direction::BOTH {
                let Some(stats) = edges.get(slot, direction) else {
                    continue;
                };
                state.before.insert(slot.place(direction), stats.counters);
                let (from, to) = slot.edge(direction);
                changes.push(EdgeChange::Remove { from, to });
                effects.push(edge_effects(slot, direction, None));
            }
            state.free.push_back(slot);
        }
        if !changes.is_empty() {
            self.handle.apply(EdgeUpdate { changes }, None)?;
            self.handle.apply_effects(effects)?;
        }
        Ok(())
    }

    /// Starts a capture at a rule or an interface.
    ///
    /// # Errors
    /// [`ErrorCode::NoRule`], [`ErrorCode::BadValue`], [`ErrorCode::Failed`].
    pub(crate) fn capture(
        &self,
        order: &CaptureOrder,
        interfaces: &[&str],
    ) -> Result<(Capturing, Box<dyn CaptureSource>), ApiError> {
        let mut state = self.lock();
        let State {
            captures,
            file,
            slots,
            ..
        } = &mut *state;
        if let Some(at) = interfaces.iter().position(|name| *name == order.of) {
            return captures.of_interface(&self.handle, order, at);
        }
        let place = file.rules.place(&order.of).ok_or_else(|| {
            let rules = file.rules.iter().map(|rule| rule.name.as_str());
            let near = nearest(&order.of, rules.chain(interfaces.iter().copied()));
            let hint = near.map(|near| format!("; nearest is '{near}'"));
            let error = format!(
                "no rule and no interface is called '{}'{}",
                order.of,
                hint.unwrap_or_default()
            );
            ApiError::new(ErrorCode::NoRule, error)
        })?;
        captures.of_rule(&self.handle, order, slots[place])
    }

    /// Makes a change.
    ///
    /// # Errors
    /// [`ErrorCode::NoRule`], [`ErrorCode::BadValue`], [`ErrorCode::Failed`]: nothing was changed.
    pub(crate) fn change(&self, change: RuleChange) -> Result<RulesChanged, ApiError> {
        let begin = Instant::now();
        let mut state = self.lock();
        let rules = changed(&state.file, change)?;
        let text = serde_json::to_string_pretty(&json!({"seed": state.file.seed, "rules": rules}));
        let text = text.unwrap_or_default();
        let files = DiskFiles::in_folder(&self.folder);
        let file = read_rules("rules", text.as_bytes(), &files);
        let file = file.map_err(|e| ApiError::new(ErrorCode::BadValue, e.to_string()))?;
        let routes = matches!(*self.joined, Joined::Router(..));
        let odd = odd_interfaces(&file.rules, &self.names, routes);
        if !odd.is_empty() {
            return Err(ApiError::new(ErrorCode::BadValue, odd.join("\n")));
        }
        let answer = RulesChanged {
            rules: file.rules.iter().map(|rule| rule.name.clone()).collect(),
            warnings: never_reached(&file.rules),
            took_ns: 0,
        };
        let failed = |error: DriverError| ApiError::new(ErrorCode::Failed, error.to_string());
        self.put_in_force(&mut state, file).map_err(failed)?;
        Ok(RulesChanged {
            took_ns: begin.elapsed().as_nanos() as u64,
            ..answer
        })
    }

    /// Returns the rules with their counters, the counters of frames without a matching rule, and those of removed
    /// rules.
    ///
    /// # Errors
    /// When the relay has stopped.
    pub(crate) fn shown(&self) -> Result<Shown, DriverError> {
        let edges = Edges::new(self.handle.all_edges()?);
        let times = self.handle.times()?.into_iter();
        let times: HashMap<PortId, EdgeTimes> = times.map(|of| (of.from, of)).collect();
        let state = self.lock();
        let now = mono_ns();
        let ways = |name: &str, slot: Slot, about: &dyn Fn(Direction) -> bool| {
            let about = Direction::BOTH.into_iter().filter(|way| about(*way));
            let shown = about.map(|direction| {
                let counters = state.all_counters(&edges, (name, slot), direction);
                let stats = edges.get(slot, direction);
                let seen = state.all_seen(&self.seen, (name, slot), direction);
                let present_bps = state.rates.present(name)[index(direction)];
                let mut shown = way(now, counters, stats, (seen, present_bps));
                if let Some(times) = times.get(&slot.edge(direction).0) {
                    shown.inside = Some(times.inside.quantiles());
                    shown.lateness = Some(times.lateness.quantiles());
                }
                (direction.as_str().to_owned(), shown)
            });
            shown.collect::<BTreeMap<_, _>>()
        };
        let rules = state
            .file
            .rules
            .iter()
            .zip(&state.slots)
            .zip(&state.file.written);
        let rules = rules.map(|((rule, slot), written)| {
            let mut ways = ways(&rule.name, *slot, &|way| rule.action(way).is_some());
            for direction in Direction::BOTH {
                let via = rule.action(direction).and_then(Action::via);
                if let (Some(via), Some(shown)) = (via, ways.get_mut(direction.as_str())) {
                    shown.via = state.skies.shown(via, direction, now);
                }
            }
            RuleShown {
                name: rule.name.clone(),
                rule: written.clone(),
                directions: ways,
            }
        });
        let mut removed = state.removed;
        for (slot, name) in &state.leaving {
            if state.file.rules.place(name).is_none() {
                for direction in Direction::BOTH {
                    removed.add(&state.counters(&edges, *slot, direction));
                }
            }
        }
        Ok(Shown {
            seed: state.file.seed,
            rules: rules.collect(),
            unmatched: ways("", UNMATCHED, &|_| true),
            removed,
        })
    }
}

/// The result of [`Live::shown`].
pub(crate) struct Shown {
    pub(crate) seed: u64,
    pub(crate) rules: Vec<RuleShown>,
    pub(crate) unmatched: BTreeMap<String, DirectionCounters>,
    pub(crate) removed: EdgeCounters,
}

/// Returns the paths through a sky that these rules have.
fn vias(rules: &Rules) -> impl Iterator<Item = &Via> {
    let actions = rules
        .iter()
        .flat_map(|rule| Direction::BOTH.map(|way| rule.action(way)));
    actions.flatten().filter_map(Action::via)
}

fn handed(rule: &str, news: &Passed) -> impl Iterator<Item = Handover> {
    let ends = ["from", "to"].into_iter().zip(&news.handovers);
    ends.filter_map(move |(end, handover)| {
        let [from, to] = handover.clone()?;
        let end = format!("{rule}/{end}");
        Some(Handover { end, from, to })
    })
}

fn edge_effects(slot: Slot, direction: Direction, effects: Option<Effects>) -> EffectsChange {
    let (from, to) = slot.edge(direction);
    EffectsChange::Edge { from, to, effects }
}

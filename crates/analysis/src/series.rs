//! Per-pair path series: delay, hop count and changes of path, sample by sample.

use constel_topology::{NodeId, Snapshot};
use serde::Serialize;

use crate::interval::Interval;
use crate::paths::{LANES, Paths};
use constel_plan::{Lab, NodeNameError};

/// Points a series may hold in memory: 16 bytes each.
pub const MAX_POINTS: u64 = 200_000_000;

/// One pair at one sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Delay of the least-delay path at the sample, nanoseconds; `None` without a path.
    pub delay_ns: Option<std::num::NonZeroU64>,
    /// Links of the path; 0 without one.
    pub hops: u16,
    /// The path has other nodes than at the sample before, or a path appeared or disappeared. False at the
    /// first sample.
    pub changed: bool,
}

/// Statistics of a pair's samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// Samples.
    pub samples: u64,
    /// Samples with a path.
    pub with_path: u64,
    /// Least delay, one way, nanoseconds; null when there never is a path.
    pub delay_min_ns: Option<u64>,
    /// Mean delay of the samples with a path, nanoseconds.
    pub delay_mean_ns: Option<f64>,
    /// Greatest delay, nanoseconds.
    pub delay_max_ns: Option<u64>,
    /// Fewest links.
    pub hops_min: Option<u16>,
    /// Most links.
    pub hops_max: Option<u16>,
    /// How often the path changed from one sample to the next.
    pub changes: u64,
}

/// Paths of some pairs over an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The sampled interval.
    pub interval: Interval,
    /// The pairs: from, to.
    pub pairs: Vec<(NodeId, NodeId)>,
    /// By pair.
    pub summaries: Vec<Summary>,
    /// By sample, then by pair; empty when only summaries were requested.
    pub points: Vec<Point>,
}

/// Why there is no series.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    /// Too much to hold.
    #[error(
        "{pairs} pairs at {samples} samples are more than {MAX_POINTS} points; sample less often, or ask for the summary only"
    )]
    TooMany {
        /// Pairs.
        pairs: usize,
        /// Samples.
        samples: u64,
    },
    /// A node does not exist, or the text cannot be read as two of them, or in several ways.
    #[error("`{text}` is not a pair of nodes: {}", .unknown.as_ref().map_or_else(
        || "write A-B or A:B".to_owned(),
        ToString::to_string,
    ))]
    NoPair {
        /// The text.
        text: String,
        /// The name in it that is no node's; `None` if both are unknown.
        unknown: Option<NodeNameError>,
    },
    /// Several ways to read it.
    #[error("`{0}` can be read as more than one pair of nodes: write A:B")]
    Ambiguous(String),
    /// A node with itself.
    #[error("`{0}` pairs a node with itself")]
    Same(String),
}

/// Reads `all` (every two ground stations, once) or a list such as `london-new-york,tokyo:sydney`.
///
/// # Errors
/// The first invalid pair.
pub fn parse_pairs(lab: &Lab, text: &str) -> Result<Vec<(NodeId, NodeId)>, SeriesError> {
    if text == "all" {
        let ground: Vec<NodeId> = lab.layout.endpoints().map(|n| n.id).collect();
        let later = |(i, &a): (usize, &NodeId)| {
            ground[i + 1..]
                .iter()
                .map(move |&b| (a, b))
                .collect::<Vec<_>>()
        };
        return Ok(ground.iter().enumerate().flat_map(later).collect());
    }
    text.split(',')
        .map(|pair| parse_pair(lab, pair.trim()))
        .collect()
}

fn parse_pair(lab: &Lab, text: &str) -> Result<(NodeId, NodeId), SeriesError> {
    let read = |(at, separator): (usize, &str)| {
        let (a, b) = (&text[..at], &text[at + separator.len()..]);
        Some((lab.find(a).ok()?, lab.find(b).ok()?))
    };
    // Names may have hyphens themselves: the cut that gives two names is the right one.
    let cuts = text.match_indices([':', '-']);
    let found: Vec<_> = cuts.clone().filter_map(read).collect();
    // The longest name that is a node's divides the text; a colon divides it in any case.
    let half = |(at, separator): (usize, &str)| {
        let (a, b) = (&text[..at], &text[at + separator.len()..]);
        let colon = separator == ":";
        match (lab.find(a), lab.find(b)) {
            (Ok(_), Err(unknown)) => Some((a.len(), unknown)),
            (Err(unknown), Ok(_)) => Some((b.len(), unknown)),
            (Err(unknown), Err(_)) if colon => Some((0, unknown)),
            _ => None,
        }
    };
    match found[..] {
        [] => Err(SeriesError::NoPair {
            text: text.to_owned(),
            unknown: cuts
                .filter_map(half)
                .max_by_key(|(known, _)| *known)
                .map(|(_, unknown)| unknown),
        }),
        [(a, b)] if a == b => Err(SeriesError::Same(text.to_owned())),
        [pair] => Ok(pair),
        _ => Err(SeriesError::Ambiguous(text.to_owned())),
    }
}

impl Series {
    /// Paths of `pairs` at every sample, computed by up to `threads` threads; their number does not change the
    /// result. With `keep` false only the summaries.
    ///
    /// # Errors
    /// [`SeriesError::TooMany`].
    pub fn new(
        lab: &Lab,
        interval: Interval,
        pairs: Vec<(NodeId, NodeId)>,
        keep: bool,
        threads: usize,
    ) -> Result<Self, SeriesError> {
        Self::with_changes(lab, interval, pairs, keep, threads, lab.at_start())
    }

    /// Returns the series as [`Series::new`] does, of another topology: `change` returns the one in place of a sample's,
    /// in which no member of a network is absent, or `None` to keep it.
    ///
    /// # Errors
    /// [`SeriesError::TooMany`].
    pub fn with_changes(
        lab: &Lab,
        interval: Interval,
        pairs: Vec<(NodeId, NodeId)>,
        keep: bool,
        threads: usize,
        change: impl Fn(&Snapshot) -> Option<Snapshot> + Sync,
    ) -> Result<Self, SeriesError> {
        let samples = interval.samples();
        if keep && samples.saturating_mul(pairs.len() as u64) > MAX_POINTS {
            return Err(SeriesError::TooMany {
                pairs: pairs.len(),
                samples,
            });
        }
        // Pairs in order of their destination, so that each destination's distances are found once.
        let mut by_destination: Vec<usize> = (0..pairs.len()).collect();
        by_destination.sort_by_key(|&p| pairs[p].1);
        let mut parts = interval.fold_changed(
            lab,
            threads,
            || SeriesPart::new(pairs.len(), keep),
            change,
            |part, _, snapshot| {
                part.paths.load(&lab.layout, snapshot);
                if part.paths.lanes() == LANES {
                    part.look(&pairs, &by_destination);
                }
            },
        );
        for part in &mut parts {
            part.look(&pairs, &by_destination);
        }
        Ok(join(interval, pairs, parts))
    }
}

const NOTHING: Point = Point {
    delay_ns: None,
    hops: 0,
    changed: false,
};

/// No node.
const NONE: u32 = u32::MAX;

/// One part of the walk.
struct SeriesPart {
    paths: Paths,
    tallies: Vec<Tally>,
    /// Nodes of each pair's path at the sample before; empty without a path.
    last: Vec<Vec<u32>>,
    first: Vec<Vec<u32>>,
    points: Vec<Point>,
    /// Whether points are wanted.
    keep: bool,
}

/// A summary in the making.
#[derive(Clone, Copy, Default)]
struct Tally {
    samples: u64,
    with_path: u64,
    delay_ns: (u64, u128, u64),
    hops: (u16, u16),
    changes: u64,
    /// The path at the last sample: its number of nodes, and the second of them.
    nodes: usize,
    first_hop: u32,
}

impl SeriesPart {
    fn new(pairs: usize, keep: bool) -> Self {
        let tally = Tally {
            first_hop: NONE,
            ..Tally::default()
        };
        Self {
            paths: Paths::default(),
            tallies: vec![tally; pairs],
            last: vec![Vec::new(); pairs],
            first: vec![Vec::new(); pairs],
            points: Vec::new(),
            keep,
        }
    }

    /// Evaluates the loaded samples, and makes room for the next ones.
    fn look(&mut self, pairs: &[(NodeId, NodeId)], by_destination: &[usize]) {
        let lanes = self.paths.lanes();
        let base = self.points.len();
        if self.keep {
            self.points.resize(base + lanes * pairs.len(), NOTHING);
        }
        let (mut slot, mut aimed) = (0, None);
        for &p in by_destination.iter().filter(|_| lanes > 0) {
            let (from, to) = pairs[p];
            if aimed != Some(to) {
                slot += usize::from(aimed.is_some());
                self.paths.aim(slot, to);
                aimed = Some(to);
            }
            let (tally, last) = (&mut self.tallies[p], &mut self.last[p]);
            if let Some(delays) = self.paths.unchanged(from, tally.first_hop) {
                for (lane, delay_ns) in delays[..lanes].iter().enumerate() {
                    let point = tally.take(*delay_ns, tally.nodes, false);
                    if self.keep {
                        self.points[base + lane * pairs.len() + p] = point;
                    }
                }
                continue;
            }
            let first = &mut self.first[p];
            self.paths.trace(from, |run, delays, nodes| {
                let mut changed = tally.samples > 0 && last != nodes;
                if tally.samples == 0 {
                    first.extend_from_slice(nodes);
                }
                if tally.samples == 0 || changed {
                    last.clear();
                    last.extend_from_slice(nodes);
                    tally.nodes = nodes.len();
                    tally.first_hop = nodes.get(1).map_or(NONE, |node| *node);
                }
                for lane in run {
                    let point = tally.take(delays[lane], nodes.len(), changed);
                    if self.keep {
                        self.points[base + lane * pairs.len() + p] = point;
                    }
                    changed = false;
                }
            });
        }
        self.paths.clear();
    }
}

impl Tally {
    /// Adds one sample: the delay, and the number of nodes of the path; none when there is no path.
    fn take(&mut self, delay_ns: f64, nodes: usize, changed: bool) -> Point {
        self.samples += 1;
        self.changes += u64::from(changed);
        let Some(links) = nodes.checked_sub(1) else {
            return Point { changed, ..NOTHING };
        };
        // Whole and below 2^53.
        let delay_ns = delay_ns as u64;
        let hops = u16::try_from(links).unwrap_or(u16::MAX);
        if self.with_path == 0 {
            (self.delay_ns, self.hops) = ((u64::MAX, 0, 0), (u16::MAX, 0));
        }
        self.with_path += 1;
        let (least, sum, most) = self.delay_ns;
        self.delay_ns = (
            least.min(delay_ns),
            sum + u128::from(delay_ns),
            most.max(delay_ns),
        );
        self.hops = (self.hops.0.min(hops), self.hops.1.max(hops));
        Point {
            delay_ns: std::num::NonZeroU64::new(delay_ns),
            hops,
            changed,
        }
    }

    fn join(&mut self, later: &Self) {
        self.samples += later.samples;
        self.changes += later.changes;
        if later.with_path == 0 {
            return;
        }
        let (mine, theirs) = (self.delay_ns, later.delay_ns);
        if self.with_path == 0 {
            (self.delay_ns, self.hops) = (theirs, later.hops);
        } else {
            self.delay_ns = (
                mine.0.min(theirs.0),
                mine.1 + theirs.1,
                mine.2.max(theirs.2),
            );
            self.hops = (self.hops.0.min(later.hops.0), self.hops.1.max(later.hops.1));
        }
        self.with_path += later.with_path;
    }

    fn summary(&self) -> Summary {
        let some = self.with_path > 0;
        Summary {
            samples: self.samples,
            with_path: self.with_path,
            delay_min_ns: some.then_some(self.delay_ns.0),
            delay_mean_ns: some.then(|| self.delay_ns.1 as f64 / self.with_path as f64),
            delay_max_ns: some.then_some(self.delay_ns.2),
            hops_min: some.then_some(self.hops.0),
            hops_max: some.then_some(self.hops.1),
            changes: self.changes,
        }
    }
}

fn join(interval: Interval, pairs: Vec<(NodeId, NodeId)>, parts: Vec<SeriesPart>) -> Series {
    let mut tallies = vec![Tally::default(); pairs.len()];
    let mut last: Vec<Vec<u32>> = Vec::new();
    let mut points: Vec<Point> = Vec::new();
    for mut part in parts {
        for pair in 0..pairs.len() {
            // A part does not have the samples before it; here the two parts meet.
            if !last.is_empty() && last[pair] != part.first[pair] {
                part.tallies[pair].changes += 1;
                if let Some(point) = part.points.get_mut(pair) {
                    point.changed = true;
                }
            }
            tallies[pair].join(&part.tallies[pair]);
        }
        last = part.last;
        points.append(&mut part.points);
    }
    Series {
        interval,
        summaries: tallies.iter().map(Tally::summary).collect(),
        pairs,
        points,
    }
}

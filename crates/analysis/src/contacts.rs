//! The contact plan: which link exists from when to when, and how long it is.

use constel_link::PortId;
use constel_topology::{EdgeClass, NodeId, Snapshot};
use constel_units::TimeSpan;
use serde::Serialize;

use crate::interval::Interval;
use constel_plan::Lab;

/// One stretch of time in which a link carries frames.
///
/// Ranges and delays are the least and greatest of the samples within the contact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contact {
    /// The port with the lower number.
    pub a: PortId,
    /// The other.
    pub b: PortId,
    /// Node of `a`.
    pub a_node: NodeId,
    /// Node of `b`.
    pub b_node: NodeId,
    /// Kind of link.
    pub class: &'static EdgeClass,
    /// First instant, nanoseconds of lab time.
    pub from_ns: u64,
    /// End, nanoseconds of lab time; not part of the contact.
    pub to_ns: u64,
    /// Shortest distance between the ends, metres.
    pub range_min_m: f64,
    /// Longest distance, metres.
    pub range_max_m: f64,
    /// Least delay of one direction, nanoseconds.
    pub delay_min_ns: u64,
    /// Greatest delay of one direction, nanoseconds.
    pub delay_max_ns: u64,
}

/// All contacts of an interval.
#[derive(Debug, Clone, PartialEq)]
pub struct ContactPlan {
    /// The sampled interval.
    pub interval: Interval,
    /// In order of their start; equal starts in order of their ports.
    pub contacts: Vec<Contact>,
}

impl ContactPlan {
    /// The contacts of `interval`, computed by up to `threads` threads; their number does not change the result.
    pub fn new(lab: &Lab, interval: Interval, threads: usize) -> Self {
        let parts = interval.fold(
            lab,
            threads,
            ContactsPart::default,
            |part, sample, snapshot| {
                part.look(lab, &interval, sample, snapshot);
            },
        );
        let mut contacts: Vec<Contact> =
            parts.into_iter().flat_map(ContactsPart::contacts).collect();
        contacts.sort_unstable_by_key(|c| (c.a, c.b, c.from_ns));
        // Only where two parts of the walk meet can one contact end at the very instant at which the link's
        // next begins.
        contacts.dedup_by(|later, earlier| earlier.joined_by(later));
        contacts.sort_unstable_by_key(|c| (c.from_ns, c.a, c.b));
        Self { interval, contacts }
    }
}

impl Contact {
    /// Merges `later` into this contact when it is the continuation of the same link.
    fn joined_by(&mut self, later: &Self) -> bool {
        let same = (self.a, self.b, self.to_ns) == (later.a, later.b, later.from_ns);
        if same {
            self.to_ns = later.to_ns;
            self.range_min_m = self.range_min_m.min(later.range_min_m);
            self.range_max_m = self.range_max_m.max(later.range_max_m);
            self.delay_min_ns = self.delay_min_ns.min(later.delay_min_ns);
            self.delay_max_ns = self.delay_max_ns.max(later.delay_max_ns);
        }
        same
    }

    /// How long it lasts.
    pub fn length(&self) -> TimeSpan {
        // Lab time fits 63 bits: checked by `Interval`.
        TimeSpan::from_ns((self.to_ns - self.from_ns) as i64)
    }
}

/// Contacts seen in one part of the interval.
#[derive(Default)]
struct ContactsPart {
    /// Over within the part.
    closed: Vec<Contact>,
    /// By laser link, its latest contact; whether it continues is seen at its next sample.
    lasers: Vec<Option<Contact>>,
    /// The latest contacts of other links, in order of their ports: those there were at the last sample.
    others: Vec<Contact>,
    /// Always empty between two looks; memory for the next `others`.
    next: Vec<Contact>,
}

impl ContactsPart {
    fn look(&mut self, lab: &Lab, interval: &Interval, sample: u64, snapshot: &Snapshot) {
        let (t_ns, end_ns) = (snapshot.t_ns, interval.end_of(sample));
        let layout = &lab.layout;
        self.lasers.resize(layout.isl_links().len(), None);
        let mut others = self.others.drain(..).peekable();
        for edge in &snapshot.edges {
            // Both directions of a link are edges; one of them represents it.
            if edge.from > edge.to || edge.impairment.up_from_ns >= end_ns {
                continue;
            }
            let key = (edge.from, edge.to);
            let (a_node, b_node) = (layout.port(edge.from).node, layout.port(edge.to).node);
            let positions = &snapshot.positions_itrf_m;
            let range_m = positions[a_node.index()].distance(positions[b_node.index()]);
            let delay_ns = edge.impairment.delay.delay_ns;
            let from_ns = edge.impairment.up_from_ns.max(t_ns);
            let now = Contact {
                a: edge.from,
                b: edge.to,
                a_node,
                b_node,
                class: edge.class,
                from_ns,
                to_ns: end_ns,
                range_min_m: range_m,
                range_max_m: range_m,
                delay_min_ns: delay_ns,
                delay_max_ns: delay_ns,
            };
            // Most links are lasers, and most of them continue: their contacts stay where they are.
            if let Some(link) = layout.isl_of_port(edge.from) {
                let latest = &mut self.lasers[link.number as usize];
                let goes_on = latest.as_mut().is_some_and(|c| c.joined_by(&now));
                if !goes_on {
                    self.closed.extend(latest.replace(now));
                }
                continue;
            }
            while let Some(gone) = others.next_if(|c| (c.a, c.b) < key) {
                self.closed.push(gone);
            }
            let known = others.next_if(|c| (c.a, c.b) == key);
            // A link that comes back after an outage inside the sample is a contact of its own.
            let mut contact = known.unwrap_or(now);
            if known.is_some() && !contact.joined_by(&now) {
                self.closed.push(contact);
                contact = now;
            }
            self.next.push(contact);
        }
        self.closed.extend(others);
        std::mem::swap(&mut self.others, &mut self.next);
    }

    /// All contacts, in no order.
    fn contacts(self) -> impl Iterator<Item = Contact> {
        let lasers = self.lasers.into_iter().flatten();
        self.closed.into_iter().chain(lasers).chain(self.others)
    }
}

/// A contact as scripts read it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContactRow<'a> {
    /// Lab time of its first instant, seconds.
    pub from_s: f64,
    /// Lab time of its end, seconds.
    pub to_s: f64,
    /// `isl` or `gsl`.
    pub kind: &'static str,
    /// One end's node.
    pub a_node: &'a str,
    /// Its interface.
    pub a_port: &'static str,
    /// The other end's node.
    pub b_node: &'a str,
    /// Its interface.
    pub b_port: &'static str,
    /// Shortest distance of the samples, metres.
    pub range_min_m: f64,
    /// Longest distance, metres.
    pub range_max_m: f64,
    /// Least delay of one direction, nanoseconds.
    pub delay_min_ns: u64,
    /// Greatest delay, nanoseconds.
    pub delay_max_ns: u64,
    /// The first end's name in a catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_catalogue_name: Option<&'a str>,
    /// The first end's catalogue number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a_norad_id: Option<u64>,
    /// The other end's name in a catalogue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_catalogue_name: Option<&'a str>,
    /// The other end's catalogue number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b_norad_id: Option<u64>,
}

impl ContactPlan {
    /// Column names of [`ContactRow::csv`].
    pub const CSV_HEADER: &str = "from_s,to_s,kind,a_node,a_port,b_node,b_port,range_min_m,range_max_m,delay_min_ns,delay_max_ns";

    /// Further columns of labs with satellites of catalogues.
    pub const CSV_CATALOGUED: &str = ",a_catalogue_name,a_norad_id,b_catalogue_name,b_norad_id";

    /// The contacts with names, in order.
    pub fn rows<'a>(&'a self, lab: &'a Lab) -> impl Iterator<Item = ContactRow<'a>> {
        let name = |node| lab.catalogue.of(node)?.catalogue_name.as_deref();
        let number = |node| lab.catalogue.of(node)?.norad_id;
        self.contacts.iter().map(move |c| ContactRow {
            from_s: c.from_ns as f64 / 1e9,
            to_s: c.to_ns as f64 / 1e9,
            kind: c.class.name,
            a_node: &lab.layout.node(c.a_node).name,
            a_port: lab.layout.port(c.a).name(),
            b_node: &lab.layout.node(c.b_node).name,
            b_port: lab.layout.port(c.b).name(),
            range_min_m: c.range_min_m,
            range_max_m: c.range_max_m,
            delay_min_ns: c.delay_min_ns,
            delay_max_ns: c.delay_max_ns,
            a_catalogue_name: name(c.a_node),
            a_norad_id: number(c.a_node),
            b_catalogue_name: name(c.b_node),
            b_norad_id: number(c.b_node),
        })
    }
}

impl ContactRow<'_> {
    /// One line of CSV, without its end. Names hold no commas: the scenario's rules for names.
    pub fn csv(&self) -> String {
        format!(
            "{},{},{},{},{},{},{},{:.3},{:.3},{},{}",
            self.from_s,
            self.to_s,
            self.kind,
            self.a_node,
            self.a_port,
            self.b_node,
            self.b_port,
            self.range_min_m,
            self.range_max_m,
            self.delay_min_ns,
            self.delay_max_ns
        )
    }

    /// Returns the columns of [`ContactPlan::CSV_CATALOGUED`] for the line.
    pub fn csv_catalogued(&self) -> String {
        let end = |name: Option<&str>, number: Option<u64>| {
            // Names in catalogues may have any characters.
            let name = name.map_or_else(String::new, |n| format!("\"{}\"", n.replace('"', "\"\"")));
            let number = number.map_or_else(String::new, |n| n.to_string());
            format!(",{name},{number}")
        };
        end(self.a_catalogue_name, self.a_norad_id) + &end(self.b_catalogue_name, self.b_norad_id)
    }
}

//! A box's rules: values that are no quantities, what does not go together, and paths in the link plane's terms.

use std::num::NonZeroU64;

use constel_link::{Delay, Impairment, Loss, QueueLimit};
use constel_rules::{Action, Interface, Match, Path, Prefix, Rule, Rules, Via, shadowed, words};
use constel_units::{DataRate, DataSize, TimeSpan};

use super::inputs::Inputs;
use super::link::path_effects;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::files::Files;
use crate::model::RuleFile;
use crate::parse::{Document, read, text_of};
use crate::raw::{
    Name, OneOrMore, PassOrDrop, RawAction, RawLink, RawMatch, RawPath, RawPlace, RawRule,
    RawRuleFile, RawVia, SkyName,
};
use crate::schema::RULES;
use crate::walk::Seg::{self, Index, Key};

/// Reads a file of rules of a box: form, values, and the files it names.
///
/// # Errors
/// Everything that is wrong with its form; where that is nothing but unknown keys of matches, with its values too.
pub fn read_rules(
    file_name: &str,
    bytes: &[u8],
    files: &dyn Files,
) -> Result<RuleFile, Diagnostics> {
    let text = text_of(file_name, bytes)?;
    let (mut raw, document, mut errors): (RawRuleFile, Document, _) =
        read(file_name, text, &RULES)?;
    let mut inputs = Inputs::new(&document, files);
    let place = Place(&["rules"]);
    let rules = place.rules(&document, &mut raw.rules, &mut inputs, &mut errors);
    let inputs = inputs.finish();
    errors.or(())?;
    let warnings = place.warnings(&document, &rules);
    Ok(RuleFile {
        seed: raw.seed,
        rules,
        raw: raw.rules,
        inputs,
        warnings,
        source: document.source().clone(),
    })
}

/// Where rules stand in a document.
#[derive(Clone, Copy)]
pub(super) struct Place(pub(super) &'static [&'static str]);

impl Place {
    fn of(self, index: usize) -> Vec<Seg<'static>> {
        let keys = self.0.iter().map(|key| Key(key));
        keys.chain([Index(index)]).collect()
    }

    /// The rules that stand there; they are given names where they have none.
    pub(super) fn rules(
        self,
        document: &Document,
        raw: &mut [RawRule],
        inputs: &mut Inputs<'_>,
        errors: &mut Diagnostics,
    ) -> Rules {
        self.name_all(document, raw, errors);
        let mut rules = Vec::with_capacity(raw.len());
        for (index, rule) in raw.iter().enumerate() {
            let mut reader = RuleReader {
                document,
                place: self.of(index),
                inputs: &mut *inputs,
                errors: &mut *errors,
            };
            rules.push(reader.rule(rule));
        }
        // The form has no more than there can be.
        Rules::new(rules).unwrap_or_default()
    }

    /// Gives rules without a name theirs, and finds names given twice.
    fn name_all(self, document: &Document, rules: &mut [RawRule], errors: &mut Diagnostics) {
        let mut known: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
        for (place, rule) in rules.iter_mut().enumerate() {
            let name = match &rule.name {
                Some(name) => name.to_string(),
                None => format!("rule-{}", place + 1),
            };
            let Some(before) = known.insert(name.clone(), place) else {
                rule.name = rule.name.clone().or_else(|| name.parse::<Name>().ok());
                continue;
            };
            let at = [self.of(place), vec![Key("name")]].concat();
            let line = document.place(&self.of(before), false).line;
            let message = format!("two rules are called `{name}`");
            let error = document.error_at(&at, "duplicate-name", message);
            errors.push(error.with_reason(format!("the other one is at line {line}")));
        }
    }

    /// Interfaces that rules name and the box has not.
    pub(super) fn interfaces(
        self,
        document: &Document,
        (rules, names, routes): (&Rules, &[String], bool),
        errors: &mut Diagnostics,
    ) {
        for odd in rules.odd_interfaces(names, routes) {
            let at = [self.of(odd.rule), vec![Key("match"), Key(odd.key)]].concat();
            let message = format!("`{}: {}` takes nothing", odd.key, odd.interface);
            let error = document.error_at(&at, "no-interface", message);
            errors.push(error.with_reason(odd.why));
        }
    }

    /// Rules that are never reached.
    pub(super) fn warnings(self, document: &Document, rules: &Rules) -> Vec<Diagnostic> {
        let name = |place: usize| rules.get(place).map_or("", |rule| rule.name.as_str());
        let shadows = shadowed(rules);
        let mut warnings = Vec::new();
        for both in shadows.chunk_by(|a, b| (a.rule, a.by) == (b.rule, b.by)) {
            let shadow = both[0];
            let line = document.place(&self.of(shadow.by), false).line;
            let way = match (both.len(), rules.get(shadow.rule)) {
                (1, Some(rule)) if rule.forward.is_some() && rule.reverse.is_some() => {
                    format!(" {}", shadow.direction.as_str())
                }
                _ => String::new(),
            };
            let message = format!("rule `{}` is never reached{way}", name(shadow.rule));
            let warning = document
                .error_at(&self.of(shadow.rule), "shadowed", message)
                .with_reason(format!(
                    "rule `{}`, at line {line}, takes all frames that it would take",
                    name(shadow.by)
                ))
                .with_suggestion("put the narrower rule before the wider one");
            warnings.push(warning);
        }
        warnings
    }
}

/// What reading one rule needs.
struct RuleReader<'a, 'i> {
    document: &'a Document,
    place: Vec<Seg<'static>>,
    inputs: &'a mut Inputs<'i>,
    errors: &'a mut Diagnostics,
}

/// One key of a match: what its values are, in words.
struct Values {
    key: &'static str,
    what: &'static str,
    allowed: &'static str,
}

impl RuleReader<'_, '_> {
    fn at<'p>(&self, keys: &[&'p str]) -> Vec<Seg<'p>> {
        let keys = keys.iter().map(|key| Key(key));
        self.place.iter().copied().chain(keys).collect()
    }

    fn rule(&mut self, raw: &RawRule) -> Rule {
        let matching = self.matching(&raw.matching);
        let both = raw.both.as_ref();
        for (key, action) in [("forward", &raw.forward), ("reverse", &raw.reverse)] {
            if both.is_some() && action.is_some() {
                let message = format!("`both` and `{key}` cannot be given together");
                let error = self
                    .document
                    .error_at_key(&self.at(&[key]), "choose-one", message)
                    .with_suggestion("give `forward` and `reverse`");
                self.errors.push(error);
            }
        }
        let mut action = |key, raw: Option<&RawAction>| raw.map(|raw| self.action(key, raw));
        let both = action("both", both);
        let forward = action("forward", raw.forward.as_ref()).or_else(|| both.clone());
        let reverse = action("reverse", raw.reverse.as_ref()).or(both);
        if forward.is_none() && reverse.is_none() {
            let error = self
                .document
                .error_at(
                    &self.at(&[]),
                    "choose-one",
                    "one of `both`, `forward`, `reverse` is missing",
                )
                .with_reason("a rule says what happens to its frames")
                .with_suggestion("add `both: pass`, `both: drop` or `both: {delay: 100 ms}`");
            self.errors.push(error);
        }
        Rule {
            name: raw
                .name
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            matching,
            forward,
            reverse,
        }
    }

    fn matching(&mut self, raw: &RawMatch) -> Match {
        let before = self.errors.len();
        let matching = Match {
            input: self.interfaces("in", &raw.input),
            output: self.interfaces("out", &raw.output),
            src: self.prefixes("src", &raw.src),
            dst: self.prefixes("dst", &raw.dst),
            protocol: self.values(
                &Values {
                    key: "protocol",
                    what: "a protocol",
                    allowed: "one of `icmp`, `icmpv6`, `tcp`, `udp`, `sctp`, `dccp`, `udplite`, `gre`, `esp`, `ah`, `ospf`, `igmp`, `ipip`, `ipv6`, or a number from 0 to 255",
                },
                &raw.protocol,
                words::protocol,
            ),
            sport: self.ports("sport", &raw.sport),
            dport: self.ports("dport", &raw.dport),
            class: self.classes(raw),
            vlan: self.values(
                &Values {
                    key: "vlan",
                    what: "a VLAN",
                    allowed: "0 to 4095, or `untagged`",
                },
                &raw.vlan,
                words::vlan,
            ),
            mac: self.macs("mac", &raw.mac),
            smac: self.macs("smac", &raw.smac),
            dmac: self.macs("dmac", &raw.dmac),
            ethertype: self.values(
                &Values {
                    key: "ethertype",
                    what: "an EtherType",
                    allowed: "a name such as `arp`, or a number from 0 to 0xffff",
                },
                &raw.ethertype,
                words::ethertype,
            ),
        };
        if self.errors.len() == before {
            self.contradictions(&matching);
        }
        matching
    }

    fn interfaces(&mut self, key: &'static str, raw: &OneOrMore) -> Vec<Interface> {
        let values = Values {
            key,
            what: "an interface",
            allowed: "a name of at most 15 bytes such as `eth1`",
        };
        self.values(&values, raw, Interface::named)
    }

    fn prefixes(&mut self, key: &'static str, raw: &OneOrMore) -> Vec<Prefix> {
        let mut prefixes = Vec::new();
        for (n, text) in raw.0.iter().enumerate() {
            match text.parse::<Prefix>() {
                Ok(prefix) => prefixes.push(prefix),
                Err(why) => self.bad_value(key, n, raw, "a block of addresses", &why.to_string()),
            }
        }
        prefixes
    }

    fn ports(&mut self, key: &'static str, raw: &OneOrMore) -> Vec<std::ops::RangeInclusive<u16>> {
        let values = Values {
            key,
            what: "a port",
            allowed: "0 to 65535, or a range such as `5000-5010`",
        };
        self.values(&values, raw, words::ports)
    }

    fn macs(&mut self, key: &'static str, raw: &OneOrMore) -> Vec<[u8; 6]> {
        let values = Values {
            key,
            what: "an Ethernet address",
            allowed: "six bytes such as `02:00:00:00:00:01`",
        };
        self.values(&values, raw, words::mac)
    }

    fn classes(&mut self, raw: &RawMatch) -> Vec<constel_rules::TrafficClass> {
        let dscp = Values {
            key: "dscp",
            what: "a DSCP",
            allowed: "a name such as `ef` or `af41`, or a number from 0 to 63",
        };
        let whole = Values {
            key: "traffic_class",
            what: "a traffic class",
            allowed: "0 to 255, or 0x00 to 0xff",
        };
        if !raw.dscp.is_empty() && !raw.traffic_class.is_empty() {
            let at = self.at(&["match", "traffic_class"]);
            let message = "`dscp` and `traffic_class` cannot be given together";
            let error = self.document.error_at_key(&at, "choose-one", message);
            self.errors
                .push(error.with_reason("both are of the same byte"));
        }
        let mut classes = self.values(&dscp, &raw.dscp, words::dscp);
        classes.extend(self.values(&whole, &raw.traffic_class, words::traffic_class));
        classes
    }

    fn values<T>(
        &mut self,
        of: &Values,
        raw: &OneOrMore,
        read: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        let mut values = Vec::new();
        for (n, text) in raw.0.iter().enumerate() {
            match read(text) {
                Some(value) => values.push(value),
                None => self.bad_value(
                    of.key,
                    n,
                    raw,
                    of.what,
                    &format!("{} is expected", of.allowed),
                ),
            }
        }
        values
    }

    fn bad_value(&mut self, key: &str, n: usize, raw: &OneOrMore, what: &str, why: &str) {
        let mut at = self.at(&["match", key]);
        if raw.0.len() > 1 {
            at.push(Index(n));
        }
        let text = raw.0.get(n).map_or("", String::as_str);
        let message = format!("`{text}` is not {what}");
        let error = self.document.error_at(&at, "bad-value", message);
        self.errors.push(error.with_reason(why));
    }

    /// A match that no frame can meet.
    fn contradictions(&mut self, of: &Match) {
        let ip = |kind: &u16| matches!(kind, 0x0800 | 0x86dd);
        let packets = !of.src.is_empty()
            || !of.dst.is_empty()
            || !of.protocol.is_empty()
            || !of.class.is_empty();
        let ports = !of.sport.is_empty() || !of.dport.is_empty();
        let kinds = &of.ethertype;
        if (packets || ports) && !kinds.is_empty() && !kinds.iter().any(ip) {
            self.never(
                "ethertype",
                "addresses, protocols, classes and ports are those of IP",
            );
        }
        let with_ports = |p: &u8| [6, 17, 33, 132, 136].contains(p);
        if ports && !of.protocol.is_empty() && !of.protocol.iter().any(with_ports) {
            self.never(
                "protocol",
                "only tcp, udp, sctp, dccp and udplite have ports",
            );
        }
        let family =
            |of: &[Prefix], four: bool| of.is_empty() || of.iter().any(|p| p.is_ipv4() == four);
        let kind = |number: u16| kinds.is_empty() || kinds.contains(&number);
        let four = family(&of.src, true) && family(&of.dst, true) && kind(0x0800);
        let six = family(&of.src, false) && family(&of.dst, false) && kind(0x86dd);
        if (!of.src.is_empty() || !of.dst.is_empty()) && !four && !six {
            let key = if of.src.is_empty() { "dst" } else { "src" };
            self.never(key, "no packet is of IPv4 and of IPv6");
        } else {
            self.other_family(of, four, six);
        }
    }

    /// The control messages of one IP where the rule is about the other alone: a mistake even beside protocols that both have.
    fn other_family(&mut self, of: &Match, four: bool, six: bool) {
        for (own, about, other, instead, given) in [
            ("icmp", four, "IPv6", "icmpv6", 1),
            ("icmpv6", six, "IPv4", "icmp", 58),
        ] {
            let Some(n) = of
                .protocol
                .iter()
                .position(|p| *p == given)
                .filter(|_| !about)
            else {
                continue;
            };
            let mut at = self.at(&["match", "protocol"]);
            if of.protocol.len() > 1 {
                at.push(Index(n));
            }
            let message = format!("`{own}` is not spoken over {other}, which this rule is about");
            let error = self.document.error_at(&at, "never", message);
            self.errors
                .push(error.with_suggestion(format!("write `{instead}`")));
        }
    }

    fn never(&mut self, key: &str, why: &str) {
        let at = self.at(&["match", key]);
        let error = self
            .document
            .error_at(&at, "never", "no frame can be what this rule asks for")
            .with_reason(why);
        self.errors.push(error);
    }

    fn action(&mut self, key: &str, raw: &RawAction) -> Action {
        match raw {
            RawAction::Word(PassOrDrop::Pass) => Action::Pass,
            RawAction::Word(PassOrDrop::Drop) => Action::Drop,
            RawAction::Path(path) => Action::Path(Box::new(self.path(key, path))),
        }
    }

    fn path(&mut self, way: &str, raw: &RawPath) -> Path {
        let no_effect = |reader: &mut Self, key: &str, with: &str, why: &str| {
            if reader.document.is_written(&reader.at(&[way, key])) {
                let message = format!("`{key}` has no effect {with}");
                let error = reader
                    .document
                    .error_at_key(&reader.at(&[way, key]), "no-effect", message)
                    .with_reason(why)
                    .with_suggestion(format!("remove `{key}`"));
                reader.errors.push(error);
            }
        };
        if raw.preset.is_some() {
            no_effect(self, "delay", "with `preset`", "both say the delay");
            if raw.delay_trace.is_some() {
                let why = "the recording is the whole delay";
                no_effect(self, "preset", "with `delay_trace`", why);
            }
        }
        if raw.via.is_some() {
            for key in ["delay", "preset", "delay_trace"] {
                no_effect(self, key, "with `via`", "the sky says the delay");
            }
        }
        if raw.rate_law.is_some() {
            no_effect(self, "rate", "with `rate_law`", "the law says the rate");
        } else if raw.rate.is_none() {
            for key in ["queue", "queue_frames", "aqm", "overhead"] {
                no_effect(
                    self,
                    key,
                    "without `rate`",
                    "frames wait only where sending takes time",
                );
            }
        }
        let link = as_link(raw);
        let at = self.at(&[way]);
        let effects = path_effects(self.document, &at, &link, self.inputs, self.errors);
        let radio = raw.via.as_ref().is_some_and(|via| via.radio.is_some());
        if radio && raw.rate.is_none() {
            let message = "`radio` has an effect only with `rate`";
            let at = self.at(&[way, "via", "radio"]);
            let error = self.document.error_at_key(&at, "no-effect", message);
            self.errors.push(
                error
                    .with_reason("what the radio leaves room for bounds the path's own rate")
                    .with_suggestion("give `rate`: the most that the terminals carry"),
            );
        }
        let via = raw.via.as_ref().map(|via| self.via(way, via));
        let paced = raw.rate.is_some() || raw.rate_law.is_some();
        Path {
            impairment: Impairment {
                delay: Delay::constant(raw.delay_of().ns().unsigned_abs()),
                rate_bps: NonZeroU64::new(link.rate.bps()).filter(|_| paced),
                queue: QueueLimit {
                    bytes: if paced { link.queue.bytes() } else { 0 },
                },
                loss: match raw.loss.get() {
                    loss_ratio if loss_ratio > 0.0 => Loss::Bernoulli { loss_ratio },
                    _ => Loss::None,
                },
                ..Impairment::delay_only(0)
            },
            via,
            effects,
        }
    }

    fn via(&mut self, way: &str, raw: &RawVia) -> Via {
        let relays = matches!(raw.constellation, SkyName::Meo | SkyName::Geo);
        let slot = self.at(&[way, "via", "orbital_slot"]);
        match (raw.constellation, raw.orbital_slot) {
            (SkyName::Geo, None) => {
                let message = "`orbital_slot` is missing";
                let error = self.document.error_at(&slot, "missing-key", message);
                self.errors
                    .push(error.with_reason("it says where the satellite of `geo` stands"));
            }
            (SkyName::Geo, Some(_)) | (_, None) => {}
            (_, Some(_)) => {
                let message = "`orbital_slot` has an effect only with `constellation: geo`";
                let error = self.document.error_at_key(&slot, "no-effect", message);
                self.errors.push(error);
            }
        }
        if raw.from == raw.to {
            let message = "`from` and `to` are the same place";
            let at = self.at(&[way, "via", "to"]);
            self.errors
                .push(self.document.error_at(&at, "same-node", message));
        }
        let rain = self.rain(way, raw);
        let place = |of: &RawPlace| constel_rules::Place {
            latitude_deg: of.latitude.deg(),
            longitude_deg: of.longitude.deg(),
        };
        let lowest_deg = if relays { 5.0 } else { 25.0 };
        Via {
            sky: raw.constellation.as_str().to_owned(),
            orbital_slot_deg: raw.orbital_slot.map(|angle| angle.deg()),
            from: place(&raw.from),
            to: place(&raw.to),
            at_unix_ns: raw.at.map(|at| at.unix_ns()),
            min_elevation_deg: raw.min_elevation.map_or(lowest_deg, |angle| angle.deg()),
            outage_ns: raw.outage.ns().unsigned_abs(),
            // What was read is written as it was.
            radio: raw
                .radio
                .as_ref()
                .and_then(|radio| serde_json::to_string(radio).ok()),
            rain_mm_per_h: rain,
        }
    }

    /// Rain at both ends, with what is wrong with it and with the radio.
    fn rain(&mut self, way: &str, raw: &RawVia) -> [f64; 2] {
        if let Some(radio) = &raw.radio {
            let at = self.at(&[way, "via", "radio"]);
            super::radio::radio(radio, |key, code, message, why, allowed| {
                let at: Vec<Seg<'_>> = at.iter().copied().chain([Key(key)]).collect();
                let error = self.document.error_at(&at, code, message);
                let error = error.with_allowed(allowed.iter().copied());
                self.errors.push(match why {
                    "" => error,
                    why => error.with_reason(why),
                });
            });
        } else if raw.rain.is_some() {
            let at = self.at(&[way, "via", "rain"]);
            let message = "`rain` has an effect only with `radio`";
            let error = self.document.error_at_key(&at, "no-effect", message);
            self.errors.push(
                error.with_suggestion("say what the radio is, as `gsl.radio` of a scenario does"),
            );
        }
        raw.rain
            .map_or([0.0; 2], |rain| [rain.from.mm_per_h(), rain.to.mm_per_h()])
    }
}

/// The keys that a path shares with a link.
fn as_link(raw: &RawPath) -> RawLink {
    RawLink {
        // With a law it is only nominal.
        rate: raw.rate.unwrap_or(DataRate::from_bps(1_000_000_000)),
        rate_law: raw.rate_law.clone(),
        mtu: DataSize::from_bytes(1500),
        overhead: raw.overhead,
        queue: raw.queue.unwrap_or(DataSize::from_bytes(128 * 1024)),
        queue_frames: raw.queue_frames,
        aqm: raw.aqm.clone(),
        loss: raw.loss,
        loss_law: raw.loss_law.clone(),
        extra_delay: TimeSpan::from_ns(0),
        delay_trace: raw.delay_trace.clone(),
        jitter: raw.jitter.clone(),
        reorder: raw.reorder.clone(),
        duplicate: raw.duplicate,
        corrupt: raw.corrupt,
    }
}

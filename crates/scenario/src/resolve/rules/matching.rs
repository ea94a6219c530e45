//! The match of a rule: values that are no quantities, and keys that exclude each other.

use constel_link::rules::{Interface, Match, Prefix, words};

use super::RuleReader;
use crate::raw::{OneOrMore, RawMatch};
use crate::walk::Seg::Index;

/// One key of a match: the allowed values, in words.
struct Values {
    key: &'static str,
    what: &'static str,
    allowed: &'static str,
}

impl RuleReader<'_, '_> {
    pub(super) fn matching(&mut self, raw: &RawMatch) -> Match {
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

    fn classes(&mut self, raw: &RawMatch) -> Vec<constel_link::rules::TrafficClass> {
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

    /// Reports control messages of one IP version in a rule that is about the other version alone: a mistake
    /// even beside protocols that both have.
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
}

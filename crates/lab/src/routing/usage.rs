//! The cost of routing daemons: processor time, memory and control packets, read from `/proc/<pid>`.
//!
//! Control packets are those that the node's own kernel sent, without ICMP (`/proc/<pid>/net/snmp` and `snmp6`):
//! OSPF and similar protocols use IP directly, forwarded packets are not counted there (since Linux 6.7), and the
//! link plane's fast path need not count. Nodes that sent TCP or UDP are excluded: the kernel counts their segments
//! singly but the packets that carry them in bundles, so that the difference is not the number of control packets.

use std::fs;
use std::io;

use constel_api::summary::DaemonsRow;
use constel_measure::quantiles::Quantiles;

/// Ticks per second of the times in `/proc/<pid>/stat`: `USER_HZ`, part of Linux's interface.
const TICKS_PER_S: f64 = 100.0;

/// The usage of one daemon.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    cpu_s: f64,
    private_bytes: u64,
    resident_bytes: u64,
    /// The number of control packets; `None` when the node sent TCP or UDP.
    control_packets: Option<u64>,
}

/// Summarises the usage of all daemons of a program; `None` without daemons.
pub(crate) fn row(
    when: &'static str,
    program: &'static str,
    usages: &[Usage],
) -> Option<DaemonsRow> {
    let quantiles = |get: fn(&Usage) -> f64| {
        let mut samples: Vec<f64> = usages.iter().map(get).collect();
        Quantiles::of(&mut samples)
    };
    Some(DaemonsRow {
        when: when.to_owned(),
        program: program.to_owned(),
        machine: None,
        count: usages.len(),
        cpu_total_s: usages.iter().map(|usage| usage.cpu_s).sum(),
        cpu_s: quantiles(|usage| usage.cpu_s)?,
        private_bytes: quantiles(|usage| usage.private_bytes as f64)?,
        resident_bytes: quantiles(|usage| usage.resident_bytes as f64)?,
        control_packets: Quantiles::of(
            &mut usages
                .iter()
                .filter_map(|usage| Some(usage.control_packets? as f64))
                .collect::<Vec<_>>(),
        ),
    })
}

impl Usage {
    /// Reads the usage of one process. `Ok(None)` when it has just ended.
    ///
    /// # Errors
    /// When a file in `/proc` has an unexpected format.
    pub(crate) fn of(pid: u32) -> io::Result<Option<Self>> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
        let files = (read("stat"), read("status"), read("net/snmp"));
        let (Ok(stat), Ok(status), Ok(snmp)) = files else {
            return Ok(None);
        };
        // Without IPv6 the file does not exist, and there are no such packets.
        let snmp6 = read("net/snmp6").unwrap_or_default();
        let usage = Self::parse(&stat, &status, &snmp, &snmp6);
        match usage {
            Some(usage) => Ok(Some(usage)),
            // A process that has ended and was not reaped has no memory values.
            None if !status.contains("RssAnon:") => Ok(None),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("/proc/{pid} is not as expected"),
            )),
        }
    }

    fn parse(stat: &str, status: &str, snmp: &str, snmp6: &str) -> Option<Self> {
        // The name in parentheses may contain anything; the numbers begin after the last parenthesis.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
        let user: f64 = fields.next()?.parse().ok()?;
        let system: f64 = fields.next()?.parse().ok()?;
        let kib = |key: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_ascii_whitespace().next()?.parse().ok()
        };
        let v4 = |protocol, field| snmp_field(snmp, protocol, field);
        let v6 = |key| snmp6_field(snmp6, key);
        let sent = v4("Ip:", "OutRequests")? + v6("Ip6OutRequests");
        let icmp = v4("Icmp:", "OutMsgs")? + v6("Icmp6OutMsgs");
        // `snmp` counts the TCP segments of both families.
        let others = v4("Tcp:", "OutSegs")? + v4("Udp:", "OutDatagrams")? + v6("Udp6OutDatagrams");
        Some(Self {
            cpu_s: (user + system) / TICKS_PER_S,
            private_bytes: kib("RssAnon:")? * 1024,
            resident_bytes: kib("VmRSS:")? * 1024,
            // Counters are read one after the other: packets that are sent in between must not make the difference
            // negative.
            control_packets: (others == 0).then(|| sent.saturating_sub(icmp)),
        })
    }
}

/// Returns a number of `/proc/net/snmp`, which has a line of names and a line of values per protocol.
fn snmp_field(text: &str, protocol: &str, field: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names
        .split_ascii_whitespace()
        .zip(values.split_ascii_whitespace());
    pairs.find(|(name, _)| *name == field)?.1.parse().ok()
}

/// Returns a number of `/proc/net/snmp6`, which has a name and a value per line; 0 when absent.
fn snmp6_field(text: &str, key: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(char::is_whitespace))
        .find(|(name, _)| *name == key)
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Ip: Forwarding DefaultTTL InReceives OutRequests OutDiscards
Ip: 1 64 900 120 0
Icmp: InMsgs OutMsgs
Icmp: 7 10
Tcp: ActiveOpens OutSegs
Tcp: 1 0
Udp: InDatagrams OutDatagrams
Udp: 3 0
";
    const SNMP6: &str = "Ip6InReceives                   \t50
Ip6OutRequests                  \t40
Icmp6OutMsgs                    \t9
Udp6OutDatagrams                \t0
";

    #[test]
    fn counts_control_packets_only_where_they_can_be_told() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 12 34 0 0 20 0 1 0 5 1 1 1";
        let status = "Name:\tbird\nVmRSS:\t    5000 kB\nRssAnon:\t     900 kB\n";
        let usage = Usage::parse(stat, status, SNMP, SNMP6).unwrap();
        let expected = Usage {
            cpu_s: 0.46,
            private_bytes: 900 * 1024,
            resident_bytes: 5000 * 1024,
            control_packets: Some((120 + 40) - (10 + 9)),
        };
        assert_eq!(usage, expected);
        let udp = SNMP6.replace("\t0", "\t1");
        let usage = Usage::parse(stat, status, SNMP, &udp).unwrap();
        assert_eq!(usage.control_packets, None);
        assert_eq!(Usage::parse(stat, "Name:\tbird\n", SNMP, SNMP6), None);
    }

    #[test]
    fn reads_this_process_and_no_dead_one() {
        let own = Usage::of(std::process::id()).unwrap().unwrap();
        assert!(own.resident_bytes >= own.private_bytes && own.private_bytes > 100_000);
        assert_eq!(Usage::of(u32::MAX).unwrap(), None);
        assert!(row("end", "bird", &[]).is_none());
        assert_eq!(row("end", "bird", &[own, own]).unwrap().count, 2);
    }
}

//! The transport of frames between the machines of a lab, as requested or as found by a test, and its consequences for the
//! MTU of the underlay.

use std::net::SocketAddr;

use constel_api::manifest::MachineTransportReport;
use constel_cluster::agent::{EthernetReach, Row, reaches};
use constel_cluster::underlay::{ETHER_TYPE, MachineTransport};
use constel_host::ethernet::HEADER_BYTES;
use constel_plan::Lab;

use super::lead::OnMachines;
use crate::error::Error;

/// The requested transport of frames between machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransportChoice {
    /// UDP.
    #[default]
    Udp,
    /// Raw Ethernet, or no lab.
    Ethernet,
    /// Raw Ethernet where it reaches between all machines with frames as long as the lab's, else UDP.
    Auto,
}

/// The chosen transport.
pub(super) struct Settled {
    pub(super) transport: MachineTransport,
    pub(super) between: MachineTransportReport,
    /// The reasons why the request cannot be met. Empty if it can.
    pub(super) against: Vec<String>,
}

/// Chooses the transport of frames. If raw Ethernet was requested, the machines exchange some test frames.
pub(super) fn settle(lab: &Lab, on: &OnMachines<'_>) -> Result<Settled, Error> {
    let names = on.asked.machines.all().iter();
    let names: Vec<String> = names.map(|machine| machine.name.clone()).collect();
    let row = |name: &String| on.rows.iter().find(|row| row.machine == *name);
    let rows: Vec<&Row> = names.iter().filter_map(row).collect();
    let mtus = lab.layout.ports().iter().map(|port| port.mtu_bytes);
    let frame_bytes = mtus.max().unwrap_or(0) as usize + HEADER_BYTES;
    let settled = |transport: MachineTransport, why: String, against: Vec<String>| {
        let mtu = rows.iter().filter_map(|row| row.mtu_bytes).min();
        let mtu_wanted = rows
            .iter()
            .map(|row| transport.mtu_for(frame_bytes, on.encrypted, is_v6(row)))
            .max();
        let between = MachineTransportReport {
            transport: transport.as_str().to_owned(),
            why,
            frame_bytes: frame_bytes as u64,
            mtu_wanted_bytes: mtu_wanted.unwrap_or(0) as u64,
            mtu_bytes: mtu.map(u64::from),
        };
        Ok(Settled {
            transport,
            between,
            against,
        })
    };
    if on.between == TransportChoice::Udp {
        return settled(
            MachineTransport::Udp,
            "nothing else was requested".to_owned(),
            Vec::new(),
        );
    }
    let mtu_wanted = MachineTransport::Ethernet.mtu_for(frame_bytes, on.encrypted, false);
    let mut against = unfit(&rows, frame_bytes, mtu_wanted);
    if against.is_empty() {
        let whole = mtu_wanted + HEADER_BYTES;
        let pairs = reaches(on.store, &names, whole)?;
        against.extend(pairs.iter().filter_map(|pair| in_words(pair, whole)));
    }
    match (on.between, against.is_empty()) {
        (TransportChoice::Auto, false) => {
            let why = format!("raw Ethernet does not do: {}", against[0]);
            settled(MachineTransport::Udp, why, Vec::new())
        }
        (TransportChoice::Auto, true) => {
            let why = "it reaches between all machines, both ways".to_owned();
            settled(MachineTransport::Ethernet, why, Vec::new())
        }
        _ => settled(MachineTransport::Ethernet, "chosen".to_owned(), against),
    }
}

/// Returns the choice as text for users.
pub(super) fn told(between: &MachineTransportReport) -> String {
    let MachineTransportReport {
        transport,
        why,
        frame_bytes,
        mtu_wanted_bytes,
        mtu_bytes,
    } = between;
    let mut text = format!(
        "between the machines: {transport} ({why}); frames of {frame_bytes} bytes want an MTU of {mtu_wanted_bytes}"
    );
    if let Some(mtu) = mtu_bytes.filter(|mtu| mtu < mtu_wanted_bytes) {
        text += &format!("; there is one of {mtu}");
        if transport == MachineTransport::Udp.as_str() {
            text += ", and they go in fragments";
        }
    }
    text
}

fn is_v6(row: &Row) -> bool {
    let address = row.underlay.as_ref().and_then(|text| text.parse().ok());
    address.is_some_and(|address: SocketAddr| address.is_ipv6())
}

/// Returns the machines that cannot send raw frames of this length, each with the remedy.
fn unfit(rows: &[&Row], frame_bytes: usize, mtu_wanted: usize) -> Vec<String> {
    let wrong = rows.iter().filter_map(|row| {
        let (name, mtu) = (&row.machine, row.mtu_bytes.unwrap_or(0));
        let interface = row.interface.as_deref().unwrap_or("its underlay");
        if row.ethernet.is_none() {
            return Some(format!(
                "machine {name}: {interface} carries no raw Ethernet; start its agent with --underlay and an Ethernet interface, or \
                 use --between udp"
            ));
        }
        ((mtu as usize) < mtu_wanted).then(|| {
            format!(
                "machine {name}: frames of {frame_bytes} bytes want an MTU of {mtu_wanted} of {interface}, which has {mtu}, and raw \
                 Ethernet has no fragments: `ip link set dev {interface} mtu {mtu_wanted}` there, or --between udp"
            )
        })
    });
    wrong.collect()
}

/// Returns the reason why raw frames do not pass between two machines, with the remedy.
fn in_words((a, b, reach): &(String, String, EthernetReach), frame_bytes: usize) -> Option<String> {
    match reach {
        EthernetReach::Whole => None,
        EthernetReach::Short => Some(format!(
            "frames of {frame_bytes} bytes do not pass between machines {a} and {b}, shorter ones do: raise the MTU of what is between \
             them, or use --between udp"
        )),
        EthernetReach::Nothing => Some(format!(
            "machines {a} and {b} do not receive each other's raw frames (EtherType {ETHER_TYPE:#06x}): put their interfaces on one Ethernet \
             segment, or use --between udp"
        )),
        EthernetReach::Unsaid => Some(format!(
            "machine {a} did not report whether raw frames reach machine {b}: try again, or use --between udp"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_raw_frames_away_is_said_with_what_to_do() {
        let row = |machine: &str, mtu: u32, ethernet: Option<&str>| -> Row {
            let text = serde_json::json!({"machine": machine, "state": "up", "interface": "eth1", "mtu_bytes": mtu,
                "ethernet": ethernet});
            serde_json::from_value(text).unwrap()
        };
        let rows = [
            row("a", 1_558, Some("02:00:00:00:00:01")),
            row("b", 1_500, Some("02:00:00:00:00:02")),
            row("c", 65_536, None),
        ];
        let rows: Vec<&Row> = rows.iter().collect();
        let wrong = unfit(&rows, 1_514, 1_558);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(
            wrong[0].contains("ip link set dev eth1 mtu 1558"),
            "{wrong:?}"
        );
        assert!(
            wrong[1].contains("machine c: eth1 carries no raw"),
            "{wrong:?}"
        );
        let said = |reach| in_words(&("a".to_owned(), "b".to_owned(), reach), 1_572);
        assert_eq!(said(EthernetReach::Whole), None);
        for (reach, words) in [
            (EthernetReach::Short, "shorter ones do"),
            (EthernetReach::Nothing, "EtherType 0x88b6"),
            (EthernetReach::Unsaid, "try again"),
        ] {
            let said = said(reach).unwrap();
            assert!(
                said.contains(words) && said.contains("--between udp"),
                "{said}"
            );
        }
    }
}

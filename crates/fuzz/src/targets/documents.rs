//! Documents of other machines, of programs in nodes, and of flows' programs.

use constel_link::Effects;
use constel_measure::flows::{
    iperf3_intervals, parse_ended_ping, parse_http, parse_iperf3, parse_ping, parse_received,
    parse_transfer, ping_replies, probe_rows, read_probe, transfer_intervals,
};
use serde::de::DeserializeOwned;

use super::{Target, texts};

pub(super) fn targets() -> Vec<Target> {
    vec![
        Target::new("api-request", api_requests, |bytes| {
            is::<constel_api::Request>(bytes)
        }),
        Target::new("policy-answer", policy_answers, |bytes| {
            is::<constel_api::answers::PolicyAnswer>(bytes)
        }),
        Target::new("node-request", node_requests, |bytes| {
            is::<constel_plan::information::Request>(bytes)
        }),
        Target::new("effects", effects, |bytes| {
            serde_json::from_slice::<Effects>(bytes).is_ok_and(|effects| {
                let checked = effects.check();
                let text = checked
                    .as_ref()
                    .map_or_else(ToString::to_string, |()| String::new());
                assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
                checked.is_ok()
            })
        }),
        Target::new(
            "summary",
            || {
                vec![
                    b"{}".to_vec(),
                    br#"{"lab": "x", "scenario": "x", "seed": 1}"#.to_vec(),
                ]
            },
            |bytes| {
                // Documents of other machines of a lab, and old results.
                drop(serde_json::from_slice::<constel_api::summary::Summary>(
                    bytes,
                ));
                drop(serde_json::from_slice::<constel_api::manifest::Manifest>(
                    bytes,
                ));
                is::<constel_api::manifest::Head>(bytes)
            },
        ),
        Target::new("flow-ping", pings, |bytes| {
            texts(bytes).is_some_and(|[text]| {
                drop((ping_replies(text), parse_ended_ping(text)));
                parse_ping(text).is_ok()
            })
        }),
        Target::new("flow-iperf3", iperf3s, |bytes| {
            texts(bytes).is_some_and(|[text]| {
                drop(iperf3_intervals(text));
                parse_iperf3(text).is_ok()
            })
        }),
        Target::new("flow-http", downloads, |bytes| {
            texts(bytes).is_some_and(|[text]| parse_http(text).is_ok())
        }),
        Target::new("flow-probe", probes, |bytes| {
            let rows = probe_rows(bytes).count();
            read_probe(bytes).is_ok() && rows > 0
        }),
        Target::new("flow-transfer", transfers, |bytes| {
            texts(bytes).is_some_and(|[receiver, sender]| {
                drop((
                    transfer_intervals(receiver),
                    parse_transfer(receiver, sender),
                ));
                parse_received(receiver).is_ok()
            })
        }),
    ]
}

fn is<T: DeserializeOwned>(bytes: &[u8]) -> bool {
    serde_json::from_slice::<T>(bytes).is_ok()
}

fn policy_answers() -> Vec<Vec<u8>> {
    [
        r#"{"step": 7}"#,
        r#"{"step": 7, "attachments": {"tokyo": ["sat-1", "sat-2"], "lagos": []}}"#,
        r#"{"step": 7, "links": [{"a": "x", "b": "y", "up": false}], "leave": false}"#,
        r#"{"step": 7, "routes": [{"node": "x", "destination": "y", "next": null}]}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

fn api_requests() -> Vec<Vec<u8>> {
    [
        r#"{"verb": "lab"}"#,
        r#"{"verb": "links"}"#,
        r#"{"verb": "path", "from": "a", "to": "b"}"#,
        r#"{"verb": "set-link", "a": "a", "b": "b", "effects": {"delay_ns": 1000}}"#,
        r#"{"verb": "stop"}"#,
        r#"{"verb": "nodes"}"#,
        r#"{"verb": "status"}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

fn effects() -> Vec<Vec<u8>> {
    let full = Effects {
        rate_bps: Some(1_000_000),
        delay_ns: Some(1_000),
        ..Effects::default()
    };
    let full = serde_json::to_vec(&full).expect("JSON of effects");
    vec![
        full,
        b"{}".to_vec(),
        br#"{"delay_ns": 20000000, "rate_bps": 0}"#.to_vec(),
    ]
}

fn node_requests() -> Vec<Vec<u8>> {
    [
        r#"{"verb": "follow"}"#,
        r#"{"verb": "follow", "after": 17}"#,
        r#"{"verb": "links"}"#,
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

fn pings() -> Vec<Vec<u8>> {
    vec![b"PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.\n[1764417600.100000] 64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=10.2 ms\n[1764417600.300000] 64 bytes from 10.0.0.2: icmp_seq=2 ttl=64 time=10.1 ms\n\n--- 10.0.0.2 ping statistics ---\n2 packets transmitted, 2 received, 0% packet loss, time 1001ms\nrtt min/avg/max/mdev = 10.1/10.15/10.2/0.05 ms\n".to_vec()]
}

fn downloads() -> Vec<Vec<u8>> {
    vec![br#"{"errormsg":null,"exitcode":0,"response_code":200,"size_download":1000000,"time_connect":0.05,"time_total":2.0}"#.to_vec()]
}

fn transfers() -> Vec<Vec<u8>> {
    let received = r#"{"bytes": 1000, "damaged": 0, "seconds": 2.0, "throughput_bps": 4000.0, "cpu_s": 0.1, "interval_s": 1.0, "intervals": [{"bytes": 500, "owd_mean_ns": 5}], "owd": null}"#;
    let sent = r#"{"sent_bytes": 1000, "sent_packets": 2, "cpu_s": 0.1}"#;
    vec![format!("{received}\0{sent}").into_bytes()]
}

fn iperf3s() -> Vec<Vec<u8>> {
    vec![
        br#"{"intervals": [{"streams": [{"rtt": 52000}], "sum": {"start": 0, "end": 1, "bytes": 1000, "bits_per_second": 8000, "retransmits": 0}}], "end": {"streams": [{"sender": {"max_rtt": 60000, "min_rtt": 50000, "mean_rtt": 52000}}], "sum_sent": {"bytes": 1000, "bits_per_second": 8000, "retransmits": 0, "seconds": 1}, "sum_received": {"bytes": 1000, "bits_per_second": 8000, "seconds": 1}}}"#.to_vec(),
        br#"{"end":{"streams":[{}],"sum":{"bits_per_second":2e6,"lost_packets":5,"packets":100,"bytes":10,"seconds":1}}}"#.to_vec(),
    ]
}

fn probes() -> Vec<Vec<u8>> {
    vec![b"seq,sent_s,there_us,back_us,rtt_us,fate\n1,0.000000000,100.000,50.000,150.000,ok\n2,0.010000000,900.000,51.000,951.000,reordered\n4,0.030000000,,,,lost\n".to_vec()]
}

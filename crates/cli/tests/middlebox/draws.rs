//! Rules and frames, drawn at random.

/// Random, and the same each time.
pub(crate) fn draws(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    }
}

/// A rule of a few keys that frames of [`frame`] may meet.
pub(crate) fn rule(n: usize, draw: &mut impl FnMut(u64) -> u64) -> String {
    let mut keys = Vec::new();
    let family = draw(2);
    let mut seen = Vec::new();
    for _ in 0..1 + draw(3) {
        let key = draw(6);
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        keys.push(match key {
            0 if family == 0 => format!("src: 10.{}.{}.0/24", draw(4), draw(4)),
            0 => format!("src: \"2001:db8:{}::/48\"", draw(4)),
            1 => format!(
                "dport: {}",
                ["53", "80-90", "443", "[5000, 5004]"][draw(4) as usize]
            ),
            2 => format!("dscp: {}", ["ef", "af41", "0", "cs3"][draw(4) as usize]),
            3 => format!(
                "vlan: {}",
                ["untagged", "7", "[7, 9]", "100"][draw(4) as usize]
            ),
            4 => format!("smac: \"02:01:00:00:00:0{}\"", draw(5)),
            _ => format!("protocol: {}", ["udp", "tcp", "sctp"][draw(3) as usize]),
        });
    }
    let action = ["pass", "pass", "drop", "{loss: 100 %}"][draw(4) as usize];
    format!(
        "- {{name: r{n}, match: {{{}}}, both: {action}}}\n",
        keys.join(", ")
    )
}

/// Any frame for a machine that is not there, with its number at the end.
pub(crate) fn frame(n: u32, draw: &mut impl FnMut(u64) -> u64) -> Vec<u8> {
    let mut frame = vec![2, 9, 9, 9, 9, 9];
    frame.extend([2, 1, 0, 0, 0, draw(5) as u8]);
    if draw(2) == 0 {
        frame.extend([0x81, 0]);
        frame.extend((draw(2) as u16 * 2 + 7).to_be_bytes());
    }
    let class = [0xb8, 0x88, 0, 0x60][draw(4) as usize];
    let protocol = [17, 6, 132, 47][draw(4) as usize];
    let port = [53u16, 80, 85, 443, 5000, 5004, 9][draw(7) as usize];
    match draw(5) {
        0 => frame.extend([0x88, 0xb6]),
        1 | 2 => {
            frame.extend([
                0x86,
                0xdd,
                0x60 | class >> 4,
                class << 4,
                0,
                0,
                0,
                24,
                protocol,
                9,
            ]);
            for _ in 0..2 {
                frame.extend([0x20, 1, 0x0d, 0xb8, 0, draw(4) as u8]);
                frame.extend([0; 10]);
            }
        }
        _ => {
            frame.extend([8, 0, 0x45, class, 0, 44, 0, 0, 0, 0, 9, protocol, 0, 0]);
            for _ in 0..2 {
                frame.extend([10, draw(4) as u8, draw(4) as u8, 1]);
            }
        }
    }
    frame.extend(999u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    frame.extend([0; 16]);
    frame.extend(n.to_be_bytes());
    frame
}

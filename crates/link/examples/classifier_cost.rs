//! Cost of classifying a frame, with 1 to 4,096 rules: nanoseconds, the minimum of 20 rounds.

use std::hint::black_box;
use std::time::Instant;

use constel_link::rules::{Action, Classifier, Direction, Head, Match, Prefix, Rule, Rules};

fn main() {
    println!("rules  build_ms  ns_per_frame");
    for count in [1u32, 16, 256, 1024, 4096] {
        let rules = (0..count).map(|n| Rule {
            name: n.to_string(),
            matching: Match {
                src: vec![
                    Prefix::new(std::net::Ipv4Addr::from(0x0a00_0000 + n * 16).into(), 28)
                        .expect("a block"),
                ],
                dst: vec![
                    Prefix::new(
                        std::net::Ipv4Addr::from(0x0b00_0000 + n % 7 * 256).into(),
                        24,
                    )
                    .expect("a block"),
                ],
                dport: vec![(n % 50_000) as u16..=(n % 50_000) as u16 + 100],
                ..Match::default()
            },
            forward: Some(Action::Pass),
            reverse: None,
        });
        let rules = Rules::new(rules.collect()).expect("few enough");
        let begin = Instant::now();
        let classifier = Classifier::new(&rules, Direction::Forward);
        let build = begin.elapsed();
        let frames: Vec<[u8; 64]> = (0..4096u32)
            .map(|n| {
                let n = n.wrapping_mul(2_654_435_761) % count;
                let mut frame = [0; 64];
                frame[12..15].copy_from_slice(&[8, 0, 0x45]);
                frame[23] = 17;
                frame[26..30].copy_from_slice(&(0x0a00_0000 + n * 16 + 3).to_be_bytes());
                frame[30..34].copy_from_slice(&(0x0b00_0000 + n % 7 * 256 + 9).to_be_bytes());
                frame[36..38].copy_from_slice(&((n % 50_000) as u16 + 5).to_be_bytes());
                frame
            })
            .collect();
        let mut best = f64::MAX;
        for _ in 0..20 {
            let begin = Instant::now();
            for frame in &frames {
                let found = classifier.find(&Head::read(black_box(frame)));
                assert!(black_box(found).is_some());
            }
            best = best.min(begin.elapsed().as_nanos() as f64 / frames.len() as f64);
        }
        println!("{count:5}  {:8.1}  {best:12.1}", build.as_secs_f64() * 1e3);
    }
}
